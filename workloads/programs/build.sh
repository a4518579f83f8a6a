#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the drivers of stores in other languages (drivers/), with versions and checksums as pinned there:
#   build.sh [NAME...]      (all; into build/programs below powercut's folder)
# Packages come from the registry of each language, as its own tool is configured on this host.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
built=$(cd "$here/../.." && pwd)/build/programs
drivers=$here/drivers

need() { # TOOL REMEDY
    command -v "$1" > /dev/null || { echo "build.sh: $1 is not installed; remedy: $2" >&2; exit 1; }
}

go_driver() {
    need go "apt-get install golang-go (1.21 or later, which fetches the version that go.mod names)"
    echo "$1: go build"
    (cd "$drivers/go" && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$built/$1" "./$1")
}

node_driver() {
    need node "apt-get install nodejs (18 or later)"
    need npm "apt-get install npm"
    echo "$1: npm ci"
    rm -rf "${built:?}/$1"
    cp -R "$drivers/node/$1" "$built/$1"
    # Scripts of packages do not run: the native library comes with its package, for most hosts.
    (cd "$built/$1" && npm ci --ignore-scripts --omit=dev --no-audit --no-fund \
        && node --input-type=module -e "import '$2'") > "$built/$1.log" 2>&1 \
        || { cat "$built/$1.log" >&2; echo "build.sh: $1: npm or its package failed" >&2; exit 1; }
}

# A lock of Cargo's names the registry that the host uses: drivers/ has it without these lines, and they
# are taken from a lock that cargo makes here.  Versions and checksums stay those of drivers/.
rust_driver() {
    need cargo "apt-get install cargo (1.90 or later), or rustup"
    echo "$1: cargo build"
    made=$(mktemp -d "$built/$1.XXXXXX")
    cp -R "$drivers/rust/$1/Cargo.toml" "$drivers/rust/$1/src" "$made"
    (
        cd "$made"
        cargo generate-lockfile
        source=$(grep -m 1 '^source = ' Cargo.lock)
        awk -v line="$source" '/^checksum = / { print line } { print }' "$drivers/rust/$1/Cargo.lock" > pinned
        mv pinned Cargo.lock
        cargo build --release --locked
    )
    mv "$made/target/release/$1" "$built/$1"
    rm -rf "$made"
}

java_driver() { # NAME GROUP CLASS; the version is that of the jar in jars.sha256
    need mvn "apt-get install maven"
    need javac "apt-get install default-jdk-headless (17 or later)"
    line=$(grep -E "  $1-[0-9.]+\.jar\$" "$drivers/java/jars.sha256")
    jar=${line#*  }
    version=${jar#"$1"-}
    echo "$1: mvn dependency:copy, javac"
    mvn -q -B dependency:copy "-Dartifact=$2:$1:${version%.jar}" "-DoutputDirectory=$built"
    (cd "$built" && echo "$line" | sha256sum -c --quiet)
    scratch=$(mktemp -d)
    javac -d "$scratch" -cp "$built/$jar" "$drivers/java/$1/$3.java"
    printf 'Class-Path: %s\n' "$jar" > "$scratch/manifest"
    (cd "$scratch" && jar cfme "$built/$1" manifest "$3" ./*.class)
    rm -r "$scratch"
}

mkdir -p "$built"
[ $# -gt 0 ] || set -- badger bbolt h2 level pebble redb
for name in "$@"; do
    case $name in
    badger | bbolt | pebble) go_driver "$name" ;;
    h2) java_driver "$name" com.h2database H2 ;;
    level) node_driver "$name" classic-level ;;
    redb) rust_driver "$name" ;;
    *) echo "build.sh: $name: there is no such driver" >&2; exit 2 ;;
    esac
done
echo "$built"
