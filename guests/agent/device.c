/* SPDX-License-Identifier: Apache-2.0
 *
 * Block devices by name: NAME and /dev/NAME are the same one.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *device_name(const char *device)
{
    return strncmp(device, "/dev/", 5) == 0 ? device + 5 : device;
}

/* Waits for a block device: its node appears after its driver's probe. */
bool wait_device(const char *name, unsigned timeout_ms)
{
    char node[300], entry[300];
    uint64_t deadline = pc_now_ns() + (uint64_t)timeout_ms * 1000000u;
    struct stat status;

    snprintf(node, sizeof node, "/dev/%s", device_name(name));
    snprintf(entry, sizeof entry, "/sys/class/block/%s", device_name(name));
    for (;;) {
        if (stat(node, &status) == 0 && S_ISBLK(status.st_mode) && access(entry, F_OK) == 0)
            return true;
        if (pc_now_ns() >= deadline) {
            failed(ENODEV, "wait for block device %s", node);
            return failed_as(PC_FAULT_DEVICE);
        }
        sleep_ms(2);
    }
}
