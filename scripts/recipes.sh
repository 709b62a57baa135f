#!/usr/bin/env bash
# The blocks of docs/recipes.md, docs/first-lock.md, docs/guarding.md and others, each taken from the page and run against the real binary. Arguments go to `node --test`.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v node >/dev/null || { echo "please install: Node.js 20 or newer" >&2; exit 1; }
scripts/need.sh

scripts/build.sh
scripts/build.sh -p leasehold-client --example first
venv=${CARGO_TARGET_DIR:-target}/recipes-venv
if ! cmp -s tests/recipes/requirements.txt "$venv/installed"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r tests/recipes/requirements.txt
    cp tests/recipes/requirements.txt "$venv/installed"
fi
# The wheel and the npm tarball, which are installed by the tests. It builds the TypeScript client, too.
scripts/dist-clients.sh
# Again when the lock file changed since. Not `npm ci`, which wants packages for every platform; the versions in package.json are exact.
cd tests/recipes
if ! cmp -s package-lock.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.installed
fi
node --test --test-timeout=600000 --test-reporter=spec "$@"
