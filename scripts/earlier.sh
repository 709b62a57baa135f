#!/usr/bin/env bash
# Builds an earlier version of this repository out of its history, for tests of upgrades, and prints where its binary is. The
# source is in target/earlier; dependencies that were built for this version are copied, so that only our crates are compiled.
set -euo pipefail
cd "$(dirname "$0")/.."

# The last commit before formats of clusters were agreed on (crates/cluster/src/format.rs).
commit=${LEASEHOLD_EARLIER:-55ccf6f2c46d41426dbf8bd35d4468e69db31720}
if ! git cat-file -e "$commit^{commit}" 2>/dev/null && ! git fetch -q --depth=1 origin "$commit" 2>/dev/null; then
    echo "the commit $commit is not in this clone, and cannot be fetched: it is built to test upgrades from it" >&2
    echo "a shallow clone gets it by: git fetch --unshallow" >&2
    exit 1
fi
target=$(realpath "${CARGO_TARGET_DIR:-target}")
source=$target/earlier/${commit:0:12}
out=$source-build
binary=$out/debug/leasehold
if [ ! -d "$source" ]; then
    fresh=$(mktemp -d "$target/earlier.XXXXXX")
    git archive "$commit" | tar -x -C "$fresh"
    mkdir -p "$target/earlier"
    mv "$fresh" "$source"
fi
if [ ! -d "$out" ] && [ -d "$target/debug/.fingerprint" ]; then
    fresh=$(mktemp -d "$target/earlier.XXXXXX")
    mkdir -p "$fresh/debug/deps"
    cp -a --reflink=auto "$target/debug/build" "$target/debug/.fingerprint" "$fresh/debug"
    rm -rf "$fresh"/debug/.fingerprint/leasehold*
    find "$target/debug/deps" -maxdepth 1 -type f ! -name '*leasehold*' \
        \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.so' -o -name '*.d' \) \
        -exec cp -a --reflink=auto -t "$fresh/debug/deps" {} +
    mv "$fresh" "$out"
fi
# Its own settings of Cargo, which are further up the tree, too. With a test of the workspace, so that Cargo chooses the features of
# dependencies that it chose in the build of all tests, and as much about lines and variables in them as this version has.
(cd "$source" && CARGO_TARGET_DIR=$out CARGO_PROFILE_DEV_DEBUG=line-tables-only cargo build --locked -q --workspace --bin leasehold --test layers >&2)
echo "$binary"
