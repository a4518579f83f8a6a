/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that cannot read without the kernel's noting it.
 *
 * O_NOATIME is refused with EPERM, as open(2) refuses it to those who do not own the file; so
 * programs are ready for that, and open the file without it.  openat2 hides its flags behind a
 * pointer, which a filter does not see, and io_uring opens by itself: both are refused as on a
 * kernel without them.
 */
#include "dated.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* `call` whose argument `number` holds the flags; little-endian, their lower half. */
#define FLAGS(call, number)                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4), LOAD(args[number]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NOATIME, 0, 1), REFUSE(EPERM), ALLOW

int dated_begin(void)
{
    static struct sock_filter rules[] = {
        LOAD(nr),
#ifdef SYS_open
        FLAGS(SYS_open, 1),
#endif
        FLAGS(SYS_openat, 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        REFUSE(ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        REFUSE(ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 6),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETFL, 0, 3),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NOATIME, 0, 1),
        REFUSE(EPERM),
        ALLOW,
        ALLOW,
    };
    static const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}
