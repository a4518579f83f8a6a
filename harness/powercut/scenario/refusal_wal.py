# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work with the WAL workload (powercut.scenario.refusal)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from powercut.model.machine import ImageFormat
from powercut.model.units import SECTOR
from powercut.scenario.choices import Engine, FilesystemType, Layout, SyncMode
from powercut.scenario.quantity import format_size
from powercut.scenario.settings import Parameters, WalSettings, wal_settings

Reason = tuple[str, str]

GROUP_MAX: Final = 1 << 30
"""Bytes that the workload accepts for a group commit."""


def refusals_of_wal(parameters: Parameters) -> Iterator[Reason]:
    """Why the log cannot be written so: (dotted key, reason) each."""
    log = wal_settings(parameters)
    for rule in _RULES:
        yield from rule(parameters, log)


def refusals_of_wal_in_cuts(parameters: Parameters) -> Iterator[Reason]:
    """Why the log cannot be cut so, or its crash states explored."""
    log = wal_settings(parameters)
    yield from _flushes(parameters, log)
    yield from _explore(parameters, log)


def _layout(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    raw_disk = p.filesystem.type is FilesystemType.RAW
    raw_log = log.layout is Layout.RAW
    if raw_disk and not raw_log:
        yield (
            "workload.layout",
            f"layout {log.layout.value} needs a file system, and there is none; use raw",
        )
    if raw_log and not raw_disk:
        yield (
            "workload.layout",
            f"layout raw writes to the device itself, under the {p.filesystem.type.value} on it; "
            "set filesystem.type to raw",
        )
    if raw_disk and (p.filesystem.mkfs or p.filesystem.mount):
        key = "filesystem.mkfs" if p.filesystem.mkfs else "filesystem.mount"
        yield key, "there is no file system to make or to mount"


def _sizes(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    if log.layout is Layout.APPEND:
        return
    if log.layout is Layout.RAW:
        if log.capacity > p.disk.size:
            yield (
                "workload.capacity",
                f"the log is larger than the disk ({format_size(p.disk.size)})",
            )
    elif log.capacity > p.disk.size // 2:
        yield (
            "workload.capacity",
            "the log may take half of the disk at most "
            f"({format_size(p.disk.size // 2)}): the file system and its journal need room",
        )
    if log.layout is Layout.SEGMENTS:
        if log.segment > log.capacity:
            yield "workload.segment", "a segment is larger than the log"
        if log.stride > log.segment:
            yield "workload.segment", "a segment does not hold a single record"
        if log.segment % 4096:
            yield "workload.segment", "a segment is a multiple of 4096 bytes"
        if log.capacity % log.segment:
            yield "workload.capacity", "the log is a whole number of segments"
    elif log.stride > log.capacity:
        yield "workload.capacity", "the log does not hold a single record"


def _alternate(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    del p
    if log.sync is SyncMode.ALTERNATE and log.layout is Layout.SEGMENTS:
        yield (
            "workload.sync",
            "alternate flushes while the next writes go on, which one file only allows; "
            "take another layout than segments",
        )


def _records(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    trigger = p.cut.trigger
    if log.layout.bounded and log.slots is not None:
        if trigger.acks is not None and trigger.acks > log.slots:
            yield (
                "cut.trigger",
                f"the log is full after {log.slots} records: the cut would never come",
            )
        if log.records > log.slots:
            yield "workload.records", f"the log is full after {log.slots} records"
    if log.records and trigger.acks is not None and trigger.acks > log.records:
        yield "cut.trigger", f"the workload ends after {log.records} records, before the cut"
    if log.think % 1000:
        yield "workload.think", "a pause is a whole number of microseconds"


def _engine(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    del p
    if log.engine is Engine.PWRITE and log.depth > 1:
        yield "workload.depth", "pwrite has one write in flight; use libaio or io_uring"
    if log.streams * log.batch * log.record > GROUP_MAX:
        yield "workload.batch", "a group commit would take more than 1 GiB"
    if log.engine is Engine.LIBAIO and not log.direct:
        yield (
            "workload.engine",
            "libaio is asynchronous with O_DIRECT only; set workload.direct, or use io_uring",
        )


def _plant(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    del p
    fault, _, number = log.plant.partition(":")
    call = log.sync in (SyncMode.FSYNC, SyncMode.FDATASYNC)
    reasons = {
        "early-ack": (log.sync is not SyncMode.NONE, "every ack is early already: sync is none"),
        "ack-ahead": (
            log.sync not in (SyncMode.NONE, SyncMode.ALTERNATE),
            "no commit has a sync of its own to be ahead of; set sync to another than none and "
            "alternate",
        ),
        "skip-sync": (
            call or log.sync is SyncMode.RWF_DSYNC,
            "there is no sync to skip; set sync to fsync, fdatasync or rwf_dsync",
        ),
        "ack-failed-sync": (call, "there is no sync to fail; set sync to fsync or fdatasync"),
        "wrong-offset": (number != "1", "there is no record before the first to overwrite"),
        "torn-write": (
            log.record >= 2 * SECTOR,
            "a record within one sector does not tear; set record to 1024 at least",
        ),
        "replay-old": (
            log.layout in (Layout.PREWRITTEN, Layout.RECYCLED, Layout.RAW)
            and log.sync is not SyncMode.ALTERNATE,
            "nothing older can be put back there; set layout to prewritten, recycled or raw, and "
            "sync to another than alternate",
        ),
    }
    possible, reason = reasons.get(fault, (True, ""))
    if not possible:
        yield "workload.plant", reason


def _visible(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    """Records must stand on the disk as written, or exposure sees losses that are none."""
    del log
    if p.filesystem.type is not FilesystemType.BTRFS:
        return
    if "max_inline=0" not in p.filesystem.mount:
        reason = "btrfs keeps small files inside its tree, where records cannot be seen"
        yield "filesystem.mount", f"{reason}: add max_inline=0"
    if any(option.startswith("compress") for option in p.filesystem.mount):
        yield "filesystem.mount", "compressed records cannot be seen on the disk"


def _commit(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    del p
    records = log.streams * log.batch
    if records == 1:
        return  # whether a single record fits is asked elsewhere
    if log.layout is Layout.SEGMENTS and records * log.stride > log.segment:
        yield "workload.segment", f"the {records} records of one commit do not fit in a segment"
    elif log.slots is not None and records > log.slots:
        yield "workload.capacity", f"the {records} records of one commit do not fit in the log"


def _explore(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    del log
    if p.filesystem.type is FilesystemType.RAW:
        grows = p.machine.format is not ImageFormat.RAW  # the format allocates
        for key, value in (("after", 0 if grows else p.explore.after), ("depth", p.explore.depth)):
            if value:
                yield (
                    f"explore.{key}",
                    "recovery of a log on the device itself reads it and writes nothing: there is "
                    "no life after it that could go wrong, and nothing in it to be cut; set it to "
                    "0 where filesystem.type is raw",
                )


def _flushes(p: Parameters, log: WalSettings) -> Iterator[Reason]:
    if p.cut.trigger.flushes is not None and log.sync is SyncMode.NONE:
        yield "cut.trigger", "a workload that never syncs may not flush before the deadline"


_RULES: Final[tuple[Callable[[Parameters, WalSettings], Iterator[Reason]], ...]] = (
    _layout,
    _alternate,
    _sizes,
    _records,
    _engine,
    _plant,
    _visible,
    _commit,
)
