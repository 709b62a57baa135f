#!/usr/bin/env python3
"""A type name means one thing in a crate and its neighbours. Part of `make lint`.

Lists the names of types that are declared twice where both can be seen: in one crate, or in a crate and one that it
depends on. A type that is private to its file counts only for the words that were homonyms once; one that its folder can
see (`pub(super)`) counts. Names with a reason are in ALLOWED; a new homonym fails, and so does an entry of ALLOWED that is no longer needed.
"""

import collections
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Words that meant several things once: here private types count, too.
ONCE_HOMONYMS = {"Action", "Asked", "State", "Place", "Answer", "World"}

ALLOWED = {
    "Call": "each face has its own, and faces/list.rs makes one of them",
    "CallState": "the worlds of one machine and those of a cluster have their own",
    "Client": "the worlds of one machine and those of a cluster have their own",
    "End": "how a step of a node ends in the simulation, and how a claim ended in a history",
    "Endpoint": "each face has its own, and faces/list.rs makes one of them",
    "Fittings": "the answer that shows them",
    "History": "the answer that shows it, by the name in the document",
    "Lease": "the answer that shows it, by the name in the document",
    "Message": "between clients and the one machine of a world, and between nodes",
    "Node": "the one machine of a world, and a node of a cluster",
    "OutOfService": "the answer that shows it, by the name in the document",
    "Proving": "pools and locks have their own",
    "RunArgs": "one for each platform",
    "Series": "the answer that shows them, by the name in the document",
    "Topic": "each face that lends has its own",
}

DECLARED = re.compile(r"^(pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)", re.M)


def declared(crate: pathlib.Path) -> list[tuple[str, str, pathlib.Path]]:
    """The types of a crate: name, visibility (`pub`, `crate` or `file`) and file."""
    found = []
    for path in sorted((crate / "src").rglob("*.rs")):
        if path.stem in ("tests", "fuzz") or {"seams", "tests"} & set(path.parts):
            continue
        text = re.split(r"^#\[cfg\(test\)\]\nmod ", path.read_text(), flags=re.M)[0]
        for visible, name in set(DECLARED.findall(text)):
            scope = "pub" if visible == "pub " else "crate" if visible else "file"
            found.append((name, scope, path.relative_to(ROOT)))
    return found


def main() -> int:
    manifests = [*sorted(ROOT.glob("crates/*/Cargo.toml")), ROOT / "bench/Cargo.toml"]
    crates = {path.parent.name: path.parent for path in manifests}
    types = {name: declared(path) for name, path in crates.items()}
    homonyms: dict[str, set[str]] = collections.defaultdict(set)
    for crate, path in crates.items():
        manifest = tomllib.loads((path / "Cargo.toml").read_text())
        named = (name for name in manifest.get("dependencies", {}) if name.startswith("leasehold-"))
        dependencies = {name.removeprefix("leasehold-") for name in named}
        seen = collections.defaultdict(set)
        for name, scope, file in types[crate]:
            if scope != "file" or name in ONCE_HOMONYMS:
                seen[name].add(str(file))
        for other in dependencies & crates.keys() - {crate}:
            for name, scope, file in types[other]:
                if scope == "pub" and name in seen:
                    seen[name].add(str(file))
        for name, files in seen.items():
            if len(files) > 1:
                homonyms[name] |= files
    for name in sorted(homonyms.keys() - ALLOWED.keys()):
        print(f"{name} means more than one thing: {', '.join(sorted(homonyms[name]))}")
    for name in sorted(ALLOWED.keys() - homonyms.keys()):
        print(f"{name} is allowed in scripts/names.py, but has one meaning")
    print(f"names: {sum(map(len, types.values()))} types, {len(homonyms)} names in two places, {len(ALLOWED)} of them with a reason")
    return int(homonyms.keys() != ALLOWED.keys())


if __name__ == "__main__":
    sys.exit(main())
