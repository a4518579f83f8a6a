#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does QEMU give a grain of a VMDK image away twice, if the file did not grow as far as the grain tables lead?
#
#     [QEMU_IMG=... QEMU_IO=...] sh qemu-vmdk-allocation.sh
#
# The last grain is cut off: no flush lies between it and the tables, so a power cut may leave that.  The twin keeps
# the grain.  Exit status: 0 no, 1 yes, 77 something is missing.  Needs qemu-utils; no root.
set -eu
img=${QEMU_IMG:-qemu-img} io=${QEMU_IO:-qemu-io}
for tool in "$img" "$io"; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# shares BYTES: whether a write to another place appears at 5M, if so many bytes at the end of the file are missing.
shares() {
    rm -f v.vmdk
    "$img" create -q -f vmdk v.vmdk 64M
    "$io" -f vmdk -c 'write -q -P 1 6M 4k' -c flush -c 'write -q -P 2 5M 4k' -c flush v.vmdk
    truncate -s "-$1" v.vmdk
    "$io" -f vmdk -c 'write -q -P 254 28M 4k' -c flush v.vmdk
    printf '%s bytes short: ' "$1"
    "$io" -f vmdk -r -c 'read -v 5M 16' v.vmdk | head -n 1
    "$io" -f vmdk -r -c 'read -q -P 254 5M 4k' v.vmdk >/dev/null 2>&1
}

"$io" --version | head -n 1
! shares 0 || { echo 'the twin shares it, too'; exit 77; }
! shares 65536 || exit 1
