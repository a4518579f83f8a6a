/* SPDX-License-Identifier: Apache-2.0
 *
 * The control channel: one command per line, one JSON object per reply line.
 *
 *     ping                        {"ok":true}
 *     stat                        {"ok":true,"writes":...,...}
 *     mark NAME                   {"ok":true}
 *     stop flush N                {"ok":true}; the disk stops when that flush is submitted:
 *                                 it takes and completes nothing until a cut, and
 *                                 answers no read
 *     stop after N                {"ok":true}; it stops once N more requests have completed
 *     stop during N               {"ok":true}; the same, but it goes on taking requests and
 *                                 answering reads; it has stopped once a request waits
 *                                 Each: the client that asked last gets
 *                                 {"event":"stopped","time_ns":T}
 *     latency FLUSH FUA           {"ok":true}; nanoseconds that a flush and a FUA write
 *                                 take from now on; the log gets a mark that says so
 *     inject                      {"ok":true}; from now on requests meet the errors of the
 *                                 settings (injected.h), until a cut; the log gets a mark
 *     lose SEED PART              {"ok":true}; one of several disks loses its power, and keeps
 *                                 of its cache what the seed says (lose.c); until "regain" it
 *                                 refuses every request
 *     regain PART                 {"ok":true}
 *     snapshot PATH               {"ok":true}
 *     cut POLICY SEED [PREFIX]    {"ok":true,"at_ns":...,"dropped_writes":...,
 *                                 "dropped_bytes":...,"survived_writes":...}
 *                                 POLICY: drop, keep, random, prefix
 *     shutdown                    {"ok":true}; the log is closed in order first
 *
 * PATH and PREFIX are absolute and reach to the end of the line.  What fails is
 * answered by {"ok":false,"error":"..."}.
 *
 * Clients come over a listening unix socket, or are the one that a descriptor was
 * inherited for.  The latter is the owner: it is greeted with {"event":"ready",
 * "size":...} once the disk serves, and the disk shuts down when it goes away.
 */
#ifndef POWERCUT_CAPTURE_CONTROL_H
#define POWERCUT_CAPTURE_CONTROL_H

#include "disk.h"

struct control;

struct control_config {
    const char *socket;  /* path to listen on; NULL: none */
    int owner_fd;        /* -1: none */
    void (*stop)(void);  /* ends the process; the log is closed by then */
};

/* Binds the socket, before there are threads.  Returns 0 or an errno. */
int control_bind(struct control **control, const struct control_config *config);
/* Starts the thread. */
int control_start(struct control *control, struct disk *disk);
/* Ends the thread, closes and unlinks the socket. */
void control_stop(struct control *control);

/* disk_config.on_stopped, with the control as context. */
void control_stopped(void *control, uint64_t time_ns);

#endif
