#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does a file that was cut short come back with what was written to its clone?  XFS, reflink.
#
#     sudo sh xfs-shared-block.sh     or     sh in-uml.sh xfs-shared-block.sh
#
# `xfs_io -x -c shutdown` stops the file system without writing its log, as a power cut between the write of the data
# and that of the log.  The twin syncs the truncate first.  Exit status: 0 it does not, 1 it does, 77 something is
# missing.  Needs xfsprogs.
. "$(dirname -- "$0")/file-system.lib"
needs mkfs.xfs xfs_io
module loop
rm -rf img m
mkdir m

# stays_clean TWIN: whether old has no byte that was written to new alone.
stays_clean() {
    rm -f img
    truncate -s 320M img
    mkfs.xfs -q img
    mount -o loop img m
    xfs_io -f -c 'pwrite -q -S 0x41 0 9000' m/old
    xfs_io -f -c 'pwrite -q -S 0x42 0 3000' m/new
    sync -f m
    xfs_io -c 'reflink m/old 4k 4k 4k' m/new >/dev/null
    truncate -s 0 m/old
    [ -z "$1" ] || sync m/old
    xfs_io -d -c 'pwrite -q -S 0x43 4k 4k' m/new
    xfs_io -x -c shutdown m
    umount m
    mount -o loop img m
    size=$(stat -c %s m/old)
    found=$(od -An -tx1 -j4096 -N1 m/old 2>/dev/null | tr -d ' ')
    umount m
    echo "${1:-not synced}: old has $size bytes, byte 4096 is ${found:-not there}"
    [ "$found" != 43 ]
}

stays_clean 'truncate synced' || { echo 'the twin does, too'; exit 77; }
stays_clean '' || exit 1
