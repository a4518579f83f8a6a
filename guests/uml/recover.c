/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../workloads/common/wire.h"
#include "../common/reads.h"

static const char *device = DISK; /* what is mounted */

/* Of the file systems that are tested, f2fs alone is built into none of Debian's kernels. */
static void fs_load(void)
{
    static bool loaded;

    if (loaded || strcmp(plan.filesystem, "f2fs") != 0)
        return;
    if (access("/modules/crc32_generic.ko", F_OK) == 0)
        module_load("crc32_generic", "");
    module_load("f2fs", "");
    loaded = true;
}

int fs_mount(void)
{
    fs_load();
    return plan.filesystem[0] == '\0' ? 0 : disks_mount(device, strcmp(device, LIVE) == 0);
}

int fs_mount_live(void)
{
    if (live_setup() != 0)
        return -1;
    device = LIVE;
    return fs_mount();
}

/* btrfs remembers the devices that it has seen, with the generation it saw on them:
 * the next state may be an older one. */
static int forget_btrfs(void)
{
    struct btrfs_ioctl_vol_args seen = {0};
    int fd, result;

    if (strcmp(plan.filesystem, "btrfs") != 0 && !image_is_on("btrfs"))
        return 0;
    if (layers_top() == NULL) /* a layer is gone by now: then it forgets all that are not mounted */
        snprintf(seen.name, sizeof seen.name, "%s", device);
    fd = open("/dev/btrfs-control", O_RDWR | O_CLOEXEC);
    result = fd < 0 ? -1 : ioctl(fd, BTRFS_IOC_FORGET_DEV, &seen);
    if (result != 0 && errno != ENOENT) {
        page->step = PCU_STEP_NONE;
        fail(PCU_STEP_UMOUNT, "make btrfs forget %s", device);
    }
    if (fd >= 0)
        close(fd);
    return page->step == PCU_STEP_UMOUNT ? -1 : 0;
}

int fs_umount(void)
{
    if (plan.filesystem[0] != '\0' && disks_umount(device) != 0)
        return -1;
    return forget_btrfs();
}

static uint64_t lap(enum pcu_step step, uint64_t since)
{
    uint64_t now = now_ns();

    page->step_ns[step] += now - since;
    return now;
}

/* The highest LSN that came back whole. */
static uint64_t last_lsn(void)
{
    uint64_t at, last = 0;
    struct pc_extent extent;

    for (at = 0; at + sizeof extent <= page->answer; at += sizeof extent) {
        memcpy(&extent, area + at, sizeof extent);
        if (extent.state == PC_SLOT_INTACT && extent.lsn + extent.count - 1 > last)
            last = extent.lsn + extent.count - 1;
    }
    return last;
}

/* Starts the writer with the record after the last one that came back; a program begins where it
 * will, and if nothing is wanted of it, not at all. */
static int write_on(void)
{
    char first[48], *argv[ARGUMENTS_MAX + 2];
    int count = 0;

    if (plan.root != NULL)
        return plan.acks == 0 ? 0 : execute_acks(plan.after, PCU_STEP_AFTER);
    for (; plan.after[count] != NULL; count++)
        argv[count] = plan.after[count];
    page->first_lsn = last_lsn() + 1;
    snprintf(first, sizeof first, "first_lsn=%llu", (unsigned long long)page->first_lsn);
    argv[count++] = first;
    argv[count] = NULL;
    return execute(argv, PCU_STEP_AFTER);
}

/* The workload goes on after recovery; then a clean shutdown, after which memory is empty, a second mount, and the
 * reader's second opinion.  If the writer fails, what it did is still to be read; if that
 * fails, too, nothing is known of what is there, whatever the writer said.  Returns -1 if
 * nothing is mounted any more. */
