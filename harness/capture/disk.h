/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk: requests in, events out, a volatile cache in between.  Knows nothing
 * of NBD.  Every function returns 0 or an errno; all are thread-safe.
 *
 * A request is submitted when its SUBMIT event is logged and completed when its
 * COMPLETE event is; both happen under one lock, with the change to the views
 * that goes with them.  Between the two lies the latency, outside the lock.
 */
#ifndef POWERCUT_CAPTURE_DISK_H
#define POWERCUT_CAPTURE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log_format.h"

/* One of several disks that share a medium, a log and the instant at which they lose their power:
 * a range of the whole.  A flush of it covers its own writes and no others. */
struct disk_part {
    char name[32];
    uint64_t offset, length; /* bytes */
    bool flush_honoured, fua_honoured;
    bool silent; /* it offers no flush and no FUA */
};

struct injections;

struct disk_config {
    const char *base;         /* never modified */
    const char *log;          /* prefix; NULL: nothing is recorded */
    /* Whose disk it is, for the header of the log. */
    uint8_t run_id[16];
    uint8_t binding[32];
    uint64_t seed;
    const char *cell;         /* NULL: none */
    const struct disk_part *parts; /* what is served instead of the whole */
    size_t parts_count;       /* 0: the whole is one disk */
    uint32_t contract;        /* enum pclog_contract */
    uint32_t atomic_unit;     /* bytes: a power of two */
    uint64_t cache_size;      /* bytes; 0: unlimited */
    uint64_t flush_latency_ns;
    uint64_t fua_latency_ns;
    bool slow;                /* some of them take longer (slow.h) */
    const struct injections *injections; /* NULL: none */
    /* Sleeps; false if there is no use in going on, since the client or the server leaves. */
    bool (*sleep_ns)(uint64_t ns);
    /* Called under the lock, once for each disk_stop that came to it. */
    void (*on_stopped)(void *context, uint64_t time_ns);
    void *context;
};

struct disk_statistics {
    uint64_t requests, writes, write_bytes, fua_writes, flushes, zeroes, discards;
    uint64_t volatile_writes, volatile_bytes; /* completed, not durable */
    uint64_t in_flight, flushes_in_flight; /* writes of any kind; flushes */
    uint64_t connections, refused;
    int log_error; /* errno that made recording impossible */
    bool stopped;
};

/* How a disk is to stop before a cut.  A disk that has stopped completes no write and no flush
 * until then. */
enum disk_stop {
    STOP_AT_FLUSH, /* when that flush since the start or the last cut is submitted; from then on
                    * the disk takes nothing, and answers no read */
    STOP_AFTER,    /* the same once that many more requests have completed */
    STOP_DURING,   /* once that many more have completed; but the disk goes on taking requests,
                    * which the cut then finds in flight, and answers reads, since a guest may
                    * need one before it writes; has come to it when a request waits */
};

struct cut_report {
    uint64_t at_ns;
    uint64_t dropped_writes; /* of which nothing survived */
    uint64_t dropped_bytes;  /* lost of all volatile writes, torn ones included */
    uint64_t survived_writes; /* of which something survived */
};

struct disk;
struct connection;

/* On failure `message` says what could not be done. */
int disk_open(struct disk **disk, const struct disk_config *config, char *message, size_t space);
uint64_t disk_size(const struct disk *disk);

/* Ends the log in order; every later request fails.  Idempotent. */
int disk_close(struct disk *disk);
void disk_destroy(struct disk *disk);

/* Whether the clients of this connection are told that the disk has no flush. */
bool connection_is_silent(const struct connection *connection);

/* `name` is that of a part; with parts there is nothing else to connect to (ENOENT), and without
 * any it does not matter. */
int disk_connect(struct disk *disk, const char *name, struct connection **connection);
uint64_t connection_size(const struct connection *connection);
void disk_disconnect(struct connection *connection);

int disk_read(struct connection *connection, void *bytes, uint64_t count, uint64_t offset);
/* `bytes` only for PCLOG_WRITE; zeroes and discards both read back as zeroes. */
int disk_write(struct connection *connection, enum pclog_op op, const void *bytes, uint64_t count,
               uint64_t offset, bool fua);
int disk_flush(struct connection *connection);

/* Takes the power and gives it back.  `next_log` NULL: what follows is not recorded. */
int disk_cut(struct disk *disk, enum pclog_policy policy, uint64_t seed, const char *next_log,
             struct cut_report *report, char *message, size_t space);
/* One part loses its power, and refuses every request until it regains it; what survives is drawn
 * by `seed`.  The log has the rest as writes and a flush of that part (lose.c), after a mark with its
 * name.  ENOENT if there is none; EBUSY if requests of it do not end. */
int disk_lose(struct disk *disk, const char *part, uint64_t seed);
int disk_regain(struct disk *disk, const char *part);
/* The last one counts.  EALREADY if that flush was submitted before. */
int disk_stop(struct disk *disk, enum disk_stop how, uint64_t count);
int disk_mark(struct disk *disk, const char *name);
/* From now on requests meet the errors that they are told to; a mark says when that was.  EALREADY
 * the second time. */
int disk_inject(struct disk *disk);
/* From now on; requests that sleep already are not woken. */
void disk_set_latency(struct disk *disk, uint64_t flush_ns, uint64_t fua_ns);
void disk_statistics(struct disk *disk, struct disk_statistics *statistics);
/* What a power loss would leave now, if nothing volatile survived. */
int disk_snapshot(struct disk *disk, const char *path);

#endif
