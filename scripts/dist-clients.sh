#!/usr/bin/env bash
# The packages of the clients, for people to install: the Python wheel and the npm tarball, in target/packages. Called by `make dist`, and
# by the tests that install them.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${DIST_OUT:-target/packages}
mkdir -p "$out"

for wanted in python3 npm; do
    command -v $wanted >/dev/null || { echo "please install: Python 3.9 or newer with venv, Node.js 20 or newer" >&2; exit 1; }
done

# Only what builds a wheel, in the versions that the client's tests use.
tools=target/dist-venv
builders=$(grep -E '^(build|hatchling)==' clients/requirements.txt)
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$builders" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    # shellcheck disable=SC2086
    "$tools/bin/pip" install --quiet --disable-pip-version-check $builders
    echo "$builders" >"$tools/installed"
fi
rm -f "$out"/leasehold-*.whl "$out"/leasehold-*.tgz
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$out" clients/python >/dev/null
echo "$out"/leasehold-*.whl

out=$(realpath "$out")
cd clients/typescript
# Not `npm ci`, which wants packages for every platform; the versions in package.json are exact.
if ! cmp -s package-lock.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.installed
fi
# It builds the JavaScript first.
npm pack --silent --pack-destination "$out" >/dev/null
cd ../..
realpath --relative-to=. "$out"/leasehold-*.tgz
