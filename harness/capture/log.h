/* SPDX-License-Identifier: Apache-2.0
 * The writer of the disk log (log_format.h).  Not thread-safe: the disk's lock covers it. */
#ifndef POWERCUT_CAPTURE_LOG_H
#define POWERCUT_CAPTURE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "log_format.h"

struct log {
    bool recorded;          /* false: payloads go to an unnamed file, events nowhere */
    char *prefix;           /* NULL if not recorded */
    int event_fd;           /* -1 if not recorded */
    int data_fd;            /* always open; the caller may keep it when the log is closed */
    uint64_t events;        /* written */
    uint64_t owed;          /* events that must still find room, see log_admit */
    uint64_t event_space;   /* bytes reserved in NAME.log */
    uint64_t data_used;     /* bytes in NAME.data, a multiple of 512 */
    uint64_t data_space;    /* bytes reserved in NAME.data */
    uint64_t last_ns;       /* of the last event; times strictly increase */
    int failure;            /* errno that made recording impossible; 0: none so far */
    bool read_failed;       /* a mark says so */
};

/* Creates PREFIX.log and PREFIX.data, which must not exist yet.  Without a prefix,
 * payloads go to an unnamed file in `scratch`.  Fills in the header's fixed fields,
 * its version if it has none.
 * Returns 0 or an errno. */
int log_create(struct log *log, const char *prefix, const char *scratch,
               struct pclog_header *header);

/* Makes sure that `events` more events, everything owed, and `payload` more bytes find
 * room.  Returns 0, or an errno after which nothing is ever admitted again: a mark in the
 * log then says so. */
int log_admit(struct log *log, uint64_t events, uint64_t payload);

/* Appends a payload, padded to 512 bytes.  Room must have been admitted. */
int log_payload(struct log *log, const void *bytes, uint64_t length, uint64_t *offset);

/* Appends an event: sequence, time and checksum are filled in.  Returns 0 or an errno. */
int log_event(struct log *log, struct pclog_event *event);

/* Writes a mark if there is room for it. */
int log_mark(struct log *log, const char *name);

/* Marks the first read that the host failed. */
void log_read_failure(struct log *log, int error);

/* Ends the log: END event, files cut to what is used, all of it made durable on the host.
 * Leaves `data_fd` open.  `requests` is the number of requests submitted. */
int log_end(struct log *log, uint64_t requests);

/* The part of log_end that waits for the host's disk. */
int log_settle(struct log *log);

uint64_t monotonic_ns(void);

#endif
