#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Can a VHDX image be written after QEMU was killed before the fourth, the sixth, or the eighth write of an allocation?
#
#     [QEMU_IMG=... QEMU_IO=...] sh qemu-vhdx-log.sh
#
# The sixth is the log entry, behind the header that says that there is one.  The others are the twins.
# Exit status: 0 it can, 1 it cannot, 77 something is missing.  Needs qemu-utils; no root.
set -eu
img=${QEMU_IMG:-qemu-img} io=${QEMU_IO:-qemu-io}
for tool in "$img" "$io"; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# goes_on N: whether the image takes a new block if qemu-io was killed before its write N.
goes_on() {
    "$img" create -q -f vhdx -o block_size=1048576 v.vhdx 64M
    last=$1
    set -- -c 'break pwritev 1' -c 'aio_write -P 1 0 64k'
    n=1
    while [ $n -lt "$last" ]; do
        set -- "$@" -c "wait_break $n" -c "break pwritev $((n + 1))" -c "resume $n"
        n=$((n + 1))
    done
    "$io" -f vhdx "$@" -c "wait_break $last" -c abort blkdebug::v.vhdx >said 2>&1 || true
    printf 'killed before write %s: check: %s; ' "$last" "$("$img" check v.vhdx 2>&1 | tail -n 1)"
    if "$io" -f vhdx -c 'write -q -P 2 5M 64k' -c flush v.vhdx >said 2>&1; then
        echo 'a new block can be written'
    else
        cat said
        return 1
    fi
}

"$io" --version | head -n 1
goes_on 4 && goes_on 8 || { echo 'a twin cannot be written either'; exit 77; }
goes_on 6 || exit 1
