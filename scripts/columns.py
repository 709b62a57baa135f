#!/usr/bin/env python3
"""Prose of the documentation wraps at 120 columns. Part of `make lint`.

Tables, headings, fenced blocks and lines that are one long word, such as a link, do not count. `--fix` wraps the paragraphs
that have a longer line anew.
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 120
FOREIGN = {"target", "node_modules", ".venv"}
ITEM = re.compile(r"\s*(?:[*+-]|\d+[.)])\s+")
APART = re.compile(r"\s*(?:\||#{1,6}\s|<|\[[^\]]+\]:|!\[)")


def documents() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").rglob("*.md")]
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


def wrapped(lines: list[str]) -> list[str]:
    first = lines[0]
    lead = (ITEM.match(first) or re.match(r"\s*", first)).group()
    text = " ".join([first[len(lead) :], *lines[1:]])
    return textwrap.wrap(
        " ".join(text.split()),
        COLUMNS,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def main() -> int:
    is_fixing = "--fix" in sys.argv[1:]
    long = 0
    for path in documents():
        lines = path.read_text().split("\n")
        for begin, end in reversed(paragraphs(lines)):
            offenders = [n for n in range(begin, end) if len(lines[n]) > COLUMNS and " " in lines[n].strip()]
            anew = wrapped(lines[begin:end]) if offenders else []
            if not offenders or anew == lines[begin:end]:
                continue
            if is_fixing:
                lines[begin:end] = anew
                continue
            for number in offenders:
                print(f"{path.relative_to(ROOT)}:{number + 1} has {len(lines[number])} columns, {COLUMNS} are allowed")
            long += len(offenders)
        if is_fixing:
            path.write_text("\n".join(lines))
    print(f"columns: {len(documents())} documents, {long} lines of prose above {COLUMNS} columns")
    return int(long > 0)


if __name__ == "__main__":
    sys.exit(main())
