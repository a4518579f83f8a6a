#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does syncfs flush the realtime device of an XFS?
#
#     sudo sh xfs-realtime-syncfs.sh     or     sh in-uml.sh xfs-realtime-syncfs.sh
#
# The kernel counts the flushes of each disk (/sys/block/*/stat, the sixteenth number).  The twin is fsync.
# Exit status: 0 it does, 1 it does not, 77 something is missing.  Needs xfsprogs.
. "$(dirname -- "$0")/file-system.lib"
needs mkfs.xfs xfs_io losetup
module loop
rm -rf data rt m
mkdir m
truncate -s 320M data
truncate -s 64M rt
mkfs.xfs -q -m reflink=0 -d rtinherit=1 -r rtdev=rt data
data=$(losetup -f --show data)
rt=$(losetup -f --show rt)
finish() {
    umount m 2>/dev/null || true
    losetup -d "$data" "$rt"
}
trap finish EXIT
mount -o "rtdev=$rt" "$data" m
flushes() {
    awk '{ print $16 }' "/sys/block/${rt#/dev/}/stat"
}

# flushed CALL: whether the realtime device gets a flush when a file is written and synced by that call.
flushed() {
    xfs_io -f -c 'pwrite -q 0 64k' "m/$1"
    before=$(flushes)
    xfs_io -c "$1" "m/$1"
    after=$(flushes)
    echo "$1: $((after - before)) flushes of the realtime device"
    [ "$after" -gt "$before" ]
}

flushed fsync || { echo 'the twin does not either'; exit 77; }
flushed syncfs || exit 1
