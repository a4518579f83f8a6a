#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the Python packages of the stores that Debian has not, into build/products/python; with the
# words rust and go it builds the stores of those folders in build/products.  The rest:
#   apt-get install ostree python3-xapian python3-gdbm libtokyocabinet9 python3-tdb beanstalkd python3-bsddb3 \
#       python3-kyotocabinet python3-plyvel python3-sqlitedict git
set -eu
here=$(cd "$(dirname "$0")" && pwd)
built=$(realpath -m "$here/../../build/products")
if [ "${1:-}" = rust ]; then
    exec cargo build --quiet --manifest-path "$here/rust/Cargo.toml" --target-dir "$built/rust"
fi
if [ "${1:-}" = go ]; then
    mkdir -p "$built/go"
    go build -C "$here/go" -o "$built/go/store" .
    go build -C "$here/go" -modfile=mended.mod -o "$built/go/goleveldb-mended" .
    for name in bbolt buntdb goleveldb raft-wal tidwall-wal; do
        ln -sf store "$built/go/$name"
    done
    exit
fi
cmp -s "$here/requirements.txt" "$built/python/requirements.txt" && exit
rm -rf "$built/python"
mkdir -p "$built/python"
/usr/bin/python3 -m pip install --quiet --only-binary :all: --target "$built/python" \
    --requirement "$here/requirements.txt"
cp "$here/requirements.txt" "$built/python"
