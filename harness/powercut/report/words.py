# SPDX-License-Identifier: Apache-2.0
"""Results in sentences that need no manual."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from powercut.model.confidence import percent as percent  # noqa: PLC0414  # a re-export
from powercut.model.machine import IMAGE_REPAIR
from powercut.model.operations import AckBasis
from powercut.model.units import count as count  # noqa: PLC0414  # a re-export: words.count
from powercut.model.units import milliseconds
from powercut.model.verdict import LsnRange, Verdict
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.host_load import HostLoad
from powercut.store.results import CellResult
from powercut.store.states_recovered import StatesAtAcks, StatesRecovered
from powercut.store.trial_result import AckInstants, Exposure, InFlight, TrialResult
from powercut.store.witness import Witness

SHOWN_RANGES = 3
"""How many ranges of LSNs a sentence names."""

_SECTOR: Final = 512

BORNE_OUT: Final = "asked again, it is lost each time", "the recorded system itself loses it, too"
"""What whoever is asked last has said if he agrees; the second one of records."""

STYLES: Final = {
    Verdict.SAFE: "green",
    Verdict.SURVIVED: "cyan",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.LOSSY: "red",
}
_MARKS = {
    Verdict.SAFE: "✓",
    Verdict.SURVIVED: "~",
    Verdict.INCONCLUSIVE: "?",
    Verdict.LOSSY: "✗",
}


@dataclass(frozen=True)
class Unit:
    """What a workload acknowledges: the noun, and what its number is called."""

    noun: str
    number: str

    def place(self, spans: str) -> str:
        """Ranges of numbers, such as "LSN 3-7"."""
        return f"{self.number} {spans}"

    def first(self, count: int) -> str:
        """All of them, where they are numbered from 1; else how many there are."""
        return f"records 1-{count}" if self.number == "LSN" else f"{count:,} {self.noun}s"


RECORDS: Final = Unit("record", "LSN")
OPERATIONS: Final = Unit("operation", "no.")


def unit_of(parameters: Parameters) -> Unit:
    """What the workload of a cell acknowledges."""
    return OPERATIONS if isinstance(parameters.workload, ProgramSettings) else RECORDS


def any_records(cells: Sequence[CellResult]) -> bool:
    """Whether some cell's records are recognised, so that their bytes can have been exposed."""
    return any(unit_of(cell.parameters) is RECORDS for cell in cells)


def enough(witness: Witness) -> str:
    """That what a witness lacks loses something, and that it takes all of that."""
    kind = "unsynced change" if witness.promise else "volatile write"
    some = "this" if len(witness.dropped) == 1 else "these"
    size = f"{some} {len(witness.dropped):,} of {count(witness.volatile, kind)}"
    return f"losing {size} is enough" + ("" if witness.minimal else "; fewer may be")


def mark(verdict: Verdict) -> str:
    """A sign for `verdict`, so that nothing depends on colour."""
    return _MARKS[verdict]


def ranges(spans: Sequence[LsnRange], shown: int = SHOWN_RANGES) -> str:
    """`spans` as "1-3, 7 and 27 more"; empty if there are none."""
    return LsnRange.text_of(spans, shown) if spans else ""


def lost(cell: CellResult | TrialResult, unit: Unit) -> str:
    """How many acknowledged records are gone, and the first and last of them."""
    place = lost_place(cell, unit)
    return f"{cell.commits_lost:,} ({place})" if place else "0"


def lost_place(cell: CellResult | TrialResult, unit: Unit) -> str:
    """The first and the last record that is gone; empty if none is.

    `among` says that some between them are not gone.
    """
    if not cell.lost_lsns:
        return ""
    place = unit.place(f"{LsnRange(cell.lost_lsns[0].first, cell.lost_lsns[-1].last)}")
    return place if len(cell.lost_lsns) == 1 else f"among {place}"


def exposed(exposure: Exposure | None) -> str:
    """For how long acknowledged records were not durable."""
    if exposure is None:
        return "not known"
    if not exposure.records:
        return "never"
    return f"{exposure.records:,} ({how_long(exposure)})"


def how_long(exposure: Exposure, *, signs: bool = False) -> str:
    """The longest time for which one of them was not durable; with `signs` for few columns."""
    # What was not durable at the end of the recording might have stayed so for longer.
    more = bool(exposure.never_durable)
    bound = ("≤", "≥")[more] if signs else ("up to", "at least")[more]
    return f"{bound} {milliseconds(exposure.longest_ms)}"


def recovered(states: StatesRecovered | None) -> str:
    """How many crash states were recovered, of how many legal ones."""
    return "none" if states is None else f"{states.states:,} {of_legal(states)}"


def of_legal(states: StatesRecovered) -> str:
    """Out of how many: states are legal by the power of two."""
    return f"of 2^{states.legal_log2:.0f}"


