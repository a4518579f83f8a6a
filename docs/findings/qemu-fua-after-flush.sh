#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does qemu-io sync a write with FUA?  One line for each way to open the disk, each way to write, and each place
# of the write: the first one, one right after a flush, one after a plain write.
#
#     [QEMU_IO=/path/to/qemu-io] sh qemu-fua-after-flush.sh
#
# The disk is a file that nbdfuse shows and nbdkit serves, whose log has every write and every flush, whichever
# system call asked for it (fdatasync, RWF_DSYNC, io_uring).  Linux's FUSE does not obey RWF_DSYNC in a direct
# write of io_submit, so for aio=native the flag itself counts, as strace shows it.  qemu-io is aborted after the
# write, since closing the file would flush it.  Exit status: 0 all were synced, 1 some were not, 77 something is missing.
# Needs qemu-utils, nbdkit, libnbd-bin (nbdfuse), strace.  Needs no root where /dev/fuse may be opened.
set -eu
qemu_io=${QEMU_IO:-qemu-io}
for tool in "$qemu_io" nbdkit nbdfuse strace; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
mkdir "$folder/m"
nbdfuse "$folder/m/disk" [ nbdkit --exit-with-parent --filter=log memory 1M "logfile=$folder/log" ] 2>/dev/null &
server=$!
tries=100
until [ -e "$folder/m/disk" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "nbdfuse did not start"; exit 77; }
    sleep 0.1
done

# synced NODE AIO PLACE: whether the write with FUA was followed by a flush.
synced() {
    direct=off
    [ "$2" != native ] || direct=on
    file="filename=$folder/m/disk"
    case $1 in
    raw) open="driver=raw,cache.direct=$direct,file.driver=file,file.$file,file.aio=$2,file.cache.direct=$direct" ;;
    file) open="driver=file,$file,aio=$2,cache.direct=$direct" ;;
    esac
    mode=writeback
    case $3 in
    first) set -- -c 'write -q -f 4k 4k' ;;
    writethrough) mode=writethrough; set -- -c 'write -q 4k 4k' ;;
    after-flush) set -- -c 'write -q 0 4k' -c flush -c 'write -q -f 4k 4k' ;;
    after-write) set -- -c 'write -q 0 4k' -c 'write -q -f 4k 4k' ;;
    esac
    : >"$folder/log"
    strace -f -v -e trace=io_submit -o "$folder/calls" \
        "$qemu_io" --image-opts -t $mode "$@" -c abort "$open" >"$folder/said" 2>&1 || true
    # The write of interest is the last one at 0x1000.
    sed -n '/ Write .*offset=0x1000 /,$p' "$folder/log" >"$folder/after"
    [ -s "$folder/after" ] || { echo "no write arrived: $(cat "$folder/said")"; exit 77; }
    grep -q ' Flush ' "$folder/after" || grep -q 'RWF_DSYNC.*aio_offset=4096' "$folder/calls"
}

"$qemu_io" --version | head -n 1
printf '%-6s%-10s%-14s%-14s%-14s%s\n' node aio first writethrough after-flush after-write
status=0
for node in raw file; do
    for aio in threads native io_uring; do
        line=$(printf '%-6s%-10s' $node $aio)
        for place in first writethrough after-flush after-write; do
            if synced $node $aio $place; then word=synced; else word='NOT SYNCED'; status=1; fi
            line=$line$(printf '%-14s' "$word")
        done
        printf '%s\n' "$line"
    done
done
exit $status
