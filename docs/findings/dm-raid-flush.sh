#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A mirror of md tells nobody that a disk failed a flush: what was synced is gone after a power cut.
#
#     sh in-uml.sh dm-raid-flush.sh        # or as root, in an empty folder
#
# A block of a mirror of two disks is written and synced; one disk begins to fail flushes, and no writes; the block
# is written and synced again.  Then the power goes: that disk has what it had at its last flush, the other one
# what it was given.  Three twins: the disk without a mirror, whose error must be told; a mirror where no disk
# fails; and one whose second disk does, since md reads from the first.
# A dm device sends a flush to each target of its table: the last 8 sectors of a disk, which nobody uses, become one that
# fails it.  The bitmap is not cleaned meanwhile, so that md writes nothing but the block, however slow the host is.
. "$(dirname "$0")/file-system.lib"
needs dmsetup losetup
module loop dm-mod dm-flakey md-mod raid1 xor raid6_pq async_tx async_memcpy async_xor async_pq async_raid6_recov raid10 raid456 dm-raid
META=8192 DATA=32768 END=8 # sectors

node() { echo "/dev/dm-$(dmsetup info -c --noheadings -o minor "$1")"; }

# create NAME TABLE: prints the device.
create() {
    dmsetup create "$1" --noudevsync --noudevrules --table "$2" || exit 77
    node "$1"
}

# table DEVICE linear|flakey: of a disk that is well, or that fails flushes.
table() {
    echo "0 $((META + DATA)) linear $1 0"
    case $2 in
    linear) echo "$((META + DATA)) $END linear $1 $((META + DATA))" ;;
    flakey) echo "$((META + DATA)) $END flakey $1 $((META + DATA)) 0 1 1 error_writes" ;;
    esac
}

# disk IMAGE: prints the device.
disk() {
    device=$(losetup -f --show "$1")
    table "$device" linear >"$1.table"
    table "$device" flakey >"$1.fails"
    create "$1" "$(cat "$1.table")"
}

# mirror NAME NOSYNC FIRST SECOND: prints the device.
mirror() {
    legs="" words="0 region_size 1024 daemon_sleep 3600000$2"
    for under in "$3" "$4"; do
        legs="$legs $(create "$1.meta-${under##*/}" "0 $META linear $under 0")"
        legs="$legs $(create "$1.data-${under##*/}" "0 $DATA linear $under $META")"
    done
    # shellcheck disable=SC2086
    create "$1" "0 $DATA raid raid1 $(set -- $words; echo $#) $words 2$legs"
}

# fails DISK: from now on.
fails() {
    dmsetup suspend --nolockfs "$1"
    dmsetup load "$1" "$1.fails"
    dmsetup resume --noudevsync "$1"
}

# write DEVICE CONTENT: and sync; prints what the caller is told.
write() {
    if echo "$2" | dd of="$1" bs=4096 conv=sync,fsync oflag=direct status=none 2>said; then
        echo "synced $2"
    else
        echo "$2: $(sed 's/.*: //' said)"
    fi
}

# block DEVICE SECTOR: what is in it.
block() {
    dd if="$1" bs=4096 skip=$(($2 / 8)) count=1 iflag=direct status=none | tr -d '\0 \n'
}

# tries NAME none|first|second: 1 if what was synced last is not there after the cut.
tries() {
    for n in first second; do
        truncate -s $(((META + DATA + END) * 512)) "$1.$n"
    done
    device=$(mirror "$1" " nosync" "$(disk "$1.first")" "$(disk "$1.second")")
    told=$(write "$device" old)
    if [ "$2" != none ]; then
        power_cut "$1.$2" "$1.$2.cut"
        fails "$1.$2"
    fi
    told="$told, $(write "$device" new)"
    health=$(dmsetup status "$1" | cut -d' ' -f6)
    for n in first second; do
        [ "$n" = "$2" ] || power_cut "$1.$n" "$1.$n.cut"
    done

    first=$(disk "$1.first.cut") second=$(disk "$1.second.cut")
    had="$(block "$first" $META) and $(block "$second" $META)"
    device=$(mirror "$1.cut" "" "$first" "$second")
    found=$(block "$device" 0)
    echo "mirror, $2 fails flushes: $told; disks $health; after the cut they have $had, the mirror $found"
    [ "$found" = new ] || case $told in *"synced new") false ;; esac
}

truncate -s $(((META + DATA + END) * 512)) alone
device=$(disk alone)
fails alone
told=$(write "$device" new)
echo "no mirror, the disk fails flushes: $told"
[ "$told" != "synced new" ] || exit 77
tries healthy none || exit 77
tries second second || exit 77
tries first first || exit 1
exit 0
