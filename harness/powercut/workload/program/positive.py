# SPDX-License-Identifier: Apache-2.0
"""What a program's check finds where nothing was lost (powercut.model.positive has the rule)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from powercut.model.observation import Continuation, Observation
from powercut.model.operations import Packet
from powercut.model.positive import PositiveControl, Whole, best_of
from powercut.model.verdict import lsn_ranges
from powercut.workload.program.claims import history_of, sighting_of


def positive_control(
    acknowledged: frozenset[int], seen: Mapping[Whole, Observation]
) -> PositiveControl | None:
    """What the check finds of the operations `acknowledged`; None if no state was looked at.

    Of `ENDED` the observation is that of the disk after `setup`, and the run its `later`.
    """
    return best_of(tuple(_each(acknowledged, seen)))


def _each(
    acknowledged: frozenset[int], seen: Mapping[Whole, Observation]
) -> Iterator[PositiveControl]:
    for where in Whole:
        if where not in seen:
            continue
        if where is Whole.ENDED:
            yield _of_run(len(acknowledged), seen[where])
        else:
            yield found_in(acknowledged, where, seen[where])


def found_in(
    acknowledged: frozenset[int], where: Whole, observation: Observation
) -> PositiveControl:
    """What the check finds of the operations `acknowledged` in one state."""
    if not observation.recovered:
        why = f"the store did not come back: {observation.failure}"
        return PositiveControl(where, 0, len(acknowledged), lsn_ranges(acknowledged), why)
    seen = sighting_of(observation)
    there = seen.those_present(acknowledged) - {operation for operation, _ in seen.wrong}
    missing = lsn_ranges(acknowledged - there)
    trouble = f"the check says: {seen.bad[0]}" if seen.bad else ""
    if not trouble and missing and seen.incomplete:
        trouble = f"the check: {seen.incomplete[0]}"
    return PositiveControl(where, len(there), len(acknowledged), missing, trouble)


def _of_run(wanted: int, observation: Observation) -> PositiveControl:
    """Of the first `wanted` operations of a run that acknowledged more; fewer show less."""
    later = observation.later
    if later is None:
        why = f"the program was not run: {observation.failure or 'it is not known why'}"
        return PositiveControl(Whole.ENDED, 0, 0, (), why)
    acknowledged = frozenset(_acknowledged(later)[:wanted])
    control = found_in(acknowledged, Whole.ENDED, later.observation)
    if later.outside and not control.passed:
        first, *more = later.outside
        others = f" and {len(more):,} more files" if more else ""
        also = f"outside of DIR the program wrote {first}{others}, which no crash state has"
        return replace(control, trouble="; ".join(filter(None, (control.trouble, also))))
    if not control.passed or len(acknowledged) >= wanted:
        return control
    why = f"the program acknowledged only {len(acknowledged):,} of {wanted:,} operations"
    if later.failure:
        why += f" ({later.failure})"
    return PositiveControl(Whole.ENDED, control.found, len(acknowledged), (), why)


def _acknowledged(later: Continuation) -> list[int]:
    numbers: list[int] = history_of([Packet(0, later.lines)]).acked.tolist()
    return numbers
