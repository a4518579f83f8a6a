# SPDX-License-Identifier: Apache-2.0
"""What recovery gave back: the reader's findings, before anybody judges them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from powercut.model.failure import Failure
from powercut.model.history import RECORDS_MAX


@dataclass(frozen=True)
class Extent:
    """`count` consecutive slots in the same state, in the words of the workload's reader.

    `lsn` is the LSN found in the first slot and rises by one per slot (0: none).  What `detail`
    says depends on the state.
    """

    slot: int
    count: int
    state: enum.IntEnum
    lsn: int = 0
    detail: int = 0


def checked_extents(extents: Iterable[Extent]) -> tuple[Extent, ...]:
    """`extents` of a foreign reader; ValueError for numbers that no reader can mean."""
    checked = tuple(extents)
    for extent in checked:
        numbers = (extent.slot, extent.lsn, extent.detail)
        if min(numbers) < 0 or max(*numbers, extent.count) >= 1 << 62 or extent.count < 1:
            raise ValueError(f"no reader reports {extent}")
        if extent.lsn and extent.count > RECORDS_MAX:
            raise ValueError(f"{extent.count} records; {RECORDS_MAX} at most")
    return checked


@dataclass(frozen=True)
class Observation:
    """The log as it was found after recovery.

    `recovered` is False if recovery itself failed (no mount, panic); `failure`
    then says how, in the words of the part that noticed.  `complete` is False if the
    reader did not finish: nothing may then be concluded from what is missing.
    `cause` is the row of the table of failures that `failure` belongs to, None if nothing
    failed or a recording does not say.
    `later` is what came of the workload going on after this, if it was asked to.
    `lines` are what a program said that is not ours to read: its own checker's.
    `refused` are lines that it printed of a read-only file system: it has come to its end, and is
    not complete if they mean that it was refused something.
    """

    extents: tuple[Extent, ...]
    recovered: bool = True
    complete: bool = True
    failure: str = ""
    later: Continuation | None = None
    cause: Failure | None = None
    lines: bytes = b""
    refused: frozenset[str] = frozenset()

    @staticmethod
    def failed(cause: Failure, words: str, extents: tuple[Extent, ...] = ()) -> Observation:
        """What a failure leaves to be judged: a system that did not recover, or nothing certain.

        `extents` are what had been read before; they count only where the failure is trouble.
        """
        if cause.is_finding:
            return Observation((), recovered=False, failure=words, cause=cause)
        return Observation(extents, complete=False, failure=words, cause=cause)

    @property
    def stretches(self) -> tuple[Extent, ...]:
        """The extents, each as long as it can be, so that equal logs have equal ones."""
        joined: list[Extent] = []
        for extent in self.extents:
            last = joined[-1] if joined else None
            if last is not None and extent == replace(
                last,
                slot=last.slot + last.count,
                count=extent.count,
                lsn=last.lsn + last.count if last.lsn else 0,
            ):
                joined[-1] = replace(last, count=last.count + extent.count)
            else:
                joined.append(extent)
        return tuple(joined)


@dataclass(frozen=True)
class Continuation:
    """Life after recovery: the workload went on with record `first_lsn`.

    `attempted` and `acked` are the highest LSNs of which it said so (0: none); a program, which
    begins where it will, has said so in `lines`, and they are all 0.
    `observation` is the log after a clean unmount and another mount.  `failure` says what
    kept the workload from going on, empty if nothing did; with `no_room` it was nothing
    but the end of the log or of the disk.  `outside` are files that a program left in memory,
    outside of its folder, as far as they are known.
    """

    first_lsn: int
    attempted: int
    acked: int
    observation: Observation
    failure: str = ""
    no_room: bool = False
    lines: bytes = b""
    outside: tuple[str, ...] = ()
