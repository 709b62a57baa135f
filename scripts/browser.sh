#!/usr/bin/env bash
# The dashboard in a real browser: installs the test's packages where they are missing, builds the binary, and runs
# tests/browser against it. Arguments go to `node --test`.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v node >/dev/null || { echo "please install: Node.js 20 or newer" >&2; exit 1; }
scripts/need.sh
scripts/build.sh
cd tests/browser
# Again when the lock file changed since.
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --silent
    cp package-lock.json node_modules/.installed
fi
node --test --test-concurrency=1 --test-timeout=120000 --test-reporter=spec "$@"
