/* SPDX-License-Identifier: Apache-2.0
 *
 * Several disks under one program: which device each is, and what lies on it.
 *
 * In the run each is a virtio disk of its own, in the order of the plan.  In recovery the origin
 * holds them one behind the other, and each is a linear device of device-mapper over the view:
 * what makes the view fresh makes all of them so.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/dm.h"
#include "../common/reads.h"

#define FREE_NS 2000000000ull /* for which another namespace may keep a disk that is unmounted here */
#define STRIPE_SECTORS 128 /* 64 KiB, as LVM has it (lvcreate(8)) */

enum holds { FIRST, XFS_LOG, FOLDER, STRIPE, XFS_REALTIME, LAYERS, KINDS };

static const char *const words[KINDS] = {"first", "xfs-log", "folder", "stripe", "xfs-realtime",
                                         "layers"};

static struct part {
    unsigned long long offset, length; /* bytes, on the origin */
    enum holds holds;
    char name[32];
    char node[32];
} parts[DISKS_MAX];
static unsigned count;
static bool made;
static char stack[32]; /* the node of the stripes over all of them; empty: none */

static int parse(const char *text, struct part *part)
{
    char word[16];
    int kind;

    if (sscanf(text, "%llu %llu %15s %31s", &part->offset, &part->length, word, part->name) == 4)
        for (kind = 0; kind < KINDS; kind++)
            if (strcmp(word, words[kind]) == 0) {
                part->holds = (enum holds)kind;
                return 0;
            }
    errno = EINVAL;
    return fail(PCU_STEP_CHECK, "disk %s", text);
}

/* The devices are made once: a guest has one set of disks as long as it lives. */
int disks_configure(char *const list[])
{
    if (made)
        return 0;
    for (count = 0; list[count] != NULL; count++) {
        if (count == DISKS_MAX) {
            errno = E2BIG;
            return fail(PCU_STEP_CHECK, "the disks");
        }
        if (parse(list[count], &parts[count]) != 0)
            return -1;
    }
    return 0;
}

unsigned disks_count(void)
{
    return count == 0 ? 1 : count;
}

static int make_device(const char *name, uint64_t sectors, const char *target, const char *params,
                       char *node, size_t size)
{
    if (dm_create(name) != 0)
        return fail(PCU_STEP_CHECK, "create %s", name);
    snprintf(node, size, "/dev/dm-%u", dm_minor());
    if (dm_swap(name, sectors, target, params) != 0)
        return fail(PCU_STEP_CHECK, "%s %s", target, params);
    return 0;
}

static int make_stripes(void)
{
    char params[512];
    size_t used = (size_t)snprintf(params, sizeof params, "%u %u", count, STRIPE_SECTORS);
    unsigned index;

    for (index = 0; index < count; index++)
        used += (size_t)snprintf(params + used, sizeof params - used, " %s 0", parts[index].node);
    return make_device("stripes", count * parts[0].length / 512, "striped", params, stack,
                       sizeof stack);
}

/* Every disk gets its node: outside, or over the view, which has its table by now. */
static int make(bool live)
{
    unsigned index;

    for (index = 0; index < count && !made; index++) {
        struct part *part = &parts[index];
        char name[16], params[64];

        if (live) {
            snprintf(part->node, sizeof part->node, "/dev/vd%c", (char)('a' + index));
            continue;
        }
        snprintf(name, sizeof name, "disk%u", index);
        snprintf(params, sizeof params, DISK " %llu", part->offset / 512);
        if (make_device(name, part->length / 512, "linear", params, part->node,
                        sizeof part->node) != 0)
            return -1;
    }
    if (!made && count > 1 && parts[1].holds == STRIPE && make_stripes() != 0)
        return -1;
    made = true;
    return 0;
}

static int mount_one(const char *node, const char *at, const char *options)
{
    if (mount(node, at, plan.filesystem, plan.flags, options) != 0)
        return fail(PCU_STEP_MOUNT, "mount %s", plan.filesystem);
    return 0;
}

static void folder_of(const struct part *part, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", plan.mount_point, part->name);
}

void disks_points(char *points[])
{
    static char paths[DISKS_MAX][512];
    unsigned index;

    *points++ = plan.mount_point;
    for (index = 1; index < count; index++)
        if (parts[index].holds == FOLDER) {
            folder_of(&parts[index], paths[index], sizeof paths[index]);
            *points++ = paths[index];
        }
    *points = NULL;
}

static int mount_folder(const struct part *part)
{
    char path[512];

    folder_of(part, path, sizeof path);
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return fail(PCU_STEP_MOUNT, "mkdir %s", part->name);
    return mount_one(part->node, path, plan.options);
}

static int umount_folders(unsigned before)
{
    char path[512];

    while (before-- > 0) {
        if (parts[before].holds != FOLDER)
            continue;
        folder_of(&parts[before], path, sizeof path);
        if (umount2(path, 0) != 0) {
            page->step = PCU_STEP_NONE; /* worse than whatever failed before */
            return fail(PCU_STEP_UMOUNT, "umount %s", path);
        }
    }
    return 0;
}

/* A disk that is mounted in one more namespace stays so after our umount(2), and the next state would
 * be seen through the page cache of this one.  That the last one has let go is no event to wait for. */
