#!/usr/bin/env bash
# Calls made up from /openapi.json against the real binary: no answer is a 5xx, every one is listed in the document, and what
# the document forbids is refused. The cases follow from a seed, so a run can be repeated; SCHEMATHESIS_SEED and
# SCHEMATHESIS_EXAMPLES ask for others and for more. Arguments go to `schemathesis run`.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/schemathesis
if ! cmp -s tests/schemathesis/requirements.txt "$venv/installed.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/schemathesis/requirements.txt
    cp tests/schemathesis/requirements.txt "$venv/installed.txt"
fi
scripts/build.sh

directory=$(mktemp -d)
server=""
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$directory"
}
trap finish EXIT

# Waits are cut short: what is looked at is what is said, not how long it takes.
"${CARGO_TARGET_DIR:-target}/debug/leasehold" serve --listen 127.0.0.1:0 --data "$directory/data" --wait-max 50ms 2>"$directory/log" &
server=$!
for _ in $(seq 300); do
    url=$(sed -n 's/.* listening on \(http:[^, ]*\).*/\1/p' "$directory/log" | head -1)
    [ -z "$url" ] || break
    kill -0 "$server" || { cat "$directory/log" >&2; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "the server did not start" >&2; cat "$directory/log" >&2; exit 1; }

config=$PWD/tests/schemathesis/schemathesis.toml
run=$PWD/$venv/bin/schemathesis
# Whatever it keeps between runs goes with the directory.
(cd "$directory" && NO_COLOR=1 "$run" --config-file "$config" run "$url/openapi.json" \
    --seed "${SCHEMATHESIS_SEED:-1}" --max-examples "${SCHEMATHESIS_EXAMPLES:-20}" \
    --continue-on-failure --warnings off "$@") | tee "$directory/report"

kill -0 "$server" || { echo "the server ended" >&2; cat "$directory/log" >&2; exit 1; }
if grep -q ' ERROR ' "$directory/log"; then
    grep ' ERROR ' "$directory/log" >&2
    exit 1
fi
cases=$(sed -n 's/^ *\([0-9]*\) generated.*/\1/p' "$directory/report")
operations=$(sed -n 's/^ *Tested: *\([0-9]*\).*/\1/p' "$directory/report")
echo "schemathesis: $cases calls to $operations operations, no 5xx and nothing the document does not say"
