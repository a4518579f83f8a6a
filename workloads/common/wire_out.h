/* SPDX-License-Identifier: Apache-2.0
 *
 * Sending messages of wire.h: they gather in an outbox and leave it with one
 * write(), so that a cut leaves at most one unfinished message.  Not
 * thread-safe: one owner at a time.
 */
#ifndef POWERCUT_WIRE_OUT_H
#define POWERCUT_WIRE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct pc_outbox {
    int fd;
    size_t used;
    uint8_t data[sizeof(struct pc_message) + PC_WIRE_PAYLOAD_MAX];
};

/* Fills in magic, length and crc.  The other fields are the caller's. */
void pc_wire_seal(struct pc_message *message, const void *payload, uint32_t length);

/* True if magic, length and crc of a received message are right. */
bool pc_wire_valid(const struct pc_message *message, const void *payload);

void pc_outbox_init(struct pc_outbox *outbox, int fd);

/* Adds a message stamped with the clock; sends what is there first if there is no
 * room.  `message` gives type, stream, lsn and value.  Returns 0 or -errno. */
int pc_outbox_add(struct pc_outbox *outbox, struct pc_message message, const void *payload,
                  uint32_t length);

/* One write() of everything gathered (more only if the kernel takes less at once).
 * Returns 0 or -errno.  The caller ignores SIGPIPE. */
int pc_outbox_flush(struct pc_outbox *outbox);

/* Answers `ping` with a PONG in one write() of its own, past every outbox: so another thread
 * may call it.  Returns 0 or -errno. */
int pc_wire_pong(int fd, const struct pc_message *ping);

/* PC_ERROR: `error` is an errno, `call` the call that failed and on what.  Flushes. */
int pc_outbox_error(struct pc_outbox *outbox, int error, const char *call);

/* PC_FACT "key=value"; not flushed.  Cut off at 512 bytes. */
int pc_outbox_fact(struct pc_outbox *outbox, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
