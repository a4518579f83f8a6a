/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk stops where it was told to, before the power goes.
 */
#include "disk_internal.h"

#include <errno.h>

void stop_if_due(struct disk *disk)
{
    static const char *const marks[] = {
        [STOP_AT_FLUSH] = "stopped at a flush",
        [STOP_AFTER] = "stopped between requests",
        [STOP_DURING] = "stopped: requests are taken and do not complete",
    };
    struct stop *stop = &disk->stop;
    bool at_flush = stop->how == STOP_AT_FLUSH;
    if (!stop->wanted || (at_flush ? disk->counts.flushes < stop->flush : stop->left > 0))
        return;
    enum motion motion = stop->how == STOP_DURING ? TAKING : STOPPED;
    if (disk->motion != motion) {
        disk->motion = motion;
        log_mark(&disk->log, marks[stop->how]);
    }
    if (motion == TAKING && !disk->counts.in_flight && !disk->counts.flushes_in_flight)
        return; /* until there is one */
    stop->wanted = false;
    if (disk->config.on_stopped)
        disk->config.on_stopped(disk->config.context, disk->log.last_ns);
}

int disk_stop(struct disk *disk, enum disk_stop how, uint64_t count)
{
    pthread_mutex_lock(&disk->lock);
    int error = disk->closed ? EIO : 0;
    if (!error && how == STOP_AT_FLUSH)
        error = !count ? EINVAL : disk->counts.flushes >= count ? EALREADY : 0;
    if (!error) {
        disk->stop = (struct stop){.wanted = true, .how = how, .flush = count, .left = count};
        stop_if_due(disk);
    }
    pthread_mutex_unlock(&disk->lock);
    return error;
}
