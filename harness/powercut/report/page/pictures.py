# SPDX-License-Identifier: Apache-2.0
"""The words beside the pictures of a recording: what was explored, what its flushes were worth, and
what minimising has left of a state.  From the store alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.units import milliseconds
from powercut.model.verdict import Verdict
from powercut.paths import command
from powercut.report import words
from powercut.store.exploration import ExplorationFinding, ExploreResult, FoundState
from powercut_extras.audit.stored import Audit, AuditedPromise, Worth
from powercut_extras.audit.terminal import MEANING

_GROUPS_MAX: Final = 30

Command = tuple[str, str]
"""What it is for, and what to type."""


@dataclass(frozen=True)
class FindingRow:
    """All findings of one kind, with the states that are kept of them."""

    found: ExplorationFinding
    policies: str
    lost: str
    examples: tuple[FoundState, ...]


@dataclass(frozen=True)
class ExploredView:
    """One exploration."""

    title: str
    said: tuple[str, ...]
    findings: tuple[FindingRow, ...]
    drawn: bool


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


def explored_views(
    explored: Sequence[tuple[str, ExploreResult]], shown: frozenset[str]
) -> list[ExploredView]:
    """One for each exploration that is kept; of the states those that are `shown`."""
    return [
        ExploredView(
            title,
            tuple(_coverage(one)),
            tuple(_finding(found, shown) for found in one.findings),
            one.map is not None,
        )
        for title, one in explored
    ]


def _coverage(one: ExploreResult) -> Iterator[str]:
    seen = one.coverage
    undecided = [found for found in one.findings if found.verdict is Verdict.INCONCLUSIVE]
    lost = f"{seen.lossy:,} lost something" if seen.lossy else "none lost anything"
    more = f"; {words.count(sum(f.states for f in undecided), 'state')} undecided"
    yield (
        f"{words.count(seen.distinct, 'state')} checked at {seen.instants:,} of "
        f"{words.count(seen.instants_all, 'instant')}: {lost}{more if undecided else ''}."
    )
    rate = f", {one.states_per_s:,.0f} a second" if one.seconds else ""
    yield f"Recovered by {one.engine}{rate}; {words.by_policy(seen.by_policy)}."
    if seen.recovery_states:
        states = words.count(seen.recovery_states, "state")
        yield f"{states} more after second cuts, in recoveries; the picture has none of them."
    yield f"Not looked at: {seen.not_looked_at}."


def _finding(found: ExplorationFinding, shown: frozenset[str]) -> FindingRow:
    return FindingRow(
        found,
        words.by_policy(found.by_policy),
        words.ranges(found.lsns) if found.lsns else "",
        tuple(one for one in found.examples if one.id in shown),
    )


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


def commands_of(quoted: str, *, with_flushes: bool) -> dict[str, Command | None]:
    """What to type for more of each picture; a disk `with_flushes` can be audited."""
    powercut = command()
    found: dict[str, Command | None] = {
        "explore": ("explore more states", f"{powercut} explore {quoted}"),
        "audit": None,
    }
    if with_flushes:
        audit = f"{powercut} audit flushes {quoted}"
        found["audit"] = ("ask what each flush was worth", audit)
    return found
