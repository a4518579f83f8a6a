#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Does a file system in user space (FUSE) hear that an asynchronous direct write is to be synchronous (O_DSYNC)?
#
#     sh linux-fuse-aio-dsync.sh
#
# nbdfuse shows a file, nbdkit logs what arrives.  The same write, with O_DIRECT and O_DSYNC: once by pwrite (the
# twin), once by io_submit.  Exit status: 0 a flush follows both, 1 none follows io_submit's, 77 something is missing.
# Needs cc, nbdkit, libnbd-bin (nbdfuse); no root where /dev/fuse may be opened.
set -eu
for tool in cc nbdkit nbdfuse; do
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
cat >"$folder/write.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words)
{
    int fd = open(words[2], O_RDWR | O_DIRECT | O_DSYNC);
    char *data = aligned_alloc(4096, 4096);
    memset(data, 7, 4096);
    if (count != 3 || fd < 0)
        return 2;
    if (!strcmp(words[1], "pwrite"))
        return pwrite(fd, data, 4096, 4096) != 4096;
    aio_context_t context = 0;
    struct iocb cb = {.aio_fildes = fd, .aio_lio_opcode = IOCB_CMD_PWRITE,
                      .aio_buf = (unsigned long)data, .aio_nbytes = 4096, .aio_offset = 4096};
    struct iocb *list = &cb;
    struct io_event event;
    if (syscall(SYS_io_setup, 1, &context) || syscall(SYS_io_submit, context, 1, &list) != 1 ||
        syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
        return 2;
    _exit(event.res != 4096);
}
END
cc -o "$folder/write" "$folder/write.c"
mkdir "$folder/m"
nbdfuse "$folder/m/disk" [ nbdkit --exit-with-parent --filter=log memory 1M "logfile=$folder/log" ] 2>/dev/null &
server=$!
tries=100
until [ -e "$folder/m/disk" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "nbdfuse did not start"; exit 77; }
    sleep 0.1
done

# flushed CALL
flushed() {
    : >"$folder/log"
    "$folder/write" "$1" "$folder/m/disk" || { echo "$1 failed"; exit 77; }
    echo "$1: $(grep -aoE 'connection=1 (Write|Flush)' "$folder/log" | cut -d' ' -f2 | tr '\n' ' ')"
    grep -qa 'connection=1 Flush' "$folder/log"
}

uname -sr | cut -d- -f1
flushed pwrite || { echo 'the twin is not flushed either'; exit 77; }
flushed io_submit || exit 1