static int go_on(void)
{
    uint64_t answer = page->answer;
    bool wrote = write_on() == 0;
    enum pcu_step step = page->step;
    uint32_t status = page->status;
    char left[sizeof page->what] = "";
    size_t named, index;
    bool cut;

    if (step == PCU_STEP_CHECK)
        return 0;
    if ((page->flags & PCU_FLAG_RECORD) != 0 && record_mark("after") != 0)
        return 0;
    if (fs_umount() != 0)
        return -1;
    named = root_left(left, sizeof left - 1, &cut);
    for (index = 0; index < named; index++)
        left[index] = left[index] == '\n' ? '?' : left[index] == '\0' ? '\n' : left[index];
    if (root_fresh() != 0) /* as after a clean shutdown: what lay in memory is gone */
        return -1;
    page->step = PCU_STEP_NONE; /* what fails from here on is worse than what failed before */
    page->after = PCU_AFTER_MOUNT;
    if (fs_mount() != 0) {
        page->step = PCU_STEP_AFTER;
        return -1;
    }
    if (reader_run(PCU_STEP_AFTER) == 0) {
        page->step = step;
        page->status = status;
        page->after = wrote ? PCU_AFTER_DONE : PCU_AFTER_WRITER;
        if (wrote)
            snprintf((char *)page->what, sizeof page->what, "%s", left);
    } else {
        page->after = PCU_AFTER_READER;
    }
    page->after_answer = page->answer - answer;
    page->answer = answer;
    return 0;
}

/* Has the reader run, if it is to, and tells which files it reads. */
static void reader_dated(void)
{
    bool known = disks_date_reads() == 0 && reads_begin(plan.mount_point) == 0;

    if ((page->flags & PCU_FLAG_FILES) == 0)
        reader_run(PCU_STEP_READ);
    if (known)
        page->after_answer = reads_put(area + page->answer, page->capacity - page->answer,
                                       (page->flags & PCU_FLAG_FILES) != 0);
}

/* Has the file system's own checker look at the disk as recovery and the reader have left it. */
static void examine(void)
{
    static const char *const node = ROOT EXAMINED;
    struct stat disk;

    if (plan.examiner[0] == NULL || page->step != PCU_STEP_NONE)
        return;
    if (stat(device, &disk) != 0 || (unlink(node) != 0 && errno != ENOENT) ||
        mknod(node, S_IFBLK | 0400, disk.st_rdev) != 0)
        fail(PCU_STEP_CHECK, "mknod %s", node);
    else
        execute(plan.examiner, PCU_STEP_READ);
}

/* Mounts, reads, goes on and unmounts as the request says.  Whatever happens in between,
 * the view is let go of: a file system that stays mounted would leak into the next state. */
static int recover_mounted(void)
{
    uint64_t time = now_ns();

    if (fs_mount() != 0) {
        forget_btrfs();
        return 0;
    }
    time = lap(PCU_STEP_MOUNT, time);
    if ((page->flags & PCU_FLAG_TREE) != 0)
        tree_put();
    else if ((page->flags & PCU_FLAG_READS) != 0)
        reader_dated();
    else if ((page->flags & PCU_FLAG_FILES) != 0)
        files_put();
    else
        reader_run(PCU_STEP_READ);
    time = lap(PCU_STEP_READ, time);
    if ((page->flags & PCU_FLAG_AFTER) != 0 && page->step == PCU_STEP_NONE) {
        int gone = go_on();

        time = lap(PCU_STEP_AFTER, time);
        if (gone != 0) {
            forget_btrfs();
            return page->step == PCU_STEP_UMOUNT ? -1 : 0;
        }
    }
    if (fs_umount() != 0)
        return -1;
    examine();
    lap(PCU_STEP_UMOUNT, time);
    return 0;
}

uint64_t request_end_ns;

int recover(void)
{
    bool recorded = (page->flags & PCU_FLAG_RECORD) != 0;
    uint64_t time = now_ns();
    int result;

    request_end_ns = page->limit_ms == 0 ? 0 : time + page->limit_ms * 1000000u;
    if ((page->flags & PCU_FLAG_WARM) != 0 && plan.root != NULL && plan.nodes[0] == NULL)
        warm_prepare();
    if (root_fresh() != 0 || view_patch() != 0)
        return -1;
    time = lap(PCU_STEP_PATCH, time);
    if (view_fresh(NULL) != 0 || view_track() != 0 || (recorded && record_begin() != 0))
        return -1;
    lap(PCU_STEP_VIEW, time);
    device = recorded ? RECORDED : DISK;
    result = recover_mounted();
    device = DISK;
    if (result != 0)
        return -1;
    time = now_ns();
    if (recorded)
        record_end();
    view_check();
    view_reads();
    lap(PCU_STEP_CHECK, time);
    return page->step == PCU_STEP_NONE ? 0 : -1;
}
