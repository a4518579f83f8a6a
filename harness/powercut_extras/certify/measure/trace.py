# SPDX-License-Identifier: Apache-2.0
"""Counts requests in the guest's kernel with histograms of its trace events.

Two places are counted.  Where a file system hands a request (a bio) to the block layer: a kprobe
on submit_bio, keyed by its operation and flags.  And where the block layer hands a request to the
driver: the event block_rq_issue, keyed by rwbs, less what was requeued and so is issued again.
A histogram is kept by the kernel (Documentation/trace/histogram.rst of Linux) and costs a
microsecond a request; nothing is logged.

The offset of bi_opf in struct bio and the numbers of its flags are no promise of Linux
(include/linux/blk_types.h).  So they are tried out: fsync of the idle block device must show up as
one write with REQ_PREFLUSH and nothing else of note.  Where it does not, what the file system
asked for is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from powercut.model.errors import HostError
from powercut_extras.certify.measurement import BioCounts, RequestCounts

Histogram = dict[str, tuple[int, int]]
"""By key: how often, and the sum of sectors (0 where they are not counted)."""

_TRACEFS: Final = "/sys/kernel/tracing"
_ISSUE: Final = f"{_TRACEFS}/events/block/block_rq_issue"
_REQUEUE: Final = f"{_TRACEFS}/events/block/block_rq_requeue"
_ASKED: Final = f"{_TRACEFS}/events/powercut/asked"

_OPERATION: Final = 0xFF
_WRITE: Final = 1
_FUA: Final = 1 << 17
_PREFLUSH: Final = 1 << 18

_LINE: Final = re.compile(
    r"^\{ \w+:\s*(?P<key>\S*)\s*\} hitcount:\s*(?P<hits>\d+)(?:\s+nr_sector:\s*(?P<sectors>\d+))?",
    re.MULTILINE,
)
_DROPPED: Final = re.compile(r"^\s*Dropped:\s*([0-9]+)", re.MULTILINE)
_SECTOR: Final = 512

Command = Callable[..., tuple[str, ...]]
"""Runs a command of the guest's agent and returns the texts that it sent; raises HostError."""


def parse_histogram(text: str) -> Histogram:
    """What a `hist` file of tracefs says.  Raises ValueError if it dropped anything."""
    dropped = _DROPPED.search(text)
    if dropped is None or int(dropped[1]):
        raise ValueError("the guest's kernel did not count every request")
    return {
        match["key"]: (int(match["hits"]), int(match["sectors"] or 0))
        for match in _LINE.finditer(text)
    }


@dataclass(frozen=True)
class GuestSnapshot:
    """What was counted so far; None where it cannot be."""

    issued: Histogram | None = None
    asked: Histogram | None = None
    texts: tuple[str, ...] = ()


class GuestTrace:
    """The counters of one guest.  `unknown` says what cannot be counted, and why.

    Without `bios`, what file systems ask for is left alone: some drivers submit bios, too, such
    as virtio_pmem for each flush.
    """

    def __init__(self, command: Command, device: str, *, bios: bool = True) -> None:
        self._command = command
        self._device = device
        self._wanted = bios
        self._issues = self._bios = False
        self.unknown: list[str] = []

    def start(self) -> None:
        """Switches the counters on.

        To be called before anything is mounted: it sends one flush to the device.
        """
        try:
            self._command("trace")
            for event in (_ISSUE, _REQUEUE):
                self._command("write", f"{event}/trigger", "hist:keys=rwbs:vals=nr_sector")
            self._issues = True
            if not self._wanted:
                return
            probe = "p:powercut/asked submit_bio opf=+16(%di):x32"
            self._command("write", f"{_TRACEFS}/kprobe_events", probe)
            self._command("write", f"{_ASKED}/trigger", "hist:keys=opf.hex")
            self._bios = True
            self._try_out()
        except HostError as error:
            self.unknown.append(f"{error}")

    def _try_out(self) -> None:
        before = self.snapshot().asked
        self._command("fsync", f"/dev/{self._device}")
        after = self.snapshot().asked
        if before is not None and after is not None:
            seen = _difference(before, after)
            if len(seen) == 1:
                flags = int(next(iter(seen)), 16)
                if flags & (_OPERATION | _FUA | _PREFLUSH) == _WRITE | _PREFLUSH:
                    return
        self._bios = False
        self.unknown.append("the guest's kernel keeps the flags of its requests elsewhere")

    def snapshot(self) -> GuestSnapshot:
        texts = [self._read(_ISSUE), self._read(_REQUEUE)] if self._issues else []
        texts += [self._read(_ASKED)] if self._bios else []
        try:
            histograms = [parse_histogram(text) for text in texts]
        except ValueError as error:
            self._issues = self._bios = False
            self.unknown.append(f"{error}")
            return GuestSnapshot(texts=tuple(texts))
        issued = _less(histograms[0], histograms[1]) if len(histograms) > 1 else None
        asked = histograms[2] if len(histograms) > 2 else None
        return GuestSnapshot(issued, asked, tuple(texts))

    def _read(self, event: str) -> str:
        return "".join(self._command("read", f"{event}/hist"))


def issued_between(before: GuestSnapshot, after: GuestSnapshot) -> RequestCounts | None:
    """What the guest's block layer issued between two snapshots.

    rwbs: F before the operation is a flush before the data (never at this point, since the
    block layer sends it apart), the operation (W, R, D discard, F flush), F after it is FUA, S
    synchronous, M metadata and so on (blk_fill_rwbs in kernel/trace/blktrace.c).
    """
    if before.issued is None or after.issued is None:
        return None
    kinds = _difference(before.issued, after.issued)
    writes = {kind: counts for kind, counts in kinds.items() if _is_write(kind)}
    return RequestCounts(
        writes=sum(hits for hits, _ in writes.values()),
        fua_writes=sum(hits for kind, (hits, _) in writes.items() if "F" in kind.split("W", 1)[1]),
        flushes=sum(hits for kind, (hits, _) in kinds.items() if _is_flush(kind)),
        written_bytes=_SECTOR * sum(sectors for _, sectors in writes.values()),
        kinds={kind: hits for kind, (hits, _) in sorted(kinds.items()) if not kind.startswith("R")},
    )


def _is_write(kind: str) -> bool:
    return kind.removeprefix("F").startswith("W")


def _is_flush(kind: str) -> bool:
    return kind.startswith("F") and not _is_write(kind)


def asked_between(before: GuestSnapshot, after: GuestSnapshot) -> BioCounts | None:
    """What the guest's file system asked for between two snapshots."""
    if before.asked is None or after.asked is None:
        return None
    names = {0: "write", _PREFLUSH: "flush", _FUA: "fua", _PREFLUSH | _FUA: "flush+fua"}
    kinds: Counter[str] = Counter()
    for key, (hits, _) in _difference(before.asked, after.asked).items():
        flags = int(key, 16)
        if flags & _OPERATION & _WRITE:  # operations that write are odd
            kinds[names[flags & (_FUA | _PREFLUSH)]] += hits
    return BioCounts(
        flushes=kinds["flush"] + kinds["flush+fua"],
        fua_writes=kinds["fua"] + kinds["flush+fua"],
        kinds=dict(sorted(kinds.items())),
    )


def _difference(before: Histogram, after: Histogram) -> Histogram:
    return {key: pair for key, pair in _less(after, before).items() if pair != (0, 0)}


def _less(one: Histogram, other: Histogram) -> Histogram:
    return {
        key: (hits - other.get(key, (0, 0))[0], sectors - other.get(key, (0, 0))[1])
        for key, (hits, sectors) in one.items()
    }
