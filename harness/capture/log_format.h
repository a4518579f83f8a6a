/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk log of the capture disk, version 1.
 *
 * Two append-only files.  NAME.log holds one header and then events of 64
 * bytes, in the order in which they happened; NAME.data holds the payload of
 * every write, in submission order, at the offset its event names, padded to
 * 512 bytes.  A payload is in the file before the event that names it.  All fields
 * are little-endian.  Timestamps are CLOCK_MONOTONIC of the host in
 * nanoseconds and strictly increase from event to event, so time order and log
 * order are the same thing and no two instants are equal.
 *
 * Events have a fixed size so that ten million of them are one numpy array.
 *
 * Reading stops at the first event whose sequence number or checksum is wrong
 * (space is reserved ahead, so a log that was not closed ends in zeroes), or
 * whose payload is missing from NAME.data.  Everything before is valid.  A log
 * that was closed in order ends with an END event; without it the log is
 * truncated, and a reader says so.
 *
 * What stands in a sector: of all the writes that reached the medium there, the
 * one submitted last, whatever the order in which they reached it.  So a DESTAGE
 * or SURVIVE range may be hidden, wholly or partly, by a newer durable write.
 *
 * A disk that can no longer record (its host is full) takes no further requests:
 * they fail, unrecorded, and a mark "refusing requests: ERRNO" is the last thing
 * that it has room for besides what completes, survives and ends.  A read that
 * its host fails is failed, too; a mark "failing reads: ERRNO" stands at the first.
 *
 * A disk that was told to make errors (injected.h) marks when they begin, "injecting errors", and
 * each of them, "injected: WHAT: ERRNO", or ": hang".
 *
 * Whose log it is: run id, seed and cell name the trial, and `binding` is the digest of all
 * that it was to do (harness/powercut/store/trial_dir.py).  The same digest is in the history
 * and in the observation, so that evidence of two recordings cannot be mixed up. 
 *
 * The Python side is harness/powercut/disk/pclog.py.
 */
#ifndef POWERCUT_LOG_FORMAT_H
#define POWERCUT_LOG_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define PCLOG_MAGIC "PCUTLOG1"
#define PCLOG_VERSION 1u
#define PCLOG_HEADER_SIZE 256u
#define PCLOG_CELL_MAX 96u

enum pclog_kind {
    PCLOG_DISK = 1,
    PCLOG_DISKS = 2, /* several, each a range: a flush may cover the range of one alone */
    PCLOG_FOLDER = 3 /* folder_format.h */
};

enum pclog_contract {
    PCLOG_VOLATILE_CACHE = 1, /* unset: every write is durable when it completes */
    PCLOG_FLUSH_HONOURED = 2,
    PCLOG_FUA_HONOURED = 4,
    PCLOG_ORDERED = 8         /* the cache destages in completion order */
};

struct pclog_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
    uint64_t disk_size;        /* bytes */
    uint32_t atomic_unit;      /* bytes that never tear: 512, 4096; 1: none */
    uint32_t contract;         /* enum pclog_contract */
    uint64_t cache_size;       /* bytes of volatile cache; 0: unlimited */
    uint64_t flush_latency_ns;
    uint64_t fua_latency_ns;
    uint64_t start_monotonic_ns;
    uint64_t start_realtime_ns;
    uint8_t run_id[16];
    uint64_t seed;             /* of the trial */
    uint8_t binding[32];       /* SHA-256 of what the trial was to do; zeroes: not bound */
    char cell[PCLOG_CELL_MAX]; /* UTF-8, its end cut off if it is longer; padded with zeroes */
    uint32_t kind;             /* enum pclog_kind */
    uint8_t reserved[24];
    uint32_t crc;              /* CRC32C of the bytes before */
};
static_assert(sizeof(struct pclog_header) == PCLOG_HEADER_SIZE, "header is 256 bytes");

enum pclog_type {
    PCLOG_SUBMIT = 1,    /* the disk has taken the request */
    PCLOG_COMPLETE = 2,  /* the disk is about to report the request done */
    PCLOG_DESTAGE = 3,   /* a full cache wrote this range of `request` to the medium by itself */
    PCLOG_CUT = 4,       /* power is gone: nothing later reaches the medium; `request`: the seed */
    PCLOG_SURVIVE = 5,   /* after CUT: this range of volatile write `request` is on the medium */
    PCLOG_MARK = 6,      /* payload in NAME.data: a name given over the control channel */
    PCLOG_CONNECT = 7,
    PCLOG_DISCONNECT = 8,
    PCLOG_END = 9        /* closed in order; `request`: number of requests submitted */
};

enum pclog_op { PCLOG_WRITE = 1, PCLOG_ZERO = 2, PCLOG_DISCARD = 3, PCLOG_FLUSH = 4 };

enum pclog_flags {
    PCLOG_FUA = 1,     /* the request carries FUA */
    PCLOG_IGNORED = 2, /* the contract made this flush, or this FUA, a lie */
    PCLOG_FAILED = 4,  /* completed with an error; `length` is the errno */
    PCLOG_INJECTED = 8 /* with FAILED: the disk was told to make this error (injected.h) */
};

struct pclog_event {
    uint8_t type;        /* enum pclog_type */
    uint8_t op;          /* SUBMIT, COMPLETE: enum pclog_op; CUT: enum pclog_policy */
    uint16_t flags;      /* enum pclog_flags */
    uint32_t connection; /* NBD connection, from 1 */
    uint64_t sequence;   /* index of this event, from 0 */
    uint64_t time_ns;
    uint64_t request;    /* dense, from 0, in submission order */
    uint64_t offset;     /* on the disk, bytes */
    uint64_t length;     /* bytes; of a flush, the range that it covers, 0: all of the disk */
    uint64_t data;       /* SUBMIT of a WRITE, MARK: offset of the payload in NAME.data */
    uint32_t data_crc;   /* CRC32C of the payload */
    uint32_t crc;        /* CRC32C of the 60 bytes before */
};
static_assert(sizeof(struct pclog_event) == 64, "event is 64 bytes");

/* What a cut leaves of the volatile writes. */
enum pclog_policy {
    PCLOG_POLICY_DROP = 1,   /* nothing */
    PCLOG_POLICY_KEEP = 2,   /* everything: the power did not fail below this disk */
    PCLOG_POLICY_RANDOM = 3, /* each write by itself: kept, dropped, or torn at the atomic unit */
    PCLOG_POLICY_PREFIX = 4  /* a seeded prefix in completion order */
};

#endif
