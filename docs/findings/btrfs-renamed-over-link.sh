#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Is a durable file gone after the fsync of another one that was renamed over one of its two names?  btrfs.
#
#     sudo sh btrfs-renamed-over-link.sh     or     sh in-uml.sh btrfs-renamed-over-link.sh
#
# The disk loses nothing: it is copied when fsync has returned, and the copy is mounted.  The twin syncs the link
# first.  Exit status: 0 it is there, 1 it is gone, 77 something is missing.  Needs btrfs-progs, xfsprogs (xfs_io).
. "$(dirname -- "$0")/file-system.lib"
needs mkfs.btrfs xfs_io
module loop
rm -rf img m cut
mkdir m

# is_there TWIN: whether what was durable as b has a name after the cut.
is_there() {
    rm -f img cut
    truncate -s 256M img
    mkfs.btrfs -q img >/dev/null 2>&1
    mount -o loop img m
    mkdir m/d
    echo durable >m/b
    echo other >m/a
    sync -f m
    umount m
    mount -o loop img m
    ln m/b m/d/n0
    [ -z "$1" ] || sync m/d
    mv -T m/a m/b
    xfs_io -c 'pwrite -q 0 4k' -c fsync m/b
    power_cut img cut
    umount m
    mount -o loop cut m
    names=$(cd m && grep -lsx durable b d/n0 || true)
    listing=$(cd m && find . -type f | sort | tr '\n' ' ')
    umount m
    echo "${1:-link not synced}: files: $listing; the durable one is ${names:-nowhere}"
    [ -n "$names" ]
}

is_there 'link synced' || { echo 'the twin is gone, too'; exit 77; }
is_there '' || exit 1
