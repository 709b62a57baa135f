#!/usr/bin/env bash
# A whole cluster on this machine: etcd with three members, three nodes, and a small load. It prints the addresses to open,
# and ends everything that it started on Ctrl-C or after CLUSTER_DEMO_SECONDS (600).
#
# LEASEHOLD names a binary to use instead of building one.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${CLUSTER_DEMO_SECONDS:-600}
case $seconds in
'' | *[!0-9]*) echo "CLUSTER_DEMO_SECONDS must be a number of seconds from 1 to 86400, not '$seconds'" >&2 && exit 2 ;;
esac
if [ "${#seconds}" -gt 5 ] || [ "$((10#$seconds))" -lt 1 ] || [ "$((10#$seconds))" -gt 86400 ]; then
    echo "CLUSTER_DEMO_SECONDS must be a number of seconds from 1 to 86400, not '$seconds'" >&2
    exit 2
fi
seconds=$((10#$seconds))
for tool in etcd curl python3; do
    command -v "$tool" >/dev/null || { echo "please install: $tool (scripts/need.sh does)" >&2; exit 1; }
done
leasehold=${LEASEHOLD:-}
if [ -z "$leasehold" ]; then
    ${CARGO:-cargo} build --release --locked -q -p leasehold
    leasehold=${CARGO_TARGET_DIR:-target}/release/leasehold
fi

dir=$(mktemp -d)
pids=()
# Nodes first, so that they give their partitions away while etcd is there. No process is ended by its name.
finish() {
    trap '' INT TERM
    local at
    for ((at = ${#pids[@]} - 1; at >= 0; at--)); do
        kill "${pids[at]}" 2>/dev/null || true
        wait "${pids[at]}" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap finish EXIT
trap 'echo; exit 0' INT TERM

# Waits until a command succeeds; ends the demo when that takes too long, with the log that says why.
until_true() {
    local what=$1 log=$2 tries=300
    shift 2
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "no $what within half a minute:" >&2; tail -5 "$log" >&2; exit 1; }
        sleep 0.1
    done
}

# Kept open together while they are drawn, so that no two are the same.
mapfile -t ports < <(python3 - <<'PYTHON'
import socket

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(12)]
for one in sockets:
    print(one.getsockname()[1])
PYTHON
)
client=("${ports[@]:0:3}") peer=("${ports[@]:3:3}") http=("${ports[@]:6:3}") link=("${ports[@]:9:3}")

cluster="e0=http://127.0.0.1:${peer[0]},e1=http://127.0.0.1:${peer[1]},e2=http://127.0.0.1:${peer[2]}"
for n in 0 1 2; do
    etcd --name "e$n" --data-dir "$dir/e$n" --initial-cluster "$cluster" \
        --listen-client-urls "http://127.0.0.1:${client[n]}" --advertise-client-urls "http://127.0.0.1:${client[n]}" \
        --listen-peer-urls "http://127.0.0.1:${peer[n]}" --initial-advertise-peer-urls "http://127.0.0.1:${peer[n]}" \
        --snapshot-count 10000 --logger zap --log-level warn >"$dir/e$n.log" 2>&1 &
    pids+=($!)
done
for n in 0 1 2; do
    until_true 'healthy etcd' "$dir/e$n.log" sh -c "curl -fs http://127.0.0.1:${client[n]}/health | grep -q '\"true\"'"
done

store="etcd://127.0.0.1:${client[0]},127.0.0.1:${client[1]},127.0.0.1:${client[2]}/demo"
for n in 0 1 2; do
    "$leasehold" serve --store "$store" --listen "127.0.0.1:${http[n]}" --peer-listen "127.0.0.1:${link[n]}" \
        >"$dir/n$n.log" 2>&1 &
    pids+=($!)
done
for n in 0 1 2; do
    until_true 'node that is ready' "$dir/n$n.log" curl -fs "http://127.0.0.1:${http[n]}/readyz"
done

# Four callers that lend slots of six pools, each call to the next node, about twenty calls a second in all.
cat >"$dir/load.py" <<'PYTHON'
import json, random, sys, threading, time, urllib.error, urllib.request, uuid

seconds, nodes = float(sys.argv[1]), sys.argv[2:]
done = [0] * 4
ends_at = time.monotonic() + seconds
pools = [str(uuid.UUID(int=number + 1, version=4)) for number in range(6)]


def call(node, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(node + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def work(number):
    while time.monotonic() < ends_at:
        node, pool = random.choice(nodes), random.choice(pools)
        try:
            lent = call(node, "POST", f"/l/{pool}/borrow", {"ttl": 5, "wait": 1, "holder": f"caller {number}"})
            time.sleep(random.uniform(0.1, 0.5))
            call(random.choice(nodes), "POST", f"/l/{pool}/return", {"lease": lent["lease"]})
            done[number] += 1
        except (OSError, ValueError, KeyError) as error:
            # A node that is being stopped, or a pool that is all lent: the next call goes elsewhere.
            print(type(error).__name__, error, flush=True)
            time.sleep(0.2)


for number, pool in enumerate(pools):
    call(nodes[0], "PUT", f"/l/{pool}", {"count": 2, "label": f"demo {number}"})
for thread in [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]:
    thread.start()
while (left := ends_at - time.monotonic()) > 0:
    time.sleep(min(left, 0.5))
    with open(sys.argv[0] + ".done", "w") as file:
        print(sum(done), file=file)
PYTHON
addresses=()
for n in 0 1 2; do addresses+=("http://127.0.0.1:${http[n]}"); done
python3 "$dir/load.py" "$seconds" "${addresses[@]}" >"$dir/load.log" 2>&1 &
load=$!
pids+=("$load")

cat <<TEXT
three nodes on three members of etcd, for $seconds s or until Ctrl-C:

  dashboard   ${addresses[0]}/  ${addresses[1]}/  ${addresses[2]}/
  cluster     ${addresses[0]}/v1/cluster
  metrics     ${addresses[0]}/metrics
  nodes       process ids ${pids[3]} ${pids[4]} ${pids[5]}: kill -9 one, and watch the others take its partitions
  logs        $dir

  $leasehold cluster status --store $store
  $leasehold cluster drain --store $store 127.0.0.1:${link[0]}
TEXT
wait "$load"
lent=$(cat "$dir/load.py.done")
owned=$(curl -fs "${addresses[0]}/v1/cluster" | python3 -c 'import json, sys; print(sum(one["owner"] is not None for one in json.load(sys.stdin)["partitions"]))')
if [ "$lent" -eq 0 ] || [ "$owned" -eq 0 ]; then
    echo "no slot was lent, or no partition has an owner:" >&2
    tail -3 "$dir"/*.log >&2
    exit 1
fi
echo "cluster demo: $lent slots lent and returned, $owned partitions have an owner"
