# SPDX-License-Identifier: Apache-2.0
"""The Python side of the wire format against the C header, byte for byte."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from powercut.channel import wire
from powercut.channel.wire import Decoder, Message, MessageType
from powercut.model.errors import DamagedRecording
from powercut.model.history import LatencyHistogram, upper_edge_ns
from powercut.model.observation import Extent
from powercut.paths import ROOT
from powercut.wal.layout import SlotState

TYPES = [kind.name for kind in MessageType]
STATES = [state.name for state in SlotState]

PEER = r"""
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "wire.h"

/* Bitwise CRC32C (reflected polynomial 0x82f63b78): slow, and independent of both sides. */
static uint32_t crc32c(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    while (n--) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++)
            crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

static void emit(struct pc_message m, const void *payload, uint32_t length)
{
    m.magic = PC_WIRE_MAGIC;
    m.length = length;
    m.crc = 0;
    uint32_t crc = crc32c(0, (const uint8_t *)&m, sizeof m);
    m.crc = crc32c(crc, payload, length);
    fwrite(&m, sizeof m, 1, stdout);
    fwrite(payload, 1, length, stdout);
}

#define FIELD(s, f) printf("\"%s.%s\": [%zu, %zu],", #s, #f, offsetof(struct s, f), \
                           sizeof ((struct s *)0)->f)
