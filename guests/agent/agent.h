/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest agent: PID 1 of the small guest.
 *
 * It mounts what the kernel offers, loads modules, says HELLO on the
 * virtio-serial port named "ctl" and then executes the controller's commands
 * one after the other (workloads/common/wire.h has the messages).  There is no
 * shell and nothing else in the guest.
 *
 * Rules that hold everywhere in this folder:
 * - PID 1 never exits: the kernel would panic and the reason would be lost.
 *   `die` writes it to the console and powers the guest off.
 * - A function that can fail returns false after `failed(...)` has kept errno
 *   and the call, so that ERROR can name both.
 * - While a child runs the agent reads and writes nothing on the port, since the
 *   child has it: two writers would mix their messages, and two readers would share
 *   them out.  A child that was told so (pings=1) answers the controller's PINGs.
 */
#ifndef POWERCUT_AGENT_H
#define POWERCUT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../workloads/common/clock.h"
#include "../../workloads/common/wire.h"

#define AGENT_VERSION "2"
#define AGENT_ARGUMENTS_MAX 64

/* One command as it came: argument strings, verb first, NULL-terminated. */
struct command {
    uint64_t id;
    int argc;
    char *argv[AGENT_ARGUMENTS_MAX + 1];
};

/* failure.c: the last failure, and the end of everything. */
struct failure {
    int error;
    enum pc_fault fault;
    char call[512];
};
extern struct failure last_failure;
bool failed(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool failed_as(enum pc_fault fault);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void power_off(void);

/* files.c: whole small files, paths, pauses. */
bool read_text(const char *path, char *text, size_t size);
bool write_text(const char *path, const char *text);
bool make_directories(const char *path);
bool kernel_argument(const char *key, char *value, size_t size);
void sleep_ms(unsigned ms);

/* device.c: block devices by name, and by serial number. */
#ifndef DEVICE_TIMEOUT_MS /* tests have less patience */
#define DEVICE_TIMEOUT_MS 10000
#endif
const char *device_name(const char *device);
bool wait_device(const char *name, unsigned timeout_ms);
bool find_by_serial(const char *serial, char *name, size_t size, unsigned timeout_ms);

/* stripes.c: several disks as one. */
bool stripes_make(const char *sectors, const char *chunk, char *const disks[], int count);

/* modules.c: kernel modules, and how loading them went. */
extern unsigned modules_loaded;
extern char modules_failed[1024];
void modules_boot(void);
bool modules_load(const char *list);

/* boot.c: from nothing to a guest that can work. */
void boot_mount(void);
void boot_wait_disks(void);

/* port.c: messages on the port.  They gather until `port_flush`. */
extern int port_fd;
void port_find(void);
int port_named(const char *wanted);
void port_use(int fd);
void port_send(uint16_t type, uint64_t lsn, uint64_t value, const void *payload, size_t length);
void port_text(uint16_t type, const char *format, ...) __attribute__((format(printf, 2, 3)));
void port_flush(void);
enum port_event {
    PORT_COMMAND,   /* there is a command to execute */
    PORT_REFUSED,   /* what came is no command; that was answered */
    PORT_PINGED,    /* that, too; it was a PING */
    PORT_CONNECTED, /* the controller had gone, and another one is there */
};
enum port_event port_receive(struct command *command);

/* kernel_log.c: what the kernel has to say about a command. */
void kernel_log_open(void);
void kernel_log_send(void);

/* facts.c: what the guest sees of itself and of a disk. */
void hello_send(void);
bool facts_send(const char *device);
bool facts_stat(const char *device);

/* probe.c: does a disk answer? */
bool disk_probe(const char *node);

/* trace.c: trace events, whole files as TEXT, and fsync. */
bool trace_mount(void);
bool text_send(const char *path);
bool file_sync(const char *path);

/* root.c: the root file system of anybody's program. */
#define AGENT_ROOT "/root"
bool root_mount(const char *serial, const char *type, const char *program);
bool root_furnish(void);
bool root_machine(const char *mac, const char *id, const char *first_pid);

/* share.c: a program on a folder that the host shares; returns if the guest is not for that. */
void share_run(void);

/* The file `from` of the agent's own, as `to`. */
bool root_show(const char *from, char *to);

/* Where a child lives: the agent's own root, without an environment and with the port as fd 3; or
 * AGENT_ROOT, where it starts in `folder`, and fd 3 is the port for lines. */
struct enough {
    unsigned long acks, ms;
};
struct place {
    const char *folder;
    char *const *environment;
    bool unsynced;               /* its calls to sync succeed and do nothing */
    bool stamped;                /* its lines come as PC_LINES */
    bool dated;                  /* whatever it reads is dated */
    const struct enough *enough; /* it is ended after so many acks, or so long; NULL: it is not */
};

/* acks.c: runs a program until it has acknowledged enough; its exit status, or 0 for enough. */
int acks_run(char *const argv[], char *const environment[], int port, const struct enough *enough);

/* stamps.c: runs a program, stamps its lines and answers PINGs; its exit status.  `report` is told the
 * errno if it could not be started.  `stamps_end` says behind all lines that they are. */
int stamps_run(char *const argv[], char *const environment[], int port, int report);
bool stamps_end(int port);

/* child.c: one child at a time. */
bool child_run(char *const argv[], const struct place *place, int *status);

/* commands.c: the verbs. */
void command_execute(const struct command *command);

#endif
