/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs.  Each ends with DONE, whose value is 0 or the exit status of what
 * ran; whatever failed was named by an ERROR before.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../common/mount_options.h"
#include "../common/press.h"
#include "../common/reads.h"

#define FULL_BYTES (1u << 20) /* room below which a program may fail for the lack of it */

#define ANSWER_BYTES (1u << 22)

static bool reads_noted; /* between `reads` and `listed` */

typedef bool verb_function(const struct command *command, int *status);

static bool device_node(const char *device, char *node, size_t size)
{
    snprintf(node, size, "/dev/%s", device_name(device));
    return wait_device(device, DEVICE_TIMEOUT_MS);
}

static bool verb_mount(const struct command *command, int *status)
{
    const char *type = command->argv[1], *directory = command->argv[3];
    const char *options = command->argc > 4 ? command->argv[4] : "";
    char node[300], list[300], data[512];
    (void)status;

    if (strlen(options) >= sizeof data)
        return failed(E2BIG, "mount options '%.64s...'", options);
    /* Not every file system is loaded at boot: btrfs alone measures its RAID
     * code for more than a second. */
    snprintf(list, sizeof list, "/modules/order.%s", type);
    if (access(list, F_OK) == 0 && !modules_load(list))
        return failed_as(PC_FAULT_MODULE);
    if (!device_node(command->argv[2], node, sizeof node) || !make_directories(directory))
        return false;
    unsigned long flags = mount_options_split(options, data, sizeof data);
    if (mount(node, directory, type, flags, data)) {
        failed(errno, "mount %s %s on %s (%s)", type, node, directory, options);
        return failed_as(PC_FAULT_MOUNT);
    }
    kernel_log_send(); /* "Starting recovery" and the like: what the file system had to do */
    return true;
}

static bool verb_umount(const struct command *command, int *status)
{
    (void)status;
    if (umount2(command->argv[1], 0))
        return failed(errno, "umount %s", command->argv[1]);
    kernel_log_send();
    return true;
}

static bool verb_exec(const struct command *command, int *status)
{
    return child_run(command->argv + 1, NULL, status);
}

static bool verb_root(const struct command *command, int *status)
{
    (void)status;
    return root_mount(command->argv[1], command->argv[2], command->argv[3]);
}

static bool verb_machine(const struct command *command, int *status)
{
    (void)status;
    return root_machine(command->argv[1], command->argv[2], command->argv[3]);
}

static bool verb_show(const struct command *command, int *status)
{
    (void)status;
    if (strchr(command->argv[2], '/') == NULL)
        return failed(EINVAL, "show %s as %s", command->argv[1], command->argv[2]);
    return root_show(command->argv[1], command->argv[2]);
}

/* FOLDER COUNT NAME=VALUE... PATH ARG... */
static bool run_program(const struct command *command, int at, struct place place, int *status)
{
    char *environment[AGENT_ARGUMENTS_MAX + 1] = {NULL};
    int count = atoi(command->argv[at + 1]);

    if (count < 0 || count > command->argc - at - 3)
        return failed(EINVAL, "%s with %s variables in %d words", command->argv[0], command->argv[at + 1],
                      command->argc);
    memcpy(environment, command->argv + at + 2, (size_t)count * sizeof *environment);
    place.folder = command->argv[at];
    place.environment = environment;
    return child_run(command->argv + at + 2 + count, &place, status);
}

static bool verb_program(const struct command *command, int *status)
{
    return run_program(command, 1, (struct place){.dated = reads_noted}, status);
}

/* works 0|1 0|1 and the words of `program`: whether its lines are stamped, and its syncs dropped. */
static bool verb_works(const struct command *command, int *status)
{
    struct place place = {.stamped = command->argv[1][0] == '1',
                          .unsynced = command->argv[2][0] == '1'};

    return run_program(command, 3, place, status);
}

/* acks COUNT MILLISECONDS POINT and the words of `program`; POINT is where its data are. */
static bool verb_acks(const struct command *command, int *status)
{
    struct enough enough = {strtoul(command->argv[1], NULL, 10), strtoul(command->argv[2], NULL, 10)};
    struct statvfs room;

    if (!run_program(command, 4, (struct place){.enough = &enough}, status))
        return false;
    if (*status && statvfs(command->argv[3], &room) == 0 &&
        (uint64_t)room.f_bavail * room.f_frsize < FULL_BYTES)
        return failed(ENOSPC, "find room on %s", command->argv[3]);
    return true;
}

/* press SEED POINT...: the kernel writes back early, and there is a neighbour at each point. */
static bool verb_press(const struct command *command, int *status)
{
    (void)status;
    return press_begin(strtoull(command->argv[1], NULL, 10), command->argv + 2) == 0 ||
           failed(errno, "press the page cache");
}

/* reads POINT...: the file systems mounted there; those after the first lie below it. */
static bool verb_reads(const struct command *command, int *status)
{
    (void)status;
    for (int i = 1; i < command->argc; i++)
        if (reads_date(command->argv[i]))
            return failed(errno, "date what is read on %s", command->argv[i]);
    if (reads_begin(command->argv[1]))
        return failed(errno, "list %s", command->argv[1]);
    reads_noted = true;
    return true;
}

/* listed 0|1: what has been read since; with 1 what files hold, too. */
static bool verb_listed(const struct command *command, int *status)
{
    uint8_t *answer = malloc(ANSWER_BYTES);
    size_t length = answer ? reads_put(answer, ANSWER_BYTES, command->argv[1][0] == '1') : 0;
    (void)status;

    reads_noted = false;
    for (size_t at = 0, part; at < length; at += part) {
        part = length - at < PC_WIRE_PAYLOAD_MAX ? length - at : PC_WIRE_PAYLOAD_MAX;
        port_send(PC_READS, 0, 0, answer + at, part);
    }
    free(answer);
    return length > 0 || failed(ENOMEM, "list what was read");
}

