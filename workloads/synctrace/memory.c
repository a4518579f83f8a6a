/* SPDX-License-Identifier: Apache-2.0 */
#include "synctrace.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

bool memory_read(pid_t task, uint64_t address, void *into, size_t size)
{
    struct iovec ours = {into, size}, theirs = {(void *)(uintptr_t)address, size};

    return process_vm_readv(task, &ours, 1, &theirs, 1, 0) == (ssize_t)size;
}

bool memory_write(pid_t task, uint64_t address, const void *from, size_t size)
{
    struct iovec ours = {(void *)(uintptr_t)from, size}, theirs = {(void *)(uintptr_t)address, size};

    return process_vm_writev(task, &ours, 1, &theirs, 1, 0) == (ssize_t)size;
}

void text_escaped(char *into, size_t size, const char *text)
{
    size_t at = strlen(into);

    for (; *text != '\0' && at + 4 <= size; text++) {
        unsigned char c = (unsigned char)*text;

        if (c > ' ' && c < 0x7f && c != '%')
            into[at++] = *text;
        else
            at += (size_t)snprintf(into + at, size - at, "%%%02X", c);
    }
    into[at] = '\0';
}
