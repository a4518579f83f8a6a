#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does QEMU give a cluster of a qcow2 image with lazy_refcounts away twice, if the file did not grow as far as the
# L2 table leads?
#
#     [QEMU_IMG=... QEMU_IO=...] sh qemu-qcow2-lazy-refcounts.sh
#
# The last cluster is cut off, as a power cut before the sync may leave it.  The twin keeps it.
# Exit status: 0 no, 1 yes, 77 something is missing.  Needs qemu-utils; no root.
set -eu
img=${QEMU_IMG:-qemu-img} io=${QEMU_IO:-qemu-io}
for tool in "$img" "$io"; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# sound SIZE: whether the image is, after a repair by a write, if the file has that size.
sound() {
    rm -f t.qcow2
    "$img" create -q -f qcow2 -o lazy_refcounts=on t.qcow2 64M
    "$io" -c 'write -q -P 1 6M 4k' -c flush -c 'write -q -P 2 5M 4k' -c flush -c abort t.qcow2 >/dev/null 2>&1 || true
    truncate -s "$1" t.qcow2
    "$io" -c 'write -q 28M 4k' t.qcow2 >/dev/null 2>&1
    printf 'a file of %s bytes: ' "$1"
    "$io" -r -c 'read -v 5M 16' t.qcow2 2>/dev/null | head -n 1
    "$img" check t.qcow2 >said 2>&1 || { sed 's/^/    /' said | head -n 2; return 1; }
}

"$io" --version | head -n 1
sound 458752 || { echo 'the twin is not sound either'; exit 77; }
sound 393216 || exit 1
