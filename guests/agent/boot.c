/* SPDX-License-Identifier: Apache-2.0
 *
 * From an empty initramfs to a guest that can work.
 *
 * Kernel arguments that are meant for the agent (the kernel ignores names with
 * a dot in them that it does not know):
 *   powercut.disk=vda[,vdb]   HELLO waits until these block devices are there
 *   powercut.load=btrfs[,..]  also loads /modules/order.btrfs before HELLO (modules.c)
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_TIMEOUT_MS 10000

void boot_mount(void)
{
    static const struct {
        const char *type, *directory;
    } mounts[] = {
        {"devtmpfs", "/dev"},
        {"proc", "/proc"},
        {"sysfs", "/sys"},
        {"tmpfs", "/run"},
    };

    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        mkdir(mounts[i].directory, 0755);
        /* EBUSY: the kernel was built to mount devtmpfs itself. */
        if (mount(mounts[i].type, mounts[i].directory, mounts[i].type, 0, NULL) && errno != EBUSY)
            die("mount %s: %s", mounts[i].directory, strerror(errno));
    }
    /* Children find /dev/null and the like; whatever init was given leads nowhere. */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

void boot_wait_disks(void)
{
    char wanted[256], *rest = wanted, *name;

    if (!kernel_argument("powercut.disk", wanted, sizeof wanted))
        return;
    while ((name = strsep(&rest, ",")))
        if (*name)
            wait_device(name, DISK_TIMEOUT_MS); /* HELLO lists the disks that are there */
}
