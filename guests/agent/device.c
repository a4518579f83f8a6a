/* SPDX-License-Identifier: Apache-2.0
 *
 * Block devices by name: NAME and /dev/NAME are the same one; and by serial number.
 */
#include "agent.h"

#include <dirent.h>
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

/* Where a disk's serial number is: virtio has an entry of its own, NVMe one of the controller's, SCSI
 * and ATA a page of vital product data, whose text begins after four bytes (SPC: page 0x80). */
static bool has_serial(const char *name, const char *serial)
{
    static const struct {
        const char *entry;
        size_t skipped;
    } places[] = {{"serial", 0}, {"device/serial", 0}, {"device/vpd_pg80", 4}};
    char path[300], found[128];

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "/sys/block/%s/%s", name, places[i].entry);
        memset(found, 0, sizeof found);
        if (!read_text(path, found, sizeof found))
            continue;
        const char *text = found + places[i].skipped;
        text += strspn(text, " ");
        size_t length = strlen(serial);
        if (strncmp(text, serial, length) == 0 && text[length + strspn(text + length, " \n")] == '\0')
            return true;
    }
    return false;
}

/* The block device whose serial number is `serial`; names depend on the order of probing. */
bool find_by_serial(const char *serial, char *name, size_t size, unsigned timeout_ms)
{
    uint64_t deadline = pc_now_ns() + (uint64_t)timeout_ms * 1000000u;

    do {
        DIR *blocks = opendir("/sys/block");
        struct dirent *entry;
        bool there = false;

        while (blocks && !there && (entry = readdir(blocks))) {
            there = *entry->d_name != '.' && has_serial(entry->d_name, serial);
            if (there)
                snprintf(name, size, "%s", entry->d_name);
        }
        if (blocks)
            closedir(blocks);
        if (there)
            return true;
        sleep_ms(2);
    } while (pc_now_ns() < deadline);
    failed(ENODEV, "find a disk with the serial number %s", serial);
    return failed_as(PC_FAULT_DEVICE);
}
