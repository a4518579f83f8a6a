/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without its syncs, for a control: whatever it is linked with, statically or not, in
 * whatever language, its calls to make data durable return 0 and do nothing.
 *
 * A filter of the kernel decides that (seccomp(2), SECCOMP_RET_ERRNO with 0), so that there is no
 * library to be loaded and nothing to be traced.  Files opened with O_SYNC or O_DSYNC, and single
 * writes with RWF_DSYNC, still sync: a filter does not see into what lies behind a pointer, and
 * cannot change flags.  io_uring does its own calls and is refused, as on a kernel without it.
 */
#include "unsynced.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ON(call, what)                                    \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1),    \
        BPF_STMT(BPF_RET | BPF_K, (what))
#define DONE SECCOMP_RET_ERRNO /* with errno 0: success */

int unsynced_begin(void)
{
    static struct sock_filter rules[] = {
        LOAD(nr),
        ON(SYS_fsync, DONE),
        ON(SYS_fdatasync, DONE),
        ON(SYS_sync, DONE),
        ON(SYS_syncfs, DONE),
        ON(SYS_sync_file_range, DONE),
        ON(SYS_msync, DONE),
        ON(SYS_io_uring_setup, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    static const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}
