/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread polls the listening socket, its clients and an eventfd, through
 * which request threads report that the disk has stopped and the server asks it to end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "control_internal.h"

enum { SEND_TIMEOUT_S = 5 }; /* a client that does not read is dropped */

/* --- the thread ------------------------------------------------------------- */

/* Whoever started the disk is gone: close the log and end, whatever the clients do. */
static void owner_left(struct control *control)
{
    control_drop(control, OWNER);
    disk_close(control->disk);
    control->config.stop();
}

static void read_client(struct control *control, int index)
{
    struct client *client = &control->clients[index];
    ssize_t got = recv(client->fd, client->line + client->used, LINE - client->used, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        if (index == OWNER)
            owner_left(control);
        else
            control_drop(control, index);
        return;
    }
    client->used += (size_t)got;
    char *end;
    while (client->fd >= 0 && (end = memchr(client->line, '\n', client->used))) {
        *end = 0;
        char line[LINE];
        size_t length = (size_t)(end - client->line) + 1;
        memcpy(line, client->line, length);
        client->used -= length;
        memmove(client->line, end + 1, client->used);
        control_command(control, index, line);
    }
    if (client->fd >= 0 && client->used == LINE) {
        control_send(control, index, "{\"ok\":false,\"error\":\"the line is too long\"}\n");
        client->used = 0;
    }
}

static void accept_client(struct control *control)
{
    int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    for (int index = OWNER + 1; index < CLIENTS; index++)
        if (control->clients[index].fd < 0) {
            struct timeval limit = {.tv_sec = SEND_TIMEOUT_S};
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
            control->clients[index].fd = fd;
            return;
        }
    close(fd);
}

static void tell_stopped(struct control *control)
{
    uint64_t time_ns = atomic_exchange(&control->stopped_ns, 0);
    if (!time_ns || control->stopping_client < 0)
        return;
    char line[128];
    snprintf(line, sizeof line, "{\"event\":\"stopped\",\"time_ns\":%" PRIu64 "}\n", time_ns);
    control_send(control, control->stopping_client, line);
}

static void *serve(void *context)
{
    struct control *control = context;
    char line[64];
    snprintf(line, sizeof line, "{\"event\":\"ready\",\"size\":%" PRIu64 "}\n",
             disk_size(control->disk));
    if (control->clients[OWNER].fd >= 0)
        control_send(control, OWNER, line);
    while (!control->stopping) {
        struct pollfd polls[CLIENTS + 2];
        for (int index = 0; index < CLIENTS; index++)
            polls[index] = (struct pollfd){.fd = control->clients[index].fd, .events = POLLIN};
        polls[CLIENTS] = (struct pollfd){.fd = control->wake, .events = POLLIN};
        polls[CLIENTS + 1] = (struct pollfd){.fd = control->listener, .events = POLLIN};
        if (poll(polls, CLIENTS + 2, -1) < 0)
            continue;
        if (polls[CLIENTS].revents) {
            uint64_t count;
            if (read(control->wake, &count, sizeof count) == sizeof count)
                tell_stopped(control);
        }
        for (int index = 0; index < CLIENTS; index++)
            if (polls[index].revents && control->clients[index].fd >= 0)
                read_client(control, index);
        if (polls[CLIENTS + 1].revents)
            accept_client(control);
    }
    return NULL;
}

static void wake(struct control *control)
{
    uint64_t one = 1;
    if (write(control->wake, &one, sizeof one) != sizeof one)
        abort(); /* an eventfd takes 2^64 - 1 of these */
}

void control_stopped(void *context, uint64_t time_ns)
{
    struct control *control = context;
    control->stopped_ns = time_ns;
    wake(control);
}

/* --- life --------------------------------------------------------------------- */

static int listen_on(const char *path, int *listener)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    *listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0)
        return errno;
    if (bind(*listener, (struct sockaddr *)&address, sizeof address) || listen(*listener, CLIENTS))
        return errno;
    return 0;
}

int control_bind(struct control **result, const struct control_config *config)
{
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return ENOMEM;
    control->config = *config;
    control->listener = -1;
    control->stopping_client = -1;
    for (int index = 0; index < CLIENTS; index++)
        control->clients[index].fd = -1;
    control->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = control->wake < 0 ? errno : 0;
    if (!error && config->socket)
        error = listen_on(config->socket, &control->listener);
    if (!error && config->owner_fd >= 0) {
        struct timeval limit = {.tv_sec = SEND_TIMEOUT_S};
        if (setsockopt(config->owner_fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit))
            error = errno;
        control->clients[OWNER].fd = config->owner_fd;
    }
    if (error) {
        if (control->listener >= 0)
            close(control->listener);
        if (control->wake >= 0)
            close(control->wake);
        free(control);
        return error;
    }
    *result = control;
    return 0;
}

int control_start(struct control *control, struct disk *disk)
{
    control->disk = disk;
    int error = pthread_create(&control->thread, NULL, serve, control);
    control->running = !error;
    return error;
}

void control_stop(struct control *control)
{
    control->stopping = true;
    wake(control);
    if (control->running)
        pthread_join(control->thread, NULL);
    for (int index = 0; index < CLIENTS; index++)
        if (control->clients[index].fd >= 0)
            close(control->clients[index].fd);
    if (control->listener >= 0) {
        close(control->listener);
        unlink(control->config.socket);
    }
    close(control->wake);
    free(control);
}
