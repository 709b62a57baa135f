#!/usr/bin/env bash
# The packages as people use them: the tarball unpacked and served from, the wheel and the npm tarball installed and used; the Debian package installed, started, upgraded, removed and
# purged, on a throw-away copy of this machine's root (an overlay in a mount namespace), so that nothing is left on it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
    DIST_PROFILE=${DIST_PROFILE:-dev} DIST_OUT=target/packages-old DIST_DEB_VERSION=0.0.1 scripts/dist.sh
    DIST_PROFILE=${DIST_PROFILE:-dev} DIST_OUT=target/packages scripts/dist.sh
    user=()
    [ "$(id -u)" -eq 0 ] || user=(--user --map-root-user)
    directory=$(mktemp -d)
    # Mounts and processes end with the namespaces, so nothing has to be taken apart, and nothing is ever deleted below a mount.
    code=0
    # KILL, as unshare holds TERM back; its namespace ends with it.
    timeout --signal=KILL 900 unshare "${user[@]}" --mount --propagation private --pid --fork --kill-child "$0" inside "$directory" || code=$?
    rmdir "$directory"
    exit "$code"
fi

directory=$2
server=""
fail() { echo "packages: $*" >&2; exit 1; }
# The changes are in memory.
mount -t tmpfs none "$directory"
mkdir -p "$directory"/{upper,work,root,unpacked,python,typescript}
cp "$(ls -t target/packages-old/*.deb | head -1)" "$directory/unpacked/old.deb"
cp "$(ls -t target/packages/*.deb | head -1)" "$directory/unpacked/new.deb"
tar -xzf "$(ls -t target/packages/*.tar.gz | head -1)" -C "$directory/unpacked" --strip-components 1

# Starts a server and waits until it answers; its address is in $url.
serve() {
    "$@" serve --listen 127.0.0.1:0 >"$directory/log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        url=$(sed -n 's/.*listening on \(http:[^,]*\),.*/\1/p' "$directory/log")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    fail "no server: $(cat "$directory/log")"
}
stop() {
    kill "$server"
    wait "$server" || fail "the server ended with $?"
    server=""
}

echo "tarball: unpack, serve, run"
bin=$directory/unpacked/bin/leasehold
if [ -z "${DIST_BINARY:-}" ] && ldd "$bin" 2>/dev/null | grep -q '=>'; then
    fail "the binary is not static"
fi
for wanted in share/man/man1/leasehold.1 share/man/man1/leasehold-run.1 share/bash-completion/completions/leasehold \
    share/zsh/site-functions/_leasehold share/fish/vendor_completions.d/leasehold.fish lib/systemd/system/leasehold.service etc/leasehold/leasehold.toml \
    share/doc/leasehold/LICENSE-MIT share/doc/leasehold/LICENSE-APACHE; do
    [ -s "$directory/unpacked/$wanted" ] || fail "the tarball has no $wanted"
done
LEASEHOLD_MEMORY=true serve "$bin"
export LEASEHOLD_URL=$url
[ "$(timeout 60 "$bin" run --lock a -- echo held)" = held ] || fail "run does not run"
# The /proc of this namespace is still its parent's, as in a container that was given its host's.
left=$(timeout 60 "$bin" run --quiet --lock a -- sh -c 'sleep 1000 >/dev/null & echo $!')
! kill -0 "$left" 2>/dev/null || fail "run released the lock before the processes of its command ended"

# Prints what a program of a client says; the lock must be free afterwards.
holds() {
    local said
    said=$(timeout 60 "$@") || fail "$1 failed"
    [[ $said =~ ^token\ [0-9]+$ ]] || fail "$1 said: $said"
    timeout 60 "$bin" run --no-wait --lock a -- true || fail "$1 did not give the lock back"
}
echo "wheel: install, take and release a lock"
timeout 120 python3 -m venv "$directory/python"
timeout 120 "$directory/python/bin/pip" install -q --disable-pip-version-check --no-index --no-cache-dir target/packages/leasehold-*.whl
holds "$directory/python/bin/python" -I -c '
import leasehold
with leasehold.Client().lock("a", timeout=30) as lease:
    lease.check()
    print("token", lease.token)
'
echo "npm tarball: install, take and release a lock"
npm=$(realpath target/packages/leasehold-*.tgz)
(cd "$directory/typescript" && timeout 120 npm install --offline --no-audit --no-fund --loglevel=error --cache "$directory/npm" "$npm" >/dev/null)
cat >"$directory/typescript/hold.mjs" <<'HOLD'
import { Client } from "leasehold";
await new Client().lock("a", { wait: "30s" }).run(async (lease) => {
  lease.check();
  console.log(`token ${lease.token}`);
});
HOLD
holds node "$directory/typescript/hold.mjs"
unset LEASEHOLD_URL
stop

mount -t overlay overlay -o "lowerdir=/,upperdir=$directory/upper,workdir=$directory/work" "$directory/root"
mount -t proc proc "$directory/root/proc" 2>/dev/null || mount --rbind /proc "$directory/root/proc"
mount --rbind /dev "$directory/root/dev"
mkdir -p "$directory/root/tmp/packages"
cp "$directory"/unpacked/*.deb "$directory/root/tmp/packages/"
inside() { timeout 120 chroot "$directory/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
# Only in the background, where it becomes the server.
as_service() { exec chroot --userspec=leasehold:leasehold "$directory/root" /usr/bin/leasehold "$@"; }

echo "debian: install"
inside dpkg -i /tmp/packages/old.deb >/dev/null
[ "$(inside stat -c '%U %a' /var/lib/leasehold)" = "leasehold 700" ] || fail "the data directory is not the service's"
inside grep -q '^ExecStart=/usr/bin/leasehold serve' /usr/lib/systemd/system/leasehold.service /lib/systemd/system/leasehold.service 2>/dev/null ||
    fail "the unit starts another binary"
inside grep -q '^data = "/var/lib/leasehold"$' /etc/leasehold/leasehold.toml || fail "the configuration that the unit reads is not there"
echo "debian: start, as the unit does"
LEASEHOLD_DATA=/var/lib/leasehold serve as_service
inside /usr/bin/leasehold acquire --url "$url" --claim kept --ttl 1h >/dev/null
stop
echo "debian: upgrade"
inside dpkg -i /tmp/packages/new.deb >/dev/null
[ "$(inside dpkg-query -W -f '${Version}' leasehold)" != 0.0.1 ] || fail "it was not upgraded"
LEASEHOLD_DATA=/var/lib/leasehold serve as_service
[[ $(inside /usr/bin/leasehold show --url "$url" claim:kept) == *held* ]] || fail "the upgrade lost a claim"
stop
echo "debian: remove keeps the data, purge does not"
inside dpkg -r leasehold >/dev/null
[ ! -e "$directory/root/usr/bin/leasehold" ] || fail "the binary is still there"
inside test -d /var/lib/leasehold || fail "removing took the data"
inside dpkg -P leasehold >/dev/null
inside test ! -e /var/lib/leasehold || fail "purging left the data"
! inside getent passwd leasehold >/dev/null || fail "purging left the user"
echo "packages: well"
