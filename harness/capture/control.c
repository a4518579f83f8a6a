/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread polls the listening socket, its clients and an eventfd, through
 * which request threads report that the disk has stopped and the server asks it to end.
 */
#define _GNU_SOURCE
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CLIENTS = 16,
    LINE = 8192,
    OWNER = 0,          /* index of the client that owns the disk */
    SEND_TIMEOUT_S = 5, /* a client that does not read is dropped */
};

static const uint64_t LATENCY_MAX_NS = 60000000000;

struct client {
    int fd; /* -1: free */
    size_t used;
    char line[LINE];
};

struct control {
    struct control_config config;
    struct disk *disk;
    pthread_t thread;
    bool running;
    int listener, wake;
    atomic_bool stopping;
    _Atomic uint64_t stopped_ns; /* when the disk stopped; 0: nothing to tell */
    int stopping_client;         /* index; -1: none */
    struct client clients[CLIENTS];
};

/* --- replies ------------------------------------------------------------- */

static void drop_client(struct control *control, int index)
{
    struct client *client = &control->clients[index];
    close(client->fd);
    client->fd = -1;
    client->used = 0;
    if (control->stopping_client == index)
        control->stopping_client = -1;
}

static void send_line(struct control *control, int index, const char *line)
{
    struct client *client = &control->clients[index];
    size_t left = strlen(line);
    while (left && client->fd >= 0) {
        ssize_t sent = send(client->fd, line, left, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0) {
            if (index == OWNER) /* the poll sees the end of it and shuts down */
                shutdown(client->fd, SHUT_RDWR);
            else
                drop_client(control, index);
            return;
        }
        line += sent;
        left -= (size_t)sent;
    }
}

static void reply_error(struct control *control, int index, const char *message)
{
    char line[2 * LINE + 64];
    size_t used = (size_t)snprintf(line, sizeof line, "{\"ok\":false,\"error\":\"");
    for (; *message && used < sizeof line - 16; message++) {
        unsigned char c = (unsigned char)*message;
        if (c == '"' || c == '\\')
            line[used++] = '\\';
        if (c < 0x20)
            used += (size_t)snprintf(line + used, 8, "\\u%04x", c);
        else
            line[used++] = (char)c;
    }
    snprintf(line + used, sizeof line - used, "\"}\n");
    send_line(control, index, line);
}

static void reply(struct control *control, int index, int error, const char *what)
{
    char message[LINE + 128];
    if (!error) {
        send_line(control, index, "{\"ok\":true}\n");
        return;
    }
    snprintf(message, sizeof message, "%s: %s", what, strerror(error));
    reply_error(control, index, message);
}

/* --- commands -------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static void do_ping(struct control *control, int index, char *arguments)
{
    (void)arguments;
    reply(control, index, 0, "ping");
}

static void do_stat(struct control *control, int index, char *arguments)
{
    (void)arguments;
    struct disk_statistics s;
    char line[1024];
    disk_statistics(control->disk, &s);
    snprintf(line, sizeof line,
             "{\"ok\":true,\"size\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"writes\":%" PRIu64
             ",\"write_bytes\":%" PRIu64 ",\"fua_writes\":%" PRIu64 ",\"flushes\":%" PRIu64
             ",\"zeroes\":%" PRIu64 ",\"discards\":%" PRIu64 ",\"volatile_writes\":%" PRIu64
             ",\"volatile_bytes\":%" PRIu64 ",\"in_flight\":%" PRIu64
             ",\"flushes_in_flight\":%" PRIu64 ",\"connections\":%" PRIu64
             ",\"refused\":%" PRIu64 ",\"log_error\":%d,\"stopped\":%s}\n",
             disk_size(control->disk), s.requests, s.writes, s.write_bytes, s.fua_writes, s.flushes,
             s.zeroes, s.discards, s.volatile_writes, s.volatile_bytes, s.in_flight,
             s.flushes_in_flight, s.connections, s.refused, s.log_error,
             s.stopped ? "true" : "false");
    send_line(control, index, line);
}

static void do_mark(struct control *control, int index, char *arguments)
{
    if (!*arguments)
        reply_error(control, index, "mark: wants a name");
    else
        reply(control, index, disk_mark(control->disk, arguments), "mark");
}

/* Latencies are no part of what a disk promises, so they may change while it runs; a mark
 * in the log says when. */
static void do_latency(struct control *control, int index, char *arguments)
{
    char name[128], *fua = arguments, *flush = strsep(&fua, " ");
    uint64_t flush_ns, fua_ns;
    if (!fua || !parse_number(flush, &flush_ns) || !parse_number(fua, &fua_ns) ||
        flush_ns > LATENCY_MAX_NS || fua_ns > LATENCY_MAX_NS) {
        reply_error(control, index, "latency: wants FLUSH FUA, nanoseconds from 0 to 60000000000");
        return;
    }
    snprintf(name, sizeof name, "latency: flush %" PRIu64 " ns, FUA %" PRIu64 " ns", flush_ns,
             fua_ns);
    disk_set_latency(control->disk, flush_ns, fua_ns);
    reply(control, index, disk_mark(control->disk, name), "latency");
}

