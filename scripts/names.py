#!/usr/bin/env python3
"""A type name means one thing in a crate and its neighbours. Part of `make lint`.

Lists the names of types that are declared twice where both can be seen: in one crate, or in a crate and one that it
depends on. A type that is private to its file counts only for the words that were homonyms once. Names with a reason
are in ALLOWED; a new homonym fails, and so does an entry of ALLOWED that is no longer needed.
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
    "Address": "of a node of the cluster, and of a store on etcd",
    "Answer": "the engine's, and its description in the OpenAPI document",
    "Answered": "an ask of another node, and a request of a caller",
    "Begun": "a session in sign-on, and the answer that tells of it",
    "Call": "each face has its own, and faces/list.rs makes one of them",
    "Change": "the engine's, and the one that a caller asks for, in its audit line",
    "Command": "the engine's, and the command line's",
    "Endpoint": "each face has its own, and faces/list.rs makes one of them",
    "Events": "those that are kept, and their metrics",
    "Form": "a form of a web page, and the form of a command line",
    "History": "of a claim in an answer, and of a journal in recovery",
    "Limits": "of the engine, and of sign-on: each crate's own settings",
    "Mark": "of a map of partitions, and where a list of many goes on",
    "Outcome": "of a call in a history, and of a simulated run",
    "Page": "of a shared store, and of a list that a caller asks for",
    "Place": "in a journal that is recovered, and in the file of a write-ahead log",
    "Problem": "of a record, and of a request",
    "Refusal": "the engine's, and etcd's",
    "Reply": "the engine's, and the same with what its answer needs beside it",
    "ResourcePage": "the engine's slice, and the page that a caller asks for",
    "Rule": "of a policy, and of a setting",
    "RunArgs": "one for each platform",
    "Secret": "of a provider, and of a client",
    "Seen": "by a member of a cluster, and by an answer of many partitions",
    "Settings": "of sign-on, and of the service: each crate's own",
    "SignOn": "the service's, and its face",
    "Source": "of a name, and of a setting",
    "Subject": "of a policy, and of a call",
    "Totals": "of a state, and of many simulated runs",
    "Upkeep": "of the store on etcd, and of the one in a file",
    "Wanted": "a file of a page, and the lines of a survey",
    "Wish": "of a claim's caller, in the engine, in histories and in simulated callers",
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
            scope = {"pub ": "pub", "pub(crate) ": "crate"}.get(visible, "file")
            found.append((name, scope, path.relative_to(ROOT)))
    return found


def main() -> int:
    crates = {path.parent.name: path.parent for path in sorted(ROOT.glob("crates/*/Cargo.toml"))}
    types = {name: declared(path) for name, path in crates.items()}
    homonyms: dict[str, set[str]] = collections.defaultdict(set)
    for crate, path in crates.items():
        manifest = tomllib.loads((path / "Cargo.toml").read_text())
        dependencies = {name.removeprefix("leasehold-") for name in manifest.get("dependencies", {})}
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
