/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../workloads/common/wire.h"

#define CHANNEL 3 /* the descriptor that programs send their messages to */

struct plan plan;

/* Reads a list of strings that ends with an empty one; returns what follows. */
static char *take_list(char *text, char **list)
{
    int count = 0;

    while (*text != '\0' && count < ARGUMENTS_MAX) {
        list[count++] = text;
        text += strlen(text) + 1;
    }
    list[count] = NULL;
    return text + 1;
}

static char *take_string(char *text, char *into, size_t size)
{
    size_t length = strlen(text);

    memcpy(into, text, length < size ? length : size - 1); /* `into` was cleared */
    return text + length + 1;
}

int plan_parse(void)
{
    char *text = plan.text, options[sizeof plan.options] = "";

    if (page->length >= sizeof plan.text) {
        errno = E2BIG;
        return fail(PCU_STEP_CHECK, "the plan");
    }
    memset(&plan, 0, sizeof plan);
    memcpy(plan.text, area, page->length);
    text = take_string(text, plan.filesystem, sizeof plan.filesystem);
    text = take_string(text, options, sizeof options);
    plan.flags = split_options(options, plan.options, sizeof plan.options);
    text = take_string(text, plan.mount_point, sizeof plan.mount_point);
    text = take_list(text, plan.reader);
    take_list(text, plan.after);
    if (plan.mount_point[0] != '\0' && mkdir(plan.mount_point, 0755) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "mkdir %s", plan.mount_point);
    return reader_configure();
}

int fs_mount(void)
{
    if (plan.filesystem[0] != '\0' &&
        mount(DISK, plan.mount_point, plan.filesystem, plan.flags, plan.options) != 0)
        return fail(PCU_STEP_MOUNT, "mount %s", plan.filesystem);
    return 0;
}

/* btrfs remembers the devices that it has seen, with the generation it saw on them:
 * the next state may be an older one. */
static int forget_btrfs(void)
{
    struct btrfs_ioctl_vol_args device = {.name = DISK};
    int fd, result;

    if (strcmp(plan.filesystem, "btrfs") != 0)
        return 0;
    fd = open("/dev/btrfs-control", O_RDWR | O_CLOEXEC);
    result = fd < 0 ? -1 : ioctl(fd, BTRFS_IOC_FORGET_DEV, &device);
    if (result != 0 && errno != ENOENT) {
        page->step = PCU_STEP_NONE;
        fail(PCU_STEP_UMOUNT, "make btrfs forget %s", DISK);
    }
    if (fd >= 0)
        close(fd);
    return page->step == PCU_STEP_UMOUNT ? -1 : 0;
}

int fs_umount(void)
{
    if (plan.filesystem[0] != '\0' && umount2(plan.mount_point, 0) != 0) {
        page->step = PCU_STEP_NONE; /* worse than whatever failed before */
        return fail(PCU_STEP_UMOUNT, "umount %s", plan.mount_point);
    }
    return forget_btrfs();
}

/* Copies what the program has to say out of its messages: extents to the
 * answer, the first error to `what`. */
static int collect(int channel, enum pcu_step step)
{
    struct pc_message message;
    off_t at = 0;
    ssize_t got;

    while ((got = pread(channel, &message, sizeof message, at)) == (ssize_t)sizeof message) {
        at += got;
        if (message.magic != PC_WIRE_MAGIC || message.length > PC_WIRE_PAYLOAD_MAX) {
            errno = EBADMSG;
            return fail(step, "message of the program");
        }
        if (message.type == PC_EXTENT) {
            if (page->answer + message.length > page->capacity) {
                errno = ENOSPC;
                return fail(PCU_STEP_CHECK, "room for extents");
            }
            if (pread(channel, area + page->answer, message.length, at) != message.length)
                return fail(step, "extents of the program");
            page->answer += message.length;
        } else if (message.type == PC_ERROR && page->step == PCU_STEP_NONE) {
            char text[200] = "";
            size_t size = message.length < sizeof text ? message.length : sizeof text - 1;

            if (pread(channel, text, size, at) < 0)
                text[0] = '\0';
            errno = (int)message.value;
            fail(step, "%s", text);
        }
        at += message.length;
    }
    return page->step == PCU_STEP_NONE ? 0 : -1;
}

int execute(char *const argv[], enum pcu_step step)
{
    static char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    int channel, status, error, result;
    pid_t child;

    channel = memfd_create("channel", MFD_CLOEXEC);
    if (channel < 0)
        return fail(PCU_STEP_CHECK, "memfd_create");
    posix_spawn_file_actions_init(&actions);
    if (channel == CHANNEL) /* dup2 onto itself would keep the close-on-exec flag */
        fcntl(channel, F_SETFD, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL);
    error = posix_spawn(&child, argv[0], &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        close(channel);
        errno = error;
        return fail(PCU_STEP_CHECK, "start %s", argv[0]);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    page->status = (uint32_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    result = collect(channel, step);
    close(channel);
    if (result == 0 && page->status != 0) {
        errno = 0;
        result = fail(step, "%s ended with status %u", argv[0], page->status);
    }
    return result;
}

int execute_once(void)
{
    char text[8192], *argv[ARGUMENTS_MAX + 1];

    if (page->length >= sizeof text) {
        errno = E2BIG;
        return fail(PCU_STEP_CHECK, "the command line");
    }
    memset(text, 0, sizeof text);
    memcpy(text, area, page->length);
    take_list(text, argv);
    return execute(argv, PCU_STEP_READ);
}

static uint64_t lap(enum pcu_step step, uint64_t since)
{
    uint64_t now = now_ns();

    page->step_ns[step] += now - since;
    return now;
}

/* The workload goes on after recovery; then a clean shutdown and a second mount:
 * the reader's second opinion replaces the first. */
static int go_on(void)
{
    if (execute(plan.after, PCU_STEP_AFTER) != 0 || fs_umount() != 0 || fs_mount() != 0)
        return -1;
    page->answer = 0;
    return reader_run(PCU_STEP_AFTER);
}

/* Whatever happens in between, the view is let go of: a file system that stays
 * mounted would leak into the next state. */
int recover(void)
{
    uint64_t time = now_ns();

    if (view_patch() != 0)
        return -1;
    time = lap(PCU_STEP_PATCH, time);
    if (view_fresh(NULL) != 0 || view_track() != 0)
        return -1;
    time = lap(PCU_STEP_VIEW, time);
    if (fs_mount() != 0) {
        view_check();
        forget_btrfs();
        return view_reads();
    }
    time = lap(PCU_STEP_MOUNT, time);
    reader_run(PCU_STEP_READ);
    time = lap(PCU_STEP_READ, time);
    if (plan.after[0] != NULL && page->step == PCU_STEP_NONE) {
        go_on();
        time = lap(PCU_STEP_AFTER, time);
    }
    if (fs_umount() != 0)
        return -1;
    time = lap(PCU_STEP_UMOUNT, time);
    view_check();
    view_reads();
    lap(PCU_STEP_CHECK, time);
    return page->step == PCU_STEP_NONE ? 0 : -1;
}
