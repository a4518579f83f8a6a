/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guest sees of itself and of a disk.  A fact that the kernel does not
 * offer is not sent: a reader must treat a missing fact as unknown.
 */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* Block devices with a size, but for loop and RAM disks: "vda,vdb". */
static void list_disks(char *names, size_t size)
{
    DIR *blocks = opendir("/sys/block");
    struct dirent *entry;
    size_t used = 0;

    *names = '\0';
    while (blocks && (entry = readdir(blocks))) {
        const char *name = entry->d_name;
        if (*name == '.' || !strncmp(name, "loop", 4) || !strncmp(name, "ram", 3))
            continue;
        if (used + strlen(name) + 2 > size)
            break;
        used += (size_t)sprintf(names + used, "%s%s", used ? "," : "", name);
    }
    if (blocks)
        closedir(blocks);
}

static void first_cpu(char *model, size_t size)
{
    char text[4096];
    const char *line;

    snprintf(model, size, "unknown");
    if (read_text("/proc/cpuinfo", text, sizeof text) && (line = strstr(text, "model name")) &&
        (line = strchr(line, ':')))
        snprintf(model, size, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
}

void hello_send(void)
{
    struct utsname kernel;
    char disks[512], clock[64] = "unknown", model[128];

    uname(&kernel);
    list_disks(disks, sizeof disks);
    read_text(CLOCKSOURCE, clock, sizeof clock);
    first_cpu(model, sizeof model);
    port_text(PC_HELLO,
              "agent=%s\nrelease=%s\nversion=%s\nmachine=%s\nclocksource=%s\ncpus=%ld\n"
              "cpu_model=%s\ndisks=%s\nmodules=%u\nmodules_failed=%s\nuptime_ns=%llu\n",
              AGENT_VERSION, kernel.release, kernel.version, kernel.machine, clock,
              sysconf(_SC_NPROCESSORS_ONLN), model, disks, modules_loaded, modules_failed,
              (unsigned long long)pc_now_ns());
    port_flush();
}

static void fact_file(const char *key, const char *path)
{
    char value[512];

    if (read_text(path, value, sizeof value))
        port_text(PC_FACT, "%s=%s", key, value);
}

/* Hardware queues of the block layer: a folder each (Documentation/block/blk-mq.rst). */
static void fact_queues(const char *name)
{
    char path[300];
    struct dirent *entry;
    unsigned count = 0;

    snprintf(path, sizeof path, "/sys/class/block/%s/mq", name);
    DIR *queues = opendir(path);
    if (!queues)
        return;
    while ((entry = readdir(queues)))
        count += *entry->d_name != '.';
    closedir(queues);
    port_text(PC_FACT, "queues=%u", count);
}

/* The driver is two links up: virtio_blk, sd, nvme. */
static void fact_driver(const char *name)
{
    static const char *const links[] = {"device/driver", "device/device/driver"};
    char path[300], target[300];

    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "/sys/class/block/%s/%s", name, links[i]);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        const char *slash = strrchr(target, '/');
        port_text(PC_FACT, "driver=%s", slash ? slash + 1 : target);
        return;
    }
}

bool facts_send(const char *device)
{
    static const char *const entries[] = {
        "queue/write_cache",          "queue/fua",
        "queue/logical_block_size",   "queue/physical_block_size",
        "queue/rotational",           "queue/scheduler",
        "queue/nr_requests",          "queue/max_sectors_kb",
        "queue/discard_max_bytes",    "queue/write_zeroes_max_bytes",
        "queue/stable_writes",        "size",
        "cache_type",                 "serial",
        "ro",
    };
    const char *name = device_name(device);
    struct utsname kernel;
    char path[300];

    if (!wait_device(name, DEVICE_TIMEOUT_MS))
        return false;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const char *slash = strrchr(entries[i], '/');
        snprintf(path, sizeof path, "/sys/class/block/%s/%s", name, entries[i]);
        fact_file(slash ? slash + 1 : entries[i], path);
    }
    fact_driver(name);
    fact_queues(name);
    fact_file("clocksource", CLOCKSOURCE);
    uname(&kernel);
    port_text(PC_FACT, "kernel=%s %s", kernel.release, kernel.version);
    return true;
}

/* Fields: Documentation/block/stat.rst of the kernel; 16 and 17 are flushes. */
bool facts_stat(const char *device)
{
    char path[300], value[512];

    if (!wait_device(device, DEVICE_TIMEOUT_MS))
        return false;
    snprintf(path, sizeof path, "/sys/class/block/%s/stat", device_name(device));
    if (!read_text(path, value, sizeof value))
        return false;
    port_text(PC_FACT, "stat=%s", value);
    return true;
}
