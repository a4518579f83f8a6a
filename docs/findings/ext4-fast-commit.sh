#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does ext4 mount when its area of fast commits is exactly full?
#
#     sudo sh ext4-fast-commit.sh     or     sh in-uml.sh ext4-fast-commit.sh
#
# 16 MiB, an area of 16 blocks; N times one block is appended and synced, then the file system is shut down (no power
# is cut; xfs_io's shutdown is EXT4_IOC_SHUTDOWN there).  The twins have one commit less, and no fast commits.
# Exit status: 0 it mounts, 1 it does not, 77 something is missing.  Needs e2fsprogs, xfsprogs (xfs_io).
. "$(dirname -- "$0")/file-system.lib"
needs mkfs.ext4 xfs_io
module loop
rm -rf img m
mkdir m

# mounts OPTION COMMITS: whether it does, and has every synced block.
mounts() {
    rm -f img
    truncate -s 16M img
    mkfs.ext4 -q -b 4096 -E lazy_itable_init=0 -O "$1" img
    mount -o loop,commit=300 img m
    : >m/log
    sync -f m
    n=0
    while [ $n -lt "$2" ]; do
        xfs_io -c "pwrite -q -S $((n + 1)) $((n * 4096)) 4k" -c fdatasync m/log
        n=$((n + 1))
    done
    xfs_io -x -c shutdown m
    umount m
    cp img "state-$2"
    printf '%s, %s commits: ' "$1" "$2"
    if said=$(mount -o loop img m 2>&1); then
        size=$(stat -c %s m/log)
        umount m
        echo "mounts, $((size / 4096)) of $2 blocks are there"
        [ "$size" = $(($2 * 4096)) ]
    else
        echo "$said" | head -n 1
        return 1
    fi
}

for commits in 14 15 16; do
    mounts ^fast_commit "$commits" >/dev/null || { echo 'the twin without fast commits does not mount'; exit 77; }
done
# A full commit of the kernel's own accord, on a busy host, empties the area: hence five rounds.
for commits in 13 14 15 16 13 14 15 16 13 14 15 16 13 14 15 16 13 14 15 16; do
    mounts fast_commit "$commits" || exit 1
done
exit 0
