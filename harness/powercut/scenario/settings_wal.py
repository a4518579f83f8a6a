# SPDX-License-Identifier: Apache-2.0
"""The settings of the WAL workload."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt
from pydantic_core import PydanticCustomError

from powercut.scenario.choices import Engine, Layout, SyncMode
from powercut.scenario.quantity import Duration, Size
from powercut.scenario.settings_base import Count, OfWorkload

_PLANTS: Final = {
    "none": False,
    "early-ack": False,
    "ack-failed-sync": False,
    "ack-ahead": True,
    "skip-sync": True,
    "wrong-offset": True,
    "torn-write": True,
    "flip-bit": True,
    "replay-old": True,
}
"""Planted faults, and whether they take a number from 1 after a colon."""


def _is_plant(value: str) -> str:
    fault, colon, number = value.partition(":")
    if fault not in _PLANTS:
        choices = ", ".join(f"'{name}'" for name in _PLANTS)
        raise PydanticCustomError(
            "choice", "Input should be one of {expected}", {"expected": choices}
        )
    if _PLANTS[fault] != bool(colon) or (colon and not re.fullmatch(r"[1-9]\d*", number)):
        usage = f"{fault}:N, N from 1" if _PLANTS[fault] else f"{fault}, without a number"
        raise ValueError(f"write {usage}")
    return value


def _is_record(value: int) -> int:
    if value % 64:
        raise ValueError("a record is made of chunks of 64 bytes: write a multiple of 64")
    return value


def _is_align(value: int) -> int:
    if value not in (0, 512, 4096):
        raise PydanticCustomError("choice", "Input should be 0, 512 or 4096")
    return value


class WalSettings(OfWorkload):
    """The WAL workload: it appends records, commits them, and acknowledges each commit."""

    # Not written: it is what a recording without the key has, and older ones have none.
    kind: Annotated[Literal["wal"], Field(exclude=True)] = "wal"
    """What runs: `wal`, a log of powercut's own, which says all below; or `program`, yours."""

    layout: Layout = Layout.APPEND
    """How the log lies: a growing file (`append`), a preallocated one (`prealloc`), one
    written before (`prewritten`), the same used again and again (`recycled`), files of
    `segment` bytes (`segments`), or the device itself (`raw`).  A raw file system implies
    `raw`."""

    record: Annotated[Size, Field(ge=64, le=1 << 20), AfterValidator(_is_record)] = 512
    """Size of a record, header included, in bytes or with a unit; a multiple of 64."""

    align: Annotated[
        StrictInt, AfterValidator(_is_align), Field(json_schema_extra={"enum": [0, 512, 4096]})
    ] = 0
    """Where records start: at multiples of 512 or 4096 bytes, or 0 for packed."""

    capacity: Annotated[Size, Field(ge=4096)] = 16 << 20
    """Size of the log, in bytes or with a unit, where the layout has one (not `append`)."""

    segment: Annotated[Size, Field(ge=4096)] = 1 << 20
    """Size of each file of the layout `segments`, in bytes or with a unit."""

    sync: SyncMode = SyncMode.FDATASYNC
    """How a commit is made durable, before it is acknowledged: `fsync` or `fdatasync` after its
    writes; `o_dsync` or `o_sync`, the flag of the open file, or `rwf_dsync`, that of each write,
    so that every write is durable by itself; `none`; or `alternate`: writes and flushes overlap,
    and one fdatasync at a time covers all writes that completed before it began.

    SQL Server on Linux calls O_DIRECT with `o_dsync` write-through, O_DIRECT with `alternate`
    alternate write-through, and O_DIRECT with a flush at each commit, as `fsync` does it,
    forced flush."""

    direct: StrictBool = False
    """Whether the log is opened with O_DIRECT."""

    engine: Engine = Engine.PWRITE
    """Which system calls write."""

    streams: Annotated[StrictInt, Field(ge=1, le=128)] = 1
    """Threads that append; one of them commits for all that wait."""

    batch: Annotated[StrictInt, Field(ge=1, le=4096)] = 1
    """Records that each stream appends for a commit."""

    depth: Annotated[StrictInt, Field(ge=1, le=1024)] = 1
    """Writes in flight within a commit, with `libaio` and `io_uring`."""

    think: Duration = 0
    """Pause of a stream between its commits; whole microseconds."""

    records: Count = 0
    """How many records to write; 0: until the cut."""

    plant: Annotated[str, AfterValidator(_is_plant)] = "none"
    """A fault planted into the workload, to see whether it is found: `none`, `early-ack`,
    `ack-ahead:US`, `skip-sync:N`, `ack-failed-sync`, `wrong-offset:LSN`, `torn-write:LSN`,
    `flip-bit:LSN` or `replay-old:LSN`."""

    @property
    def stride(self) -> int:
        """Bytes from the start of one record to the start of the next."""
        if not self.align:
            return self.record
        return -(-self.record // self.align) * self.align

    @property
    def slots(self) -> int | None:
        """How many records the log holds before it is full; None if it grows."""
        if self.layout is Layout.APPEND:
            return None
        if self.layout is Layout.SEGMENTS:
            return self.capacity // self.segment * (self.segment // self.stride)
        return self.capacity // self.stride
