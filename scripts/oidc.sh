#!/usr/bin/env bash
# Installs the OpenID provider that the tests of sign-on start (tests/oidc), unless it is there already.
set -euo pipefail
cd "$(dirname "$0")/../tests/oidc"

command -v node >/dev/null || { echo "please install: Node.js 20 or newer" >&2; exit 1; }
# Again when the lock file changed since.
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --silent
    cp package-lock.json node_modules/.installed
fi
