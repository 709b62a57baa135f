#!/usr/bin/env bash
# The cost that holding a lock adds to a command: a bare `true`, beside `flock`, `etcdctl lock` and `leasehold run --lock`, in one run on loopback.
# The rows take turns, so that whatever else the machine does happens to all of them alike.
#
#   bench/run_overhead.sh [ROUNDS] [--check]
#
# LEASEHOLD_BINARY is the binary to measure: that of `make dist`, else that of a release build, unless it is set. With --check the exit code is 1
# when the median that `run` adds on a durable server is above 10 ms.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=200 check=0
for arg in "$@"; do
    case $arg in
    --check) check=1 ;;
    *[!0-9]* | "") echo "usage: bench/run_overhead.sh [ROUNDS] [--check]" >&2; exit 2 ;;
    *) rounds=$arg ;;
    esac
done
binary=${LEASEHOLD_BINARY:-}
if [ -z "$binary" ]; then
    for binary in target/package-root/bin/leasehold target/release/leasehold; do [ ! -x "$binary" ] || break; done
fi
[ -x "$binary" ] || { echo "no binary to measure: make dist builds one" >&2; exit 1; }
for tool in flock etcd etcdctl python3; do
    command -v "$tool" >/dev/null || { echo "please install: $tool (on Debian util-linux, etcd-server, etcd-client, python3)" >&2; exit 1; }
done
# Not in memory: a durable service shall meet a disk.
directory=$(mktemp -d -p target run-overhead.XXXXXX)
exec python3 - "$(realpath "$binary")" "$(realpath "$directory")" "$rounds" "$check" <<'PYTHON'
import os, re, shutil, signal, socket, statistics, subprocess, sys, time, urllib.request

binary, directory, rounds, check = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1"
env = {name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "ETCD"))}
children = []


def start(*command):
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=open(f"{directory}/{len(children)}.log", "w"))
    children.append(child)
    return f"{directory}/{len(children) - 1}.log"


def until(what, ready):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if found := ready():
                return found
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"{what} did not start; see {directory}")


def serve(*store):
    log = start(binary, "serve", "--listen", "127.0.0.1:0", *store)
    return until("leasehold", lambda: re.search(r"listening on (http://[^,\s]+)", open(log).read())).group(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def once(command):
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, env)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    if status != 0:
        sys.exit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return took * 1000


try:
    durable, memory = serve("--data", f"{directory}/data"), serve("--memory")
    client, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    start("etcd", "--data-dir", f"{directory}/etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
          "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}")
    until("etcd", lambda: urllib.request.urlopen(f"{client}/health", timeout=1).status == 200)
    env["ETCDCTL_API"] = "3"
    run = [binary, "run", "--lock", "bench", "--url"]
    rows = {
        "true": ["true"],
        "flock FILE true": ["flock", f"{directory}/lock", "true"],
        "leasehold run --lock, in memory": [*run, memory, "--", "true"],
        "leasehold run --lock, durable": [*run, durable, "--", "true"],
        "etcdctl lock (one member, durable)": ["etcdctl", f"--endpoints={client}", "lock", "bench", "true"],
    }
    took = {name: [] for name in rows}
    for _ in range(5):
        for command in rows.values():
            once(command)
    for _ in range(rounds):
        for name, command in rows.items():
            took[name].append(once(command))
    bare = statistics.median(took["true"])
    print(f"{rounds} rounds, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    print(f"{'':36} {'median':>9} {'p95':>9} {'added':>9}   (ms; added: over the median of true)")
    for name, times in took.items():
        times.sort()
        median = statistics.median(times)
        print(f"{name:36} {median:9.2f} {times[int(len(times) * 0.95)]:9.2f} {median - bare:9.2f}")
    added = statistics.median(took["leasehold run --lock, durable"]) - bare
    if check and added > 10:
        sys.exit(f"run adds {added:.1f} ms, more than 10 ms")
finally:
    for child in children:
        child.send_signal(signal.SIGKILL)
        child.wait()
    shutil.rmtree(directory)
PYTHON
