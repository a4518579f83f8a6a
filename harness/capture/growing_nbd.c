/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of NBD (doc/proto.md of the NBD project): fixed newstyle, simple replies, one request at
 * a time on each connection, and a connection for each thread.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "growing.h"

#define GREETING_MAGIC 0x4e42444d41474943u
#define OPTION_MAGIC 0x49484156454f5054u

enum {
    FLAG_FIXED = 1,
    OPTION_EXPORT_NAME = 1,
    EXPORT_PADDING = 124,
    REQUEST_MAGIC = 0x25609513,
    REPLY_MAGIC = 0x67446698,
};

struct greeting {
    uint64_t magic, option_magic;
    uint16_t flags;
} __attribute__((packed));

struct option {
    uint32_t client_flags;
    uint64_t magic;
    uint32_t option, length;
} __attribute__((packed));

struct export {
    uint64_t size;
    uint16_t flags;
    uint8_t padding[EXPORT_PADDING];
} __attribute__((packed));

struct nbd_packet {
    uint32_t magic;
    uint16_t flags, type;
    uint64_t handle, offset;
    uint32_t length;
} __attribute__((packed));

struct reply {
    uint32_t magic, error;
    uint64_t handle;
} __attribute__((packed));

static struct sockaddr_un server = {.sun_family = AF_UNIX};
static pthread_key_t connections;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Descriptors are kept one higher: a thread without a connection has NULL. */
static void hang_up(void *connection)
{
    close((int)(intptr_t)connection - 1);
}

static void make_key(void)
{
    if (pthread_key_create(&connections, hang_up))
        abort();
}

void nbd_server(const char *socket)
{
    strncpy(server.sun_path, socket, sizeof server.sun_path - 1);
}

static bool send_all(int fd, const void *bytes, size_t count)
{
    const char *next = bytes;
    while (count) {
        ssize_t done = send(fd, next, count, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        next += done;
        count -= (size_t)done;
    }
    return true;
}

static bool receive_all(int fd, void *bytes, size_t count)
{
    char *next = bytes;
    while (count) {
        ssize_t done = recv(fd, next, count, 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        next += done;
        count -= (size_t)done;
    }
    return true;
}

static bool shake_hands(int fd, uint64_t *size)
{
    struct greeting greeting;
    if (!receive_all(fd, &greeting, sizeof greeting) ||
        be64toh(greeting.magic) != GREETING_MAGIC ||
        be64toh(greeting.option_magic) != OPTION_MAGIC || !(be16toh(greeting.flags) & FLAG_FIXED))
        return false;
    struct option option = {
        .client_flags = htobe32(FLAG_FIXED),
        .magic = htobe64(OPTION_MAGIC),
        .option = htobe32(OPTION_EXPORT_NAME),
    };
    struct export export;
    if (!send_all(fd, &option, sizeof option) || !receive_all(fd, &export, sizeof export))
        return false;
    *size = be64toh(export.size);
    return true;
}

/* The calling thread's connection; -1, and errno, if there is none. */
static int connection(uint64_t *size)
{
    pthread_once(&once, make_key);
    int fd = (int)(intptr_t)pthread_getspecific(connections) - 1;
    if (fd >= 0 && !size)
        return fd;
    uint64_t found;
    if (fd < 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        if (connect(fd, (struct sockaddr *)&server, sizeof server) || !shake_hands(fd, &found)) {
            close(fd);
            errno = EIO;
            return -1;
        }
        errno = pthread_setspecific(connections, (void *)(intptr_t)(fd + 1));
        if (errno) {
            close(fd);
            return -1;
        }
        if (size)
            *size = found;
    }
    return fd;
}

uint64_t nbd_size(void)
{
    uint64_t size = 0;
    return connection(&size) < 0 ? 0 : size;
}

/* A reply's errors are Linux's numbers (doc/proto.md, "Error values"). */
int nbd_request(enum nbd_command command, uint64_t offset, uint32_t length, void *bytes)
{
    int fd = connection(NULL);
    if (fd < 0)
        return errno;
    struct nbd_packet packet = {
        .magic = htobe32(REQUEST_MAGIC),
        .type = htobe16((uint16_t)command),
        .offset = htobe64(offset),
        .length = htobe32(length),
    };
    struct reply reply;
    if (!send_all(fd, &packet, sizeof packet) ||
        (command == NBD_WRITE && !send_all(fd, bytes, length)) ||
        !receive_all(fd, &reply, sizeof reply) || be32toh(reply.magic) != REPLY_MAGIC)
        return EIO;
    if (reply.error)
        return (int)be32toh(reply.error);
    return command == NBD_READ && !receive_all(fd, bytes, length) ? EIO : 0;
}
