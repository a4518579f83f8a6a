# SPDX-License-Identifier: Apache-2.0
"""What each flush and FUA of a recording was worth: by bytes, and by recovered states.

The analysis (crash/audit.py) decides two classes of promises: those that carry records, where the
workload's bytes are recognised, and those that are idle.  Between them lie promises that made
something durable which is no acknowledged record: a journal, an inode, or whatever a program
writes.  For these, states are recovered that are legal only on a disk that ignores just them
(crash/without.py, explore/audit_recovery.py).

Promises of one kind, asked for by the same calls, that made the same kinds of things durable form
a group.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from powercut import __version__
from powercut.crash.evidence import Evidence, last_event_ns
from powercut.crash.exposure import exposure
from powercut.crash.representatives import permuted
from powercut.explore.request import Budget
from powercut.model.exposure import ranges_of
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.model.verdict import lsn_ranges
from powercut.recording.disk_files import places_on
from powercut.recording.sealed import TrialRecording
from powercut.rig import commands
from powercut.workload.port import Recognised
from powercut_extras.audit.callers import callers_of
from powercut_extras.audit.promise_worth import (
    Carried,
    Dependence,
    carried,
    dependence,
    promises,
    until_next,
)
from powercut_extras.audit.recovery import Listener, Looks, PromiseStates, StateAudit
from powercut_extras.audit.stored import (
    Audit,
    AuditedPromise,
    LatePromise,
    MissingWrites,
    PromiseKind,
    UndecidedStates,
    UntilNext,
    Worth,
)
from powercut_extras.audit.without_promise import Lacking

RECORDS: Final = "records of the log"

_DETAIL: Final = re.compile(r" \(.*\)|, level \d+| of group \d+")


def audit(
    recorded: TrialRecording,
    *,
    budget: Budget,
    engine: str,
    seed: int = 0,
    listener: Listener = lambda *_: None,
) -> Audit:
    """Audits every promise of the recording; `budget` is for recovered states, 0 for none.

    `engine` names the one that recovers; logs on the bare disk need none.
    """
    start = time.monotonic()
    claimed, timeline = recorded.promises, recorded.timeline
    evidence = claimed.evidence if isinstance(claimed, Recognised) else None
    hang = dependence(timeline)
    bytes_of = {one.promise: one for one in carried(evidence)} if evidence else {}
    kept = promises(timeline)
    contents = _Contents(recorded, evidence)
    callers = callers_of(recorded)
    before = callers.asked(
        timeline, [_audited(recorded, hang, promise, contents) for promise in kept.tolist()]
    )
    looks = Looks()
    open_ones = [one for one in before if one.hanging and one.request not in bytes_of]
    if open_ones and budget.states != 0 and not commands.is_bare(recorded.parameters):
        states = StateAudit(
            recorded, hang, contents.name, engine=engine, seed=seed, listener=listener
        )
        looks = states.look(_alike(open_ones, seed), budget)
    audited = [
        _by_bytes(one, bytes_of[one.request])
        if one.request in bytes_of
        else _by_states(one, looks.seen.get(one.request), contents)
        for one in before
    ]
    record = recorded.record
    return Audit(
        powercut=__version__,
        scenario=record.scenario,
        cell=record.cell,
        trial=record.trial.number,
        counted="record" if evidence else "operation",
        acknowledged=claimed.acked,
        run_ms=round((last_event_ns(timeline) - recorded.start_ns) / 1e6, 3),
        promises=tuple(audited),
        late=_late(evidence, hang) if evidence else (),
        sites=callers.sites,
        unsynced=callers.unsynced,
        untraced=callers.beyond,
        engine=looks.engine,
        states_from=len(looks.seen),
        states=looks.states,
        undecided=tuple(
            UndecidedStates(why=why, states=states) for why, states in looks.undecided.most_common()
        ),
        seconds=round(time.monotonic() - start, 2),
    )


def _audited(
    recorded: TrialRecording, hang: Dependence, promise: int, contents: _Contents
) -> AuditedPromise:
    """What is known of `promise` before bytes and states are asked."""
    requests = recorded.timeline.requests
    flush = requests.kind[promise] == RequestKind.FLUSH
    writes = hang.hanging(promise)
    claims = recorded.space.claims
    acks = np.empty(0, dtype=np.int64) if claims is None else claims.ack_ns
    following = until_next(recorded.timeline, hang, promise, acks)
    took_ns = int(requests.completed_ns[promise] - requests.submitted_ns[promise])
    return AuditedPromise(
        request=promise,
        kind=PromiseKind.FLUSH if flush else PromiseKind.FUA,
        at_ms=round((int(requests.submitted_ns[promise]) - recorded.start_ns) / 1e6, 3),
        took_us=round(took_ns / 1e3, 1),
        worth=Worth.UNSEEN if len(writes) else Worth.IDLE,
        hanging=len(writes),
        hanging_bytes=int(requests.length[writes].sum()),
        holds=contents.names(writes.tolist()),
        until_next=UntilNext(acks=following.acks, writes=following.writes) if following else None,
    )


def _alike(wanted: list[AuditedPromise], seed: int) -> list[list[int]]:
    """The requests of `wanted` by group; each group in an order by chance."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for one in wanted:
        what = (one.kind, frozenset(one.holds), one.asker, one.sites)
        groups.setdefault(what, []).append(one.request)
    return [
        permuted(np.array(group, dtype=np.int64), seed, f"promises {number}").tolist()
        for number, group in enumerate(groups.values())
    ]


