#!/usr/bin/env bash
# A whole SAML round trip: Debian's mod_shib in front of Leasehold, SimpleSAMLphp as the identity provider. Part of
# `make test-long`: it installs a hundred packages the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! [ -x /usr/sbin/shibd ] || ! [ -d /usr/share/simplesamlphp/www ]; then
    command -v apt-get >/dev/null || { echo "please install: mod_shib, shibd and SimpleSAMLphp" >&2; exit 1; }
    sudo=""
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "installing: libapache2-mod-shib simplesamlphp"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
        libapache2-mod-shib simplesamlphp php-cli php-xml php-mbstring php-curl openssl >/dev/null
fi
scripts/build.sh
python3 tests/shibboleth/roundtrip.py
