/* SPDX-License-Identifier: Apache-2.0 */
#include "synctrace.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HASH_DIGITS 8 /* so many hexadecimal digits in a row are a number, too */
#define MESSAGES_MAX 4096
#define SYNCED_WRITE (RWF_DSYNC | RWF_SYNC)

/* The length of the number at the start of `text`: digits, or many hexadecimal ones. */
static size_t number_length(const char *text)
{
    size_t digits = strspn(text, "0123456789"), hex = strspn(text, "0123456789abcdefABCDEF");

    return hex >= HASH_DIGITS && hex > digits ? hex : digits;
}

/* The path of a file, as sites have it: below `dir`, with # for numbers. */
static void put_path(struct call *call, const char *path, const char *dir)
{
    char plain[PATH_MAX];
    size_t at = 0, length = dir == NULL ? 0 : strlen(dir);

    if (length > 0 && strncmp(path, dir, length) == 0 &&
        (path[length] == '/' || path[length] == '\0'))
        path = path[length] == '\0' ? "." : path + length + 1;
    while (*path != '\0' && at + 1 < sizeof plain) {
        size_t number = number_length(path);

        plain[at++] = number > 0 ? '#' : *path;
        path += number > 0 ? number : 1;
    }
    plain[at] = '\0';
    call->path[0] = '\0';
    text_escaped(call->path, sizeof call->path, plain);
}

static void put_descriptor(struct call *call, pid_t task, int fd, const char *dir)
{
    char link[64], path[PATH_MAX];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/%d/fd/%d", task, fd);
    length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = '\0';
    put_path(call, path, dir);
}

/* The path that a call names, in its own memory. */
static void put_name(struct call *call, pid_t task, uint64_t address, const char *dir)
{
    char path[PATH_MAX] = "";
    size_t at;

    for (at = 0; at + 1 < sizeof path; at++)
        if (!memory_read(task, address + at, path + at, 1) || path[at] == '\0')
            break;
    path[at] = '\0';
    if (path[0] != '\0')
        put_path(call, path, dir);
}

/* The file that is mapped at `address`. */
static void put_mapped(struct call *call, pid_t task, uint64_t address, const char *dir)
{
    char name[64], line[PATH_MAX + 128], path[PATH_MAX];
    unsigned long begin, end;
    FILE *maps;

    snprintf(name, sizeof name, "/proc/%d/maps", task);
    maps = fopen(name, "re");
    if (maps == NULL)
        return;
    while (fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095[^\n]", &begin, &end, path) == 3 &&
            address >= begin && address < end) {
            put_path(call, path, dir);
            break;
        }
    fclose(maps);
}

static void take_sync(struct call *call, const char *name)
{
    call->kind = CALL_SYNC;
    call->name = name;
}

static void take_flags(struct call *call, const char *name, unsigned long long *flags,
                       unsigned long long clear)
{
    call->kind = CALL_FLAGS;
    call->name = name;
    call->flags = flags;
    call->cleared = *flags & ~clear;
}

static void take_open(struct call *call, unsigned long long *flags)
{
    take_flags(call, (*flags & O_SYNC) == O_SYNC ? "open(O_SYNC)" : "open(O_DSYNC)", flags, O_SYNC);
    call->kind = CALL_OPEN;
}

static const struct write {
    unsigned long long number;
    bool plain; /* the descriptor is its first argument; other arguments are the same elsewhere */
    int which;  /* argument that has the descriptor */
    const char *synced, *data_synced;
} writes[] = {
    {SYS_write, true, 0, "write(O_SYNC)", "write(O_DSYNC)"},
    {SYS_pwrite64, true, 0, "pwrite(O_SYNC)", "pwrite(O_DSYNC)"},
    {SYS_writev, true, 0, "writev(O_SYNC)", "writev(O_DSYNC)"},
    {SYS_pwritev, true, 0, "pwritev(O_SYNC)", "pwritev(O_DSYNC)"},
    {SYS_pwritev2, true, 0, "pwritev2(O_SYNC)", "pwritev2(O_DSYNC)"},
    {SYS_fallocate, true, 0, "fallocate(O_SYNC)", "fallocate(O_DSYNC)"},
    {SYS_sendfile, false, 0, "sendfile(O_SYNC)", "sendfile(O_DSYNC)"},
    {SYS_splice, false, 2, "splice(O_SYNC)", "splice(O_DSYNC)"},
    {SYS_copy_file_range, false, 2, "copy_file_range(O_SYNC)", "copy_file_range(O_DSYNC)"},
};

static const struct write *find_write(unsigned long long number)
{
    size_t index;

    for (index = 0; index < sizeof writes / sizeof *writes; index++)
        if (writes[index].number == number)
            return &writes[index];
    return NULL;
}

bool call_is_plain_write(const struct user_regs_struct *regs)
{
    const struct write *write = find_write(regs->orig_rax);

    return write != NULL && write->plain;
}

