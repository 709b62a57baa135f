#!/usr/bin/env python3
"""Prose of the documentation and comments of the Rust sources wrap at 120 columns. Part of `make lint`.

Tables, headings, fenced blocks and lines that are one long word, such as a link, do not count. Of a source, comments
that have their lines to themselves count; rustfmt sees to the code. `--fix` wraps the paragraphs that have a longer
line anew.
"""

import re
import sys
import textwrap
from pathlib import Path

sys.dont_write_bytecode = True
from sentences import MARKER, SOURCES, TOKEN  # noqa: E402: after the line above, so that no folder is left behind

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 120
FOREIGN = {"target", "node_modules", ".venv"}
ITEM = re.compile(r"\s*(?:[*+-]|\d+[.)])\s+")
APART = re.compile(r"\s*(?:\||#{1,6}\s|<|\[[^\]]+\]:|!\[)")


def documents() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").rglob("*.md")]
    return sorted(path for path in found if not FOREIGN & set(path.relative_to(ROOT).parts))


def sources() -> list[Path]:
    found = [path for place in SOURCES for path in (ROOT / place).rglob("*.rs")]
    return sorted(path for path in found if not FOREIGN & set(path.relative_to(ROOT).parts))


def paragraphs(lines: list[str]) -> list[tuple[int, int]]:
    """First and last line of each paragraph and list item, counted from zero; the last is not part of it."""
    found, begin, fenced = [], None, False
    for number, line in enumerate([*lines, ""]):
        is_fence = line.lstrip().startswith(("```", "~~~"))
        is_apart = fenced or is_fence or not line.strip() or APART.match(line)
        if begin is not None and (is_apart or ITEM.match(line)):
            found.append((begin, number))
            begin = None
        if begin is None and not is_apart:
            begin = number
        fenced ^= is_fence
    return found


def comments(source: str) -> list[tuple[int, int, str]]:
    """First and last line of each comment of a source, counted from zero, and what its lines begin with."""
    found, number, at = [], 0, 0
    for match in TOKEN.finditer(source):
        if not match.group("line"):
            continue
        number, at = number + source.count("\n", at, match.start()), match.start()
        before = source[source.rfind("\n", 0, at) + 1 : at]
        if before.strip():
            continue
        lead = before + MARKER.match(match.group("line")).group()
        if found and found[-1][1:] == (number, lead):
            found[-1] = (found[-1][0], number + 1, lead)
        else:
            found.append((number, number + 1, lead))
    return found


def wrapped(lines: list[str], columns: int) -> list[str]:
    first = lines[0]
    lead = (ITEM.match(first) or re.match(r"\s*", first)).group()
    text = " ".join([first[len(lead) :], *lines[1:]])
    return textwrap.wrap(
        " ".join(text.split()),
        columns,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def offences(lines: list[str], columns: int) -> list[tuple[int, int, list[str]]]:
    """Paragraphs with a line that is too long and can be wrapped, the last first: from, to, and its lines anew."""
    found = []
    for begin, end in reversed(paragraphs(lines)):
        if any(len(line) > columns and " " in line.strip() for line in lines[begin:end]):
            anew = wrapped(lines[begin:end], columns)
            if anew != lines[begin:end]:
                found.append((begin, end, anew))
    return found


def offences_of(path: Path, text: str) -> list[tuple[int, int, list[str]]]:
    lines = text.split("\n")
    if path.suffix != ".rs":
        return offences(lines, COLUMNS)
    found = []
    for begin, end, lead in reversed(comments(text)):
        # The space between the marker and the text is part of the text: a list inside a comment keeps its own.
        bare = [line[len(lead) :] for line in lines[begin:end]]
        for first, last, anew in offences(bare, COLUMNS - len(lead)):
            found.append((begin + first, begin + last, [lead + line for line in anew]))
    return found


def main() -> int:
    is_fixing = "--fix" in sys.argv[1:]
    long = 0
    for path in [*documents(), *sources()]:
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        found = offences_of(path, text)
        for begin, end, anew in found:
            if is_fixing:
                lines[begin:end] = anew
                continue
            for number, line in enumerate(lines[begin:end], begin + 1):
                if len(line) > COLUMNS:
                    print(f"{path.relative_to(ROOT)}:{number} has {len(line)} columns, {COLUMNS} are allowed")
                    long += 1
        if is_fixing and found:
            path.write_text("\n".join(lines), encoding="utf-8")
    print(
        f"columns: {len(documents())} documents and the comments of {len(sources())} sources, "
        f"{long} lines above {COLUMNS} columns"
    )
    return int(long > 0)


if __name__ == "__main__":
    sys.exit(main())
