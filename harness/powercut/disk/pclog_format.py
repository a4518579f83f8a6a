# SPDX-License-Identifier: Apache-2.0
"""The bytes of a disk log: the Python side of harness/capture/log_format.h."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from powercut.mapped import mapped
from powercut.model.binding import Binding
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.errors import DamagedRecording
from powercut.model.units import NEVER, Instant

Bytes = npt.NDArray[np.uint8]
ReadFile = Callable[[Path], Bytes]
"""How the contents of a file are had, which need not lie there as they are."""

MAGIC: Final = b"PCUTLOG1"
VERSION: Final = 1
HEADER_SIZE: Final = 256
EVENT_SIZE: Final = 64
CRC_OFFSET: Final = 60
"""An event's checksum covers the bytes before this one."""

DISK_SIZE_MAX: Final = 1 << 50
"""Bytes: a thousand times what a scenario may ask for."""

ATOMIC_UNIT_MAX: Final = 1 << 20
"""Bytes."""

HEADER: Final = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_size", "<u4"),
        ("disk_size", "<u8"),
        ("atomic_unit", "<u4"),
        ("contract", "<u4"),
        ("cache_size", "<u8"),
        ("flush_latency_ns", "<u8"),
        ("fua_latency_ns", "<u8"),
        ("start_monotonic_ns", "<u8"),
        ("start_realtime_ns", "<u8"),
        ("run_id", "V16"),
        ("seed", "<u8"),
        ("binding", "V32"),
        ("cell", "V96"),
        ("kind", "<u4"),
        ("reserved", "V24"),
        ("crc", "<u4"),
    ]
)
EVENT: Final = np.dtype(
    [
        ("type", "u1"),
        ("op", "u1"),
        ("flags", "<u2"),
        ("connection", "<u4"),
        ("sequence", "<u8"),
        ("time_ns", "<i8"),
        ("request", "<u8"),
        ("offset", "<i8"),
        ("length", "<i8"),
        ("data", "<i8"),
        ("data_crc", "<u4"),
        ("crc", "<u4"),
    ]
)


class LogKind(enum.IntEnum):
    """enum pclog_kind."""

    DISK = 1
    DISKS = 2
    """Several, each a range: a flush may cover the range of one alone."""

    FOLDER = 3


_KIND_NAMES: Final[dict[int, str]] = {
    LogKind.DISK: "a disk",
    LogKind.DISKS: "several disks",
    LogKind.FOLDER: "a captured folder",
}
DISK_KINDS: Final = (LogKind.DISK, LogKind.DISKS)


class EventType(enum.IntEnum):
    """enum pclog_type."""

    SUBMIT = 1
    COMPLETE = 2
    DESTAGE = 3
    CUT = 4
    SURVIVE = 5
    MARK = 6
    CONNECT = 7
    DISCONNECT = 8
    END = 9


class EventFlag(enum.IntFlag):
    """enum pclog_flags."""

    FUA = 1
    IGNORED = 2
    FAILED = 4
    INJECTED = 8


class ContractFlag(enum.IntFlag):
    """enum pclog_contract."""

    VOLATILE_CACHE = 1
    FLUSH_HONOURED = 2
    FUA_HONOURED = 4
    ORDERED = 8


POLICIES: Final = {
    1: CutPolicy.DROP,
    2: CutPolicy.KEEP,
    3: CutPolicy.RANDOM,
    4: CutPolicy.PREFIX,
}
"""enum pclog_policy."""


@dataclass(frozen=True)
class LogHeader:
    """What a log says of itself before its first event."""

    disk_size: int
    contract: DeviceContract
    binding: Binding
    start_monotonic_ns: Instant
    start_realtime_ns: int
    kind: LogKind


def log_path(prefix: Path) -> Path:
    """The events of the log named `prefix`."""
    return prefix.with_name(prefix.name + ".log")


def data_path(prefix: Path) -> Path:
    """The payloads of the log named `prefix`."""
    return prefix.with_name(prefix.name + ".data")


def map_file(path: Path) -> Bytes:
    """The contents of a file, mapped; raises DamagedRecording."""
    try:
        return mapped(path)
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from None


def header_of(path: Path, log: Bytes, *kinds: LogKind) -> LogHeader:
    """The header of the log whose events are `log`; `path` is for messages.

    `kinds` are those that can be read, by default those of disks.  Raises DamagedRecording if
    there is none, or one of another kind.
    """
    raw = log[:HEADER_SIZE].tobytes()
    if len(raw) < HEADER_SIZE or raw[:8] != MAGIC:
        raise DamagedRecording(f"{path}: this is not a disk log: it does not start with a header")
    row = np.frombuffer(raw, dtype=HEADER)[0]
    if int(row["version"]) != VERSION or int(row["header_size"]) != HEADER_SIZE:
        raise DamagedRecording(
            f"{path}: a log of version {int(row['version'])}; version {VERSION} can be read",
            hint="read it with the powercut that wrote it",
        )
    if google_crc32c.value(raw[: HEADER_SIZE - 4]) != int(row["crc"]):
        raise DamagedRecording(f"{path}: the checksum of the header is wrong")
    kind = _kind_of(path, int(row["kind"]), kinds or DISK_KINDS)
    _check_numbers(path, row)
    return LogHeader(
        disk_size=int(row["disk_size"]),
        contract=_contract(row),
        binding=Binding(
            run_id=bytes(row["run_id"]),
            seed=int(row["seed"]),
            cell=bytes(row["cell"]).rstrip(b"\0").decode("utf-8", "ignore"),
            digest=bytes(row["binding"]),
        ),
        start_monotonic_ns=Instant(int(row["start_monotonic_ns"])),
        start_realtime_ns=int(row["start_realtime_ns"]),
        kind=kind,
    )


def _kind_of(path: Path, number: int, kinds: Sequence[LogKind]) -> LogKind:
    if number in kinds:
        return LogKind(number)
    found = _KIND_NAMES.get(number, f"an unknown kind ({number})")
    wanted = " or ".join(_KIND_NAMES[kind] for kind in kinds)
    raise DamagedRecording(f"{path}: this is the log of {found}, not of {wanted}")


def _check_numbers(path: Path, row: np.void) -> None:
    """What follows computes with these numbers, in 64 bits."""
    size, unit, start = (
        int(row[name]) for name in ("disk_size", "atomic_unit", "start_monotonic_ns")
    )
    if size > DISK_SIZE_MAX:
        raise DamagedRecording(f"{path}: a disk of {size} bytes, and none is that large")
    if unit.bit_count() != 1 or unit > ATOMIC_UNIT_MAX:
        raise DamagedRecording(f"{path}: an atomic unit of {unit} bytes, and no disk has that")
    if start >= NEVER:
        raise DamagedRecording(f"{path}: it begins at {start} ns, which is on no clock")


def _contract(row: np.void) -> DeviceContract:
    flags = ContractFlag(int(row["contract"]))

    def honour(flag: ContractFlag) -> Honour:
        return Honour.HONOURED if flag in flags else Honour.IGNORED

    return DeviceContract(
        volatile_cache=ContractFlag.VOLATILE_CACHE in flags,
        flush=honour(ContractFlag.FLUSH_HONOURED),
        fua=honour(ContractFlag.FUA_HONOURED),
        ordered=ContractFlag.ORDERED in flags,
        atomic_unit=int(row["atomic_unit"]),
        cache_size=int(row["cache_size"]),
        flush_latency_ns=int(row["flush_latency_ns"]),
        fua_latency_ns=int(row["fua_latency_ns"]),
    )
