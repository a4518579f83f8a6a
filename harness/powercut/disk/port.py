# SPDX-License-Identifier: Apache-2.0
"""The port to a disk under test: something that serves NBD, records, and can lose its power."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from powercut.model.contract import CutPolicy
from powercut.model.units import Instant


@dataclass(frozen=True)
class DiskStatistics:
    """Counts since the disk started or was last cut.  Bytes where the name says so."""

    writes: int
    write_bytes: int
    fua_writes: int
    flushes: int
    zeroes: int
    discards: int
    volatile_writes: int
    volatile_bytes: int
    connections: int


@dataclass(frozen=True)
class CutReport:
    """What a cut did: the instant of it and how many volatile writes it took and left."""

    at: Instant
    dropped_writes: int
    dropped_bytes: int
    survived_writes: int


class Disk(Protocol):
    """A running disk.  It is a context manager; leaving the context closes it in order."""

    @property
    def socket(self) -> Path:
        """The unix socket on which it serves NBD."""

    @property
    def size(self) -> int:
        """Bytes."""

    def cut(
        self, policy: CutPolicy, seed: int, next_log: Path | None, *, timeout_s: float
    ) -> CutReport:
        """Takes the power away, then gives it back.

        What is volatile is dropped as `policy` says; requests on old connections fail
        from here on.  The current log is closed in order and made durable on the
        host.  New connections see the surviving medium; what they do is recorded in
        `next_log` (a path without suffix), or not at all if that is None.
        """

    def stop_at_flush(self, count: int) -> None:
        """Stops the disk when the `count`-th flush is submitted, before it acts.

        Flushes count from the start or the last cut.  A disk that has stopped takes no
        request, completes none and answers no read until it is cut.
        """

    def stop_after(self, completions: int, *, taking: bool) -> None:
        """Stops the disk once so many more requests have completed; at once for 0.

        With `taking` it keeps taking requests, which the cut then finds in flight, and
        answering reads; it has stopped as soon as a request waits.
        """

    def wait_stopped(self, *, timeout_s: float) -> bool:
        """True once the disk has stopped as it was asked to; False if it did not in time."""

    def mark(self, name: str) -> None:
        """Writes a mark into the log."""

    def statistics(self) -> DiskStatistics:
        """Counts so far."""

    def snapshot(self, path: Path) -> None:
        """Writes the medium as it is now (what a power loss would leave) to `path`, sparse."""

    def close(self) -> None:
        """Closes the log in order and stops serving; idempotent."""
