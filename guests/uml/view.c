/* SPDX-License-Identifier: Apache-2.0
 *
 * The origin (/dev/ram0) and the view (/dev/dm-0, a snapshot of it).
 *
 * A snapshot that shares its exception store with a living one would take over
 * that one's exceptions (dm-snapshot calls it handover).  So two stores,
 * /dev/ram1 and /dev/ram2, take turns: the old view is gone before its store
 * is used again.  The store is not persistent ("N"): which of its chunks mean
 * what is known to the target alone and dies with it.
 *
 * The origin is patched past the page cache (O_DIRECT), and nobody else ever
 * opens it: there is no cached block that could be stale.  The view's own
 * cached blocks go when its last opener closes it, at unmount.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/dm.h"

#define VIEW "view"
#define ORIGIN "/dev/ram0"
#define BOUNCE (1u << 20) /* bytes; O_DIRECT cannot read I/O memory */

static int origin = -1;
static uint8_t *bounce;

void module_load(const char *module, const char *parameters)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "/modules/%s.ko", module);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (syscall(SYS_finit_module, fd, parameters, 0) != 0 && errno != EEXIST))
        die(path);
    close(fd);
}

void view_setup(void)
{
    char parameters[64];

    /* The stores hold at most one chunk for every chunk of the disk. */
    snprintf(parameters, sizeof parameters, "rd_nr=4 rd_size=%llu",
             (unsigned long long)(page->disk_size / 1024 + page->chunk + 64));
    module_load("brd", parameters);
    module_load("dm-mod", "");
    module_load("dm-bufio", "");
    module_load("dm-snapshot", "");
    origin = open(ORIGIN, O_RDWR | O_DIRECT | O_CLOEXEC);
    if (origin < 0)
        die("open " ORIGIN);
    if (posix_memalign((void **)&bounce, 4096, BOUNCE) != 0)
        die("posix_memalign");
    if (dm_create(VIEW) != 0)
        die("create the view");
}

static int patch(const struct pcu_patch *patch)
{
    uint64_t done, size;

    for (done = 0; done < patch->length; done += size) {
        size = patch->length - done < BOUNCE ? patch->length - done : BOUNCE;
        if (patch->data == PCU_ZEROES)
            memset(bounce, 0, size);
        else
            memcpy(bounce, area + patch->data + done, size);
        if (pwrite(origin, bounce, size, (off_t)(patch->offset + done)) != (ssize_t)size)
            return fail(PCU_STEP_PATCH, "write %s at %llu", ORIGIN,
                        (unsigned long long)(patch->offset + done));
    }
    return 0;
}

int view_patch(void)
{
    const struct pcu_patch *patches = (const struct pcu_patch *)area;
    uint64_t index;

    for (index = 0; index < page->count; index++)
        if (patch(&patches[index]) != 0)
            return -1;
    return 0;
}

int view_fresh(const char *device)
{
    static unsigned turn;
    char parameters[96];

    turn ^= 1;
    snprintf(parameters, sizeof parameters, "%s 1:%u N %llu", device == NULL ? "1:0" : device,
             1 + turn, (unsigned long long)page->chunk);
    if (dm_swap(VIEW, page->disk_size / 512, "snapshot", parameters) != 0)
        return fail(PCU_STEP_VIEW, "snapshot %s", parameters);
    return 0;
}

int view_check(void)
{
    char line[256];

    if (dm_status(VIEW, line, sizeof line) != 0)
        return fail(PCU_STEP_CHECK, "status of the view");
    if (strchr(line, '/') == NULL) { /* "used/all metadata", or a word for what is wrong */
        page->step = PCU_STEP_NONE; /* this explains whatever failed before */
        errno = ENOSPC;
        return fail(PCU_STEP_CHECK, "the view is %s", line);
    }
    return 0;
}

/* The kernel counts the requests to each granule of the view (dm-stats); its counters
 * belong to the device and live on when the table is exchanged. */
static uint32_t tracked;

int view_track(void)
{
    char message[64];

    if (page->track == tracked)
        return tracked == 0 || dm_message(VIEW, "@stats_clear 0", NULL, 0) == 0
                   ? 0
                   : fail(PCU_STEP_VIEW, "clear the read map");
    if (tracked != 0 && dm_message(VIEW, "@stats_delete 0", NULL, 0) != 0)
        return fail(PCU_STEP_VIEW, "delete the read map");
    tracked = 0;
    if (page->track == 0)
        return 0;
    snprintf(message, sizeof message, "@stats_create - %u", page->track);
    if (dm_message(VIEW, message, NULL, 0) != 0)
        return fail(PCU_STEP_VIEW, "create the read map");
    tracked = page->track;
    return 0;
}

/* Appends to the answers, as u64, the first sector of each granule that was read.  A line
 * is "START+LENGTH READS MERGED ...". */
int view_reads(void)
{
    static char text[4 << 20];
    uint64_t answers = page->answer + page->after_answer;
    unsigned long long start, count;
    char *line, *next;

    if (tracked == 0)
        return 0;
    if (dm_message(VIEW, "@stats_print 0", text, sizeof text) != 0) {
        page->step = PCU_STEP_NONE;
        return fail(PCU_STEP_CHECK, "print the read map");
    }
    for (line = text; *line != '\0'; line = next) {
        next = strchr(line, '\n');
        next = next == NULL ? line + strlen(line) : next + 1;
        if (sscanf(line, "%llu+%*u %llu", &start, &count) != 2) {
            page->step = PCU_STEP_NONE;
            errno = EBADMSG;
            return fail(PCU_STEP_CHECK, "the read map");
        }
        if (count == 0)
            continue;
        if (answers + page->reads + sizeof(uint64_t) > page->capacity) {
            page->step = PCU_STEP_NONE;
            errno = ENOSPC;
            return fail(PCU_STEP_CHECK, "room for the read map");
        }
        memcpy(area + answers + page->reads, &(uint64_t){start}, sizeof(uint64_t));
        page->reads += sizeof(uint64_t);
    }
    return 0;
}

int view_dump(void)
{
    return device_dump(DISK);
}

int device_dump(const char *device)
{
    int fd = open(device, O_RDONLY | O_DIRECT | O_CLOEXEC);
    uint64_t done, size;

    if (fd < 0)
        return fail(PCU_STEP_VIEW, "open %s", device);
    for (done = 0; done < page->length; done += size) {
        size = page->length - done < BOUNCE ? page->length - done : BOUNCE;
        if (pread(fd, bounce, size, (off_t)(page->offset + done)) != (ssize_t)size) {
            close(fd);
            return fail(PCU_STEP_VIEW, "read %s at %llu", device,
                        (unsigned long long)(page->offset + done));
        }
        memcpy(area + done, bounce, size);
    }
    close(fd);
    page->answer = done;
    return 0;
}
