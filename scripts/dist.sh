#!/usr/bin/env bash
# The packages that people install: a static binary without debug information, with its pages, completions, unit and licence, as a tarball and as a
# Debian package, and beside them the clients' (scripts/dist-clients.sh). DIST_PROFILE=dev builds quickly, for the test of the packages; DIST_BINARY packs a binary that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${DIST_PROFILE:-dist}
out=${DIST_OUT:-target/packages}
host=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
directory=$profile
[ "$profile" != dev ] || directory=debug

binary=${DIST_BINARY:-target/static/$host/$directory/leasehold}
if [ -z "${DIST_BINARY:-}" ]; then
    # Only the linker that comes with Rust folds functions.
    smaller=()
    [ "$profile" = dev ] || [ "$host" != x86_64-unknown-linux-gnu ] || smaller=(-C link-arg=-Wl,--icf=all -C link-arg=-Wl,--pack-dyn-relocs=relr -C lto=fat -C codegen-units=1)
    # SQLite without the parts that no statement of ours uses; the first word is that of .cargo/config.toml.
    export LIBSQLITE3_FLAGS="-DHAVE_FDATASYNC=1 -USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE -USQLITE_ENABLE_STAT4 -USQLITE_SOUNDEX"
    # Static where the C library allows it: no other library is needed then. Equal functions are folded and relocations packed.
    RUSTFLAGS="-C target-feature=+crt-static" cargo rustc --locked -q -p leasehold --bin leasehold --profile "$profile" --target "$host" --target-dir target/static -- "${smaller[@]}"
fi

scripts/dist-clients.sh
root=target/package-root
rm -rf "$root"
mkdir -p "$out"
install -D -m 755 "$binary" "$root/bin/leasehold"
strip "$root/bin/leasehold"
"$root/bin/leasehold" man --to "$root/share/man/man1"
install -d "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" "$root/share/fish/vendor_completions.d"
"$root/bin/leasehold" completions bash >"$root/share/bash-completion/completions/leasehold"
"$root/bin/leasehold" completions zsh >"$root/share/zsh/site-functions/_leasehold"
"$root/bin/leasehold" completions fish >"$root/share/fish/vendor_completions.d/leasehold.fish"
install -D -m 644 deploy/systemd/leasehold.service "$root/lib/systemd/system/leasehold.service"
install -D -m 644 deploy/systemd/leasehold.toml "$root/etc/leasehold/leasehold.toml"
install -D -m 644 -t "$root/share/doc/leasehold" LICENSE LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md

name=leasehold-$version-${host%%-*}-linux
tar -czf "$out/$name.tar.gz" --owner=0 --group=0 --transform "s|^\.|$name|" -C "$root" .
echo "$out/$name.tar.gz"

# The package's unit runs as the package's user, from where the package puts the binary.
unit=target/package-root/leasehold.service.deb
sed -e 's|/usr/local/bin/|/usr/bin/|' -e '/^DynamicUser=/d' -e '/^#   install/d' -e '/^#   systemctl/d' deploy/systemd/leasehold.service >"$unit"
gzip -9 -n -k -f "$root"/share/man/man1/*.1
if ! command -v cargo-deb >/dev/null; then
    command -v dpkg >/dev/null || { echo "no dpkg here: no Debian package" >&2; exit 0; }
    cargo install cargo-deb --locked
fi
# The binary is built and stripped already.
fast=()
[ "$profile" = dist ] || fast=(--fast)
cargo deb -q -p leasehold --no-build --no-strip "${fast[@]}" --output "$out/" ${DIST_DEB_VERSION:+--deb-version "$DIST_DEB_VERSION"}
