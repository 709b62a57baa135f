#!/usr/bin/env bash
# Installs the peers the benchmark compares with and the machine lacks. Debian and its kin; elsewhere it says what to
# install by hand. Services that a package would start are not wanted: the benchmark starts its own.
set -euo pipefail

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v etcd >/dev/null || missing+=(etcd-server)
# The peers of `bench/run_overhead.sh`.
command -v etcdctl >/dev/null || missing+=(etcd-client)
[ -x /usr/lib/postgresql/15/bin/postgres ] || command -v pg_config >/dev/null || missing+=(postgresql-15)
command -v setpriv >/dev/null || missing+=(util-linux)

if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "please install: ${missing[*]} (Redis 7, etcd 3.4 or newer, PostgreSQL 15)" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
echo "installing: ${missing[*]}"
$sudo apt-get update -qq
# RUNLEVEL=1 keeps the packages from starting their services.
$sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
