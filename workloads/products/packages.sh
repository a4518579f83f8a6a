#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the Python packages of the stores that Debian has not, into build/products/python.  The rest:
#   apt-get install ostree python3-xapian python3-gdbm libtokyocabinet9 python3-tdb beanstalkd python3-bsddb3 \
#       python3-kyotocabinet python3-plyvel python3-sqlitedict git
set -eu
folder=$(cd "$(dirname "$0")/../.." && pwd)/build/products/python
[ -d "$folder" ] && exit
/usr/bin/python3 -m pip install --quiet --only-binary :all: --target "$folder.new" \
    ZODB==6.4 tantivy==0.27.0 semidbm==0.5.1 unqlite==1.2.0 rocksdict==0.3.29
mv "$folder.new" "$folder"
