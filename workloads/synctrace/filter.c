/* SPDX-License-Identifier: Apache-2.0
 *
 * At which calls the kernel stops the program (seccomp(2), SECCOMP_RET_TRACE).
 *
 * A filter stays: across fork and exec, and whatever other filters are added.  Where the tracer is
 * gone, or a process is not traced, these calls fail with ENOSYS; so nothing syncs unseen.  Calls
 * whose flags lie behind a pointer (clone3, openat2), and io_uring, which does its own, are
 * refused as on a kernel that does not have them.
 *
 * A second filter stops writes, too.  It is added to a process that opens a file with O_SYNC or
 * O_DSYNC (writes.c).
 */
#include "synctrace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define X32_BIT 0x40000000u
#define TRACE SECCOMP_RET_TRACE
#define FOREIGN (SECCOMP_RET_TRACE | FILTER_FOREIGN)
#define NOT_HERE (SECCOMP_RET_ERRNO | ENOSYS)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define ON(call, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), RETURN(what)
/* ... if one of `bits` is in the lower half of an argument. */
#define ON_BITS(call, argument, bits, what)                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4), LOAD(args[argument]),       \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1), RETURN(what),          \
        RETURN(SECCOMP_RET_ALLOW)

/* What is numbered otherwise is foreign; the number is loaded. */
#define HEAD                                                                           \
    LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),          \
        RETURN(FOREIGN), LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1), \
        RETURN(FOREIGN)

const void *filter_of_writes(uint16_t *count)
{
    static const struct sock_filter rules[] = {
        HEAD,
        ON(SYS_write, TRACE),
        ON(SYS_pwrite64, TRACE),
        ON(SYS_writev, TRACE),
        ON(SYS_pwritev, TRACE),
        ON(SYS_pwritev2, TRACE),
        ON(SYS_fallocate, TRACE),
        ON(SYS_sendfile, TRACE),
        ON(SYS_splice, TRACE),
        ON(SYS_copy_file_range, TRACE),
        ON(SYS_sendmsg, TRACE),
        ON(SYS_sendmmsg, TRACE),
        RETURN(SECCOMP_RET_ALLOW),
    };

    static_assert(sizeof *rules == FILTER_RULE_BYTES, "a rule is what others take it for");
    *count = sizeof rules / sizeof *rules;
    return rules;
}

int filter_begin(void)
{
    static struct sock_filter rules[] = {
        HEAD,
        ON(SYS_fsync, TRACE),
        ON(SYS_fdatasync, TRACE),
        ON(SYS_sync, TRACE),
        ON(SYS_syncfs, TRACE),
        ON(SYS_sync_file_range, TRACE),
        ON_BITS(SYS_msync, 2, MS_SYNC, TRACE),
        ON_BITS(SYS_openat, 2, O_SYNC, TRACE),
        ON_BITS(SYS_open, 1, O_SYNC, TRACE),
        ON_BITS(SYS_open_by_handle_at, 2, O_SYNC, TRACE),
        ON_BITS(SYS_pwritev2, 5, RWF_DSYNC | RWF_SYNC, TRACE),
        ON_BITS(SYS_clone, 0, CLONE_UNTRACED, TRACE),
        ON(SYS_io_submit, TRACE),
        ON(SYS_io_getevents, TRACE),
        ON(SYS_io_pgetevents, TRACE),
        ON(SYS_ptrace, TRACE),
        ON(SYS_pidfd_getfd, TRACE),
        ON(SYS_seccomp, TRACE),
        ON(SYS_prctl, TRACE),
        ON(SYS_clone3, NOT_HERE),
        ON(SYS_openat2, NOT_HERE),
        ON(SYS_io_uring_setup, NOT_HERE),
        RETURN(SECCOMP_RET_ALLOW),
    };
    static const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}
