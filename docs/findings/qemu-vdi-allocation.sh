#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does QEMU give a block of a VDI image away twice, if the header's count of blocks lags behind the block map?
#
#     [QEMU_IMG=... QEMU_IO=...] sh qemu-vdi-allocation.sh
#
# The header of the second write is taken back: no flush lies between header and map, so a power cut may leave that.
# The twin has static=on.  Exit status: 0 no, 1 yes, 77 something is missing.  Needs qemu-utils; no root.
set -eu
img=${QEMU_IMG:-qemu-img} io=${QEMU_IO:-qemu-io}
for tool in "$img" "$io"; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# keeps STATIC: whether what was synced at 5M is still there after the recovery and one more write.
keeps() {
    "$img" create -q -f vdi -o "static=$1" v.vdi 64M
    "$io" -f vdi -c 'write -q -P 1 6M 4k' -c flush v.vdi
    dd if=v.vdi of=header bs=512 count=1 status=none
    "$io" -f vdi -c 'write -q -P 2 5M 4k' -c flush v.vdi
    dd if=header of=v.vdi bs=512 count=1 conv=notrunc status=none
    "$io" -f vdi -c 'write -q -P 254 28M 4k' -c flush v.vdi
    printf 'static=%s: ' "$1"
    "$io" -f vdi -r -c 'read -v 5M 16' v.vdi | head -n 1
    "$io" -f vdi -r -c 'read -q -P 2 5M 4k' v.vdi >/dev/null 2>&1
}

"$io" --version | head -n 1
keeps on || { echo 'the twin loses it, too'; exit 77; }
keeps off || exit 1
