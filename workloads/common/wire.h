/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel's wire format: how a guest tells the controller what it
 * promised, and how the controller tells the guest what to do.
 *
 * A message is one 40-byte header and `length` bytes of payload.  All fields
 * are little-endian.  A sender emits a message with a single write(), so that
 * a cut leaves at most one unfinished message, at the very end of the stream;
 * a receiver drops that one.  `crc` covers the header (with `crc` itself taken
 * as zero) followed by the payload.
 *
 * The Python side is harness/powercut/channel/wire.py; a test compares the two
 * byte for byte.
 */
#ifndef POWERCUT_WIRE_H
#define POWERCUT_WIRE_H

#include <assert.h>
#include <stdint.h>

#define PC_WIRE_MAGIC 0x31574350u /* "PCW1" */
#define PC_WIRE_PAYLOAD_MAX 65536u

enum pc_message_type {
    /* guest to controller */
    PC_HELLO = 1,   /* payload: agent version, kernel release, one "key=value\n" each */
    PC_READY = 2,   /* the workload has opened its log; the next thing is an attempt */
    PC_ATTEMPT = 3, /* every record up to `lsn` may be on its way to the disk */
    PC_ACK = 4,     /* every record up to `lsn` was promised durable */
    PC_MARK = 5,    /* payload: a name; a point in the run somebody may want to find */
    PC_DONE = 6,    /* `lsn`: command id; `value`: exit status of the command */
    PC_ERROR = 7,   /* `value`: errno; `lsn`: enum pc_fault; payload: the call that failed
                     * and on what */
    PC_FACT = 8,    /* payload: "key=value": what the guest sees of its environment */
    PC_EXTENT = 9,  /* payload: struct pc_extent[]: what the log reader found */
    PC_LATENCY = 10,/* payload: struct pc_latency: commit latency histogram */
    PC_TEXT = 11,   /* payload: a line for a person */
    PC_PONG = 12,   /* answers a PING: its `lsn` and `value`; `guest_ns`: after it arrived; payload,
                     * while a program says lines: struct pressed (guests/common/press.h) */

    PC_LINES = 13,  /* payload: what a program wrote to its lines, of one read; `value`: the guest's
                     * CLOCK_MONOTONIC after that, 0 for the agent's own */
    PC_READS = 14,  /* payload: of the files that a check has read (guests/common/reads.h); several
                     * follow one another */

    /* controller to guest */
    PC_COMMAND = 32,/* `lsn`: command id; payload: NUL-terminated strings, verb first */
    PC_PING = 33    /* `lsn`: its number; `value`: the controller's CLOCK_MONOTONIC, before it
                     * was sent */
};

/* What an ERROR is about.  Which of them may be held against the disk is the controller's
 * business (harness/powercut/model/failure.py). */
enum pc_fault {
    PC_FAULT_CALL = 0,   /* a call of a program, or of the agent for itself */
    PC_FAULT_MOUNT = 1,  /* mount(2) refused what it found on the disk, or its arguments */
    PC_FAULT_MODULE = 2, /* a kernel module was not loaded */
    PC_FAULT_DEVICE = 3, /* a block device did not appear */
    PC_FAULT_START = 4,  /* a program was not started: pipe, fork, execv */
    PC_FAULT_SIGNAL = 5  /* a program was killed by a signal */
};

struct pc_message {
    uint32_t magic;
    uint16_t type;    /* enum pc_message_type */
    uint16_t stream;  /* which thread of the workload; 0 if it does not matter */
    uint32_t length;  /* of the payload, in bytes */
    uint32_t crc;     /* CRC32C (Castagnoli) */
    uint64_t lsn;
    uint64_t guest_ns;/* the sender's CLOCK_MONOTONIC */
    uint64_t value;   /* an argument whose meaning `type` gives */
};
static_assert(sizeof(struct pc_message) == 40, "wire header is 40 bytes");

/* What the log reader found in `count` consecutive slots (see wal_format.h). */
enum pc_slot_state {
    PC_SLOT_INTACT = 1,      /* record `lsn` of this run, every byte right */
    PC_SLOT_ABSENT = 2,      /* zeroes, or past the end of the file, or no file */
    PC_SLOT_STALE = 3,       /* whole record of an older generation or of another run */
    PC_SLOT_TORN = 4,        /* some sectors of record `lsn`, the others older or zero */
    PC_SLOT_CORRUPT = 5,     /* bytes that nobody wrote */
    PC_SLOT_MISDIRECTED = 6, /* record of this run, or a part, that belongs elsewhere */
    PC_SLOT_UNREADABLE = 7   /* read() failed; `detail` is the errno */
};

struct pc_extent {
    uint64_t slot;   /* first slot of the extent, from 0 */
    uint64_t count;  /* number of slots */
    uint64_t lsn;    /* LSN found in the first slot; rises by one per slot; 0 if none */
    uint32_t state;  /* enum pc_slot_state */
    uint32_t detail; /* TORN: sectors of the record that are right; CORRUPT: first wrong
                      * byte; STALE: generation found; UNREADABLE: errno; else 0 */
};
static_assert(sizeof(struct pc_extent) == 32, "extent is 32 bytes");

/* Log-linear histogram of commit latency: 8 linear buckets per power of two of
 * nanoseconds, so a bucket is at most 12.5 % wide.  Value v < 8 lands in bucket
 * v; else with e = floor(log2 v): bucket (e - 2) * 8 + ((v >> (e - 3)) & 7). */
#define PC_LATENCY_BUCKETS 496
struct pc_latency {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t bucket[PC_LATENCY_BUCKETS];
};
static_assert(sizeof(struct pc_latency) == 24 + 8 * PC_LATENCY_BUCKETS, "no padding");

#endif
