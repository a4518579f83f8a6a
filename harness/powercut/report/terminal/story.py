# SPDX-License-Identifier: Apache-2.0
"""What happened around the cut, event by event, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from powercut.model.contract import CutPolicy
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.store.view import RecordingView

LAST_EVENTS = 14
"""How many events before the cut are told."""


@dataclass(frozen=True)
class Moment:
    """One line of the story; `at` in nanoseconds of the recording's clock."""

    at: int
    text: str


def last_moments(view: RecordingView, shown: int = LAST_EVENTS) -> list[Moment]:
    """The last `shown` events up to the cut, and the cut."""
    end = view.end_ns
    moments = [*_claims(view, shown), *_requests(view.timeline, end, shown)]
    moments.sort(key=lambda moment: moment.at)
    moments = moments[-shown:]
    if view.cut_ns is not None:
        moments.append(Moment(view.cut_ns, _cut(view)))
    return moments


def _claims(view: RecordingView, shown: int) -> Iterator[Moment]:
    instants, lsns = view.acks()
    what = "the workload acknowledges record"
    if view.operations is not None:
        what = "the program acknowledges operation"
        tried = view.operations.attempt_ns <= view.end_ns
        attempts = zip(
            view.operations.attempt_ns[tried][-shown:],
            view.operations.attempted[tried][-shown:],
            strict=True,
        )
        for at, operation in attempts:
            yield Moment(int(at), f"the program tries operation {int(operation)}")
    for at, lsn in zip(instants[-shown:], lsns[-shown:], strict=True):
        yield Moment(int(at), f"{what} {int(lsn)}")


def _requests(timeline: Timeline | None, end: int, shown: int) -> Iterator[Moment]:
    if timeline is None:
        return
    requests = timeline.requests
    before = int((requests.submitted_ns <= end).sum())
    for index in range(max(0, before - shown), before):
        kind = RequestKind(int(requests.kind[index]))
        at = int(requests.submitted_ns[index])
        done = int(requests.completed_ns[index])
        name = timeline.disk_name(index)
        disk = f"disk {name}" if name else "the disk"
        if kind is RequestKind.FLUSH:
            lie = timeline.ignored(index)
            what = f"{disk} takes a flush" + (" and ignores it" if lie else "")
        else:
            fua = bool(requests.fua[index])
            lie = timeline.ignored(index)
            what = f"{disk} takes a {_NAMES[kind]} of {int(requests.length[index]):,} bytes"
            what += f" at {int(requests.offset[index]):,}"
            what += (" with FUA" if fua else "") + (", which it ignores" if lie else "")
        if requests.failed[index]:
            what += "; it fails"
        elif done == NEVER or done > end:
            what += "; it is not done before the cut"
        else:
            what += f"; done after {(done - at) / 1000:,.0f} µs"
        yield Moment(at, what)


_NAMES = {
    RequestKind.WRITE: "write",
    RequestKind.ZERO: "write-zeroes",
    RequestKind.DISCARD: "discard",
}


def _cut(view: RecordingView) -> str:
    timeline = view.timeline
    if timeline is None or timeline.cut is None:
        return "THE CUT"
    if timeline.cut.policy is CutPolicy.KEEP:
        return "THE CUT: the disk keeps its power"
    survived = len({span.request for span in timeline.survived})
    kept = f", of which {survived:,} volatile writes survive in whole or in part" * bool(survived)
    return f"THE CUT: the disk loses its volatile cache (policy {timeline.cut.policy.value}){kept}"
