#!/usr/bin/env bash
# The container image, built by buildah without a daemon and run as the user it is for. Called by `make test-long`, as it takes a
# static build of its own. Where the base image of the first stage cannot be pulled, that stage is stood in for by a build here.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v buildah >/dev/null; then
    command -v apt-get >/dev/null || { echo "please install: buildah" >&2; exit 1; }
    sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "installing: buildah"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends buildah >/dev/null
fi

directory=$(mktemp -d)
server=""
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$directory"
}
trap finish EXIT
# A storage of its own, that needs neither a kernel module nor a daemon.
buildah=(buildah --storage-driver vfs --root "$directory/storage" --runroot "$directory/run")

file=deploy/container/Containerfile
base=$(sed -n 's/^FROM \(.*\) AS build$/\1/p' "$file")
if "${buildah[@]}" pull -q "$base" >/dev/null 2>&1; then
    built="all of it"
    "${buildah[@]}" bud -q --format docker --isolation chroot -f "$file" -t leasehold . >/dev/null
else
    built="its last stage ($base cannot be pulled)"
    host=$(rustc -vV | sed -n 's/^host: //p')
    RUSTFLAGS="-C target-feature=+crt-static" CARGO_PROFILE_DEV_DEBUG=0 \
        cargo build --locked -q -p leasehold --target "$host" --target-dir target/static
    mkdir -p "$directory/context"/{root-of-image/etc/ssl/certs,data-of-image}
    mkdir -m 700 "$directory/context/data-of-image/data"
    cp "target/static/$host/debug/leasehold" "$directory/context/root-of-image/"
    cp /etc/ssl/certs/ca-certificates.crt "$directory/context/root-of-image/etc/ssl/certs/"
    sed -n '/^FROM scratch/,$p' "$file" | sed 's|--from=build \(.*\)/\([a-z]*-of-image\) |\1\2 |' >"$directory/context/Containerfile"
    "${buildah[@]}" bud -q --format docker --isolation chroot -f "$directory/context/Containerfile" -t leasehold \
        "$directory/context" >/dev/null
fi

"${buildah[@]}" inspect --type image leasehold | python3 -c '
import json, sys
config = json.load(sys.stdin)["Docker"]["config"]
assert config["User"] == "65532:65532" and config["StopSignal"] == "SIGTERM", config
assert config["Entrypoint"] == ["/leasehold"] and config["Cmd"] == ["serve"], config
assert list(config["Volumes"]) == ["/data"] and list(config["ExposedPorts"]) == ["8080/tcp"], config
assert config["Healthcheck"]["Test"] == ["CMD", "/leasehold", "healthcheck"], config
'

# A port that is free now; the image has one of its own, and no network but ours here.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
container=$("${buildah[@]}" from leasehold)
# User, environment, entry point and command are those of the image; only the port is another.
inside=("${buildah[@]}" run --isolation chroot --user 65532:65532 --env "LEASEHOLD_LISTEN=127.0.0.1:$port" "$container" --)
# Without the file that says how callers sign on it does not start.
status=0
"${inside[@]}" /leasehold serve >"$directory/log" 2>&1 || status=$?
[ "$status" = 2 ] && grep -q leasehold.toml "$directory/log" || { cat "$directory/log" >&2; exit 1; }
root=$("${buildah[@]}" mount "$container")
mkdir -p "$root/etc/leasehold"
"${inside[@]}" /leasehold token new --name admin --role operators >"$directory/token" 2>"$root/etc/leasehold/leasehold.toml"
printf '\n[[policy]]\ngroups = ["operators"]\nactions = ["*"]\n' >>"$root/etc/leasehold/leasehold.toml"
"${inside[@]}" /leasehold serve >"$directory/log" 2>&1 &
runner=$!
for _ in $(seq 300); do
    ! "${inside[@]}" /leasehold healthcheck --ready 2>/dev/null || break
    sleep 0.1
done
"${inside[@]}" /leasehold healthcheck --ready || { cat "$directory/log" >&2; exit 1; }
[ "$(curl -s -o /dev/null -w '%{http_code}' -X POST "http://127.0.0.1:$port/lock?client=admin&ttl=10s")" = 401 ]
curl -sf -o /dev/null -H "Authorization: Bearer $(cat "$directory/token")" -X POST "http://127.0.0.1:$port/lock?client=admin&ttl=10s"
# The process itself, as the runner passes no signals on.
server=$(find "$directory" -name leasehold.lock -exec cat {} +)
[ "$(stat -c %u "/proc/$server")" = 65532 ] || { echo "it runs as $(stat -c %u "/proc/$server")" >&2; exit 1; }
[ "$(stat -c '%u %a' "$root/leasehold")" = "0 755" ] || { echo "its program is not root's: $(stat -c '%u %a' "$root/leasehold")" >&2; exit 1; }
kill -TERM "$server"
wait "$runner"
server=""
grep -q '"message":"stopped"' "$directory/log" || { cat "$directory/log" >&2; exit 1; }
echo "container: $built was built, $(du -m "$root/leasehold" | cut -f1) MiB, served as user 65532 and stopped when told"
