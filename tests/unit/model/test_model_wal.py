# SPDX-License-Identifier: Apache-2.0
"""The Python side of the record format against the C header itself."""

import shutil
import subprocess

import numpy as np
import pytest

from powercut import paths
from powercut.model.crc32c import crc32c, crc32c_rows
from powercut.model.errors import UsageError
from powercut.wal import record as wal
from powercut.wal.layout import LayoutKind, WalLayout

RUN_ID = bytes(range(16))

C_WORDS = r"""
#include <stdio.h>
#include "wal_format.h"
int main(void)
{
    uint8_t id[16];
    for (int i = 0; i < 16; i++) id[i] = (uint8_t)i;
    uint64_t key = wal_key(id);
    printf("%llx\n", (unsigned long long)key);
    for (uint64_t i = 0; i < 64; i++) {
        uint64_t lsn = (i * i * i * 12345) % WAL_LSN_MAX;
        uint64_t word = wal_word(key, (uint32_t)(i * 2 % 128), lsn, i);
        printf("%llx %llx\n", (unsigned long long)word, (unsigned long long)wal_unmix(word));
    }
    printf("%zu %zu %zu %zu %zu %zu\n", __builtin_offsetof(struct wal_header, run_id),
           __builtin_offsetof(struct wal_header, stream),
           __builtin_offsetof(struct wal_header, lsn),
           __builtin_offsetof(struct wal_header, prev_lsn),
           __builtin_offsetof(struct wal_header, position),
           __builtin_offsetof(struct wal_header, header_crc));
}
"""


def test_words_are_those_of_the_c_header(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this host")
    source = tmp_path / "words.c"
    source.write_text(C_WORDS)
    include = paths.ROOT / "workloads" / "wal"
    program = tmp_path / "words"
    subprocess.run([compiler, "-I", include, "-o", program, source], check=True, timeout=60)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    first, *lines, offsets = done.stdout.splitlines()
    key = wal.key(RUN_ID)
    assert int(first, 16) == int(key)
    for i, line in enumerate(lines):
        word, back = (int(part, 16) for part in line.split())
        stream, lsn = i * 2 % 128, (i**3 * 12345) % ((1 << 40) - 1)
        assert int(wal.payload_words(key, stream, lsn, i + 1)[i]) == word
        assert int(wal.unmix(np.array([word], dtype=np.uint64))[0]) == back
    names = ("run_id", "stream", "lsn", "prev_lsn", "position", "header_crc")
    fields = wal.HEADER.fields
    assert fields is not None
    assert [int(word) for word in offsets.split()] == [fields[name][1] for name in names]


@pytest.mark.parametrize(("record", "align"), [(64, 0), (512, 512), (192, 512), (4096, 4096)])
def test_a_raw_log_of_the_wal_program_byte_for_byte(tmp_path, record, align):
    if not paths.WAL_BINARY.exists():
        pytest.skip(f"{paths.WAL_BINARY} has not been built")
    layout = WalLayout(LayoutKind.RAW, record=record, align=align, capacity=1 << 16, offset=4096)
    records = layout.slots + layout.slots // 2
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 17))
    subprocess.run(
        [
            *(paths.WAL_BINARY, "write", f"run_id={RUN_ID.hex()}", "layout=raw", f"path={image}"),
            *(f"record={record}", f"align={align}", "capacity=65536", "offset=4096"),
            *("sync=fdatasync", f"records={records}", "streams=1", "batch=4"),
            f"channel={tmp_path / 'channel'}",
        ],
        check=True,
        timeout=120,
    )
    disk = image.read_bytes()
    expected = bytearray(1 << 17)
    for lsn in range(1, records + 1):
        position = layout.position_of(lsn)
        generation = (lsn - 1) // layout.slots
        body = wal.record_bytes(
            RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=generation, position=position,
            record_size=record,
        )  # fmt: skip
        expected[4096 + position : 4096 + position + record] = body
    assert disk == bytes(expected)


def test_unmix_undoes_mix():
    words = np.random.default_rng(1).integers(0, 1 << 64, 10_000, dtype=np.uint64)
    assert (wal.unmix(wal.mix(words)) == words).all()
    assert int(wal.mix(np.zeros(1, dtype=np.uint64))[0]) == 0


def test_crc32c_has_the_check_value_of_its_polynomial():
    assert crc32c(b"123456789") == 0xE3069283
    rows = np.random.default_rng(1).integers(0, 256, (50, 60), dtype=np.uint8)
    assert crc32c_rows(rows).tolist() == [crc32c(row) for row in rows]


def test_layouts_place_records():
    raw = WalLayout(LayoutKind.RAW, record=192, align=512, capacity=2048, offset=512)
    assert (raw.stride, raw.slots, raw.wraps, raw.chunks) == (512, 4, True, 3)
    assert [raw.slot_of(lsn) for lsn in (1, 4, 5)] == [0, 3, 0]
    assert raw.position_of(6) == 512
    assert [raw.oldest_required(n) for n in (0, 4, 5, 9)] == [1, 1, 2, 6]
    segments = WalLayout(LayoutKind.SEGMENTS, record=192, segment=512)
    assert segments.slots_per_segment == 2
    assert [segments.position_of(lsn) for lsn in (1, 2, 3)] == [0, 192, 512]
    assert WalLayout(LayoutKind.APPEND).slots == 0
    assert WalLayout(LayoutKind.PREALLOC, capacity=1024).oldest_required(9) == 1


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (LayoutKind.APPEND, {"record": 100}, "record=100"),
        (LayoutKind.APPEND, {"align": 64}, "align=64"),
        (LayoutKind.RAW, {"capacity": 100}, "capacity=100"),
        (LayoutKind.SEGMENTS, {"segment": 0}, "segment=0"),
        (LayoutKind.APPEND, {"offset": 512}, "offset=512"),
    ],
)
def test_impossible_layouts_are_refused(kind, arguments, message):
    with pytest.raises(UsageError, match=message):
        WalLayout(kind, **arguments)
