#!/usr/bin/env bash
# The feature `otlp`, which no other build has: its lints, and a real binary whose traces arrive at a collector of ours. Called by
# `make test-long`, as it takes a build of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --locked -p leasehold --features otlp --all-targets -- -D warnings
cargo build --locked -q -p leasehold --features otlp

directory=$(mktemp -d)
pids=()
finish() {
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$directory"
}
trap finish EXIT

# A line of a file, once it is there.
line_of() {
    local found=""
    for _ in $(seq 300); do
        found=$(sed -n "$2" "$1" | head -1)
        [ -z "$found" ] || break
        sleep 0.1
    done
    [ -n "$found" ] || { echo "nothing in $1:" >&2; cat "$1" >&2; exit 1; }
    echo "$found"
}

mkdir "$directory/posts"
python3 tests/otlp/collector.py "$directory/posts" >"$directory/port" &
pids+=($!)
port=$(line_of "$directory/port" 's/^\([0-9]*\)$/\1/p')

target/debug/leasehold serve --listen 127.0.0.1:0 --data "$directory/data" --log-level debug \
    --otlp-endpoint "http://127.0.0.1:$port" 2>"$directory/log" &
server=$!
pids+=("$server")
url=$(line_of "$directory/log" 's/.* listening on \(http:[^, ]*\).*/\1/p')

trace=4bf92f3577b34da6a3ce929d0e0e4736
curl -sf -o /dev/null -X POST -H "traceparent: 00-$trace-00f067aa0ba902b7-01" "$url/lock?client=otlp&ttl=10s"
curl -s -o /dev/null "$url/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
# The remaining spans are sent before it ends.
kill -TERM "$server"
wait "$server"

python3 - "$directory" "$trace" <<'PYTHON'
import pathlib, sys
directory, trace = pathlib.Path(sys.argv[1]), bytes.fromhex(sys.argv[2])
posts = [path.read_bytes() for path in sorted((directory / "posts").glob("v1-traces-*"))]
assert posts, "no traces came: " + (directory / "log").read_text()
assert all(post.startswith(b"application/x-protobuf\n") for post in posts), "not protobuf"
everything = b"".join(posts)
for wanted in [b"leasehold", b"POST /lock", b"GET /l/{id}", b"commit", b"http.response.status_code", trace]:
    assert wanted in everything, f"{wanted} is in no trace"
assert b"9f1c2e7a" not in everything, "a pool id is in a trace"
log = (directory / "log").read_text()
assert "otel.kind" not in log and "http.route" not in log, "spans are in the log: " + log
print(f"otlp: {len(posts)} batches of traces, {len(everything)} bytes, with the caller's trace in them")
PYTHON
