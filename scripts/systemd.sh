#!/usr/bin/env bash
# The unit under a real systemd: it is the first process of a namespace, on a throw-away copy of this machine's root, and starts the service as deploy/systemd
# has it. Shown: the configuration file decides, credentials arrive, a killed service comes back with its leases, a reload works, a wrong configuration is not
# tried again and again, and a stop is clean.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
    [ -x /lib/systemd/systemd ] || { echo "systemd: please install systemd" >&2; exit 1; }
    [ "$(id -u)" -eq 0 ] || { echo "systemd: not root, so no systemd can be started here" >&2; exit 0; }
    binary=${LEASEHOLD_BINARY:-target/debug/leasehold}
    [ -n "${LEASEHOLD_BINARY:-}" ] || scripts/build.sh
    directory=$(mktemp -d)
    # Mounts and processes end with the namespaces. KILL, as unshare holds TERM back.
    timeout --signal=KILL 300 unshare --mount --propagation private --pid --fork --kill-child --cgroup --uts --ipc --net "$0" inside "$directory" "$(realpath "$binary")" </dev/null || true
    said=$(cat "$directory/said" 2>/dev/null || true)
    result=$(cat "$directory/result" 2>/dev/null || echo "no result")
    rm -rf "$directory"
    echo "$said"
    echo "systemd: $result"
    [ "$result" = well ]
    exit
fi

shared=$2
binary=$3
space=$(mktemp -d)
mount -t tmpfs none "$space"
mkdir -p "$space"/{upper,work,root}
root=$space/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$space/upper,workdir=$space/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/unified" "$root/sys/fs/cgroup/systemd"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
# A /dev of its own: systemd prepares credentials in its shm.
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/mqueue" "$root/dev/hugepages"
mknod -m 666 "$root/dev/tty" c 5 0
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for node in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
    mknod -m 666 "$root/dev/${node% *}" c 1 "${node#* }"
done
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/tmp/shared" "$root/tmp/old" "$root/etc/leasehold"
mount --bind "$shared" "$root/tmp/shared"
ip link set lo up

install -m 755 "$binary" "$root/usr/local/bin/leasehold"
install -m 644 deploy/systemd/leasehold.service "$root/etc/systemd/system/leasehold.service"
# Another port than the shipped one, and sign-on by a secret that only root can read.
{
    sed 's/^listen = .*/listen = "127.0.0.1:18080"/' deploy/systemd/leasehold.toml
    printf '\n[auth.proxy]\npreset = "nginx"\nfrom = ["127.0.0.1"]\nsecret_file = "/run/credentials/leasehold.service/proxy-secret"\n'
    printf '\n[[policy]]\nsubjects = ["authenticated"]\nactions = ["*"]\n'
} >"$root/etc/leasehold/leasehold.toml"
(umask 077 && printf 'a secret that no other process may read' >"$root/etc/leasehold/proxy-secret")
mkdir -p "$root/etc/systemd/system/leasehold.service.d"
printf '[Service]\nLoadCredential=proxy-secret:/etc/leasehold/proxy-secret\n' >"$root/etc/systemd/system/leasehold.service.d/secret.conf"

cat >"$root/usr/local/bin/probe" <<'PROBE'
#!/bin/bash
# What an operator would do, step by step. The result is in /tmp/shared.
exec >/tmp/shared/said 2>&1
fail() { echo "failed: $*"; systemctl status --no-pager leasehold; journalctl -u leasehold --no-pager -n 20 2>/dev/null; echo "failed: $*" >/tmp/shared/result; exit 1; }
until_true() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
call() { curl -sS --max-time 5 -H 'X-Remote-User: olga' -H 'Leasehold-Proxy-Secret: a secret that no other process may read' "$@"; }
url=http://127.0.0.1:18080

timeout 120 systemctl start leasehold || fail "it does not start"
[ "$(systemctl show -p ActiveState --value leasehold)" = active ] || fail "it is not active once it is started (Type=notify)"
echo "started: it listens where /etc/leasehold/leasehold.toml says"
call -f "$url/healthz" || fail "it does not listen where the file says"
echo
pid=$(systemctl show -p MainPID --value leasehold)
[ "$(stat -c %u "/proc/$pid")" != 0 ] || fail "it runs as root"
[ -s /var/lib/leasehold/leasehold.db ] || fail "the data is not where the file says"
[ "$(stat -Lc %a /var/lib/leasehold)" = 700 ] || fail "the data directory can be looked into"
echo "sign-on: the credential arrived"
[[ $(call "$url/v1/whoami") == *'"name":"olga"'* ]] || fail "the secret did not arrive: $(call "$url/v1/whoami")"

echo "killed: systemd starts it again, and the lease is there"
call -f -o /dev/null -X POST -d '{"resource": "kept", "timeout": 3600}' "$url/v1/claims/" || fail "no claim"
systemctl kill -s KILL leasehold
until_true eval '[ "$(systemctl show -p MainPID --value leasehold)" != '"$pid"' ] && call -f '"$url"'/healthz' || fail "it did not come back"
[[ $(call "$url/v1/observe/resources/claim%3Akept") == *'"in_use":1'* ]] || fail "the lease is gone"

echo "reload: a new policy is in force"
sed -i 's/actions = \["\*"\]/actions = ["inspect"]/' /etc/leasehold/leasehold.toml
systemctl reload leasehold || fail "it does not reload"
refused() { [[ $(call "$url/v1/observe/resources") == *"needs the action 'observe'"* ]]; }
until_true refused || fail "the policy was not read again"

echo "a mistake in the file: it ends with 2, and is not started again"
cp /etc/leasehold/leasehold.toml /tmp/good.toml
echo 'listne = "x"' | cat - /tmp/good.toml >/etc/leasehold/leasehold.toml
! timeout 60 systemctl restart leasehold || fail "it started with a mistake"
[ "$(systemctl show -p ExecMainStatus --value leasehold)" = 2 ] || fail "the exit code is $(systemctl show -p ExecMainStatus --value leasehold)"
[ "$(systemctl show -p ActiveState --value leasehold)" = failed ] || fail "it is tried again: $(systemctl show -p ActiveState --value leasehold)"
cp /tmp/good.toml /etc/leasehold/leasehold.toml
timeout 60 systemctl start leasehold || fail "it does not start again"

echo "stop: clean"
timeout 60 systemctl stop leasehold || fail "it does not stop"
[ "$(systemctl show -p Result --value leasehold)" = success ] || fail "the stop was not clean"
echo well >/tmp/shared/result
PROBE
chmod 755 "$root/usr/local/bin/probe"
cat >"$root/etc/systemd/system/probe.service" <<'UNIT'
[Unit]
Description=The steps of the test
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/usr/local/bin/probe
UNIT
# Nothing else of this machine is started.
cat >"$root/etc/systemd/system/probe.target" <<'UNIT'
[Unit]
Wants=probe.service
After=probe.service
UNIT
printf '[Unit]\n' >"$root/etc/systemd/system/network-online.target"

cd "$root"
pivot_root . tmp/old
umount -l /tmp/old
# As on a real machine: mounts that systemd's helpers make are seen by all.
mount --make-rshared /
export container=namespace PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec /lib/systemd/systemd --system --unit=probe.target --log-target=null --show-status=0
