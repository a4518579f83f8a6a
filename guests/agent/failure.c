/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

struct failure last_failure;

bool failed(int error, const char *format, ...)
{
    va_list arguments;

    last_failure.error = error;
    last_failure.fault = PC_FAULT_CALL;
    va_start(arguments, format);
    vsnprintf(last_failure.call, sizeof last_failure.call, format, arguments);
    va_end(arguments);
    return false;
}

/* Says what the failure that was just kept is about. */
bool failed_as(enum pc_fault fault)
{
    last_failure.fault = fault;
    return false;
}

_Noreturn void power_off(void)
{
    sync();
    if (getpid() != 1)
        exit(EXIT_SUCCESS); /* a test on the host; reboot() would mean the host */
    /* Without ACPI there is no power button: the kernel would halt and the
     * hypervisor run on for ever.  A reset ends it, since QEMU runs with -no-reboot. */
    reboot(access("/sys/firmware/acpi", F_OK) == 0 ? RB_POWER_OFF : RB_AUTOBOOT);
    for (;;)
        pause();
}

_Noreturn void die(const char *format, ...)
{
    /* Where the kernel has a console but no driver behind /dev/console, its own
     * messages get through; "<2>" makes one critical, whatever loglevel says. */
    static const char *const places[] = {"/dev/kmsg", "/dev/console"};
    char line[768] = "<2>powercut agent: ";
    size_t used = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    if (getpid() != 1) {
        fputs(line + 3, stderr);
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int fd = open(places[i], O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            continue;
        if (write(fd, line, strlen(line)) >= 0)
            i = sizeof places / sizeof *places; /* said once is enough */
        close(fd);
    }
    power_off();
}
