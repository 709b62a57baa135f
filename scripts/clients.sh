#!/usr/bin/env bash
# The clients against the real binary: Python's own tests, types, lints and wheel, TypeScript's own tests, and the table of scenarios
# that every client is played through the fault proxy (clients/conformance). A client whose driver is missing is an error, not a
# shorter run. LEASEHOLD_CONFORMANCE_ROWS says which rows are played: some for each class of fault unless it is set, `all` in
# `make test-long`. LEASEHOLD_CONFORMANCE_SECONDS is how long row 34 holds its hundred leases. Arguments go to the table's pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$(date +%s)
export LEASEHOLD_CONFORMANCE_SECONDS=${LEASEHOLD_CONFORMANCE_SECONDS:-25}
# A lost and a doubled reply, a lost renewal, an answer that comes too late, a stopped process, a lost release, a secret in the output.
# The others leave a client a tenth of a second at a ttl of 3 s, which takes a machine with nothing else to do.
rows=${LEASEHOLD_CONFORMANCE_ROWS:-1,2,3,8,13,25,32,36}
[ "$rows" = all ] || set -- --rows "$rows" --jobs 8 "$@"

scripts/need.sh
command -v node >/dev/null || { echo "please install: Node.js 20 or newer" >&2; exit 1; }
command -v openssl >/dev/null || { echo "please install: openssl" >&2; exit 1; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "please install: Python 3.11 or newer, the harness needs it" >&2; exit 1; }

venv=target/clients
if ! cmp -s clients/requirements.txt "$venv/installed.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r clients/requirements.txt
    cp clients/requirements.txt "$venv/installed.txt"
fi
bin=$PWD/$venv/bin
log=$(mktemp)
installed=$(mktemp -d)
cache=$PWD/$venv/pytest
trap 'rm -rf "$log" "$installed"' EXIT

# The subjects of the tests: the binary, and the drivers that are built.
scripts/build.sh
[ ! -d crates/client ] || scripts/build.sh -p leasehold-client --example driver
(
    cd clients/typescript
    if ! cmp -s package-lock.json node_modules/.installed; then
        # Not `npm ci`: it wants packages for every platform from the registry, and a mirror may have those of one. The versions in
        # package.json are exact.
        npm install --no-package-lock --no-audit --no-fund --loglevel=error
        cp package-lock.json node_modules/.installed
    fi
    npm run build
)

# Python: clean, typed, tested, and whole as a wheel.
(
    cd clients/python
    "$bin/ruff" check --quiet .
    "$bin/ruff" format --quiet --check .
    "$bin/mypy"
    # Some wait for something within a second: one that failed beside other work is played once more, alone.
    own() { timeout 300 "$bin/python" -m pytest -q -o cache_dir="$cache" -o faulthandler_timeout=60 "$@"; }
    own || own --last-failed
) 2>&1 | tee -a "$log"
rm -rf target/wheels
"$bin/python" -m build --wheel --no-isolation --outdir target/wheels clients/python >/dev/null
"$bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$installed" target/wheels/leasehold-*.whl
(cd "$installed" && "$bin/python" -c 'import leasehold, pathlib; assert pathlib.Path(leasehold.__file__).with_name("py.typed").exists()')

# TypeScript.
(cd clients/typescript && { npm test || npm test; }) 2>&1 | tee -a "$log"

# The table, and that it can fail. The whole table is played for one client after the other: rows measure tenths of a second, and the
# drivers of four clients beside each other would measure each other.
(
    cd clients/conformance
    timeout 300 "$bin/python" -m pytest -q -p no:cacheprovider test_selftest.py
    play() { timeout $((600 + ${LEASEHOLD_CONFORMANCE_SECONDS%.*})) "$bin/python" -m pytest -q -p no:cacheprovider test_table.py "$@"; }
    if [ "$rows" = all ]; then
        failed=0
        for client in $("$bin/python" -c 'import driver; print(*driver.DRIVERS)'); do
            play --client "$client" "$@" || failed=1
        done
        exit "$failed"
    fi
    play "$@"
) 2>&1 | tee -a "$log"

played=$(sed -n 's/^conformance: \([a-z-]*\), .* \([0-9]*\) of \([0-9]*\) cases.*/\1 \2/p' "$log" | paste -sd, | sed 's/,/, /g')
[ -n "$played" ] || { echo "the table was not played" >&2; exit 1; }
own=$(awk '/^[0-9]+ passed.* in /{sum += $1} $2 == "pass" && NF == 3{sum += $3} END{print sum + 0}' "$log")
echo "clients: cases of the table passed by $played; broken clients rejected: $(grep -c '^    ("' clients/conformance/test_selftest.py); $own tests in all, $(($(date +%s) - began)) s"
