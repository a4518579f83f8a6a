/* SPDX-License-Identifier: Apache-2.0
 *
 * sync(2) and syncfs(2) by the numbers that programs on this processor may call them by: its own,
 * and those of the 32-bit programs that its kernel runs.
 */
#ifndef POWERCUT_CAPTURE_FOLDER_CALLS_H
#define POWERCUT_CAPTURE_FOLDER_CALLS_H

#include <linux/audit.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

struct sync_call {
    uint32_t arch;
    uint32_t number;
    bool all; /* sync, which names no file */
};

static const struct sync_call sync_calls[] = {
#if defined(__x86_64__)
    {AUDIT_ARCH_X86_64, SYS_sync, true},
    {AUDIT_ARCH_X86_64, SYS_syncfs, false},
    {AUDIT_ARCH_X86_64, 0x40000000u | SYS_sync, true}, /* x32 */
    {AUDIT_ARCH_X86_64, 0x40000000u | SYS_syncfs, false},
    {AUDIT_ARCH_I386, 36, true},
    {AUDIT_ARCH_I386, 344, false},
#elif defined(__aarch64__)
    {AUDIT_ARCH_AARCH64, SYS_sync, true},
    {AUDIT_ARCH_AARCH64, SYS_syncfs, false},
    {AUDIT_ARCH_ARM, 36, true},
    {AUDIT_ARCH_ARM, 373, false},
#else
#error "no such processor is known here"
#endif
};

enum { SYNC_CALLS = sizeof sync_calls / sizeof *sync_calls };

#endif
