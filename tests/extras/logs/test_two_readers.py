# SPDX-License-Identifier: Apache-2.0
"""What reads a recovery's own log reads it as what reads foreign ones does."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from powercut.explore.recovery_timeline import Durability, timeline_of_record
from powercut.model.contract import DeviceContract
from powercut.model.timeline import RequestKind
from powercut_extras.logs.format import END_MARK, ENTRY, MAGIC, SUPERBLOCK, Dialect, Flag
from powercut_extras.logs.read import read_log

SECTORS = 256


@st.composite
def logs(draw) -> bytes:
    """Whole ones without FUA."""
    size = draw(st.sampled_from([512, 4096]))
    made = []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([0, Flag.FLUSH, Flag.DISCARD, Flag.METADATA, Flag.MARK]))
        count = 0 if kind in (Flag.FLUSH, Flag.MARK) else draw(st.integers(1, 4))
        sector = draw(st.integers(0, SECTORS - count)) if count else 0
        name = draw(st.binary(max_size=20)).strip(b"\0") if kind == Flag.MARK else b""
        head = ENTRY.pack(sector, count, int(kind), len(name)) + name
        data = b"" if kind == Flag.DISCARD else draw(st.binary(max_size=8)).ljust(count * size)
        made.append(head.ljust(size, b"\0") + data[: count * size])
    end = END_MARK.encode()
    made.append((ENTRY.pack(0, 0, int(Flag.MARK), len(end)) + end).ljust(size, b"\0"))
    return SUPERBLOCK.pack(MAGIC, 1, len(made), size).ljust(size, b"\0") + b"".join(made)


@given(logs())
def test_they_agree(raw):
    size = struct.unpack_from("<I", raw, 24)[0]
    durability = Durability(DeviceContract(), through=False)
    own = timeline_of_record(raw, disk_size=SECTORS * size, durability=durability)
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(raw)
        log = read_log(path, dialect=Dialect.KERNEL, disk_size=SECTORS * size)
        rows = np.flatnonzero(log.has_data | log.has(Flag.FLUSH))
        assert log.complete
        assert not log.doubts
        assert own.requests.offset.tolist() == log.offset[rows].tolist()
        assert own.requests.length.tolist() == log.length[rows].tolist()
        discard = own.requests.kind == RequestKind.DISCARD
        assert discard.tolist() == log.has(Flag.DISCARD)[rows].tolist()
        assert [name for _, name in own.marks] == [log.names[n] for n in sorted(log.names)]
        for row, at, length in zip(
            rows, own.requests.data_offset, own.requests.length, strict=True
        ):
            if at >= 0:
                assert own.data[at : at + length].tolist() == log.payload(int(row)).tolist()
