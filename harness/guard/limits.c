/* SPDX-License-Identifier: Apache-2.0
 *
 * What a User-Mode Linux's process, a check on the host and a server of root's may not ask of the
 * host's kernel.
 *
 * User-Mode Linux traces its own processes, maps memory, and reads and writes files that are open or that its
 * sandbox shows.  It has no reason to mount, to make namespaces, to load code into the kernel, to
 * talk to other hosts, to set the clock or to type on a terminal; should its guest break into it,
 * it cannot.  A check has as little reason: a namespace of its own would give it powers, if over
 * nothing but that, and so all the kernel's code behind them.  It may use its loopback and what else
 * a network namespace keeps apart; AF_VSOCK, which reaches the machine below a virtual one, is not.
 *
 * What is refused is a list, since what libc calls differs from one libc to the next.
 */
#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __x86_64__
#error "these are the system calls of x86-64"
#endif

#define NEW_NAMESPACES \
    (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
     CLONE_NEWCGROUP)

#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* The low half of an argument; little-endian. */
#define LOAD_ARGUMENT(n) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define IF(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define NEVER(name) IF(SYS_##name, 0, 1), REFUSE(EPERM)

/* What 64-bit and 32-bit programs ask for by different numbers. */
#define NO_NAMESPACES(clone) \
    IF(clone, 0, 4), \
    LOAD_ARGUMENT(0), \
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1), \
    REFUSE(EPERM), \
    ALLOW
#define NO_TYPING(ioctl) \
    IF(ioctl, 0, 5), \
    LOAD_ARGUMENT(1), \
    IF(TIOCSTI, 1, 0), \
    IF(TIOCLINUX, 0, 1), \
    REFUSE(EPERM), \
    ALLOW
#define OWN_SOCKETS(socket) \
    IF(socket, 0, 7), \
    LOAD_ARGUMENT(0), \
    IF(AF_UNIX, 4, 0), \
    IF(AF_INET, 3, 0), \
    IF(AF_INET6, 2, 0), \
    IF(AF_NETLINK, 1, 0), \
    REFUSE(EAFNOSUPPORT), \
    ALLOW

#define BOTH \
    LOAD(arch), \
    IF(AUDIT_ARCH_X86_64, 1, 0), \
    REFUSE(EPERM), \
    LOAD(nr), \
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* x32 */ \
    REFUSE(EPERM), \
    NEVER(mount), \
    NEVER(umount2), \
    NEVER(pivot_root), \
    NEVER(chroot), \
    NEVER(open_tree), \
    NEVER(move_mount), \
    NEVER(fsopen), \
    NEVER(fsconfig), \
    NEVER(fsmount), \
    NEVER(fspick), \
    NEVER(mount_setattr), \
    NEVER(unshare), \
    NEVER(setns), \
    NEVER(init_module), \
    NEVER(finit_module), \
    NEVER(delete_module), \
    NEVER(kexec_load), \
    NEVER(kexec_file_load), \
    NEVER(bpf), \
    NEVER(perf_event_open), \
    NEVER(userfaultfd), \
    NEVER(keyctl), \
    NEVER(add_key), \
    NEVER(request_key), \
    NEVER(swapon), \
    NEVER(swapoff), \
    NEVER(reboot), \
    NEVER(acct), \
    NEVER(quotactl), \
    NEVER(settimeofday), \
    NEVER(clock_settime), \
    NEVER(adjtimex), \
    NEVER(clock_adjtime), \
    NEVER(iopl), \
    NEVER(ioperm), \
    NEVER(open_by_handle_at), \
    NEVER(fanotify_init), \
    NEVER(syslog), \
    NEVER(vhangup), \
    NEVER(sethostname), \
    NEVER(setdomainname), \
    NEVER(pidfd_getfd), \
    IF(SYS_clone3, 0, 1), REFUSE(ENOSYS), /* its flags are in memory; libc then calls clone */ \
    NO_NAMESPACES(SYS_clone), \
    NO_TYPING(SYS_ioctl)

static struct sock_filter kernel[] = {
    BOTH,
    NEVER(io_uring_setup),
    NEVER(io_uring_enter),
    NEVER(io_uring_register),
    IF(SYS_socket, 0, 4),
    LOAD_ARGUMENT(0),
    IF(AF_UNIX, 1, 0),
    REFUSE(EAFNOSUPPORT),
    ALLOW,
    ALLOW,
};

/* A server's files are root's on the disk: none gets the bits that make others root. */
#define PLAIN_MODE(call, n) \
    IF(call, 0, 4), \
    LOAD_ARGUMENT(n), \
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, S_ISUID | S_ISGID, 0, 1), \
    REFUSE(EPERM), \
    ALLOW
#define PLAIN_OPEN(call, n) \
    IF(call, 0, 6), \
    LOAD_ARGUMENT(n), \
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | __O_TMPFILE, 0, 3), \
    LOAD_ARGUMENT((n) + 1), \
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, S_ISUID | S_ISGID, 0, 1), \
    REFUSE(EPERM), \
    ALLOW

