#!/usr/bin/env bash
# Runs every test and says what ran. Called by `make test`, which has done formatting and lints before.
set -euo pipefail
cd "$(dirname "$0")/.."

started=$(date +%s)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cargo test --workspace --locked --no-fail-fast -- --show-output 2>&1 | tee "$log"

# The figures that tests print about how hard they looked.
echo
echo "what was looked at:"
grep -hE '^(model|golden|transcripts|kills|torn tails|sockets|bad input|crash):' "$log" || true
passed=$(awk '/^test result:/{sum += $4} END{print sum + 0}' "$log")
failed=$(awk '/^test result:/{sum += $6} END{print sum + 0}' "$log")
echo "took $(($(date +%s) - started)) s"
echo "$passed passed, $failed failed"
