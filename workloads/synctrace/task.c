/* SPDX-License-Identifier: Apache-2.0
 *
 * What /proc says of a task: proc_pid_status(5), proc_pid_fdinfo(5).
 */
#include "synctrace.h"

#include <stdio.h>

/* The number that FORMAT finds in a line of a file of TASK; OTHERWISE if no line has it. */
static unsigned number_of(pid_t task, const char *file, const char *format, unsigned otherwise)
{
    char name[64], line[128];
    unsigned number = otherwise;
    FILE *said;

    snprintf(name, sizeof name, "/proc/%d/%s", task, file);
    said = fopen(name, "re");
    if (said == NULL)
        return otherwise;
    while (fgets(line, sizeof line, said) != NULL)
        if (sscanf(line, format, &number) == 1)
            break;
    fclose(said);
    return number;
}

unsigned descriptor_flags(pid_t task, int fd)
{
    char file[32];

    snprintf(file, sizeof file, "fdinfo/%d", fd);
    return number_of(task, file, "flags: %o", 0);
}

pid_t process_of(pid_t task)
{
    return (pid_t)number_of(task, "status", "Tgid: %u", (unsigned)task);
}
