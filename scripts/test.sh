#!/usr/bin/env bash
# Runs every test and says what ran. Called by `make test`, which has done formatting and lints before. Most tests wait most of their
# time (for leases to end, for nodes to notice a death), so two lanes of stages run beside each other. What a stage says is shown when
# it ends, and is in target/test-logs meanwhile. `scripts/test.sh FUNCTION` runs one of the functions below, and
# `scripts/test.sh all FUNCTION` everything and then that one.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=$PWD/target/test-logs
debug=${CARGO_TARGET_DIR:-target}/debug

# A shell ignores interrupts in what it starts in the background, and so does nohup with hang-ups; tests of signals want them all.
as_usual=(env --default-signal)
"${as_usual[@]}" true 2>/dev/null || as_usual=()

# Runs a stage, shows what it said, and notes how long it took and whether it failed.
stage() {
    local name=$1 began status=0 log=$logs/${1// /-}.log
    shift
    began=$(date +%s)
    echo "begins: $name (${log#"$PWD/"})"
    "$@" >"$log" 2>&1 || status=$?
    {
        flock 9
        echo "──── $name"
        cat "$log"
    } 9>"$logs/shown"
    echo "$(($(date +%s) - began)) $name" >>"$logs/times"
    [ "$status" -eq 0 ] || echo "$name" >>"$logs/failed"
}

# The test programs of the workspace, one a line: its package's directory, its name and its file.
programs() {
    cargo test --workspace --locked --no-run --message-format=json 2>/dev/null | python3 -c '
import json, os, sys
for line in sys.stdin:
    of = json.loads(line)
    if of.get("reason") == "compiler-artifact" and of["profile"]["test"] and of["executable"]:
        package = os.path.dirname(of["manifest_path"])
        print(package, os.path.basename(package) + "/" + of["target"]["name"], of["executable"])'
}

# Runs the test programs that it reads, each to its end, with so many tests at once.
run() {
    local threads=$1 failed=0 package name file
    while read -r package name file; do
        echo "     Running $name"
        (cd "$package" && CARGO_MANIFEST_DIR=$package RUST_TEST_THREADS=$threads "$file" --show-output </dev/null) || failed=1
    done
    return $failed
}

service() { grep ' leasehold/it ' "$logs/programs" | run 6; }
crates() {
    local failed=0
    grep -v ' leasehold/it ' "$logs/programs" | run 4 || failed=1
    cargo test --workspace --locked --doc || failed=1
    return $failed
}

# Three nodes on three members of etcd, with the load of the demo.
demo() { CLUSTER_DEMO_SECONDS=5 LEASEHOLD=$debug/leasehold scripts/cluster-demo.sh; }

# The benchmark, little of everything, against its real peers, and this build beside itself. Every answer is checked and no timing
# asserted, so the build of the tests will do.
bench() {
    local began measured=$logs/measurements
    began=$(date +%s)
    for args in "--quick --out target/bench-quick" "--against $debug/leasehold --rounds 2"; do
        # shellcheck disable=SC2086
        "$debug/leasehold-bench" $args >>"$measured" 2>&1 || { tail -30 "$measured"; return 1; }
    done
    echo "bench: $(grep -ac '^\[' "$measured") measurements, every answer checked, $(($(date +%s) - began)) s"
}

# In order: the whole service from outside; the clients with their table of scenarios; the recipes of the documentation, as they stand
# there; the benchmark.
first_lane() {
    stage 'tests of the service' scripts/test.sh service
    stage clients scripts/clients.sh
    stage recipes scripts/recipes.sh
    stage bench scripts/test.sh bench
}

# In order: the crates; the planted bugs, by themselves, as in a workspace-wide build they would be in the real binary too; calls made
# up from the OpenAPI document; the dashboard in a real browser; this version and an earlier one in one cluster, rolled forward and
# back under load; the unit under a real systemd, where one can be started; the real Terraform; the chart for Kubernetes; the demo.
second_lane() {
    stage 'tests of the crates' scripts/test.sh crates
    stage 'planted bugs' cargo test -p leasehold-sim --locked --features planted --test planted -- --show-output
    stage schemathesis scripts/schemathesis.sh
    stage browser scripts/browser.sh
    stage upgrades scripts/upgrade.sh
    stage systemd scripts/systemd.sh
    stage terraform scripts/terraform.sh
    stage helm scripts/helm.sh
    stage 'cluster demo' scripts/test.sh demo
}

# Part of `make test-long`, one after the other, as each builds something of its own or installs much. The planted bugs are last: they
# are in the binary meanwhile.
with_builds_of_their_own() {
    stage 'size of etcd' node tests/cluster/size.mjs "${LEASEHOLD_ETCD_SECONDS:-60}"
    stage deny scripts/deny.sh
    stage shibboleth scripts/shibboleth.sh
    stage otlp scripts/otlp.sh
    stage container scripts/container.sh
    stage packages scripts/packages.sh
    stage 'bugs planted in the binary' scripts/planted.sh
}

afterwards=
if [ "${1:-}" = all ]; then
    afterwards=$2
elif [ $# -gt 0 ]; then
    "$@"
    exit
fi

started=$(date +%s)
rm -rf "$logs"
mkdir -p "$logs"
touch "$logs/failed"

# The README's first command must find its binary among those of the workspace: one package by default, with one program.
cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
of = json.load(sys.stdin)
bins = [t["name"] for p in of["packages"] if p["id"] in of["workspace_default_members"] for t in p["targets"] if "bin" in t["kind"]]
assert bins == ["leasehold"], f"cargo run finds {bins}"'

# Everything at once, and nothing again after it (see scripts/build.sh).
cargo build --workspace --locked --bins --tests --examples
echo "$(($(date +%s) - started)) build of the tests" >>"$logs/times"
export LEASEHOLD_IS_BUILT=1
began=$(date +%s)
scripts/earlier.sh >/dev/null
echo "$(($(date +%s) - began)) build of an earlier version" >>"$logs/times"
programs >"$logs/programs"
[ "$(grep -c ' leasehold/it ' "$logs/programs")" -eq 1 ] || { echo "the tests of the service are not where they were" >&2; exit 1; }

lanes=()
trap 'kill "${lanes[@]}" 2>/dev/null || true' EXIT
for lane in first_lane second_lane; do
    "${as_usual[@]}" scripts/test.sh "$lane" &
    lanes+=($!)
done
for lane in "${lanes[@]}"; do
    wait "$lane" || echo 'a lane' >>"$logs/failed"
done
trap - EXIT
[ -z "$afterwards" ] || "${as_usual[@]}" scripts/test.sh "$afterwards" || echo "$afterwards" >>"$logs/failed"

# The figures that tests print about how hard they looked. Each layer has some: one that says nothing did not look.
figures=(model golden simulation 'small scopes' callers 'planted bugs' history 'crash states' faults 'full disk' seams fuzz transcripts sockets
    kills 'bad input' hostile secrets events observe backup soak tls tokens 'key ids' sign-on
    'etcd store' 'PostgreSQL store' schemathesis browser recipes guarding 'cluster demo' upgrades terraform helm fleetlock clients bench)
log=$logs/all
cat "$logs"/*.log >"$log"
echo
echo "what was looked at:"
silent=()
for layer in "${figures[@]}"; do
    grep -ah "^$layer: " "$log" || silent+=("$layer")
done
echo
echo "where the time went, in seconds, in two lanes beside each other:"
sort -rn "$logs/times" | awk '{ seconds = $1; $1 = ""; printf "%8d %s\n", seconds, $0 }'
echo "and the longest test programs:"
awk '/^ +Running /{ name = $NF }
    /^test result:/{ seconds = $NF; sub(/s$/, "", seconds); printf "%8.1f  %s\n", seconds, name }' "$log" | sort -rn | head -12
passed=$(awk '/^test result:/{sum += $4} $2 == "pass" && NF == 3{sum += $3} /^[0-9]+ passed.* in /{sum += $1} END{print sum + 0}' "$log")
failed=$(awk '/^test result:/{sum += $6} $2 == "fail" && NF == 3{sum += $3} END{print sum + 0}' "$log")
echo "took $(($(date +%s) - started)) s"
echo "$passed passed, $failed failed"
[ ${#silent[@]} -eq 0 ] || echo "no figures of: ${silent[*]}" >&2
[ ! -s "$logs/failed" ] || { echo "failed: $(paste -sd, "$logs/failed" | sed 's/,/, /g'); what they said is above, and in target/test-logs" >&2; exit 1; }
[ ${#silent[@]} -eq 0 ]
