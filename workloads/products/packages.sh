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
    go build -C "$here/go" -modfile=before.mod -o "$built/go/natefinch-before" .
    for name in bbolt buntdb goleveldb natefinch raft-wal tidwall-wal; do
        ln -sf store "$built/go/$name"
    done
    exit
fi
if [ "${1:-}" = node ]; then
    mkdir -p "$built/node"
    cp "$here/node/package.json" "$built/node"
    npm install --silent --no-audit --no-fund --prefix "$built/node"
    for name in atomically nedb nedb-before nedb-after write-file-atomic write-file-atomic-before write-file-atomic-after; do
        install "$here/node/store.js" "$built/node/$name"
    done
    exit
fi
if [ "${1:-}" = java ]; then
    mkdir -p "$built/java"
    for version in 4.7.2 4.8.0; do
        jars=
        for jar in lucene-core lucene-analyzers-common; do
            mvn -q -B dependency:copy -Dartifact="org.apache.lucene:$jar:$version" -DoutputDirectory="$built/java"
            jars="$jars:$built/java/$jar-$version.jar"
        done
        javac -d "$built/java/$version" -cp "$jars" "$here/java/Lucene.java"
        printf '#!/bin/sh\nexec java -Xshare:auto -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "%s" Lucene "$@"\n' \
            "$built/java/$version$jars" >"$built/java/lucene-$version"
        chmod +x "$built/java/lucene-$version"
    done
    exit
fi
while read -r package; do
    folder="$built/older/$(echo "$package" | sed 's/==/-/')"
    [ -d "$folder" ] || /usr/bin/python3 -m pip install --quiet --no-deps --target "$folder" "$package"
done <"$here/requirements-older.txt"
cmp -s "$here/requirements.txt" "$built/python/requirements.txt" && exit
rm -rf "$built/python"
mkdir -p "$built/python"
/usr/bin/python3 -m pip install --quiet --only-binary :all: --target "$built/python" \
    --requirement "$here/requirements.txt"
cp "$here/requirements.txt" "$built/python"
