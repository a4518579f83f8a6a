#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the Python packages of the stores that Debian has not, into build/products/python; with the
# word rust it builds the stores of rust/ in build/products/rust.  The rest:
#   apt-get install ostree python3-xapian python3-gdbm libtokyocabinet9 python3-tdb beanstalkd python3-bsddb3 \
#       python3-kyotocabinet python3-plyvel python3-sqlitedict git
set -eu
here=$(cd "$(dirname "$0")" && pwd)
built=$here/../../build/products
if [ "${1:-}" = rust ]; then
    exec cargo build --quiet --manifest-path "$here/rust/Cargo.toml" --target-dir "$built/rust"
fi
cmp -s "$here/requirements.txt" "$built/python/requirements.txt" && exit
rm -rf "$built/python"
mkdir -p "$built/python"
/usr/bin/python3 -m pip install --quiet --only-binary :all: --target "$built/python" \
    --requirement "$here/requirements.txt"
cp "$here/requirements.txt" "$built/python"