static int wait_free(const char *node)
{
    uint64_t end = now_ns() + FREE_NS;
    int fd;

    while ((fd = open(node, O_RDONLY | O_EXCL | O_CLOEXEC)) < 0 && errno == EBUSY && now_ns() < end)
        usleep(1000);
    if (fd < 0) {
        page->step = PCU_STEP_NONE;
        return fail(PCU_STEP_UMOUNT, "let go of %s", node);
    }
    close(fd);
    return 0;
}

int disks_umount(const char *device)
{
    unsigned index;

    if (umount_folders(count) != 0)
        return -1;
    if (umount2(plan.mount_point, 0) != 0) {
        page->step = PCU_STEP_NONE; /* worse than whatever failed before */
        return fail(PCU_STEP_UMOUNT, "umount %s", plan.mount_point);
    }
    if (layers_end() != 0 || (count == 0 && wait_free(device) != 0))
        return -1;
    if (stack[0] != '\0')
        return wait_free(stack);
    for (index = 0; index < count; index++)
        if (wait_free(parts[index].node) != 0)
            return -1;
    return 0;
}

int disks_let_go(void)
{
    unsigned index;

    if (umount2(plan.mount_point, MNT_DETACH) != 0)
        return fail(PCU_STEP_UMOUNT, "umount %s", plan.mount_point);
    for (index = 0; index < count; index++)
        if ((page->offset >> index & 1) != 0 && wait_free(parts[index].node) != 0)
            return -1;
    return 0;
}

int disks_date_reads(void)
{
    char path[512];
    unsigned index;

    for (index = 0; index < count; index++) {
        if (parts[index].holds != FOLDER)
            continue;
        folder_of(&parts[index], path, sizeof path);
        if (reads_date(path) != 0)
            return -1;
    }
    return reads_date(plan.mount_point);
}

/* Brings the layers up, and mounts what lies on them. */
static int mount_layered(const char *device, bool live)
{
    const char *nodes[DISKS_MAX + 1] = {device};
    enum layers_are are = !live                                ? LAYERS_CUT
                          : (page->flags & PCU_FLAG_MAKE) != 0 ? LAYERS_NEW
                                                               : LAYERS_LIVE;
    unsigned index;

    for (index = 0; index < count; index++)
        nodes[index] = parts[index].node;
    if (layers_begin(nodes, are) != 0)
        return -1;
    if (mount_one(layers_top(), plan.mount_point, plan.options) == 0)
        return 0;
    layers_end();
    return -1;
}

int disks_mount(const char *device, bool live)
{
    char options[sizeof plan.options + 128];
    size_t used;
    unsigned index;

    if (count == 0 && layers_top() != NULL)
        return mount_layered(device, live);
    if (count == 0)
        return mount_one(device, plan.mount_point, plan.options);
    if (strcmp(device, RECORDED) == 0) {
        errno = ENOTSUP;
        return fail(PCU_STEP_CHECK, "record a recovery of several disks");
    }
    if (make(live) != 0)
        return -1;
    if (layers_top() != NULL)
        return mount_layered(device, live);
    used = (size_t)snprintf(options, sizeof options, "%s", plan.options);
    for (index = 1; index < count; index++)
        if (parts[index].holds == XFS_LOG || parts[index].holds == XFS_REALTIME)
            used += (size_t)snprintf(options + used, sizeof options - used, "%s%s=%s",
                                     used == 0 ? "" : ",",
                                     parts[index].holds == XFS_LOG ? "logdev" : "rtdev",
                                     parts[index].node);
    if (mount_one(stack[0] == '\0' ? parts[0].node : stack, plan.mount_point, options) != 0)
        return -1;
    for (index = 1; index < count; index++)
        if (parts[index].holds == FOLDER && mount_folder(&parts[index]) != 0) {
            int error = errno;

            /* The step that failed stays, unless what is mounted cannot be let go of. */
            if (umount_folders(index) != 0 || umount2(plan.mount_point, 0) != 0)
                die("umount after a mount that failed");
            errno = error;
            return -1;
        }
    return 0;
}

/* The data of such a file lies on the realtime device (ioctl_xfs_fsgetxattr(2)), although the
 * file's own device number is that of the first disk. */
static bool is_realtime(int fd)
{
    struct fsxattr flags;

    return ioctl(fd, FS_IOC_FSGETXATTR, &flags) == 0 &&
           (flags.fsx_xflags & FS_XFLAG_REALTIME) != 0;
}

/* Where on the origin the disk begins on which the file's data lies; `device` is the number of its
 * file system's.  -1 where a place on it is no place on one disk. */
int64_t disks_begin(dev_t device, int fd)
{
    struct stat status;
    unsigned index;

    if (layers_top() != NULL)
        return -1;
    if (count == 0)
        return 0;
    for (index = 1; index < count; index++)
        if (parts[index].holds == XFS_REALTIME && is_realtime(fd))
            return (int64_t)parts[index].offset;
    for (index = 0; index < count && stack[0] == '\0'; index++)
        if (stat(parts[index].node, &status) == 0 && status.st_rdev == device)
            return (int64_t)parts[index].offset;
    return -1;
}