def odds(at_acks: StatesAtAcks) -> str:
    """With what chance a fault would have been met, had there been one; rounded down."""
    acks = f"{at_acks.acks:,} acks"
    if at_acks.looked_at >= at_acks.acks:
        return (
            f"the states just after all {acks} were recovered: a fault in any one operation would "
            "have been found"
        )
    those = f"the states just after {at_acks.looked_at:,} of {acks}"
    if not at_acks.chances:
        return f"{those} were recovered: too short a run for a probability"
    rarest, *others = at_acks.chances[::-1]
    also = "".join(f" (in 1 of {one.one_in:,}: {_floored(one.met)})" for one in others[:1])
    return (
        f"a fault in 1 of {rarest.one_in:,} operations had at least a {_floored(rarest.met)} "
        f"chance of being found{also}, in {those} ({at_acks.drawn:,} drawn at random)"
    )


def _floored(probability: float) -> str:
    return f"{math.floor(100 * probability) / 100:.2f}"


def by_policy(policies: Mapping[str, int]) -> str:
    """Which policy drew how many states."""
    return ", ".join(f"{name} {number:,}" for name, number in policies.items())


def how_recovered(cells: Sequence[CellResult]) -> str:
    """Which crash states the SAFE cells rest on, in a sentence; empty if none do."""
    known = [c.states for c in cells if c.verdict is Verdict.SAFE and c.states is not None]
    if not known:
        return ""
    policies: Counter[str] = Counter()
    for states in known:
        policies.update(states.by_policy)
    went_on = sum(states.went_on for states in known)
    return (
        f"States recovered: {sum(states.states for states in known):,} in "
        f"{count(len(known), 'SAFE cell')} ({by_policy(policies)})"
        + (f"; after {went_on:,} of them the workload went on writing." if went_on else ".")
        + _least_odds(known)
    )


def _least_odds(known: Sequence[StatesRecovered]) -> str:
    """Of the cell with the least chance; empty if a cell has none."""
    met = [{c.one_in: c.met for c in s.at_acks.chances} for s in known if s.at_acks is not None]
    told = [one_in for one_in in (met[0] if met else ()) if all(one_in in one for one in met)]
    if not told or len(met) < len(known):
        return ""
    least = min(one[told[-1]] for one in met)
    chance = f"had at least a {_floored(least)} chance of being found"
    chance = "was certain to be found" if least >= 1 else chance
    return f" In each cell a fault in 1 of {told[-1]:,} operations {chance}."


def in_flight(found: InFlight | None) -> str:
    """What a cut interrupted at the disk, such as "3 writes, 1 flush"."""
    if found is None:
        return "not known"
    kinds = (
        (found.writes, "write", "writes"),
        (found.zeroes, "write-zeroes", "write-zeroes"),
        (found.discards, "discard", "discards"),
        (found.flushes, "flush", "flushes"),
    )
    said = [f"{number:,} {one if number == 1 else many}" for number, one, many in kinds if number]
    return ", ".join(said) or "nothing"


def survived(found: InFlight | None) -> str:
    """What the cut left of the writes that it interrupted; empty if there were none."""
    if found is None or not found.requests - found.flushes:
        return ""
    return f"{found.survived or 'none'} of the writes survived, in whole or in part"


def interrupted(trials: Sequence[TrialResult]) -> str:
    """The same over several cuts; empty if there is no cut of which it is known."""
    known = [trial.in_flight for trial in trials if trial.in_flight is not None]
    if not known:
        return ""
    fields = ("writes", "zeroes", "discards", "flushes", "survived")
    total = InFlight(**{name: sum(getattr(one, name) for one in known) for name in fields})
    if len(known) == 1:
        return f"In flight at the cut: {in_flight(total)}."
    hit = sum(one.requests > 0 for one in known)
    each = f": {in_flight(total)}" if hit else ""
    return f"Requests were in flight at {hit:,} of {count(len(known), 'cut')}{each}."


def promise(atomic_unit: int) -> str:
    """What a disk has to promise so that no write tears within `atomic_unit` bytes."""
    if atomic_unit == 1:
        return "nothing: a write may tear at any byte"
    least = ", the least that a disk with sectors promises" if atomic_unit == _SECTOR else ""
    return f"an aligned block of {atomic_unit:,} bytes is written whole or not at all{least}"


def how_sure(cells: Sequence[CellResult]) -> list[str]:
    """For the cells that are SAFE: what the number of cuts says, a sentence a number."""
    groups: dict[tuple[float, int, str], list[str]] = {}
    for cell in cells:
        bound = cell.loss_probability_upper_95
        if bound is not None and cell.verdict is Verdict.SAFE:
            noun = with_article(unit_of(cell.parameters).noun)
            groups.setdefault((bound, len(cell.trials), noun), []).append(cell.cell)
    sentences = []
    for (bound, cuts, noun), names in groups.items():
        who = names[0] if len(names) == 1 else f"{len(names)} SAFE cells"
        each = "" if len(names) == 1 else " each"
        sentences.append(
            f"{who}: the recording is the evidence. By {count(cuts, 'cut')}{each} alone, fewer "
            f"than {percent(bound)} of such cuts lose {noun} (95 % confidence)."
        )
    return sentences


def how_layered(cells: Sequence[CellResult]) -> list[str]:
    """What lies between disk and file system, a sentence for each cell that has it."""
    return [
        f"Cell {cell.cell}: layers from the disk up: "
        + "; ".join(f"{layer.title}: {layer.promise}" for layer in layers)
        + "."
        for cell in cells
        if (layers := cell.parameters.disk.layers)
    ]


