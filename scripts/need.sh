#!/usr/bin/env bash
# Installs what the tests need and the machine lacks. Debian and its kin; elsewhere it says what to install by hand.
set -euo pipefail

missing=()
command -v faketime >/dev/null || missing+=(faketime)
command -v curl >/dev/null || missing+=(curl)
command -v strace >/dev/null || missing+=(strace)
command -v cc >/dev/null || missing+=(gcc libc6-dev)

if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "please install: ${missing[*]}" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
echo "installing: ${missing[*]}"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq "${missing[@]}"