#define NUMBER(n) printf("\"%s\": %lu,", #n, (unsigned long)(n))

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "describe") == 0) {
        printf("{");
        FIELD(pc_message, magic); FIELD(pc_message, type); FIELD(pc_message, stream);
        FIELD(pc_message, length); FIELD(pc_message, crc); FIELD(pc_message, lsn);
        FIELD(pc_message, guest_ns); FIELD(pc_message, value);
        FIELD(pc_extent, slot); FIELD(pc_extent, count); FIELD(pc_extent, lsn);
        FIELD(pc_extent, state); FIELD(pc_extent, detail);
        FIELD(pc_latency, count); FIELD(pc_latency, sum_ns); FIELD(pc_latency, max_ns);
        FIELD(pc_latency, bucket);
        NUMBER(sizeof(struct pc_message)); NUMBER(sizeof(struct pc_extent));
        NUMBER(sizeof(struct pc_latency)); NUMBER(PC_WIRE_MAGIC);
        NUMBER(PC_WIRE_PAYLOAD_MAX); NUMBER(PC_LATENCY_BUCKETS);
        @NUMBERS@
        printf("\"end\": 0}");
        return 0;
    }
    static const char hello[] = "agent=1\nrelease=6.1\n";
    emit((struct pc_message){.type = PC_HELLO, .guest_ns = 1}, hello, sizeof hello - 1);
    emit((struct pc_message){.type = PC_ATTEMPT, .stream = 3, .lsn = 1ull << 40,
                             .guest_ns = 0x1122334455667788ull}, "", 0);
    emit((struct pc_message){.type = PC_ACK, .stream = 65535, .lsn = 7, .value = 9}, "", 0);
    struct pc_extent extents[2] = {
        {.slot = 0, .count = 10, .lsn = 1, .state = PC_SLOT_INTACT},
        {.slot = 10, .count = 1, .lsn = 11, .state = PC_SLOT_TORN, .detail = 3}};
    emit((struct pc_message){.type = PC_EXTENT}, extents, sizeof extents);
    static struct pc_latency latency = {.count = 3, .sum_ns = 60, .max_ns = 30};
    latency.bucket[0] = 1;
    latency.bucket[495] = 2;
    emit((struct pc_message){.type = PC_LATENCY}, &latency, sizeof latency);
    return 0;
}
"""

SENT = [
    Message(MessageType.HELLO, guest_ns=1, payload=b"agent=1\nrelease=6.1\n"),
    Message(MessageType.ATTEMPT, stream=3, lsn=1 << 40, guest_ns=0x1122334455667788),
    Message(MessageType.ACK, stream=65535, lsn=7, value=9),
    Message(
        MessageType.EXTENT,
        payload=wire.EXTENT.pack(0, 10, 1, 1, 0) + wire.EXTENT.pack(10, 1, 11, 4, 3),
    ),
    Message(MessageType.LATENCY, payload=wire.LATENCY.pack(3, 60, 30, 1, *[0] * 494, 2)),
]


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install gcc")
    directory = tmp_path_factory.mktemp("wire")
    numbers = [f"NUMBER(PC_{name});" for name in TYPES]
    numbers += [f"NUMBER(PC_SLOT_{name});" for name in STATES]
    source = directory / "peer.c"
    source.write_text(PEER.replace("@NUMBERS@", " ".join(numbers)))
    command = [compiler, "-std=gnu17", "-Wall", "-Wextra", "-Werror"]
    command += ["-I", str(ROOT / "workloads" / "common"), "-o", str(directory / "peer")]
    subprocess.run([*command, str(source)], check=True)

    def call(*argv: str) -> bytes:
        return subprocess.run(
            [str(directory / "peer"), *argv], check=True, stdout=subprocess.PIPE
        ).stdout

    return call


def test_layout_and_constants_are_those_of_the_header(peer):
    said = json.loads(peer("describe"))

    def layout(struct_name: str, names: list[str], format_struct) -> dict[str, list[int]]:
        offset, fields = 0, {}
        codes = format_struct.format.lstrip("<")
        for name, code in zip(names, codes, strict=False):
            size = {"I": 4, "H": 2, "Q": 8}[code]
            fields[f"{struct_name}.{name}"] = [offset, size]
            offset += size
        return fields

    expected: dict[str, object] = {"end": 0}
    expected |= layout(
        "pc_message",
        ["magic", "type", "stream", "length", "crc", "lsn", "guest_ns", "value"],
        wire.HEADER,
    )
    expected |= layout("pc_extent", ["slot", "count", "lsn", "state", "detail"], wire.EXTENT)
    expected |= layout("pc_latency", ["count", "sum_ns", "max_ns"], wire.LATENCY)
    expected["pc_latency.bucket"] = [24, 8 * wire.LATENCY_BUCKETS]
    expected |= {
        "sizeof(struct pc_message)": wire.HEADER.size,
        "sizeof(struct pc_extent)": wire.EXTENT.size,
        "sizeof(struct pc_latency)": wire.LATENCY.size,
        "PC_WIRE_MAGIC": wire.MAGIC,
        "PC_WIRE_PAYLOAD_MAX": wire.PAYLOAD_MAX,
        "PC_LATENCY_BUCKETS": wire.LATENCY_BUCKETS,
    }
    expected |= {f"PC_{kind.name}": int(kind) for kind in MessageType}
    expected |= {f"PC_SLOT_{state.name}": int(state) for state in SlotState}
    assert said == expected


def test_every_constant_of_the_header_is_mirrored():
    header = (ROOT / "workloads" / "common" / "wire.h").read_text()
    enums = header.split("enum pc_message_type {")[1].split("};")[0]
    names = [line.split("=")[0].strip() for line in enums.splitlines() if " = " in line]
    assert names == [f"PC_{name}" for name in TYPES]


def test_both_sides_encode_the_same_bytes(peer):
    assert b"".join(map(wire.encode, SENT)) == peer()


@pytest.mark.parametrize("piece", [1, 7, 40, 41, 100000])
def test_decodes_what_c_encodes_in_any_pieces(peer, piece):
    stream = peer()
    decoder = Decoder()
    received = []
    for start in range(0, len(stream), piece):
        received += decoder.feed(stream[start : start + piece])
    assert received == SENT
    assert decoder.unfinished == 0
    assert decoder.position == len(stream)


def test_payloads_decode(peer):
    messages = list(Decoder().feed(peer()))
    assert wire.decode_extents(messages[3].payload) == (
        Extent(0, 10, SlotState.INTACT, 1),
        Extent(10, 1, SlotState.TORN, 11, 3),
    )
    latency = wire.decode_latency(messages[4].payload)
    assert latency == LatencyHistogram(3, 60, 30, (1, *[0] * 494, 2))
    assert upper_edge_ns(wire.LATENCY_BUCKETS - 1) == 2**64 - 1


@pytest.mark.parametrize("cut", range(1, 60))
def test_an_unfinished_last_message_is_dropped(cut):
    whole = wire.encode(Message(MessageType.ACK, lsn=1))
    last = wire.encode(Message(MessageType.MARK, payload=b"twenty bytes of name"))
    decoder = Decoder()
    received = list(decoder.feed(whole + last[:cut]))
    assert [message.lsn for message in received] == [1]
    assert decoder.unfinished == cut


@pytest.mark.parametrize("bit", range(0, 8 * 60, 5))
def test_one_flipped_bit_is_damage_and_never_another_message(bit):
    first = wire.encode(Message(MessageType.ACK, lsn=1))
    damaged = bytearray(wire.encode(Message(MessageType.MARK, payload=b"twenty bytes of name")))
    damaged[bit // 8] ^= 1 << bit % 8
    after = wire.encode(Message(MessageType.ACK, lsn=2)) * 2000  # more than any length reaches
    received = []
    decoder = Decoder()
    with pytest.raises(DamagedRecording, match="at byte 40"):
        received.extend(decoder.feed(first + bytes(damaged) + after))
    assert [message.lsn for message in received] == [1]


def test_an_unknown_type_with_a_good_checksum_is_damage():
    header = wire.HEADER.pack(wire.MAGIC, 99, 0, 0, 0, 0, 0, 0)
    crc = wire.checksum(header, b"")
    with pytest.raises(DamagedRecording, match="unknown message type 99"):
        list(Decoder().feed(wire.HEADER.pack(wire.MAGIC, 99, 0, 0, crc, 0, 0, 0)))


def test_malformed_payloads_are_damage():
    with pytest.raises(DamagedRecording, match="33 bytes"):
        wire.decode_extents(bytes(33))
    with pytest.raises(DamagedRecording, match="8 is not a valid SlotState"):
        wire.decode_extents(wire.EXTENT.pack(0, 1, 0, 8, 0))
    with pytest.raises(DamagedRecording, match="LATENCY message of 8 bytes"):
        wire.decode_latency(bytes(8))


def test_a_payload_that_is_too_long_is_refused():
    wire.encode(Message(MessageType.TEXT, payload=bytes(wire.PAYLOAD_MAX)))
    with pytest.raises(ValueError, match="65537"):
        wire.encode(Message(MessageType.TEXT, payload=bytes(wire.PAYLOAD_MAX + 1)))


def test_command_words_are_nul_terminated_and_hold_no_nul():
    assert wire.command_payload(("mount", "xfs", "")) == b"mount\0xfs\0\0"
    with pytest.raises(ValueError, match="NUL"):
        wire.command_payload(("a\0b",))
