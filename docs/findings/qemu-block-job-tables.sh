#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does a chain of images still read what it held, if QEMU is killed after a block job has completed?
#
#     [QEMU_IMG=... QEMU_IO=... QEMU_STORAGE_DAEMON=...] sh qemu-block-job-tables.sh
#
# base <- mid <- top.  A commit of mid into base, then a stream of everything into top; the daemon is killed when it
# has written the event.  No power is cut, and nothing is deleted.  The twin ends in order.
# Exit status: 0 it does, 1 it does not, 77 something is missing.  Needs qemu-utils; no root.
set -eu
img=${QEMU_IMG:-qemu-img} io=${QEMU_IO:-qemu-io} daemon=${QEMU_STORAGE_DAEMON:-qemu-storage-daemon}
for tool in "$img" "$io" "$daemon"; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

image() {
    echo --blockdev "driver=qcow2,node-name=$1,${2:-}file.driver=file,file.filename=$1.qcow2"
}

# reads END NAME JSON: whether the data is there after the job, if the daemon gets the signal END.
reads() {
    rm -f ./*.qcow2 said
    "$img" create -q -f qcow2 base.qcow2 64M
    "$img" create -q -f qcow2 -F qcow2 -b base.qcow2 mid.qcow2
    "$img" create -q -f qcow2 -F qcow2 -b mid.qcow2 top.qcow2
    "$io" -c 'write -q -P 7 0 1M' mid.qcow2
    sync
    mkfifo commands
    # shellcheck disable=SC2046 # words, on purpose
    "$daemon" --chardev stdio,id=c --monitor c \
        $(image base) $(image mid backing=base,) $(image top backing=mid,) <commands >said &
    pid=$!
    exec 3>commands
    printf '%s\n' '{"execute": "qmp_capabilities"}' "$3" >&3
    tries=1000
    until grep -q BLOCK_JOB_COMPLETED said 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "the job did not end: $(cat said)"; kill -s KILL $pid; exit 77; }
        sleep 0.01
    done
    kill -s "$1" $pid
    wait $pid || true
    exec 3>&-
    rm commands
    printf '%s, then SIG%s: ' "$2" "$1"
    if "$io" -c 'read -q -P 7 0 1M' top.qcow2 >said 2>&1; then
        echo 'the data is there'
    else
        tail -n 1 said
        return 1
    fi
}

commit='{"execute": "block-commit", "arguments":
    {"job-id": "j", "device": "top", "top-node": "mid", "base-node": "base"}}'
stream='{"execute": "block-stream", "arguments": {"job-id": "j", "device": "top"}}'
"$daemon" --version | head -n 1
reads TERM commit "$commit" && reads TERM stream "$stream" || { echo 'the twin does not read it either'; exit 77; }
status=0
reads KILL commit "$commit" || status=1
reads KILL stream "$stream" || status=1
exit $status
