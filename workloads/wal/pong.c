/* SPDX-License-Identifier: Apache-2.0 */
#include "pong.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "../common/wire_out.h"

/* A PING has no payload.  Nothing else is sent to a workload, so whatever is not one ends the
 * answers: the controller then knows less about the clock, and says so. */
static void *answer(void *argument)
{
    int fd = (int)(intptr_t)argument;
    struct pc_message ping;
    size_t have = 0;

    for (;;) {
        ssize_t got = read(fd, (uint8_t *)&ping + have, sizeof(ping) - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        have += (size_t)got;
        if (have < sizeof(ping))
            continue;
        have = 0;
        if (ping.type != PC_PING || ping.length || !pc_wire_valid(&ping, NULL) ||
            pc_wire_pong(fd, &ping))
            return NULL;
    }
}

int wal_pong_start(int channel, struct wal_failure *failure)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, answer, (void *)(intptr_t)channel);

    if (!error)
        error = pthread_detach(thread);
    return error ? wal_fail(failure, error, "pthread_create") : 0;
}