static bool parse_stop(const char *text, enum disk_stop *how)
{
    static const char *const names[] = {
        [STOP_AT_FLUSH] = "flush", [STOP_AFTER] = "after", [STOP_DURING] = "during"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            *how = (enum disk_stop)i;
            return true;
        }
    return false;
}

static void do_stop(struct control *control, int index, char *arguments)
{
    char *name = strsep(&arguments, " ");
    enum disk_stop how;
    uint64_t count;
    if (!parse_stop(name, &how) || !arguments || !parse_number(arguments, &count)) {
        reply_error(control, index, "stop: wants \"flush N\", \"after N\" or \"during N\"");
        return;
    }
    control->stopped_ns = 0; /* the event is that of the last stop */
    control->stopping_client = index; /* first: it may come at once */
    int error = disk_stop(control->disk, how, count);
    if (error == EALREADY)
        reply_error(control, index, "stop: that flush was submitted already");
    else
        reply(control, index, error, "stop");
}

static void do_snapshot(struct control *control, int index, char *arguments)
{
    if (*arguments != '/')
        reply_error(control, index, "snapshot: wants an absolute path");
    else
        reply(control, index, disk_snapshot(control->disk, arguments), arguments);
}

static bool parse_policy(const char *text, enum pclog_policy *policy)
{
    static const struct {
        const char *name;
        enum pclog_policy policy;
    } policies[] = {
        {"drop", PCLOG_POLICY_DROP},
        {"keep", PCLOG_POLICY_KEEP},
        {"random", PCLOG_POLICY_RANDOM},
        {"prefix", PCLOG_POLICY_PREFIX},
    };
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (!strcmp(text, policies[i].name)) {
            *policy = policies[i].policy;
            return true;
        }
    return false;
}

static void do_cut(struct control *control, int index, char *arguments)
{
    char *name = strsep(&arguments, " ");
    char *number = arguments ? strsep(&arguments, " ") : NULL;
    enum pclog_policy policy;
    uint64_t seed;
    if (!parse_policy(name, &policy) || !number || !parse_number(number, &seed) ||
        (arguments && *arguments != '/')) {
        reply_error(control, index, "cut: wants POLICY SEED [PREFIX]; POLICY is drop, keep, "
                                    "random or prefix, PREFIX an absolute path");
        return;
    }
    struct cut_report report;
    char text[LINE + 256];
    if (disk_cut(control->disk, policy, seed, arguments, &report, text, sizeof text)) {
        reply_error(control, index, text);
        return;
    }
    control->stopped_ns = 0; /* it runs again */
    snprintf(text, sizeof text,
             "{\"ok\":true,\"at_ns\":%" PRIu64 ",\"dropped_writes\":%" PRIu64
             ",\"dropped_bytes\":%" PRIu64 ",\"survived_writes\":%" PRIu64 "}\n",
             report.at_ns, report.dropped_writes, report.dropped_bytes, report.survived_writes);
    send_line(control, index, text);
}

static void do_shutdown(struct control *control, int index, char *arguments)
{
    (void)arguments;
    reply(control, index, disk_close(control->disk), "shutdown: closing the log");
    control->config.stop();
}

static void run_line(struct control *control, int index, char *line)
{
    static const struct {
        const char *name;
        void (*run)(struct control *, int, char *);
    } commands[] = {
        {"ping", do_ping}, {"stat", do_stat},         {"mark", do_mark}, {"stop", do_stop},
        {"cut", do_cut},   {"snapshot", do_snapshot}, {"shutdown", do_shutdown},
        {"latency", do_latency},
    };
    char *arguments = line;
    const char *name = strsep(&arguments, " ");
    static char nothing[] = "";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(name, commands[i].name)) {
            commands[i].run(control, index, arguments ? arguments : nothing);
            return;
        }
    reply_error(control, index,
                "unknown command; there are ping, stat, mark, stop, cut, snapshot, shutdown, "
                "latency");
}

/* --- the thread ------------------------------------------------------------- */

/* Whoever started the disk is gone: close the log and end, whatever the clients do. */
static void owner_left(struct control *control)
{
    drop_client(control, OWNER);
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
            drop_client(control, index);
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
        run_line(control, index, line);
    }
    if (client->fd >= 0 && client->used == LINE) {
        reply_error(control, index, "the line is too long");
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
    send_line(control, control->stopping_client, line);
}

static void *serve(void *context)
{
    struct control *control = context;
    char line[64];
    snprintf(line, sizeof line, "{\"event\":\"ready\",\"size\":%" PRIu64 "}\n",
             disk_size(control->disk));
    if (control->clients[OWNER].fd >= 0)
        send_line(control, OWNER, line);
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
