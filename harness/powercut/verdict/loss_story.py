# SPDX-License-Identifier: Apache-2.0
"""How one acknowledged record was lost, event by event, out of the recording of its trial.

It tells of a record that did not come back: when it was announced, which write carried it,
which flushes followed, when it was acknowledged, when the power went.  Of a program's operation
it tells what the disk was given meanwhile.  Nothing is judged here; the verdict was given before,
from the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from powercut.crash.evidence import Evidence
from powercut.model.contract import DeviceContract, Honour
from powercut.model.exposure import ExposureReport
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER, milliseconds
from powercut.model.verdict import LsnRange
from powercut.store.loss_story import Lane, LossStep, LossStory, Sign

_FLUSHES: Final = 2
"""Flushes that are told one by one."""

_WRITES: Final = 3
"""Writes of a program that are told one by one."""

_CLEAR_NS: Final = 1_000_000
"""A record that was acknowledged so long before the cut makes a clearer story."""


def story_of(
    evidence: Evidence, report: ExposureReport, lost: Sequence[LsnRange]
) -> LossStory | None:
    """The story of one of the records `lost`; None if no single one can be told."""
    cut = evidence.timeline.cut
    if cut is None:
        return None
    index = _chosen(report, lost, int(cut.at))
    if index is None:
        return None
    return _Telling(evidence, report, index, int(cut.at)).story()


def _chosen(report: ExposureReport, lost: Sequence[LsnRange], cut_ns: int) -> int | None:
    """The last record that is lost, exposed and was acknowledged well before the cut."""
    gone = np.zeros(len(report.lsn), dtype=np.bool_)
    for span in lost:
        gone |= (report.lsn >= span.first) & (report.lsn <= span.last)
    gone &= report.ack_ns <= cut_ns
    carried = gone & (report.write >= 0)
    for wanted in (carried & report.exposed, carried, gone):
        indices = np.flatnonzero(wanted)
        clear = indices[report.ack_ns[indices] < cut_ns - _CLEAR_NS]
        if len(indices):
            return int(clear[-1] if len(clear) else indices[-1])
    return None


def _step(at_ns: int | None, lane: Lane, sign: Sign, text: str) -> LossStep:
    return LossStep(at_ns=at_ns, lane=lane, sign=sign, text=text)


def _flushes(timeline: Timeline, begin: int, cut_ns: int) -> Iterator[LossStep]:
    """The first flushes from `begin` to the cut, and how many more there were."""
    requests = timeline.requests
    chosen = (requests.kind == RequestKind.FLUSH) & (requests.submitted_ns >= begin)
    flushes = np.flatnonzero(chosen & (requests.submitted_ns <= cut_ns)).tolist()
    for number, index in enumerate(flushes[:_FLUSHES]):
        more = len(flushes) - _FLUSHES if number == _FLUSHES - 1 else 0
        told = f"a flush reaches {_disk(timeline, index)}"
        told += ", which ignores it" if timeline.ignored(index) else ""
        if more > 0:
            told += f"; {more:,} more follow before the cut"
        yield _step(int(requests.submitted_ns[index]), "flush", "begin", told)
        done = int(requests.completed_ns[index])
        if done != NEVER and done <= cut_ns:
            yield _step(done, "flush", "end", "the flush is reported done")


def _disk(timeline: Timeline, request: int) -> str:
    name = timeline.disk_name(request)
    return f"disk {name}" if name else "the disk"


def _in_order(steps: list[LossStep]) -> list[LossStep]:
    order = {"point": 0, "begin": 1, "end": 2, "note": 3, "ack": 4}
    return sorted(steps, key=lambda step: (step.at_ns or 0, order[step.sign]))


def _cut(cut_ns: int, ack_ns: int) -> LossStep:
    ago = milliseconds((cut_ns - ack_ns) / 1e6)
    return _step(cut_ns, "power", "cut", f"the power is cut, {ago} after the ack")


class _Telling:
    def __init__(self, evidence: Evidence, report: ExposureReport, index: int, cut_ns: int) -> None:
        self._evidence = evidence
        self._requests = evidence.timeline.requests
        self._contract: DeviceContract = evidence.timeline.contract
        self._lsn = int(report.lsn[index])
        self._ack_ns = int(report.ack_ns[index])
        self._write = int(report.write[index])
        self._exposed = bool(report.exposed[index])
        self._cut_ns = cut_ns

    def story(self) -> LossStory:
        steps = [*self._announced(), *self._written(), *self._flushed(), self._acked()]
        steps = _in_order(steps)
        start = next((step.at_ns for step in steps if step.at_ns is not None), self._cut_ns)
        steps += [_cut(self._cut_ns, self._ack_ns), self._gone()]
        return LossStory(lsn=self._lsn, start_ns=start, steps=tuple(steps))

    def _announced(self) -> Iterator[LossStep]:
        claims = self._evidence.claims
        at = np.flatnonzero(claims.attempt_lsn >= self._lsn)[:1]
        if len(at) and int(claims.attempt_ns[at[0]]) <= self._ack_ns:
            text = f"the workload announces record {self._lsn}"
            yield _step(int(claims.attempt_ns[at[0]]), "workload", "point", text)

    def _written(self) -> Iterator[LossStep]:
        if self._write < 0:
            return
        requests, write = self._requests, self._write
        at, done = int(requests.submitted_ns[write]), int(requests.completed_ns[write])
        if at > self._cut_ns:
            return
        fua = bool(requests.fua[write])
        text = f"the disk takes write {write} with record {self._lsn}: "
        text += f"{int(requests.length[write]):,} bytes at {int(requests.offset[write]):,}"
        text += ", with FUA" if fua else ""
        yield _step(at, "write", "begin", text)
        if done == NEVER or done > self._cut_ns:
            return
        kept = self._contract.volatile_cache and not (fua and self._contract.fua is Honour.HONOURED)
        where = ": it lies in the disk's volatile cache" if kept else ""
        ignored = "; its FUA is ignored" if fua and self._contract.fua is Honour.IGNORED else ""
        yield _step(done, "write", "end", f"write {write} is reported done{where}{ignored}")

    def _flushed(self) -> Iterator[LossStep]:
        begin = self._ack_ns if self._write < 0 else int(self._requests.submitted_ns[self._write])
        yield from _flushes(self._evidence.timeline, begin, self._cut_ns)

    def _acked(self) -> LossStep:
        text = f"record {self._lsn} is acknowledged as durable"
        if self._write < 0:
            text += ", although no write with all of it has reached the disk"
        elif self._exposed and not self._flush_before_ack():
            text += ", although no flush has reached the disk since its write"
        return _step(self._ack_ns, "workload", "ack", text)

    def _flush_before_ack(self) -> bool:
        requests = self._requests
        done = int(requests.completed_ns[self._write])
        flush = (requests.kind == RequestKind.FLUSH) & (requests.submitted_ns >= done)
        return bool((flush & (requests.submitted_ns <= self._ack_ns)).any())

    def _gone(self) -> LossStep:
        text = f"after recovery record {self._lsn} is gone"
        if not self._exposed:
            text += ". Its own bytes were durable; what leads to them (a size, a map) was not"
        return _step(None, "workload", "gone", text)


# --- of a program -------------------------------------------------------------------


def program_story_of(
    timeline: Timeline, history: OperationHistory, lost: Sequence[LsnRange]
) -> LossStory | None:
    """The story of one of the operations `lost`: its bytes are not known, so what the disk was
    given between its announcement and its ack is told.  None if no single one can be told.
    """
    cut = timeline.cut
    if cut is None:
        return None
    chosen = _last_lost(history, lost, int(cut.at))
    if chosen is None:
        return None
    operation, ack_ns = chosen
    tried = history.attempt_ns[history.attempted == operation]
    begin = int(tried[0]) if len(tried) else ack_ns
    text = f"the program announces operation {operation}"
    steps = [_step(begin, "workload", "point", text)] if len(tried) else []
    writes = list(_writes(timeline, begin, ack_ns, int(cut.at)))
    failed = _failed(timeline, begin, ack_ns)
    flushes = list(_flushes(timeline, begin, int(cut.at)))
    told = f"operation {operation} is acknowledged as durable"
    if failed:
        told += f", although request {failed[0]} had failed"
    elif not writes:
        told += ", although nothing was written to the disk since its announcement"
    elif not any((step.at_ns or 0) < ack_ns for step in flushes):
        told += ", although no flush has reached the disk since its announcement"
    requests = timeline.requests
    steps += [
        _step(
            int(requests.submitted_ns[one]),
            "write",
            "end",
            f"{_disk(timeline, one)} fails request {one}, as it was told to",
        )
        for one in failed
    ]
    steps += [*writes, *flushes, _step(ack_ns, "workload", "ack", told)]
    gone = f"after recovery operation {operation} is gone, as the program's check says"
    ends = [_cut(int(cut.at), ack_ns), _step(None, "workload", "gone", gone)]
    steps = [*_in_order(steps), *ends]
    return LossStory(lsn=operation, start_ns=begin, steps=tuple(steps), unit="operation")


def _failed(timeline: Timeline, begin: int, ack_ns: int) -> list[int]:
    requests = timeline.requests
    inside = (requests.submitted_ns >= begin) & (requests.submitted_ns < ack_ns)
    return [int(one) for one in np.flatnonzero(inside & requests.failed)[:_WRITES]]


def _last_lost(
    history: OperationHistory, lost: Sequence[LsnRange], cut_ns: int
) -> tuple[int, int] | None:
    """The last that was acknowledged well before the cut, and when; else the last."""
    gone = np.zeros(len(history.acked), dtype=np.bool_)
    for span in lost:
        gone |= (history.acked >= span.first) & (history.acked <= span.last)
    indices = np.flatnonzero(gone & (history.ack_ns <= cut_ns))
    if not len(indices):
        return None
    clear = indices[history.ack_ns[indices] < cut_ns - _CLEAR_NS]
    index = int(clear[-1] if len(clear) else indices[-1])
    return int(history.acked[index]), int(history.ack_ns[index])


def _writes(timeline: Timeline, begin: int, ack_ns: int, cut_ns: int) -> Iterator[LossStep]:
    """The first writes between two instants, and how many more there were."""
    requests = timeline.requests
    chosen = requests.is_write & (requests.submitted_ns >= begin)
    writes = np.flatnonzero(chosen & (requests.submitted_ns < ack_ns)).tolist()
    for number, write in enumerate(writes[:_WRITES]):
        more = len(writes) - _WRITES if number == _WRITES - 1 else 0
        text = f"{_disk(timeline, write)} takes write {write}: "
        text += f"{int(requests.length[write]):,} bytes at "
        text += f"{int(requests.offset[write]):,}"
        text += f"; {more:,} more follow before the ack" if more > 0 else ""
        yield _step(int(requests.submitted_ns[write]), "write", "begin", text)
        done = int(requests.completed_ns[write])
        if done != NEVER and done <= cut_ns:
            yield _step(done, "write", "end", f"write {write} is reported done")
