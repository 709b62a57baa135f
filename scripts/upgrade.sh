#!/usr/bin/env bash
# Upgrades of a cluster under load: this version and an earlier one, built out of the history (scripts/earlier.sh), in one
# cluster on a real etcd. Arguments go to `node --test`.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v node >/dev/null || { echo "please install: Node.js 20 or newer" >&2; exit 1; }
scripts/build.sh
began=$(date +%s)
LEASEHOLD_EARLIER_BINARY=$(scripts/earlier.sh)
export LEASEHOLD_EARLIER_BINARY LEASEHOLD_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/debug/leasehold"
echo "upgrades: the earlier version was built in $(($(date +%s) - began)) s"
node --test --test-timeout=400000 --test-reporter=spec "$@" tests/cluster/upgrade.test.mjs
