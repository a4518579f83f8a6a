/* SPDX-License-Identifier: Apache-2.0
 *
 * `wal read` inside PID 1.  Starting a program costs 7 ms in User-Mode Linux (an
 * address space is a host process), three times a recovery of ext4; so the one reader
 * that matters is linked in.  Any other reader is started as a program.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "../../workloads/wal/reader.h"
#include "init.h"

/* Bytes of freed memory that stay mapped: a page fault is two switches between host
 * processes.  glibc takes no threshold above 32 MiB. */
#define KEEP (32 << 20)

static struct wal_config config;
static bool inside;

int reader_configure(void)
{
    struct pc_problems problems = {0};
    const char *name = plan.reader[0] == NULL ? "" : strrchr(plan.reader[0], '/');

    inside = name != NULL && strcmp(name, "/wal") == 0 && plan.reader[1] != NULL &&
             strcmp(plan.reader[1], "read") == 0;
    if (!inside)
        return 0;
    if (mallopt(M_MMAP_THRESHOLD, KEEP) == 0 || mallopt(M_TRIM_THRESHOLD, KEEP) == 0) {
        errno = EINVAL;
        return fail(PCU_STEP_CHECK, "mallopt");
    }
    wal_config_parse(&config, false, plan.reader + 2, &problems);
    if (problems.count == 0)
        return 0;
    errno = EINVAL;
    return fail(PCU_STEP_CHECK, "the reader: %s", problems.text);
}

static int take_extent(void *target, const struct pc_extent *extent)
{
    (void)target;
    if (page->answer + sizeof *extent > page->capacity)
        return -ENOSPC;
    memcpy(area + page->answer, extent, sizeof *extent);
    page->answer += sizeof *extent;
    return 0;
}

static int take_fact(void *target, const char *fact)
{
    (void)target;
    (void)fact;
    return 0;
}

int reader_run(enum pcu_step step)
{
    const struct wal_sink sink = {take_extent, take_fact, NULL};
    struct pc_problems problems = {0};
    struct wal_failure failure = {0};

    if (!inside && (page->flags & PCU_FLAG_WARM) != 0 && step == PCU_STEP_READ)
        return execute_warm(step);
    if (!inside)
        return execute(plan.reader, step);
    if (wal_scan(&config, &sink, &problems, &failure) == 0)
        return 0;
    errno = problems.count > 0 ? EINVAL : failure.error;
    page->status = problems.count > 0 ? 2 : 1;
    return fail(step, "%s", problems.count > 0 ? problems.text : failure.call);
}
