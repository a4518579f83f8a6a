# SPDX-License-Identifier: Apache-2.0
"""An audit in the page of its recording: what it registers as `powercut.pictures`.

Lanes of promises by their worth, with the acks that each carries, and the words beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.states import StateSpace
from powercut.model.units import milliseconds
from powercut.report import words
from powercut.store.trial_dir import TrialDir
from powercut_extras.audit.stored import Audit, AuditedPromise, Worth, read_audit
from powercut_extras.audit.terminal import MEANING

MARKS_MAX: Final = 1200
"""Promises that are drawn one by one; of more only columns are."""

AUDIT_COLUMNS: Final = 320
LAST: Final = AUDIT_COLUMNS - 1
_ACKS_MAX: Final = 12
_GROUPS_MAX: Final = 30

WORTHS: Final = tuple(Worth)

Json = dict[str, Any]


class Acks(Protocol):
    """Numbers of operations, and when each was acknowledged."""

    @property
    def number(self) -> I64:
        """In the order of the acks."""

    @property
    def at_ns(self) -> I64:
        """On the clock of the recording."""


class Page(Protocol):
    """What is drawn in, by the clock of the recording."""

    @property
    def space(self) -> StateSpace:
        """Its crash states."""

    @property
    def acks(self) -> Acks:
        """What was acknowledged."""

    @property
    def start_ns(self) -> int:
        """Where the page begins."""

    @property
    def end_ns(self) -> int:
        """Where it ends."""


@dataclass(frozen=True)
class WorthRow:
    """What promises of one worth have in common."""

    worth: Worth
    meaning: str
    promises: int
    time: str
    share: str


@dataclass(frozen=True)
class GroupRow:
    """Promises that the same calls asked for, and that made the same kinds of things durable."""

    kind: str
    asked: str
    holds: str
    counts: tuple[int, ...]
    joinable: int


@dataclass(frozen=True)
class AuditView:
    """What each flush and FUA write was worth."""

    said: tuple[str, ...]
    worths: tuple[WorthRow, ...]
    groups: tuple[GroupRow, ...]
    left_off: int


class Picture:
    """What the page asks for."""

    def __init__(self, audit: Audit) -> None:
        self.view = audit_view(audit)
        self._audit = audit

    def lanes(self, page: Page) -> Json:
        return _lanes(page, self._audit)


def picture_of(directory: TrialDir, requests: int) -> Picture | None:
    """Of the audit beside a recording of so many requests; None if there is none, or it is of
    another.  Raises DamagedRecording.
    """
    audit = read_audit(directory)
    if audit is None or not all(0 <= one.request < requests for one in audit.promises):
        return None
    return Picture(audit)


def audit_view(audit: Audit) -> AuditView:
    """The audit in words."""
    all_us = sum(one.took_us for one in audit.promises) or 1.0
    worths = []
    for worth in Worth:
        of = audit.of(worth)
        took = sum(one.took_us for one in of)
        if of:
            worths.append(
                WorthRow(
                    worth,
                    MEANING[worth],
                    len(of),
                    milliseconds(took / 1000),
                    f"{100 * took / all_us:.0f} %",
                )
            )
    groups = _groups(audit)
    return AuditView(
        tuple(_audited(audit)),
        tuple(worths),
        tuple(groups[:_GROUPS_MAX]),
        max(len(groups) - _GROUPS_MAX, 0),
    )


def _audited(audit: Audit) -> Iterator[str]:
    idle, joined = len(audit.of(Worth.IDLE)), sum(one.joinable for one in audit.promises)
    yield (
        f"{words.count(audit.acknowledged, audit.counted)} acknowledged, "
        f"{words.count(len(audit.promises), 'flush')} (writes with FUA included): {idle:,} "
        f"superfluous (proved), {joined:,} that the next one may do for, as nothing was "
        "acknowledged in between (not proved)."
    )
    if audit.late:
        late = words.ranges([span for one in audit.late for span in one.lsns])
        yield f"Acknowledged before any flush covered them, so that a sync is missing: {late}."
    if audit.unsynced:
        yield f"Acknowledged without a sync of the program: {words.ranges(audit.unsynced)}."
    if audit.states:
        states = words.count(audit.states, "state")
        yield f"{states} recovered by {audit.engine}, for {audit.states_from:,} of them."


def _groups(audit: Audit) -> list[GroupRow]:
    sites = audit.askers
    groups: dict[tuple[str, str, str], list[AuditedPromise]] = {}
    for one in audit.promises:
        asked = ", ".join(sites.get(number, "?") for number in one.sites) or one.asker.value
        holds = ", ".join(sorted(one.holds)) or "nothing"
        groups.setdefault((one.kind.value, asked, holds), []).append(one)
    rows = []
    for (kind, asked, holds), of in sorted(groups.items(), key=lambda item: -len(item[1])):
        counts = Counter(one.worth for one in of)
        joinable = sum(one.joinable for one in of)
        rows.append(GroupRow(kind, asked, holds, tuple(counts[w] for w in Worth), joinable))
    return rows


def _lanes(source: Page, audit: Audit) -> Json:
    sites = audit.askers
    few = len(audit.promises) <= MARKS_MAX
    submitted = source.space.sets.submitted_ns - source.start_ns
    column = np.clip(submitted * AUDIT_COLUMNS // (source.end_ns - source.start_ns), 0, LAST)
    by_number = np.argsort(source.acks.number, kind="stable")
    lanes = []
    for worth in WORTHS:
        of = audit.of(worth)
        if of:
            counts = Counter(int(column[one.request]) for one in of)
            lanes.append(
                {
                    "worth": worth.value,
                    "needed": of[0].needed,
                    "count": len(of),
                    "columns": sorted(counts.items()),
                    "marks": [_mark(source, one, sites, by_number) for one in of] if few else [],
                }
            )
    return {"counted": audit.counted, "columns": AUDIT_COLUMNS, "lanes": lanes}


def _mark(
    source: Page, one: AuditedPromise, sites: dict[int, str], by_number: I64
) -> tuple[int, int, str, list[int]]:
    """When it was submitted and when completed, in words what it is, and what it carries."""
    space, acks = source.space, source.acks
    submitted = int(space.sets.submitted_ns[one.request]) - source.start_ns
    done = min(int(space.completed_ns[one.request]), source.end_ns) - source.start_ns
    told = [f"{one.kind.value} {one.request}: {one.worth.value}"]
    if one.hanging:
        writes = "write" if one.hanging == 1 else "writes"
        told.append(f"made {one.hanging:,} {writes} durable ({', '.join(one.holds)})")
    if one.sites:
        told.append(", ".join(sites.get(number, "?") for number in one.sites[:2]))
    if one.lsns:
        more = ", ..." if len(one.lsns) > 3 else ""
        told.append("without it lost: " + ", ".join(map(str, one.lsns[:3])) + more)
    numbers, carried = acks.number[by_number], list[int]()
    for span in one.lsns[:_ACKS_MAX]:
        first, last = np.searchsorted(numbers, [span.first, span.last + 1])
        carried += acks.at_ns[by_number[first:last][:_ACKS_MAX]].tolist()
    return submitted, done, "; ".join(told), [at - source.start_ns for at in carried[:_ACKS_MAX]]