/* A write is a sync if its file was opened so. */
static void take_write(struct call *call, pid_t task, const struct user_regs_struct *regs,
                       const struct write *write, const char *dir)
{
    int fd = (int)(write->which == 2 ? regs->rdx : regs->rdi);
    unsigned flags = descriptor_flags(task, fd);

    if ((flags & O_DSYNC) == 0)
        return;
    call->kind = CALL_WRITE;
    call->name = (flags & O_SYNC) == O_SYNC ? write->synced : write->data_synced;
    put_descriptor(call, task, fd, dir);
}

static void take_beyond(struct call *call, const char *why)
{
    call->kind = CALL_BEYOND;
    call->name = why;
}

/* libaio has syncs of its own. */
static void read_submission(struct call *call, pid_t task, const struct user_regs_struct *regs,
                            const char *dir)
{
    int fd = -1;

    call->name = aio_first_sync(task, regs->rsi, regs->rdx, &fd);
    if (call->name == NULL)
        return;
    call->kind = CALL_SUBMIT;
    put_descriptor(call, task, fd, dir);
}

/* Whether a message carries descriptors; `address` is of a struct msghdr. */
static bool has_descriptors(pid_t task, uint64_t address)
{
    struct msghdr message;
    struct cmsghdr head;
    size_t at;

    if (!memory_read(task, address, &message, sizeof message))
        return false; /* the call will fail */
    for (at = 0; at + sizeof head <= message.msg_controllen; at += CMSG_ALIGN(head.cmsg_len)) {
        if (!memory_read(task, (uintptr_t)message.msg_control + at, &head, sizeof head) ||
            head.cmsg_len < sizeof head)
            return false;
        if (head.cmsg_level == SOL_SOCKET && head.cmsg_type == SCM_RIGHTS)
            return true;
    }
    return false;
}

static void read_messages(struct call *call, pid_t task, uint64_t address, uint64_t count)
{
    if (count > MESSAGES_MAX)
        count = MESSAGES_MAX;
    for (; count > 0; count--, address += sizeof(struct mmsghdr))
        if (has_descriptors(task, address)) {
            take_beyond(call, "has a file opened with O_SYNC or O_DSYNC, and sends descriptors "
                              "to another process");
            return;
        }
}

static void read_rare(pid_t task, struct user_regs_struct *regs, struct call *call,
                      const char *dir)
{
    switch (regs->orig_rax) {
    case SYS_clone:
        take_beyond(call, "starts a process with CLONE_UNTRACED");
        break;
    case SYS_ptrace:
        take_beyond(call, "calls ptrace(2)");
        break;
    case SYS_seccomp:
        if (regs->rdi == SECCOMP_SET_MODE_FILTER || regs->rdi == SECCOMP_SET_MODE_STRICT)
            take_beyond(call, "has a filter of system calls of its own");
        break;
    case SYS_prctl:
        if (regs->rdi == PR_SET_SECCOMP)
            take_beyond(call, "has a filter of system calls of its own");
        break;
    case SYS_pidfd_getfd:
        take_beyond(call, "takes descriptors of another process");
        break;
    case SYS_sendmsg:
        read_messages(call, task, regs->rsi, 1);
        break;
    case SYS_sendmmsg:
        read_messages(call, task, regs->rsi, regs->rdx);
        break;
    case SYS_io_submit:
        read_submission(call, task, regs, dir);
        break;
    case SYS_io_getevents:
    case SYS_io_pgetevents:
        call->kind = aio_any() ? CALL_EVENTS : CALL_OTHER;
        break;
    default:
        break;
    }
}

void call_read(pid_t task, struct user_regs_struct *regs, bool foreign, const char *dir,
               struct call *call)
{
    const struct write *write;

    memset(call, 0, sizeof *call);
    strcpy(call->path, "-");
    if (foreign) {
        take_beyond(call, "makes system calls of another architecture");
        return;
    }
    write = find_write(regs->orig_rax);
    if (write != NULL)
        take_write(call, task, regs, write, dir);
    if (call->kind != CALL_OTHER)
        return;
    switch (regs->orig_rax) {
    case SYS_fsync:
        take_sync(call, "fsync");
        break;
    case SYS_fdatasync:
        take_sync(call, "fdatasync");
        break;
    case SYS_syncfs:
        take_sync(call, "syncfs");
        break;
    case SYS_sync_file_range:
        take_sync(call, "sync_file_range");
        break;
    case SYS_sync:
        take_sync(call, "sync");
        return;
    case SYS_msync:
        take_sync(call, "msync");
        put_mapped(call, task, regs->rdi, dir);
        return;
    case SYS_open:
        take_open(call, &regs->rsi);
        put_name(call, task, regs->rdi, dir);
        return;
    case SYS_openat:
        take_open(call, &regs->rdx);
        put_name(call, task, regs->rsi, dir);
        return;
    case SYS_open_by_handle_at:
        take_open(call, &regs->rdx);
        return;
    case SYS_pwritev2:
        if ((regs->r9 & SYNCED_WRITE) == 0)
            return;
        take_flags(call, "pwritev2(RWF_DSYNC)", &regs->r9, SYNCED_WRITE);
        break;
    default:
        read_rare(task, regs, call, dir);
        return;
    }
    put_descriptor(call, task, (int)regs->rdi, dir);
}

bool call_has_name(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strcmp(name, ".") == 0 || strcmp(slash == NULL ? path : slash + 1, name) == 0;
}
