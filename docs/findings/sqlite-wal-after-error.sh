#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SQLite with a write-ahead log: after one failed sync the next process commits behind frames that no disk has.
#
#     [MODE=xfs] sh in-uml.sh sqlite-wal-after-error.sh        # or as root, in an empty folder
#
# synchronous=FULL.  The blocks of the log become a dm target "error", one commit fails and is reported as failed,
# its process dies, the disk is well again.  The next process commits twenty rows; then the power goes: what the
# disk was given until then is copied, and mounted again.  Three twins: a disk that never fails; a next process that
# empties the log first (PRAGMA wal_checkpoint(TRUNCATE)); and one that finds no page of the log in memory.
. "$(dirname -- "$0")/file-system.lib"
filesystem=${MODE:-ext4}
needs dmsetup losetup "mkfs.$filesystem" sqlite3 filefrag
module loop dm-mod
ROWS=20

# blocks FILE: first and last sector of each part of it on the disk.
blocks() {
    filefrag -v -b512 "$1" | sed -n 's/^ *[0-9]*:[^:]*: *\([0-9]*\)\.\. *\([0-9]*\):.*/\1 \2/p' | sort -n
}

# table DISK: the disk as dm has to show it, where the parts that it reads fail.
table() {
    awk -v at=0 -v end="$(blockdev --getsz "$1")" -v disk="$1" '
        function healthy(to) { if (to > at) print at, to - at, "linear", disk, at }
        { healthy($1); print $1, $2 + 1 - $1, "error"; at = $2 + 1 }
        END { healthy(end) }'
}

# becomes NAME TABLE: from now on the disk is so.
becomes() {
    dmsetup suspend --nolockfs "$1"
    dmsetup load "$1" "$2"
    dmsetup resume --noudevsync "$1"
}

# rows KIND NUMBER: so many commits.
rows() {
    seq "$2" | sed "s/.*/INSERT INTO t VALUES ('$1');/"
}

# process NAME: does what it reads, and dies without closing the database.
process() {
    { echo 'PRAGMA synchronous=FULL;'; cat; echo ".shell kill -9 \$PPID"; } | sqlite3 "$1/db" 2>&1 || true
}

# first NAME: makes a log of 40 frames that has been emptied, so that the next commits write over blocks that it has.
first() {
    echo 'PRAGMA journal_mode=WAL; CREATE TABLE t (kind);'
    rows old 40
    echo 'PRAGMA wal_checkpoint(RESTART);'
    rows before 1
    echo ".shell touch $1.ready; until [ -e $1.go ]; do sleep 0.1; done"
    rows failed 1
}

# tries NAME error|healthy [empties|forgets]: 1 if an acknowledged row is not there after the cut.
tries() {
    truncate -s 320M "$1.image" && mkdir "$1" "$1.cut"
    "mkfs.$filesystem" -q "$1.image"
    disk=$(losetup -f --show "$1.image")
    table "$disk" </dev/null >"$1.healthy"
    dmsetup create "$1" --noudevsync --noudevrules "$1.healthy" || exit 77
    mount -t "$filesystem" "/dev/dm-$(dmsetup info -c --noheadings -o minor "$1")" "$1"

    first "$1" | process "$1" >"$1.said" 2>/dev/null &
    until [ -e "$1.ready" ]; do sleep 0.1; done
    blocks "$1/db-wal" | table "$disk" >"$1.error"
    grep -q error "$1.error" || exit 77
    becomes "$1" "$1.$2"
    touch "$1.go"
    wait
    becomes "$1" "$1.healthy"
    failed=$(grep -c 'disk I/O error' "$1.said" || true)

    [ "${3:-}" != forgets ] || echo 3 >/proc/sys/vm/drop_caches
    {
        [ "${3:-}" != empties ] || echo 'PRAGMA wal_checkpoint(TRUNCATE);'
        rows after $ROWS
        echo "SELECT 'rows', count(*) FROM t WHERE kind = 'after';"
    } | process "$1" >"$1.after" 2>/dev/null
    grep -qx "rows|$ROWS" "$1.after" || { cat "$1.after"; exit 77; }

    power_cut "$1.image" "$1.image.cut"
    umount "$1"
    mount -t "$filesystem" -o loop "$1.image.cut" "$1.cut"
    found=$(sqlite3 "$1.cut/db" "SELECT count(*) FROM t WHERE kind = 'after'")
    echo "$1: $failed commit failed; then $ROWS acknowledged, after the cut: $found"
    [ "$found" = $ROWS ]
}

echo "SQLite $(sqlite3 --version | cut -d' ' -f1), $filesystem"
tries twin healthy || exit 77
tries twin-emptied error empties || exit 77
tries twin-forgotten error forgets || exit 77
tries error error || exit 1
exit 0
