/* SPDX-License-Identifier: Apache-2.0 */
#include "ack.h"

#include <errno.h>

int wal_ack(struct wal_committer *c, const struct wal_group *group,
            struct wal_failure *failure)
{
    struct pc_message ack = {
        .type = PC_ACK,
        .lsn = group->first_lsn + group->count - 1,
        .value = group->count,
    };
    /* The mark first: whoever hears of the ack may rely on the mark being in the log. */
    if (c->config->dmlog && dmlog_ack(&c->marks, ack.lsn))
        return wal_fail(failure, errno, "mark the ack in the dm-log-writes log");
    int error = pc_outbox_add(&c->outbox, ack, NULL, 0);

    return error ? wal_fail(failure, -error, "write to the channel") : 0;
}