static bool verb_mkdir(const struct command *command, int *status)
{
    (void)status;
    return make_directories(command->argv[1]);
}

static bool verb_write(const struct command *command, int *status)
{
    (void)status;
    return write_text(command->argv[1], command->argv[2]);
}

/* sync(2) reports nothing; of one file system, syncfs(2) does. */
static bool verb_sync(const struct command *command, int *status)
{
    (void)status;
    if (command->argc == 1) {
        sync();
        return true;
    }
    int fd = open(command->argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(errno, "open %s", command->argv[1]);
    int error = syncfs(fd) ? errno : 0;
    close(fd);
    return error ? failed(error, "syncfs %s", command->argv[1]) : true;
}

static bool verb_flushbufs(const struct command *command, int *status)
{
    char node[300];
    (void)status;

    if (!device_node(command->argv[1], node, sizeof node))
        return false;
    int fd = open(node, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(errno, "open %s", node);
    int error = ioctl(fd, BLKFLSBUF, 0) ? errno : 0;
    close(fd);
    return error ? failed(error, "ioctl BLKFLSBUF %s", node) : true;
}

static bool verb_probe(const struct command *command, int *status)
{
    char node[300];
    (void)status;

    return device_node(command->argv[1], node, sizeof node) && disk_probe(node);
}

static bool verb_find(const struct command *command, int *status)
{
    char name[256];
    (void)status;

    if (!find_by_serial(command->argv[1], name, sizeof name, DEVICE_TIMEOUT_MS))
        return false;
    port_text(PC_FACT, "device=%s", name);
    return true;
}

static bool verb_stripes(const struct command *command, int *status)
{
    (void)status;
    return stripes_make(command->argv[1], command->argv[2], command->argv + 3, command->argc - 3);
}

static bool verb_facts(const struct command *command, int *status)
{
    (void)status;
    return facts_send(command->argv[1]);
}

static bool verb_stat(const struct command *command, int *status)
{
    (void)status;
    return facts_stat(command->argv[1]);
}

static bool verb_trace(const struct command *command, int *status)
{
    (void)command, (void)status;
    return trace_mount();
}

static bool verb_read(const struct command *command, int *status)
{
    (void)status;
    return text_send(command->argv[1]);
}

static bool verb_fsync(const struct command *command, int *status)
{
    (void)status;
    return file_sync(command->argv[1]);
}

/* A guest restored from a template said its HELLO before the template was saved. */
static bool verb_hello(const struct command *command, int *status)
{
    (void)command, (void)status;
    hello_send();
    return true;
}

static bool verb_poweroff(const struct command *command, int *status)
{
    (void)status;
    port_send(PC_DONE, command->id, 0, NULL, 0);
    port_flush();
    power_off();
}

static const struct verb {
    const char *name;
    int arguments_min, arguments_max; /* without the verb itself */
    verb_function *run;
} verbs[] = {
    {"facts", 1, 1, verb_facts},
    {"find", 1, 1, verb_find},
    {"stripes", 4, AGENT_ARGUMENTS_MAX, verb_stripes},
    {"mount", 3, 4, verb_mount},
    {"umount", 1, 1, verb_umount},
    {"exec", 1, AGENT_ARGUMENTS_MAX, verb_exec},
    {"root", 2, 3, verb_root},
    {"machine", 3, 3, verb_machine},
    {"show", 2, 2, verb_show},
    {"program", 3, AGENT_ARGUMENTS_MAX, verb_program},
    {"acks", 6, AGENT_ARGUMENTS_MAX, verb_acks},
    {"works", 5, AGENT_ARGUMENTS_MAX, verb_works},
    {"press", 1, 8, verb_press},
    {"reads", 1, AGENT_ARGUMENTS_MAX, verb_reads},
    {"listed", 1, 1, verb_listed},
    {"mkdir", 1, 1, verb_mkdir},
    {"write", 2, 2, verb_write},
    {"sync", 0, 1, verb_sync},
    {"flushbufs", 1, 1, verb_flushbufs},
    {"probe", 1, 1, verb_probe},
    {"stat", 1, 1, verb_stat},
    {"trace", 0, 0, verb_trace},
    {"read", 1, 1, verb_read},
    {"fsync", 1, 1, verb_fsync},
    {"hello", 0, 0, verb_hello},
    {"poweroff", 0, 0, verb_poweroff},
};

static bool run_verb(const struct command *command, int *status)
{
    int arguments = command->argc - 1;

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, command->argv[0]))
            continue;
        if (arguments < verbs[i].arguments_min || arguments > verbs[i].arguments_max)
            return failed(EINVAL, "%s takes %d to %d arguments, not %d", verbs[i].name,
                          verbs[i].arguments_min, verbs[i].arguments_max, arguments);
        return verbs[i].run(command, status);
    }
    return failed(ENOSYS, "no such verb: %s", command->argv[0]);
}

void command_execute(const struct command *command)
{
    int status = 0;

    kernel_log_open();
    if (!run_verb(command, &status)) {
        /* The failure is kept: sending the log must not lose it. */
        struct failure failure = last_failure;
        kernel_log_send();
        last_failure = failure;
        port_text(PC_ERROR, "%s", failure.call);
        if (!status)
            status = 1;
    } else if (status) {
        kernel_log_send(); /* a program that failed has said so itself; the kernel may know why */
    }
    port_send(PC_DONE, command->id, (uint64_t)status, NULL, 0);
    port_flush();
}
