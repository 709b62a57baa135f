#!/usr/bin/env bash
# The TypeScript client: installs what its tests lack, builds it, and runs its tests against the real binary, in Node, Deno and Chromium, from the
# packed tarball too. Arguments go to `node --test`.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v node >/dev/null || { echo "please install: Node.js 20 or newer" >&2; exit 1; }
if ! command -v chromium >/dev/null && [ -z "${CHROMIUM:-}" ]; then
    command -v apt-get >/dev/null || { echo "please install chromium, or say where it is in CHROMIUM" >&2; exit 1; }
    sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "installing: chromium"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
cargo build --locked -q -p leasehold
cd clients/typescript
# Again when the lock file changed since.
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --silent
    cp package-lock.json node_modules/.installed
fi
npm run --silent build
npm run --silent check
node --test --test-concurrency=1 --test-timeout=300000 --test-reporter=spec "$@" build/test/*.test.js | tee build/test.log
echo "typescript: $(grep -c '^ *✔ .*ms)$' build/test.log) tests of the client in Node, Deno and Chromium"
