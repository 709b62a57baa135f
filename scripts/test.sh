#!/usr/bin/env bash
# Runs every test and says what ran. Called by `make test`, which has done formatting and lints before.
set -euo pipefail
cd "$(dirname "$0")/.."

started=$(date +%s)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The README's first command must find its binary among those of the workspace.
cargo run --locked -q -- --version

cargo test --workspace --locked --no-fail-fast -- --show-output 2>&1 | tee "$log"
# By itself: in a workspace-wide build the planted bugs would be in the real binary too.
cargo test -p leasehold-sim --locked --features planted --test planted -- --show-output 2>&1 | tee -a "$log"

# Calls made up from the OpenAPI document.
scripts/schemathesis.sh 2>&1 | tee -a "$log"

# The dashboard in a real browser, against the binary as it was built above.
scripts/browser.sh 2>&1 | tee -a "$log"

# The recipes of the documentation, as they stand there.
scripts/recipes.sh 2>&1 | tee -a "$log"

# The clients, and the table of scenarios that all of them share.
scripts/clients.sh 2>&1 | tee -a "$log"

# The benchmark, little of everything, against its real peers. Every answer is checked and no timing asserted, so the build of
# the tests will do.
measured=$(mktemp)
trap 'rm -f "$log" "$measured"' EXIT
began=$(date +%s)
cargo build --locked -q -p leasehold -p leasehold-bench
measure() {
    cargo run --locked -q -p leasehold-bench --bin leasehold-bench -- "$@" >>"$measured" 2>&1 || { tail -30 "$measured" >&2; exit 1; }
}
measure --quick --out target/bench-quick
# This build beside itself.
measure --against "${CARGO_TARGET_DIR:-target}/debug/leasehold" --rounds 2
echo "bench: $(grep -ac '^\[' "$measured") measurements, every answer checked, $(($(date +%s) - began)) s" | tee -a "$log"

# The figures that tests print about how hard they looked. Each layer has some: one that says nothing did not look.
figures=(model golden simulation 'small scopes' callers 'planted bugs' history 'crash states' faults 'full disk' seams fuzz transcripts sockets
    kills 'bad input' hostile secrets events observe backup soak tls tokens 'key ids' sign-on
    'etcd store' schemathesis browser recipes clients bench)
echo
echo "what was looked at:"
silent=()
for layer in "${figures[@]}"; do
    grep -ah "^$layer: " "$log" || silent+=("$layer")
done
passed=$(awk '/^test result:/{sum += $4} $2 == "pass" && NF == 3{sum += $3} /^[0-9]+ passed.* in /{sum += $1} END{print sum + 0}' "$log")
failed=$(awk '/^test result:/{sum += $6} $2 == "fail" && NF == 3{sum += $3} END{print sum + 0}' "$log")
echo "took $(($(date +%s) - started)) s"
echo "$passed passed, $failed failed"
[ ${#silent[@]} -eq 0 ] || { echo "no figures of: ${silent[*]}" >&2; exit 1; }
