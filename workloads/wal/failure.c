/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int wal_fail(struct wal_failure *failure, int error, const char *format, ...)
{
    va_list args;

    if (failure->error)
        return -1;
    failure->error = error ? error : EIO;
    va_start(args, format);
    vsnprintf(failure->call, sizeof(failure->call), format, args);
    va_end(args);
    return -1;
}

int wal_fail_on(struct wal_failure *failure, const char *path)
{
    size_t used = strlen(failure->call);

    snprintf(failure->call + used, sizeof(failure->call) - used, " on %s", path);
    return -1;
}