class _Contents:
    """What writes hold, in kinds: without numbers of records, levels and groups."""

    def __init__(self, recorded: TrialRecording, evidence: Evidence | None) -> None:
        self._timeline = recorded.timeline
        self._places = places_on(
            recorded.directory.base_image,
            recorded.timeline.disks,
            recorded.record.parameters.disk.layers_title,
        )
        self._carriers = set[int]()
        if evidence is not None:
            self._carriers.update(np.unique(evidence.runs.write).tolist())
        self._of = cache(self._kinds)

    def names(self, writes: Sequence[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for write in writes for name in self._of(write)))

    def name(self, write: int) -> str:
        return ", ".join(self._of(write))

    def _kinds(self, write: int) -> tuple[str, ...]:
        requests = self._timeline.requests
        if requests.kind[write] != RequestKind.WRITE:
            return ("discards" if requests.kind[write] == RequestKind.DISCARD else "zeroes",)
        if write in self._carriers:
            return (RECORDS,)
        payload = self._timeline.payload(write).tobytes()
        parts = self._places.parts(int(requests.offset[write]), payload)
        return tuple(dict.fromkeys(_DETAIL.sub("", part.what) for part in parts))


def _by_bytes(one: AuditedPromise, carried: Carried) -> AuditedPromise:
    longest_ms = round(carried.longest_ns / 1e6, 3)
    update = {"worth": Worth.CARRIES, "lsns": carried.lsns, "longest_ms": longest_ms}
    return one.model_copy(update=update)


def _by_states(
    one: AuditedPromise, seen: PromiseStates | None, contents: _Contents
) -> AuditedPromise:
    if seen is None:
        return one
    update = {
        "worth": Worth.LEADS if seen.lost else Worth.UNSEEN,
        "states": seen.states,
        "states_in_part": seen.in_part,
        "states_lost": seen.lost,
        "states_undecided": seen.undecided,
        "lsns": lsn_ranges(lsn for span in seen.lsns for lsn in span),
        "message": seen.message,
        "missing": _missing(seen.found, contents),
    }
    return one.model_copy(update=update)


def _missing(found: Lacking | None, contents: _Contents) -> MissingWrites | None:
    """What is told of a state that lacks a part of what hangs on a promise."""
    if found is None or not found.in_part:
        return None
    torn = tuple(sorted(found.state.torn_parts))
    return MissingWrites(requests=found.missing, torn=torn, holds=contents.names(found.missing))


def _late(evidence: Evidence, hang: Dependence) -> tuple[LatePromise, ...]:
    """What was acknowledged before it was durable, with no promise taken away."""
    report = exposure(evidence)
    found = []
    at = np.flatnonzero(report.exposed)
    by = np.where(
        (report.write[at] >= 0) & (report.durable_ns[at] != NEVER),
        hang.promise[report.write[at]],
        np.int64(-1),
    )
    for group in np.split(np.arange(len(at)), np.flatnonzero(np.diff(by)) + 1):
        if len(group):
            rows = at[group]
            longest_ms = round(int(report.exposed_ns[rows].max()) / 1e6, 3)
            spans = ranges_of(report.lsn[rows])
            found.append(LatePromise(lsns=spans, promise=int(by[group[0]]), longest_ms=longest_ms))
    return tuple(found)
