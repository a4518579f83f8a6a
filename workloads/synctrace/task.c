/* SPDX-License-Identifier: Apache-2.0
 *
 * What /proc says of a task: proc_pid_status(5), proc_pid_fdinfo(5).
 */
#include "synctrace.h"

#include <stdio.h>

unsigned descriptor_flags(pid_t task, int fd)
{
    char name[64], line[128];
    unsigned flags = 0;
    FILE *info;

    snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", task, fd);
    info = fopen(name, "re");
    while (info != NULL && fgets(line, sizeof line, info) != NULL)
        if (sscanf(line, "flags: %o", &flags) == 1)
            break;
    if (info != NULL)
        fclose(info);
    return flags;
}

pid_t process_of(pid_t task)
{
    char name[64], line[128];
    pid_t process = task;
    FILE *status;

    snprintf(name, sizeof name, "/proc/%d/status", task);
    status = fopen(name, "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "Tgid: %d", &process) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return process;
}
