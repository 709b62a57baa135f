#!/usr/bin/env python3
"""Counts two habits that hide who acts, over the comments and texts of the Rust sources and over the documentation.

  pronoun   a sentence with whoever, nobody, somebody, no one, anybody, everybody or the like
  opening   a sentence that begins with a bare What, Who or Whether ("What nobody took is handed back.")

The subject of a sentence should be a noun of the vocabulary: a caller, a waiter, the operator, the committer. Questions,
code, fenced blocks and single words do not count. CONTRIBUTING.md has examples of how to rewrite.

A text is a string literal of several words outside tests: a log line, an error, a help text. Only pronouns are counted
there, as many texts are the end of a sentence that begins elsewhere.

  scripts/sentences.py            print the figures per area; exit code 1 above the bounds (part of `make lint`)
  scripts/sentences.py --list     print each offending sentence with its file and line as well
  scripts/sentences.py --list crates/engine docs/api.md       the same, of these files and folders only
"""

import re
import sys
from bisect import bisect_right
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "clients"]
SOURCES = ["crates", "bench", "fuzz"]
FOREIGN = {"target", "node_modules", ".venv"}

# Per hundred sentences: over everything, and in each area that is long enough for a rate to mean something.
BOUNDS = {"pronoun": 1.0, "opening": 4.0}
AREA_BOUNDS = {"pronoun": 2.0, "opening": 4.0}
AREA_SENTENCES_MIN = 100
WORDS_MIN = 2
TEXT_WORDS_MIN = 3

# Texts that stay as they are, each with its reason.
KEPT = {
    "no such resource: nobody holds, wants or configured it": "part of the published API: clients compare it",
}

PRONOUN = re.compile(
    r"\b(?:who(?:m)?(?:so)?ever|nobody|somebody|anybody|everybody|no[ -]one(?!\s+(?:of|in)\b)|someone|anyone|everyone)\b", re.I
)
OPENING = re.compile(r"(?:what(?:ever)?|who(?:m|se|ever)?|whether|that (?:nobody|no one|somebody))\b", re.I)

