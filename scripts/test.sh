#!/usr/bin/env bash
# Runs every test and says what ran. Called by `make test`, which has done formatting and lints before.
set -euo pipefail
cd "$(dirname "$0")/.."

# A shell ignores interrupts in what it starts in the background, and so does nohup with hang-ups; tests of signals want them all.
if [ -z "${LEASEHOLD_SIGNALS:-}" ] && env --default-signal true 2>/dev/null; then
    LEASEHOLD_SIGNALS=default exec env --default-signal scripts/test.sh "$@"
fi

started=$(date +%s)
log=$(mktemp)
# Runs a stage, adds what it says to the log, and notes how long it took.
stages=()
stage() {
    local name=$1 began
    began=$(date +%s)
    shift
    "$@" 2>&1 | tee -a "$log"
    stages+=("$(($(date +%s) - began)) $name")
}
trap 'rm -f "$log"' EXIT

# The README's first command must find its binary among those of the workspace: one package by default, with one program.
cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
of = json.load(sys.stdin)
bins = [t["name"] for p in of["packages"] if p["id"] in of["workspace_default_members"] for t in p["targets"] if "bin" in t["kind"]]
assert bins == ["leasehold"], f"cargo run finds {bins}"'

# Everything at once, and nothing again after it (see scripts/build.sh).
stage 'build of the tests' cargo build --workspace --locked --bins --tests --examples
export LEASEHOLD_IS_BUILT=1
stage 'tests of the workspace' cargo test --workspace --locked --no-fail-fast -- --show-output
# By itself: in a workspace-wide build the planted bugs would be in the real binary too.
stage 'planted bugs, with their build' cargo test -p leasehold-sim --locked --features planted --test planted -- --show-output

# Calls made up from the OpenAPI document.
stage schemathesis scripts/schemathesis.sh

# The dashboard in a real browser, against the binary as it was built above.
stage browser scripts/browser.sh

# The unit under a real systemd, where one can be started.
stage systemd scripts/systemd.sh

# The recipes of the documentation, as they stand there.
stage recipes scripts/recipes.sh

# The real Terraform.
stage terraform scripts/terraform.sh

# The chart for Kubernetes.
stage helm scripts/helm.sh

# Three nodes on three members of etcd, with the load of the demo.
demo() { CLUSTER_DEMO_SECONDS=5 LEASEHOLD="${CARGO_TARGET_DIR:-target}/debug/leasehold" scripts/cluster-demo.sh; }
stage 'cluster demo' demo

# This version and an earlier one in one cluster, rolled forward and back under load.
stage upgrades scripts/upgrade.sh

# The clients, and the table of scenarios that all of them share.
stage clients scripts/clients.sh

# The benchmark, little of everything, against its real peers. Every answer is checked and no timing asserted, so the build of
# the tests will do.
measured=$(mktemp)
trap 'rm -f "$log" "$measured"' EXIT
began=$(date +%s)
measure() {
    "${CARGO_TARGET_DIR:-target}/debug/leasehold-bench" "$@" >>"$measured" 2>&1 || { tail -30 "$measured" >&2; exit 1; }
}
measure --quick --out target/bench-quick
# This build beside itself.
measure --against "${CARGO_TARGET_DIR:-target}/debug/leasehold" --rounds 2
echo "bench: $(grep -ac '^\[' "$measured") measurements, every answer checked, $(($(date +%s) - began)) s" | tee -a "$log"

# The figures that tests print about how hard they looked. Each layer has some: one that says nothing did not look.
figures=(model golden simulation 'small scopes' callers 'planted bugs' history 'crash states' faults 'full disk' seams fuzz transcripts sockets
    kills 'bad input' hostile secrets events observe backup soak tls tokens 'key ids' sign-on
    'etcd store' 'PostgreSQL store' schemathesis browser recipes guarding 'cluster demo' upgrades terraform helm fleetlock clients bench)
echo
echo "what was looked at:"
silent=()
for layer in "${figures[@]}"; do
    grep -ah "^$layer: " "$log" || silent+=("$layer")
done
echo
echo "where the time went, in seconds:"
printf '%s\n' "${stages[@]}" | awk '{ seconds = $1; $1 = ""; printf "%8d %s\n", seconds, $0 }'
echo "and in the tests of the workspace, the longest programs:"
awk '/^ +Running /{ name = $NF; gsub(/.*deps\/|-[0-9a-f]+\)$/, "", name) }
    /^test result:/{ seconds = $NF; sub(/s$/, "", seconds); printf "%8.1f  %s\n", seconds, name }' "$log" | sort -rn | head -12
passed=$(awk '/^test result:/{sum += $4} $2 == "pass" && NF == 3{sum += $3} /^[0-9]+ passed.* in /{sum += $1} END{print sum + 0}' "$log")
failed=$(awk '/^test result:/{sum += $6} $2 == "fail" && NF == 3{sum += $3} END{print sum + 0}' "$log")
echo "took $(($(date +%s) - started)) s"
echo "$passed passed, $failed failed"
[ ${#silent[@]} -eq 0 ] || { echo "no figures of: ${silent[*]}" >&2; exit 1; }
