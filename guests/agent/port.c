/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on the virtio-serial port.
 *
 * Without udev there is no /dev/virtio-ports/NAME: the name is in
 * /sys/class/virtio-ports/vportNpM/name, the node is /dev/vportNpM.
 */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../workloads/common/wire_out.h"

#define PORT_NAME "ctl"
#define PORT_TIMEOUT_MS 10000

int port_fd = -1;

static struct pc_outbox outbox;

/* A descriptor of the port called `wanted`; -1 if there is none yet. */
int port_named(const char *wanted)
{
    DIR *ports = opendir("/sys/class/virtio-ports");
    struct dirent *entry;
    char path[512], name[64];
    int fd = -1;

    if (!ports) {
        failed(errno, "opendir /sys/class/virtio-ports");
        return -1;
    }
    failed(ENODEV, "find a virtio-serial port named %s", wanted);
    while (fd < 0 && (entry = readdir(ports))) {
        snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
        if (entry->d_name[0] == '.' || !read_text(path, name, sizeof name) ||
            strcmp(name, wanted))
            continue;
        snprintf(path, sizeof path, "/dev/%s", entry->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            failed(errno, "open %s", path);
    }
    closedir(ports);
    return fd;
}

/* Talks on `fd` from here on. */
void port_use(int fd)
{
    port_fd = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* children get it as fd 3 and under no other number */
    pc_outbox_init(&outbox, fd);
}

/* Opens the port, or dies: without it nobody can be told anything. */
void port_find(void)
{
    uint64_t deadline = pc_now_ns() + PORT_TIMEOUT_MS * 1000000ull;

    while ((port_fd = port_named(PORT_NAME)) < 0) {
        if (pc_now_ns() >= deadline)
            die("%s: %s; modules that failed: %s", last_failure.call, strerror(last_failure.error),
                *modules_failed ? modules_failed : "none");
        sleep_ms(2); /* the port appears after virtio_console's probe */
    }
    port_use(port_fd);
}

/* Adds a message to the outbox; it leaves with `port_flush`, as one write(). */
void port_send(uint16_t type, uint64_t lsn, uint64_t value, const void *payload, size_t length)
{
    struct pc_message message = {.type = type, .lsn = lsn, .value = value};

    if (length > PC_WIRE_PAYLOAD_MAX)
        length = PC_WIRE_PAYLOAD_MAX;

    int error = pc_outbox_add(&outbox, message, payload, (uint32_t)length);

    if (error)
        die("write to the controller: %s", strerror(-error));
}

void port_flush(void)
{
    int error = pc_outbox_flush(&outbox);

    if (error)
        die("write to the controller: %s", strerror(-error));
}

/* A message whose payload is text (FACT, ERROR's call, TEXT, HELLO). */
void port_text(uint16_t type, const char *format, ...)
{
    char text[4096];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    bool error = type == PC_ERROR;
    port_send(type, error ? last_failure.fault : 0, error ? (uint64_t)last_failure.error : 0, text,
              (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* The controller has gone: a port without a peer reads as end of file.  Returns when
 * another one has connected. */
static void wait_controller(void)
{
    struct pollfd port = {.fd = port_fd, .events = POLLIN};

    if (getpid() != 1)
        exit(EXIT_SUCCESS);
    do
        sleep_ms(10); /* POLLHUP is a state, not an event: poll() would return at once */
    while (poll(&port, 1, 0) > 0 && (port.revents & POLLHUP));
}

/* Fills `buffer`; false if the controller went away before its first byte or midway. */
static bool receive_all(void *buffer, size_t length)
{
    for (size_t have = 0; have < length;) {
        ssize_t got = read(port_fd, (char *)buffer + have, length - have);
        if (got == 0)
            return false;
        if (got > 0)
            have += (size_t)got;
        else if (errno != EINTR && errno != EAGAIN)
            die("read from the controller: %s", strerror(errno));
    }
    return true;
}

/* Waits for the next command.  What is not one is answered here; the outbox is empty while the
 * agent waits, so a PONG may go past it. */
enum port_event port_receive(struct command *command)
{
    static struct {
        struct pc_message header;
        char payload[PC_WIRE_PAYLOAD_MAX + 1];
    } in;

    if (!receive_all(&in.header, sizeof in.header)) {
        wait_controller();
        return PORT_CONNECTED;
    }
    if (in.header.magic != PC_WIRE_MAGIC || in.header.length > PC_WIRE_PAYLOAD_MAX)
        die("the controller's stream is out of step: magic %08x, length %u", in.header.magic,
            in.header.length);
    if (!receive_all(in.payload, in.header.length)) {
        wait_controller();
        return PORT_CONNECTED;
    }
    if (!pc_wire_valid(&in.header, in.payload))
        die("a command arrived damaged (CRC %08x)", in.header.crc);

    if (in.header.type == PC_PING) {
        int error = pc_wire_pong(port_fd, &in.header);

        if (error)
            die("write to the controller: %s", strerror(-error));
        return PORT_PINGED;
    }
    in.payload[in.header.length] = '\0';
    command->id = in.header.lsn;
    command->argc = 0;
    for (size_t at = 0; at < in.header.length && command->argc < AGENT_ARGUMENTS_MAX;
         at += strlen(in.payload + at) + 1)
        command->argv[command->argc++] = in.payload + at;
    command->argv[command->argc] = NULL;
    if (in.header.type == PC_COMMAND && command->argc > 0)
        return PORT_COMMAND;
    failed(EPROTO, "understand message type %u of %u bytes", in.header.type, in.header.length);
    port_text(PC_ERROR, "%s", last_failure.call);
    port_send(PC_DONE, command->id, 1, NULL, 0);
    port_flush();
    return PORT_REFUSED;
}