static struct sock_filter server[] = {
    BOTH,
    PLAIN_MODE(SYS_chmod, 1),
    PLAIN_MODE(SYS_fchmod, 1),
    PLAIN_MODE(SYS_fchmodat, 2),
    PLAIN_MODE(452 /* fchmodat2 */, 2),
    PLAIN_MODE(SYS_creat, 1),
    PLAIN_MODE(SYS_mknod, 1),
    PLAIN_MODE(SYS_mknodat, 2),
    PLAIN_OPEN(SYS_open, 1),
    PLAIN_OPEN(SYS_openat, 2),
    IF(437 /* openat2 */, 0, 1), REFUSE(ENOSYS), /* its mode is in memory */
    ALLOW,
};

/* Which opens files without a system call for it. */
static struct sock_filter no_rings[] = {LOAD(nr), NEVER(io_uring_setup), ALLOW};

static struct sock_filter check[] = {
    LOAD(arch),
    IF(AUDIT_ARCH_I386, 0, 1),
    ALLOW, /* as far as the next one does */
    BOTH,
    OWN_SOCKETS(SYS_socket),
    ALLOW,
};

/* Of 32-bit programs: arch/x86/entry/syscalls/syscall_32.tbl, Linux 6.18. */
#define NEVER_32(number) IF(number, 0, 1), REFUSE(EPERM)

static struct sock_filter check_32[] = {
    LOAD(arch),
    IF(AUDIT_ARCH_I386, 1, 0),
    ALLOW,
    LOAD(nr),
    NEVER_32(21), /* mount */
    NEVER_32(22), /* umount */
    NEVER_32(52), /* umount2 */
    NEVER_32(61), /* chroot */
    NEVER_32(217), /* pivot_root */
    NEVER_32(428), /* open_tree */
    NEVER_32(429), /* move_mount */
    NEVER_32(430), /* fsopen */
    NEVER_32(431), /* fsconfig */
    NEVER_32(432), /* fsmount */
    NEVER_32(433), /* fspick */
    NEVER_32(442), /* mount_setattr */
    NEVER_32(310), /* unshare */
    NEVER_32(346), /* setns */
    NEVER_32(128), /* init_module */
    NEVER_32(350), /* finit_module */
    NEVER_32(129), /* delete_module */
    NEVER_32(283), /* kexec_load */
    NEVER_32(357), /* bpf */
    NEVER_32(336), /* perf_event_open */
    NEVER_32(374), /* userfaultfd */
    NEVER_32(286), /* add_key */
    NEVER_32(287), /* request_key */
    NEVER_32(288), /* keyctl */
    NEVER_32(342), /* open_by_handle_at */
    NEVER_32(338), /* fanotify_init */
    NEVER_32(438), /* pidfd_getfd */
    NEVER_32(113), /* vm86old */
    NEVER_32(166), /* vm86 */
    NEVER_32(102), /* socketcall: its family is in memory, and there are calls of their own */
    IF(435, 0, 1), REFUSE(ENOSYS), /* clone3 */
    NO_NAMESPACES(120), /* clone */
    NO_TYPING(54), /* ioctl */
    OWN_SOCKETS(359), /* socket */
    ALLOW,
};

/* Sockets of the host have names among its files, which a read-only view does not keep. */
static struct sock_filter lonely[] = {LOAD(nr), NEVER(connect), ALLOW};

static struct sock_filter no_sockets[] = {
    LOAD(arch), IF(AUDIT_ARCH_I386, 4, 0), LOAD(nr), NEVER(socket), ALLOW,
    LOAD(nr), NEVER_32(102), /* socketcall */ NEVER_32(359), /* socket */ ALLOW,
};

/* Capabilities go first: with no_new_privs alone the kernel takes each exec by root for one that
 * gains some and clears its personality, and a UML that wants ADDR_NO_RANDOMIZE starts itself anew
 * for ever (sandbox/landlock.py). */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

    if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0) != 0 &&
        errno != EPERM) /* there is nothing to drop */
        return -1;
    return (int)syscall(SYS_capset, &header, none);
}

static int install(struct sock_fprog *program)
{
    /* Without the flag older kernels slow down each exec and each switch for speculation's sake. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, program) ==
        0)
        return 0;
    return errno == EINVAL ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) : -1;
}

int limit_kernel(bool connects)
{
    struct sock_fprog program = {sizeof kernel / sizeof *kernel, kernel};
    struct sock_fprog alone = {sizeof lonely / sizeof *lonely, lonely};

    if (drop_capabilities() != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return install(&program) != 0 || (!connects && install(&alone) != 0) ? -1 : 0;
}

int limit_server(bool rings)
{
    struct sock_fprog program = {sizeof server / sizeof *server, server};
    struct sock_fprog ringless = {sizeof no_rings / sizeof *no_rings, no_rings};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (!rings && install(&ringless) != 0) || install(&program) != 0 ? -1 : 0;
}

int limit_sockets(void)
{
    struct sock_fprog program = {sizeof no_sockets / sizeof *no_sockets, no_sockets};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? -1 : install(&program);
}

int limit_check(void)
{
    struct sock_fprog program = {sizeof check / sizeof *check, check};
    struct sock_fprog program_32 = {sizeof check_32 / sizeof *check_32, check_32};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return install(&program_32) != 0 ? -1 : install(&program);
}