def how_seeing(cells: Sequence[CellResult]) -> list[str]:
    """What the checks of programs found where nothing was lost, a sentence for each cell; of
    several cuts the least.  How far its shortest run came, and what verdicts do not speak of."""
    told = []
    for cell in cells:
        seen = [one.positive for one in cell.trials if one.positive is not None]
        if seen:
            least = min(seen, key=lambda one: (one.passed, one.found))
            told.append(f"Cell {cell.cell}: {least.words}.")
        if came := [one.reached for one in cell.trials if one.reached is not None]:
            shortest = min(came, key=lambda one: one.operations)
            told.append(f"Cell {cell.cell}: reached: {shortest.words}.")
        injected = dict.fromkeys(text for one in cell.trials for text in one.injected)
        told += [f"Cell {cell.cell}: injected error: {text}." for text in injected]
        untested = dict.fromkeys(text for one in cell.trials for text in one.untested)
        told += [f"Cell {cell.cell}: not tested: {text}." for text in untested]
    return told


def how_far(cells: Sequence[CellResult]) -> str:
    """How far the shortest run of a program came that is SAFE; empty if none is."""
    came = [
        (trial.reached, cell.cell)
        for cell in cells
        if cell.verdict is Verdict.SAFE
        for trial in cell.trials
        if trial.reached is not None
    ]
    if not came:
        return ""
    reached, name = min(came, key=lambda one: one[0].operations)
    return f"The shortest run of a SAFE cell ({name}) reached {reached.words}."


def with_article(noun: str) -> str:
    """A noun with its indefinite article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class JudgedCell(Protocol):
    """A cell of a run or of a certificate."""

    @property
    def cell(self) -> str:
        """Its name."""

    @property
    def verdict(self) -> Verdict:
        """What came out."""

    @property
    def acks(self) -> AckInstants | None:
        """When its acks were made."""

    @property
    def parameters(self) -> Parameters:
        """Its settings."""


def how_early(cells: Sequence[JudgedCell]) -> list[str]:
    """For the cells without loss: how much too early an ack may have been without being seen."""
    safe = [cell for cell in cells if cell.verdict is Verdict.SAFE and cell.acks is not None]
    known = [cell for cell in safe if _window_us(cell) is not None]
    sentences = []
    if known:
        worst = max(known, key=lambda cell: _window_us(cell) or 0.0)
        sentences.append(f"{_who(known)}: {ack_window(worst.acks)}.")
    if unknown := [cell for cell in safe if _window_us(cell) is None]:
        sentences.append(f"{_who(unknown)}: {ack_window(unknown[0].acks)}.")
    return sentences


def how_repaired(cells: Sequence[JudgedCell]) -> list[str]:
    """For cells whose image QEMU does not open as a cut leaves it, a sentence a format."""
    formats = dict.fromkeys(
        cell.parameters.machine.format
        for cell in cells
        if cell.parameters.machine.format.repaired_first
    )
    return [
        f"Images in {one.value}: recovered after `{IMAGE_REPAIR}` where QEMU did not open them "
        "before that."
        for one in formats
    ]


def _window_us(cell: JudgedCell) -> float | None:
    return cell.acks.window_us if cell.acks is not None else None


def _who(cells: Sequence[JudgedCell]) -> str:
    return cells[0].cell if len(cells) == 1 else f"{len(cells)} SAFE cells"


def ack_window(acks: AckInstants | None) -> str:
    """How much earlier than it counts an ack may have been made, in a clause."""
    if acks is None:
        return "when acks were made is not known"
    if acks.basis is AckBasis.MARK:
        return "acks are marks in the disk's own log, so that their instants are exact"
    if acks.window_us is None:
        return (
            "an ack counts from its receipt on, and how much earlier it was made is not known "
            f"({acks.reason})"
        )
    text = f"ack times are accurate to {milliseconds(acks.window_us / 1000)}"
    if acks.usual_window_us is not None:
        text += f" ({milliseconds(acks.usual_window_us / 1000)} in the median)"
    if acks.shortest_sync_us is not None and acks.shortest_sync_us > acks.window_us:
        text += (
            f"; every sync took {milliseconds(acks.shortest_sync_us / 1000)} or more, so an ack "
            "that was sent before its sync began would have been caught"
        )
    return text


def busy(load: HostLoad | None) -> str:
    """That the host had much else to do, and what that means; empty if it had not."""
    if load is None or not load.busy:
        return ""
    return (
        f"The host was busy: {host_load(load)}. Times and costs are worse than on a quiet host, "
        "and deadlines may have been missed (INCONCLUSIVE); SAFE and LOSSY do not depend on speed."
    )


def host_load(load: HostLoad) -> str:
    """What else the host had to do, in a clause."""
    stolen = f", steal time {load.stolen:.1%}" if load.stolen else ""
    return (
        f"other programs took {load.others:.0%} of the time of "
        f"{count(load.processors, 'processor')}{stolen}, the load average before was "
        f"{load.average_before:.1f}"
    ).replace("%", " %")
