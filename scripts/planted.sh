#!/usr/bin/env bash
# Plants bugs into the binary that no simulation can show, one at a time, and expects the test that guards against each of
# them to fail. The real binary is built again afterwards. Part of `make test-long`.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
restore() {
    rm -f "$log"
    # Built without the feature, so that nothing else meets a binary that could be armed.
    cargo build --locked -q -p leasehold
}
trap restore EXIT

run() {
    PLANTED_BUG=$1 cargo test --locked -q -p leasehold --features planted --test it -- --exact "$2" >"$log" 2>&1
}

found=0
while read -r bug test; do
    run None "$test" || { tail -40 "$log" >&2; echo "planted: $test fails without a bug" >&2; exit 1; }
    grep -q '1 passed' "$log" || { echo "planted: there is no test $test" >&2; exit 1; }
    if run "$bug" "$test"; then
        echo "planted: $bug was not found by $test" >&2
        exit 1
    fi
    grep -q '1 failed' "$log" || { tail -40 "$log" >&2; exit 1; }
    echo "$bug: found by $test"
    found=$((found + 1))
done <<'BUGS'
LeaverBehindBytes gone::a_waiter_behind_more_bytes_leaves_its_queue_when_its_connection_ends
SettledWhenTaken gone::a_grant_whose_answer_cannot_leave_its_http2_stream_is_handed_back
OrderMoves state::pages_in_an_order_that_moves_miss_nothing_and_repeat_nothing
GraceUnheard lookouts::a_follower_hears_when_its_leader_is_late_gone_and_back
ProofOutlivesLease proofs::a_proof_ends_with_its_lease_and_is_of_the_present_alone
ProofOfEnded proofs::a_proof_ends_with_its_lease_and_is_of_the_present_alone
ReplacedNotMissed faults::files::no_change_is_acknowledged_after_the_data_was_taken_away
CutNotMissed faults::files::no_change_is_acknowledged_after_the_data_was_taken_away
EmptyTakenForNew faults::files::an_empty_database_beside_a_full_log_is_refused_by_serve_and_check
BUGS
echo "planted in the binary: $found bugs, each found by its test"
