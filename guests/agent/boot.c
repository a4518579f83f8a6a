/* SPDX-License-Identifier: Apache-2.0
 *
 * From an empty initramfs to a guest that can work.
 *
 * Kernel arguments that are meant for the agent (the kernel ignores names with
 * a dot in them that it does not know):
 *   powercut.disk=vda[,vdb]   HELLO waits until these block devices are there
 *   powercut.load=btrfs[,..]  also loads /modules/order.btrfs before HELLO
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DISK_TIMEOUT_MS 10000
#define ORDER_SIZE 8192

unsigned modules_loaded;
char modules_failed[1024];

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

static bool load_module(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(errno, "open %s", path);
    long result = syscall(SYS_finit_module, fd, "", 0);
    int error = errno;
    close(fd);
    if (result && error != EEXIST)
        return failed(error, "finit_module %s", path);
    modules_loaded += result == 0;
    return true;
}

/* Loads the modules that the file `list` names, one path a line, in its order.
 * A module that fails does not stop the others; the first failure is kept. */
bool boot_load(const char *list)
{
    char text[ORDER_SIZE], *rest = text, *path;
    struct failure first = {0};

    if (!read_text(list, text, sizeof text))
        return false;
    while ((path = strsep(&rest, "\n"))) {
        if (!*path || load_module(path))
            continue;
        size_t used = strlen(modules_failed);
        snprintf(modules_failed + used, sizeof modules_failed - used, "%s%s (%s)",
                 used ? ", " : "", path, strerror(last_failure.error));
        if (!first.error)
            first = last_failure;
    }
    if (!first.error)
        return true;
    last_failure = first;
    return false;
}

/* The value of KEY=VALUE on the kernel's command line. */
bool kernel_argument(const char *key, char *value, size_t size)
{
    char text[4096], *rest = text, *word;
    size_t length = strlen(key);

    if (!read_text("/proc/cmdline", text, sizeof text))
        return false;
    while ((word = strsep(&rest, " \n"))) {
        if (strncmp(word, key, length) == 0 && word[length] == '=') {
            snprintf(value, size, "%s", word + length + 1);
            return true;
        }
    }
    return failed(ENOENT, "%s on the kernel's command line", key);
}

void boot_modules(void)
{
    char wanted[256], *rest = wanted, *type, list[300];

    if (access("/modules/order", F_OK) == 0)
        boot_load("/modules/order"); /* failures are in HELLO: the port may work all the same */
    if (!kernel_argument("powercut.load", wanted, sizeof wanted))
        return;
    while ((type = strsep(&rest, ","))) {
        snprintf(list, sizeof list, "/modules/order.%s", type);
        if (*type && access(list, F_OK) == 0)
            boot_load(list);
    }
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
        if (pc_now_ns() >= deadline)
            return failed(ENODEV, "wait for block device %s", node);
        sleep_ms(2);
    }
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
