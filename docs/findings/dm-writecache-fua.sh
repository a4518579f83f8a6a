#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dm-writecache on an SSD does not commit a write with FUA: an fsync of ext4 is lost.
#
#     sh in-uml.sh dm-writecache-fua.sh        # or as root, in an empty folder
#
# Files are replaced and synced; then the power goes: what disk and cache have is copied, and activated and mounted
# again.  The twin has a loop device between cache and file system, for which the kernel makes a flush of each FUA.
# The cache commits by itself after autocommit_time, by default 1 s; that is set long here, so that a slow host
# shows the same.
. "$(dirname "$0")/file-system.lib"
needs dmsetup losetup mkfs.ext4
module loop dm-mod dm-bufio dm-writecache jbd2 ext4

loop() { losetup -f --show "$1"; }

# cache NAME ORIGIN CACHE: prints the device.
cache() {
    dmsetup create "$1" --noudevsync --noudevrules \
        --table "0 131072 writecache s $2 $3 4096 2 autocommit_time 3600000" || exit 77
    echo "/dev/dm-$(dmsetup info -c --noheadings -o minor "$1")"
}

# tries NAME over|direct: 1 if a synced file is not there after the cut.
tries() {
    truncate -s 64M "$1.origin" && truncate -s 16M "$1.cache" && mkdir "$1"
    mkfs.ext4 -q -b 4096 "$1.origin"
    origin=$(loop "$1.origin") fast=$(loop "$1.cache")
    device=$(cache "$1" "$origin" "$fast")
    [ "$2" = direct ] || device=$(loop "$device")
    mount -t ext4 "$device" "$1"
    for n in 1 2 3 4 5; do
        echo "$n" >"$1/file$n"
        sync "$1/file$n" "$1"
    done
    power_cut "$1.origin" "$1.origin.cut"
    power_cut "$1.cache" "$1.cache.cut"

    mkdir "$1.cut"
    device=$(cache "$1.cut" "$(loop "$1.origin.cut")" "$(loop "$1.cache.cut")")
    mount -t ext4 "$device" "$1.cut"
    found=$(cat "$1.cut"/file? | tr '\n' ' ')
    echo "$1: synced 1 2 3 4 5, after the cut: $found"
    [ "$found" = "1 2 3 4 5 " ]
}

tries twin over || exit 77
tries writecache direct || exit 1
exit 0
