#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dm-raid replays its journal from the beginning at each activation: what was written since is rolled back.
#
#     sh in-uml.sh dm-raid-journal.sh        # or as root, in an empty folder
#
# A RAID 5 with a journal device is activated, written to and synced; deactivated; the same again, with other
# content; then it is activated a third time and read.  Nothing crashes, and no power is cut.  The twin has no
# journal.
. "$(dirname "$0")/file-system.lib"
needs dmsetup losetup
module loop dm-mod md-mod xor raid6_pq async_tx async_memcpy async_xor async_pq async_raid6_recov raid1 raid10 raid456 dm-raid

loop() { losetup -f --show "$1"; }

# array NAME JOURNAL: activates the array; prints its device.
array() {
    words="8 region_size 1024"
    [ "$2" = "-" ] || words="8 journal_dev $2"
    # shellcheck disable=SC2086
    set -- "$1" "$words" $legs
    dmsetup create "$1" --noudevsync --noudevrules --table "0 65536 raid raid5_ls 3 $2 3 $3 $4 $5 $6 $7 $8" || exit
    echo "/dev/dm-$(dmsetup info -c --noheadings -o minor "$1")"
}

# refused journal|plain: no kernel refuses the twin.
refused() {
    echo "the kernel does not activate it: $(dmesg | grep -E "raid.*(invalid|fail|err|EINVAL)|EINVAL" | tail -n 1)"
    [ "$1" = journal ]
}

# tries NAME journal|plain: 1 if what was synced last is not there.
tries() {
    legs="" journal=-
    for n in 0 1 2; do
        truncate -s 4M "$1.meta$n" && truncate -s 16M "$1.data$n"
        legs="$legs $(loop "$1.meta$n") $(loop "$1.data$n")"
    done
    if [ "$2" = journal ]; then
        truncate -s 32M "$1.journal" && journal=$(loop "$1.journal")
    fi
    for content in first second; do
        device=$(array "$1" "$journal" 2>refused) || { refused "$2"; return; }
        echo "$content" | dd of="$device" bs=4096 conv=sync,fsync oflag=direct status=none
        dmsetup remove --noudevsync "$1"
    done
    device=$(array "$1" "$journal")
    found=$(dd if="$device" bs=4096 count=1 iflag=direct status=none | tr -d '\0 \n')
    dmsetup remove --noudevsync "$1"
    echo "$1: synced first, then second; activated again: $found"
    [ "$found" = second ]
}

tries twin plain || exit 77
tries journal journal || exit 1
exit 0
