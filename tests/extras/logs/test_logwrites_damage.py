# SPDX-License-Identifier: Apache-2.0
"""Random logs come back as they were written; damage never harms what stands before it."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powercut.model.errors import DamagedRecording
from powercut_extras.logs.logs import Dialect, read_log

FLUSH, FUA, DISCARD, MARK, METADATA = 1, 2, 4, 8, 16
DISK_SECTORS = 64


@st.composite
def entries(draw):
    """(sector, sectors, flags, data or name), as either dialect may have them."""
    kind = draw(
        st.sampled_from(["write", "write", "fua", "meta", "both", "discard", "flush", "mark"])
    )
    if kind == "mark":
        return 0, 0, MARK, draw(st.text("abc 0123456789/", max_size=12)).encode()
    if kind == "flush":
        return 0, 0, FLUSH, b""
    sectors = draw(st.integers(1, 4))
    sector = draw(st.integers(0, DISK_SECTORS - sectors))
    flags = {
        "write": 0,
        "fua": FUA,
        "meta": METADATA | FUA,
        "both": FLUSH | FUA,
        "discard": DISCARD,
    }
    return sector, sectors, flags[kind], b""


@st.composite
def logs(draw):
    """A kernel log: its bytes, sector size, entries and the place of each."""
    size = draw(st.sampled_from([512, 4096]))
    listed = [*draw(st.lists(entries(), max_size=20)), (0, 0, MARK, b"dm-log-writes-end")]
    out, places = bytearray(size), []
    struct.pack_into("<QQQI", out, 0, 0x6A736677736872, 1, len(listed), size)
    for number, (sector, sectors, flags, name) in enumerate(listed):
        places.append(len(out))
        head = bytearray(size)
        struct.pack_into("<QQQQ", head, 0, sector, sectors, flags, len(name))
        head[32 : 32 + len(name)] = name
        out += head
        if not flags & (DISCARD | MARK):
            out += bytes([number + 1]) * (sectors * size)
    return Raw(out), size, listed, places


class Raw(bytes):
    """Bytes that do not fill the screen when a test fails."""

    def __repr__(self):
        return f"<{len(self)} bytes>"


def read(raw, size, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(raw)
        return read_log(path, disk_size=DISK_SECTORS * size, **options)


def same(log, number, listed, places, size):
    sector, sectors, flags, name = listed[number]
    assert (log.sector[number], log.nr_sectors[number]) == (sector, sectors)
    assert (log.flags[number], log.position[number]) == (flags, places[number])
    assert (number in log.names) == bool(flags & MARK)
    if flags & MARK:
        assert log.names[number].encode() == name
    if sectors and not flags & DISCARD:
        assert log.payload(number).tobytes() == bytes([number + 1]) * (sectors * size)


@settings(max_examples=300, deadline=None)
@given(logs())
def test_every_log_comes_back_as_it_was_written(made):
    raw, size, listed, places = made
    log = read(raw, size)
    assert log.dialect is Dialect.KERNEL
    assert log.complete
    assert log.sector_size == size
    assert len(log) == log.counted == len(listed)
    for number in range(len(listed)):
        same(log, number, listed, places, size)


@settings(max_examples=500, deadline=None)
@given(logs(), st.data())
def test_what_stands_before_a_flipped_bit_is_read_right(made, data):
    raw, size, listed, places = made
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = bytearray(raw)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    hurt = sum(place <= at for place in places) - 1  # the entry with the flipped bit
    if hurt < 0:
        return  # in the superblock: a test of its own
    error = None
    try:
        log = read(bytes(damaged), size, dialect=Dialect.KERNEL)
    except DamagedRecording as refused:
        error = str(refused)
        log = read(bytes(damaged), size, dialect=Dialect.KERNEL, salvage=True)
        assert not log.complete
        assert f"entry {len(log):,} at byte " in error
    assert len(log) >= hurt
    for number in range(hurt):
        same(log, number, listed, places, size)
    head = at - places[hurt]
    if 8 + 5 <= head < 16 or (17 <= head < 24) or 32 + len(listed[hurt][3]) <= head < size:
        # A length beyond the disk, a flag that does not exist, or padding that is not zero.
        assert error is not None
        assert f"entry {hurt:,} at byte {places[hurt]:,} " in error


@settings(max_examples=300, deadline=None)
@given(logs(), st.data())
def test_a_log_that_was_cut_off_names_the_entry(made, data):
    raw, size, listed, places = made
    stop = data.draw(st.integers(size, len(raw) - 1))
    left = sum(end <= stop for end in [*places[1:], len(raw)])
    with pytest.raises(DamagedRecording, match=f"entry {left:,} at byte {places[left]:,} is "):
        read(raw[:stop], size, dialect=Dialect.KERNEL)
    log = read(raw[:stop], size, dialect=Dialect.KERNEL, salvage=True)
    assert len(log) == left
    assert not log.complete
    for number in range(left):
        same(log, number, listed, places, size)


@settings(max_examples=200, deadline=None)
@given(logs(), st.data())
def test_a_damaged_superblock_never_gives_a_longer_log(made, data):
    raw, size, listed, places = made
    damaged = bytearray(raw)
    damaged[data.draw(st.integers(0, 27))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        log = read(bytes(damaged), size, dialect=Dialect.KERNEL)
    except DamagedRecording:
        return
    assert len(log) < len(listed)
    assert not log.complete
    for number in range(len(log)):
        same(log, number, listed, places, size)
