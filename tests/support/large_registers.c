/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a processor whose register state (NT_X86_XSTATE) is 16 KiB, on any other: as Linux does
 * there, ptrace(PTRACE_SETREGSET) refuses a shorter one with EFAULT, and PTRACE_GETREGSET gives as
 * much as there is room for.  Preloaded into User-Mode Linux, behind whatever is to cope with it.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define STATE 16384

long ptrace(enum __ptrace_request request, ...)
{
    static unsigned char whole[STATE] __attribute__((aligned(64)));
    long (*real)(int, pid_t, void *, void *);
    struct iovec here = {whole, sizeof(whole)}, *state;
    void *address, *data;
    va_list arguments;
    pid_t pid;

    *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    va_start(arguments, request);
    pid = va_arg(arguments, pid_t);
    address = va_arg(arguments, void *);
    data = va_arg(arguments, void *);
    va_end(arguments);
    if ((long)address != NT_X86_XSTATE
        || (request != PTRACE_SETREGSET && request != PTRACE_GETREGSET))
        return real(request, pid, address, data);
    state = data;
    memset(whole, 0, sizeof(whole));
    if (real(PTRACE_GETREGSET, pid, address, &here) < 0) /* how large it is in truth */
        return -1;
    if (request == PTRACE_GETREGSET) {
        if (state->iov_len > STATE)
            state->iov_len = STATE;
        memcpy(state->iov_base, whole, state->iov_len);
        return 0;
    }
    if (state->iov_len < STATE) {
        errno = EFAULT;
        return -1;
    }
    memcpy(whole, state->iov_base, here.iov_len);
    return real(PTRACE_SETREGSET, pid, address, &here);
}
