#!/usr/bin/env bash
# The layers of `make test` for longer, and the stages that take builds or installations of their own. LONG=1, the default, took
# 65 minutes on two cores; LONG=10 is for a night. Every number can be set by itself as well.
set -euo pipefail
cd "$(dirname "$0")/.."

long=${LONG:-1}
[[ $long =~ ^[1-9][0-9]*$ ]] || { echo "LONG is a whole number from 1 on, not $long" >&2; exit 1; }

# How much `make test` does is in the code that reads the variable.
times() {
    local name=$1 number=$2
    export "$name=${!name:-$((number * long))}"
}
times MODEL_CASES 15000
times SIM_SEEDS 10000
times SIM_CLUSTER_SEEDS 2000
times SIM_SCOPE_STATES 100000
times SIM_RELAY_STATES 30000
times LEASEHOLD_CRASH_STATES 300000
times LEASEHOLD_FUZZ 20
times LEASEHOLD_SCHEDULES 10
times LEASEHOLD_KILLS 150
times LEASEHOLD_FAULTS 4
times LEASEHOLD_SOAK_SECONDS 300
times LEASEHOLD_CLUSTER_FAULTS 120
times LEASEHOLD_CLUSTER_FAILOVERS 20
times LEASEHOLD_POSTGRES_FAULTS 30
times LEASEHOLD_ETCD_SECONDS 300
times LEASEHOLD_CONFORMANCE_SECONDS 60
times SCHEMATHESIS_EXAMPLES 60
export LEASEHOLD_CONFORMANCE_ROWS=${LEASEHOLD_CONFORMANCE_ROWS:-all} SCHEMATHESIS_SEED=${SCHEMATHESIS_SEED:-$(date +%s)}

echo "LONG=$long: $(env | grep -E '^(MODEL|SIM|SCHEMATHESIS|LEASEHOLD)_' | sort | paste -sd' ')"
exec scripts/test.sh all with_builds_of_their_own