# Rust tokens that can hide or hold a comment. Anything else is skipped character by character.
TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*.*?\*/)
      | b?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
      | b?"(?P<text>(?:\\.|[^"\\])*)"
      | b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'""",
    re.S | re.X,
)
MARKER = re.compile(r"//[/!]?")
TESTS = re.compile(r"^#\[cfg\((?:all\()?test\b.*\n(?:#\[.*\n)*(?:pub(?:\([a-z]+\))? )?mod \w+ \{", re.M)
FENCE = re.compile(r"\s*(?:```|~~~)")
ITEM = re.compile(r"\s*(?:[*+-]|\d+[.)])\s+")
BREAK = re.compile(r"\s*(?:#{1,6}\s|[-=*]{3,}\s*$|<!--|<[a-z/])")
# The end of a sentence: a full stop and what may close over it, then something that can begin the next one.
END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)([.!?][\"')\]*_`”]*)\s+(?=[\"'(\[*_`“…]*[A-Z0-9`]|…)")


class Paragraph:
    """Text that reads as one piece, with the lines it came from: `lines` is a list of (line number, text)."""

    def __init__(self, path, kind, lines):
        self.path, self.kind, self.lines = path, kind, lines

    @property
    def text(self):
        return " ".join(" ".join(text for _, text in self.lines).split())

    def sentences(self):
        """Pairs of the line a sentence begins on and the sentence."""
        starts, length = [], 0
        for number, text in self.lines:
            starts.append((length, number))
            length += len(" ".join(text.split())) + 1
        text, begin = self.text, 0
        for end in [match.end(1) for match in END.finditer(text)] + [len(text)]:
            sentence = text[begin:end].strip()
            if len(re.findall(r"[A-Za-z]\w*", sentence)) >= WORDS_MIN:
                at = begin + (len(text[begin:end]) - len(text[begin:end].lstrip()))
                yield max(number for start, number in starts if start <= at), sentence
            begin = end


def paragraphs_of_prose(path, kind, lines):
    """Splits Markdown, or the text of one comment, into paragraphs, list items and table cells."""
    held, fenced = [], False
    for number, text in lines:
        if FENCE.match(text):
            fenced = not fenced
            ends, alone = True, True
        else:
            alone = fenced or not text.strip() or bool(BREAK.match(text)) or text.lstrip().startswith("|")
            ends = alone or bool(ITEM.match(text))
        if ends and held:
            yield Paragraph(path, kind, held)
            held = []
        if alone:
            if not fenced and text.lstrip().startswith("|"):
                for cell in re.split(r"(?<!\\)\|", text.strip().strip("|")):
                    yield Paragraph(path, "cell", [(number, cell.strip())])
            elif not fenced and re.match(r"\s*#{1,6}\s", text):
                yield Paragraph(path, "heading", [(number, text.strip().lstrip("# "))])
        else:
            held.append((number, text[ITEM.match(text).end():] if ITEM.match(text) else text))
    if held:
        yield Paragraph(path, kind, held)


def tests_begin(path, source):
    """The offset from which on a file is tests; its length, if it has none."""
    parts = path.relative_to(ROOT).parts
    if "tests" in parts or "benches" in parts or re.search(r"(?:^|_)tests?\.rs$", path.name):
        return 0
    module = TESTS.search(source)
    return module.start() if module else len(source)


def paragraphs_of_rust(path, source):
    """Comments of one file, and its texts. Lines with the same marker and indentation that follow each other are one
    comment."""
    group, shape, last = [], None, None
    texts_end = tests_begin(path, source)
    starts = [0] + [match.end() for match in re.finditer("\n", source)]
    lines = source.split("\n")
    for match in TOKEN.finditer(source):
        number = bisect_right(starts, match.start())
        if not match.group("line") and not match.group("block"):
            text = re.sub(r"\\\n\s*|\\n|\n", " ", match.group("raw") or match.group("text") or "")
            if match.start() < texts_end and text not in KEPT and len(re.findall(r"[A-Za-z]+", text)) >= TEXT_WORDS_MIN:
                yield Paragraph(path, "text", [(number, text)])
            continue
        before = lines[number - 1][: match.start() - starts[number - 1]]
        if match.group("block"):
            text = re.sub(r"\n\s*\*?", " ", match.group("block")[2:-2].lstrip("*!"))
            yield from paragraphs_of_prose(path, "block", [(number, text)])
            continue
        marker = MARKER.match(match.group("line")).group()
        text = match.group("line")[len(marker):].removeprefix(" ")
        if before.strip():
            yield from paragraphs_of_prose(path, "trailing", [(number, text)])
            continue
        if (before, marker) != shape or number != last + 1:
            yield from paragraphs_of_prose(path, "comment", group)
            group, shape = [], (before, marker)
        group.append((number, text))
        last = number
    yield from paragraphs_of_prose(path, "comment", group)


def paragraphs(path):
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".rs":
        return paragraphs_of_rust(path, source)
    return paragraphs_of_prose(path, "prose", list(enumerate(source.split("\n"), 1)))


def files(places=None):
    for place in places or SOURCES + DOCS:
        place = ROOT / place
        suffix = "*.md" if place.relative_to(ROOT).parts[0] in DOCS else "*.rs"
        found = sorted(place.rglob(suffix)) if place.is_dir() else [place]
        yield from (path for path in found if path.is_file() and not FOREIGN & set(path.relative_to(ROOT).parts))


def area(path):
    parts = path.relative_to(ROOT).parts
    return "docs" if path.suffix == ".md" else "/".join(parts[:2]) if parts[0] == "crates" else parts[0]


def faults(kind, sentence):
    bare = sentence.lstrip("\"'([*_“… ")
    found = ["pronoun"] if PRONOUN.search(re.sub(r"`[^`]*`", "", sentence)) else []
    if kind != "text" and OPENING.match(bare) and not sentence.rstrip("\"')*_`”").endswith("?"):
        found.append("opening")
    return found


def main(arguments):
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    listing = "--list" in arguments
    places = [argument for argument in arguments if not argument.startswith("--")]
    counts = {}
    for path in files(places):
        here = counts.setdefault(area(path), {"sentences": 0, "pronoun": 0, "opening": 0})
        for paragraph in paragraphs(path):
            for number, sentence in paragraph.sentences():
                # Texts are no part of the whole: many are not prose, and would make the rates look better.
                here["sentences"] += paragraph.kind != "text"
                for fault in faults(paragraph.kind, sentence):
                    here[fault] += 1
                    if listing:
                        print(f"{path.relative_to(ROOT)}:{number}: {fault}: {sentence}")
    whole = {key: sum(here[key] for here in counts.values()) for key in ("sentences", "pronoun", "opening")}
    good = True
    print(f"{'per hundred sentences':24} {'sentences':>9} {'pronoun':>8} {'opening':>8}")
    for name, here in [*sorted(counts.items()), ("all", whole)]:
        bounds = BOUNDS if name == "all" else AREA_BOUNDS
        rates = {key: 100 * here[key] / max(here["sentences"], 1) for key in bounds}
        counted = name == "all" or here["sentences"] >= AREA_SENTENCES_MIN
        above = [key for key in bounds if counted and rates[key] > bounds[key]]
        good = good and not above
        note = "  above " + ", ".join(f"{bounds[key]:g} ({key})" for key in above) if above else ""
        print(f"{name:24} {here['sentences']:9} {rates['pronoun']:8.2f} {rates['opening']:8.2f}{note}")
    if not good:
        print("Too many sentences hide who acts: see CONTRIBUTING.md, and scripts/sentences.py --list", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
