/* SPDX-License-Identifier: Apache-2.0 */
#include "wire_out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "crc32c.h"

static uint32_t message_crc(struct pc_message message, const void *payload)
{
    message.crc = 0;
    uint32_t crc = pc_crc32c(0, &message, sizeof(message));

    return message.length ? pc_crc32c(crc, payload, message.length) : crc;
}

void pc_wire_seal(struct pc_message *message, const void *payload, uint32_t length)
{
    message->magic = PC_WIRE_MAGIC;
    message->length = length;
    message->crc = message_crc(*message, payload);
}

bool pc_wire_valid(const struct pc_message *message, const void *payload)
{
    return message->magic == PC_WIRE_MAGIC && message->length <= PC_WIRE_PAYLOAD_MAX &&
           message->crc == message_crc(*message, payload);
}

void pc_outbox_init(struct pc_outbox *outbox, int fd)
{
    outbox->fd = fd;
    outbox->used = 0;
}

static int write_all(int fd, const void *data, size_t length)
{
    size_t sent = 0;

    while (sent < length) {
        ssize_t n = write(fd, (const uint8_t *)data + sent, length - sent);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        sent += (size_t)n;
    }
    return 0;
}

int pc_outbox_flush(struct pc_outbox *outbox)
{
    int failed = write_all(outbox->fd, outbox->data, outbox->used);

    if (!failed)
        outbox->used = 0;
    return failed;
}

int pc_wire_pong(int fd, const struct pc_message *ping)
{
    struct pc_message pong = {
        .type = PC_PONG, .lsn = ping->lsn, .guest_ns = pc_now_ns(), .value = ping->value,
    };

    pc_wire_seal(&pong, NULL, 0);
    return write_all(fd, &pong, sizeof(pong));
}

int pc_outbox_add(struct pc_outbox *outbox, struct pc_message message, const void *payload,
                  uint32_t length)
{
    if (length > PC_WIRE_PAYLOAD_MAX)
        return -EMSGSIZE;
    if (outbox->used + sizeof(message) + length > sizeof(outbox->data)) {
        int failed = pc_outbox_flush(outbox);

        if (failed)
            return failed;
    }
    message.guest_ns = pc_now_ns();
    pc_wire_seal(&message, payload, length);
    memcpy(outbox->data + outbox->used, &message, sizeof(message));
    if (length)
        memcpy(outbox->data + outbox->used + sizeof(message), payload, length);
    outbox->used += sizeof(message) + length;
    return 0;
}

int pc_outbox_error(struct pc_outbox *outbox, int error, const char *call)
{
    struct pc_message message = {.type = PC_ERROR, .value = (uint64_t)error};
    size_t length = strnlen(call, PC_WIRE_PAYLOAD_MAX);
    int failed = pc_outbox_add(outbox, message, call, (uint32_t)length);

    return failed ? failed : pc_outbox_flush(outbox);
}

int pc_outbox_fact(struct pc_outbox *outbox, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length < 0)
        return -EINVAL;
    if ((size_t)length >= sizeof(text))
        length = sizeof(text) - 1;
    return pc_outbox_add(outbox, (struct pc_message){.type = PC_FACT}, text, (uint32_t)length);
}
