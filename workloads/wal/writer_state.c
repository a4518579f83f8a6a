/* SPDX-License-Identifier: Apache-2.0 */
#include "writer_state.h"

struct wal_group *wal_writer_take(struct wal_writer *w)
{
    struct wal_group *group = w->open;
    struct pc_message attempt = {
        .type = PC_ATTEMPT,
        .lsn = group->first_lsn + group->count - 1,
        .value = group->count,
    };
    int error = pc_outbox_add(&w->committer.outbox, attempt, NULL, 0);

    if (error)
        wal_fail(&w->committer.failure, -error, "write to the channel");
    w->open = &w->groups[group == &w->groups[0]];
    w->open->first_lsn = w->next_lsn;
    w->open->count = 0;
    w->open->appends = 0;
    return group;
}

int wal_writer_send_latency(struct wal_writer *w, struct wal_failure *failure)
{
    int error = pc_outbox_add(&w->committer.outbox, (struct pc_message){.type = PC_LATENCY},
                              &w->latency, sizeof(w->latency));

    return error ? wal_fail(failure, -error, "write to the channel") : 0;
}
