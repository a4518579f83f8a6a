/* SPDX-License-Identifier: Apache-2.0
 *
 * Stripes over several disks, by device-mapper (dm-stripe): what LVM would make of them.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/dm.h"

#define DISK_TIMEOUT_MS 10000
#define MODULES "/modules/order.log-writes" /* device-mapper, and one target more */

/* SECTORS of the whole, CHUNK in sectors, and the disks; says as a FACT what the whole is called. */
bool stripes_make(const char *sectors, const char *chunk, char *const disks[], int count)
{
    char params[1024];
    size_t used = (size_t)snprintf(params, sizeof params, "%d %s", count, chunk);

    if (!modules_load(MODULES))
        return failed_as(PC_FAULT_MODULE);
    for (int i = 0; i < count; i++) {
        if (!wait_device(disks[i], DISK_TIMEOUT_MS))
            return false;
        used += (size_t)snprintf(params + used, sizeof params - used, " /dev/%s 0", device_name(disks[i]));
        if (used >= sizeof params)
            return failed(E2BIG, "stripes over %d disks", count);
    }
    if (dm_create("stripes"))
        return failed(errno, "create the stripes");
    unsigned number = dm_minor();
    if (dm_swap("stripes", strtoull(sectors, NULL, 10), "striped", params))
        return failed(errno, "striped %s", params);
    port_text(PC_FACT, "device=dm-%u", number);
    return true;
}
