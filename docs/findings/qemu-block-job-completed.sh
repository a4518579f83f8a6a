#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Is an image's new header durable when QEMU says BLOCK_JOB_COMPLETED?
#
#     [QEMU_IMG=... QEMU_IO=... QEMU_STORAGE_DAEMON=...] sh qemu-block-job-completed.sh
#
# base <- mid <- top.  One commit of mid into base, one stream of everything into top.  strace shows the daemon's
# writes and syncs of top.qcow2 until it writes the event.  If the last write to top.qcow2 was not synced by then,
# the disk may still have the old header; so that one is put back, and mid.qcow2 is deleted as a layer above
# QEMU does.  Exit status: 0 synced, 1 not synced (commit or stream), 77 something is missing.
# Needs qemu-utils, strace; no root.
set -eu
img=${QEMU_IMG:-qemu-img} io=${QEMU_IO:-qemu-io} daemon=${QEMU_STORAGE_DAEMON:-qemu-storage-daemon}
for tool in "$img" "$io" "$daemon" strace; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

image() {
    echo --blockdev "driver=qcow2,node-name=$1,${2:-}file.driver=file,file.filename=$1.qcow2"
}

# job NAME JSON: runs the job; says what became of top.qcow2's last write.
job() {
    rm -f ./*.qcow2 calls said
    "$img" create -q -f qcow2 base.qcow2 64M
    "$img" create -q -f qcow2 -F qcow2 -b base.qcow2 mid.qcow2
    "$img" create -q -f qcow2 -F qcow2 -b mid.qcow2 top.qcow2
    "$io" -c 'write -q -P 7 0 1M' mid.qcow2
    sync
    cp top.qcow2 before
    mkfifo commands
    # shellcheck disable=SC2046 # words, on purpose
    strace -f -y -s 4096 -o calls -e trace=pwrite64,pwritev,fdatasync,fsync,write,writev,sendmsg \
        "$daemon" --chardev stdio,id=c --monitor c \
        $(image base) $(image mid backing=base,) $(image top backing=mid,) <commands >said &
    exec 3>commands
    printf '%s\n' '{"execute": "qmp_capabilities"}' "$2" >&3
    tries=100
    until grep -q BLOCK_JOB_COMPLETED said 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "the job did not end: $(cat said)"; exit 77; }
        sleep 0.1
    done
    sleep 1
    kill -s KILL "$(sed -n '1s/ .*//p' calls)"
    wait || true
    exec 3>&-
    rm commands
    sed '/BLOCK_JOB_COMPLETED/q' calls >until
    written=$(grep -nE 'pwrite.*top\.qcow2' until | tail -n 1 | cut -d: -f1)
    [ -n "$written" ] || { echo "$1: nothing was written to top.qcow2"; exit 77; }
    if tail -n +"$written" until | grep -qE 'sync\([0-9]+<[^>]*top\.qcow2'; then
        echo "$1: top.qcow2 was synced after its last write"
        return 0
    fi
    later='nor in the second after it'
    if sed '1,/BLOCK_JOB_COMPLETED/d' calls | grep -qE 'sync\([0-9]+<[^>]*top\.qcow2'; then later='only after it'; fi
    echo "$1: top.qcow2 was NOT SYNCED between its last write and the event, $later"
    dd if=before of=top.qcow2 bs=65536 count=1 conv=notrunc status=none
    rm mid.qcow2
    "$io" -c 'read -P 7 0 1M' top.qcow2 2>&1 | sed 's/^/    /' | tail -n 2
    return 1
}

"$daemon" --version | head -n 1
status=0
job commit '{"execute": "block-commit", "arguments":
    {"job-id": "j", "device": "top", "top-node": "mid", "base-node": "base"}}' || status=1
job stream '{"execute": "block-stream", "arguments": {"job-id": "j", "device": "top"}}' || status=1
exit $status
