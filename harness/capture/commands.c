/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of the control channel (control.h), and their replies.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_internal.h"

static const uint64_t LATENCY_MAX_NS = 60000000000;

/* --- replies ------------------------------------------------------------- */

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
    control_send(control, index, line);
}

static void reply(struct control *control, int index, int error, const char *what)
{
    char message[LINE + 128];
    if (!error) {
        control_send(control, index, "{\"ok\":true}\n");
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
    control_send(control, index, line);
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

static void do_inject(struct control *control, int index, char *arguments)
{
    (void)arguments;
    reply(control, index, disk_inject(control->disk), "inject");
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

static void do_lose(struct control *control, int index, char *arguments)
{
    char *part = arguments, *number = strsep(&part, " ");
    uint64_t seed;
    if (!part || !parse_number(number, &seed))
        reply_error(control, index, "lose: wants SEED PART");
    else
        reply(control, index, disk_lose(control->disk, part, seed), "lose");
}

static void do_regain(struct control *control, int index, char *arguments)
{
    reply(control, index, disk_regain(control->disk, arguments), "regain");
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
    control_send(control, index, text);
}

static void do_shutdown(struct control *control, int index, char *arguments)
{
    (void)arguments;
    reply(control, index, disk_close(control->disk), "shutdown: closing the log");
    control->config.stop();
}

void control_command(struct control *control, int index, char *line)
{
    static const struct {
        const char *name;
        void (*run)(struct control *, int, char *);
    } commands[] = {
        {"ping", do_ping}, {"stat", do_stat},         {"mark", do_mark}, {"stop", do_stop},
        {"cut", do_cut},   {"snapshot", do_snapshot}, {"shutdown", do_shutdown},
        {"latency", do_latency}, {"inject", do_inject}, {"lose", do_lose}, {"regain", do_regain},
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
                "latency, inject, lose, regain");
}
