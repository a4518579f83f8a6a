/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int kernel_log_fd = -1;

/* From here on the kernel's messages belong to the command that follows. */
void kernel_log_open(void)
{
    if (kernel_log_fd < 0)
        kernel_log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (kernel_log_fd >= 0)
        lseek(kernel_log_fd, 0, SEEK_END);
}

/* Sends what the kernel has said since `kernel_log_open`: a mount that failed
 * has its reason there and nowhere else.  A record is
 * "priority,sequence,time,flags;text\n"; a full ring says EPIPE and goes on. */
void kernel_log_send(void)
{
    char record[1024];

    if (kernel_log_fd < 0)
        return;
    for (int lines = 0; lines < 40; lines++) {
        ssize_t got = read(kernel_log_fd, record, sizeof record - 1);
        if (got < 0 && errno == EPIPE)
            continue;
        if (got <= 0)
            return;
        record[got] = '\0';
        char *text = strchr(record, ';');
        if (!text)
            continue;
        text[strcspn(text, "\n")] = '\0';
        port_text(PC_TEXT, "kernel: %s", text + 1);
    }
}
