#!/usr/bin/env bash
# Fuzzes each target of fuzz/ for so many seconds, with the compiler's coverage to guide it, starting from the kept corpus.
# Inputs found on the way are kept only as far as they add coverage. A crash is left in fuzz/artifacts, with the command that
# repeats it.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-60}
command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
rustup toolchain list | grep -q ^nightly || rustup toolchain install nightly --profile minimal

# The code has no `unsafe`, so there is nothing for a sanitizer to find in it.
fuzz() {
    local command=$1
    shift
    cargo +nightly fuzz "$command" --sanitizer none "$@"
}

fuzz build
for target in $(cargo +nightly fuzz list); do
    found=$(mktemp -d)
    fuzz run "$target" "$found" "corpus/$target" -- -max_total_time="$seconds" -max_len=4096 -timeout=5 2>&1 |
        grep -E '^(#[0-9]+.*DONE|Done|==|SUMMARY)|panicked' | sed "s/^/fuzz: $target: /"
    # Only what leads somewhere the kept inputs do not (how often it goes there does not count), and is short enough to read.
    fuzz run "$target" "corpus/$target" "$found" -- -set_cover_merge=1 -use_counters=0 -max_len=512 2>&1 | grep -E 'MERGE-OUTER: .* new' || true
    rm -rf "$found"
done
