#!/usr/bin/env bash
# Builds the binary, or what the arguments name, unless `make test` has built everything already. Cargo chooses other features for one
# package than for all of them, so most dependencies would be built a second time.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${LEASEHOLD_IS_BUILT:-}" ] && exit
[ $# -gt 0 ] || set -- -p leasehold
exec cargo build --locked -q "$@"
