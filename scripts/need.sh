#!/usr/bin/env bash
# Installs what the tests need and the machine lacks. Debian and its kin; elsewhere it says what to install by hand. All of it is
# installed here, before any test: stages run beside each other, and two installations would be in each other's way.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v faketime >/dev/null || missing+=(faketime)
command -v curl >/dev/null || missing+=(curl)
command -v jq >/dev/null || missing+=(jq)
command -v openssl >/dev/null || missing+=(openssl)
command -v strace >/dev/null || missing+=(strace)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
# A reverse proxy, without the service that Debian's `apache2` would start.
[ -x /usr/sbin/apache2 ] || missing+=(apache2-bin)
# Files of service managers are checked by their own tools.
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v etcd >/dev/null || missing+=(etcd-server)
[ -d /usr/lib/postgresql ] || command -v initdb >/dev/null || missing+=(postgresql)
# A pooler, which the store on PostgreSQL refuses.
command -v pgbouncer >/dev/null || missing+=(pgbouncer)
python3 -c "import yaml" 2>/dev/null || missing+=(python3 python3-yaml)
python3 -c "import ensurepip" 2>/dev/null || missing+=(python3 python3-venv)

# The browser of the dashboard's tests and of the TypeScript client's. CHROMIUM says where another one is.
lean=()
[ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null || lean+=(chromium fonts-inter)

# Prometheus' checker. Taken out of its package, as installing that would start a server.
wants_promtool=no
command -v promtool >/dev/null || [ -x target/tools/promtool ] || wants_promtool=yes

scripts/oidc.sh

if [ ${#missing[@]} -eq 0 ] && [ ${#lean[@]} -eq 0 ] && [ $wants_promtool = no ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    [ $wants_promtool = no ] || missing+=(promtool)
    echo "please install: ${missing[*]} ${lean[*]}" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -qq
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    # RUNLEVEL=1 keeps packages from starting their services: the tests start etcd and PostgreSQL themselves.
    $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"
fi
if [ ${#lean[@]} -gt 0 ]; then
    echo "installing: ${lean[*]}"
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${lean[@]}" >/dev/null
fi
if [ $wants_promtool = yes ]; then
    echo "fetching: promtool"
    unpacked=$(mktemp -d)
    (cd "$unpacked" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb .)
    mkdir -p target/tools
    install "$unpacked/usr/bin/promtool" target/tools/promtool
    rm -rf "$unpacked"
fi
