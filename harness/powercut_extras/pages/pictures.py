# SPDX-License-Identifier: Apache-2.0
"""The words beside the pictures of a recording: what was explored, and what minimising has left of
a state.  From the store alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from powercut.model.extras import registered
from powercut.model.verdict import Verdict
from powercut.paths import command
from powercut.report import words
from powercut.store.exploration import ExplorationFinding, ExploreResult, FoundState

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


def commands_of(quoted: str, *, with_flushes: bool) -> dict[str, Command | None]:
    """What to type for more of each picture; a disk `with_flushes` can be audited."""
    powercut = command()
    found: dict[str, Command | None] = {
        "explore": ("explore more states", f"{powercut} explore {quoted}"),
        "audit": None,
    }
    if with_flushes and registered("powercut.pictures"):
        audit = f"{powercut} audit flushes {quoted}"
        found["audit"] = ("ask what each flush was worth", audit)
    return found
