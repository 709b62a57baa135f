#!/usr/bin/env bash
# Licences, sources, bans and advisories of the dependencies, with cargo-deny, which is installed where it is missing. All it
# says is kept in target/deny.txt.
#
# Advisories need the RustSec database. Where it cannot be fetched, ADVISORY_DB names a directory with a clone of it; without
# either, the other checks run and the last line says that advisories were not checked.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
mkdir -p target
kept=target/deny.txt
cargo deny --version >"$kept"

check() {
    cargo deny "${options[@]}" check --hide-inclusion-graph "$@" >>"$kept" 2>&1 || { cat "$kept" >&2; return 1; }
}

options=()
check licenses bans sources
advisories="not checked, https://github.com/RustSec/advisory-db cannot be reached (ADVISORY_DB=DIRECTORY names a clone of it)"
if [ -n "${ADVISORY_DB:-}" ]; then
    # The name of the clone is a digest of the address that it came from.
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    git clone -q "$ADVISORY_DB" "$scratch/advisory-db-3157b0e258782691"
    touch "$scratch/advisory-db-3157b0e258782691/.git/FETCH_HEAD"
    sed "s|^\[advisories\]|&\ndb-path = \"$scratch\"|" deny.toml >"$scratch/deny.toml"
    options=(--offline --config "$scratch/deny.toml")
    check advisories
    advisories="ok, database of $(git -C "$scratch/advisory-db-3157b0e258782691" log -1 --format=%cs)"
elif git ls-remote -q https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1; then
    check advisories
    advisories="ok, database of today"
fi
packages=$(grep -c '^name = ' Cargo.lock)
twice=$(grep -c '^warning\[duplicate\]' "$kept" || true)
echo "deny: $packages packages, licences ok, sources ok, bans ok ($twice names in more than one version), advisories $advisories" | tee -a "$kept"
