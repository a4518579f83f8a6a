/* SPDX-License-Identifier: Apache-2.0
 *
 * uml-xstate.so: lets User-Mode Linux set the registers of its processes on
 * processors whose register state is larger than it knows.
 *
 * UML keeps the floating-point state of a guest's process in a buffer whose
 * size was fixed when it was compiled (6.1 and 6.12: 2,696 bytes and the like),
 * and puts it back with ptrace(PTRACE_SETREGSET, NT_X86_XSTATE).  Linux takes
 * no less than the host's whole XSAVE area there (xstateregs_set in
 * arch/x86/kernel/fpu/regset.c: EFAULT), and with AMX that has 11,008 bytes.
 * So UML panics when it starts its first program: "userspace - ptrace set fp
 * regs failed, errno = 14".
 *
 * This library stands before libc's ptrace.  It lays the short state over the
 * beginning of the state that the process has now, and sets the whole.  What
 * lies behind UML's bytes stays as it is: the tiles of AMX, which a process may
 * only use after it has asked for them (arch_prctl, ARCH_REQ_XCOMP_PERM), and
 * UML lets no process of its guest ask.
 *
 * The guard preloads it into UML alone.  Where UML's buffer is large enough,
 * nothing is changed.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#define STATE_MAX (64 * 1024) /* bytes; AMX needs 11,008 */

typedef long ptrace_fn(int request, pid_t pid, void *address, void *data);

static ptrace_fn *next_ptrace(void)
{
    static ptrace_fn *next;

    if (next == NULL)
        next = (ptrace_fn *)dlsym(RTLD_NEXT, "ptrace");
    return next;
}

/* Sets a state that is shorter than the host's; -1 and errno as ptrace.
 * One buffer for all: UML's kernel is one thread, and its stacks are too small for it. */
static long set_short(pid_t pid, const struct iovec *state)
{
    static unsigned char whole[STATE_MAX] __attribute__((aligned(64)));
    struct iovec now = {.iov_base = whole, .iov_len = sizeof(whole)};
    void *type = (void *)(long)NT_X86_XSTATE;

    if (next_ptrace()(PTRACE_GETREGSET, pid, type, &now) < 0)
        return -1;
    if (state->iov_len >= now.iov_len) { /* not too short: refused for something else */
        errno = EFAULT;
        return -1;
    }
    memcpy(whole, state->iov_base, state->iov_len);
    return next_ptrace()(PTRACE_SETREGSET, pid, type, &now);
}

/* As libc's, which is variadic in its declaration and takes four words in truth. */
long ptrace(enum __ptrace_request request, ...)
{
    static int known_short; /* the host has refused a short state before */
    va_list arguments;
    const struct iovec *state;
    pid_t pid;
    void *address, *data;
    long result;

    va_start(arguments, request);
    pid = va_arg(arguments, pid_t);
    address = va_arg(arguments, void *);
    data = va_arg(arguments, void *);
    va_end(arguments);
    if (request != PTRACE_SETREGSET || (long)address != NT_X86_XSTATE)
        return next_ptrace()(request, pid, address, data);
    state = data;
    if (!known_short) {
        result = next_ptrace()(request, pid, address, data);
        if (result >= 0 || errno != EFAULT)
            return result;
        known_short = 1;
    }
    return set_short(pid, state);
}
