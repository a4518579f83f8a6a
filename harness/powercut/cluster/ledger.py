# SPDX-License-Identifier: Apache-2.0
"""What hosts have made of a plan, what of it counts, and what they owe.

A claim counts as long as its host does.  It is kept here who has made what, so that all of a
host's claims can be taken back at once.
"""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from powercut.campaign.assemble import (
    Known,
    Outcome,
    as_control,
    missing_controls,
    outcomes_of_cells,
)
from powercut.cluster.roster import ClusterHost
from powercut.cluster.row_claims import RowClaims
from powercut.model.confidence import upper_bound
from powercut.model.events import TrialFinished
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.scenario.plan import Cell, Plan, Trial
from powercut.scenario.settings import Parameters
from powercut.store.fleet import FleetAccount
from powercut.store.place import read_place
from powercut.store.results import TrialResult, wanted_verdict
from powercut.store.rows import Row, TrialRows
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import FindingRecord
from powercut.trial.controls import Control

JUDGED_PART: Final = 0.05
"""Of the claims of a host on a cell that say that nothing was lost; one at least is judged."""

_SOUND: Final = (Verdict.SAFE, Verdict.SURVIVED)


@dataclass(frozen=True)
class Item:
    """A trial of a cell, or a control that one host owes."""

    name: str
    parameters: Parameters
    trial: Trial
    control: Control | None = None


@dataclass
class Claim:
    """What a host made of an item."""

    host: ClusterHost
    item: Item
    result: TrialResult
    place: TrialDir
    judged: bool = False
    """Whether its recording was fetched, and came to the same here."""

    row: Row | None = None
    """Where it has no folder."""

    tries: int = 1
    """How often the host says that it began it.  What became of the others no one knows, so that
    such a claim is judged as a loss is, and counted in the account."""

    def told(self, *, earlier: bool = False) -> TrialFinished:
        """The same for whoever watches the run; `earlier`: it was interrupted after it."""
        item, result = self.item, self.result
        wanted, worth = wanted_verdict(item.parameters.expect), result.verdict
        if item.control is not None:
            wanted, worth = item.control.expected, as_control(result)
        made = self.row or read_place(self.place.path)
        return TrialFinished(
            cell=f"{item.name} on {self.host.name}",
            trial=item.trial.number,
            verdict=result.verdict,
            acked=result.commits_acked,
            lost=result.commits_lost,
            seconds=0.0 if made is None else made.seconds,
            control=item.control is not None,
            as_expected=worth is wanted,
            earlier=earlier,
        )


Key = tuple[str, int]


class Ledger:
    """All claims of a run that count; for several threads."""

    def __init__(
        self,
        plan: Plan,
        rows: TrialRows | None = None,
        place_of: Callable[[str, int], TrialDir] | None = None,
    ) -> None:
        self._plan = plan
        self._rows = RowClaims(plan, rows)
        self._place_of = place_of
        self._cells = {cell.name: cell for cell in plan.cells}
        self._claims: dict[str, dict[int, Claim]] = {cell.name: {} for cell in plan.cells}
        self._of_host: dict[str, dict[str, dict[int, Claim]]] = {}  # by host and cell
        self._controls: dict[tuple[str, str], Claim] = {}
        self._doubted: dict[Key, TrialResult] = {}
        self._changing = threading.RLock()

    def add(self, claim: Claim) -> bool:
        """Counts a trial of a cell; False if its host was found out meanwhile."""
        with self._changing:
            name, number = claim.item.name, claim.item.trial.number
            if claim.host.present and claim.row is not None:
                self._rows.add(name, claim.row)
            elif claim.host.present:
                self._claims[name][number] = claim
                self._of_host.setdefault(claim.host.name, {}).setdefault(name, {})[number] = claim
            return claim.host.present

    def add_control(self, key: str, claim: Claim) -> bool:
        """Counts a control; `key` says what it does (powercut.campaign.assemble).

        False if its host was found out meanwhile.
        """
        with self._changing:
            if claim.host.present:
                self._controls[claim.host.name, key] = claim
            return claim.host.present

    def missing(self, cell: Cell) -> Iterator[Item]:
        """The trials of a cell that are to be made, in order; each is looked up when it is due."""
        there = self._claims[cell.name]
        for trial in cell.trials:
            key = (cell.name, trial.number)
            if trial.number not in there and key not in self._doubted and not self._rows.has(*key):
                yield Item(cell.name, cell.parameters, trial)

    def has_lost(self, cell: Cell) -> bool:
        """Whether a trial of the cell has lost something."""
        with self._changing:
            return any(c.result.verdict is Verdict.LOSSY for c in self._claims[cell.name].values())

    def results(self, cell: Cell) -> list[TrialResult]:
        """What its trials came to, in their order; but for those that are rows."""
        with self._changing:
            made = {n: claim.result for n, claim in self._claims[cell.name].items()}
            made |= {n: result for (name, n), result in self._doubted.items() if name == cell.name}
            return [made[number] for number in sorted(made)]

    def owed(self, host: ClusterHost) -> dict[str, tuple[str, Control]]:
        """The controls that a host's claims need and that it has not made.

        Its own trials of one cell may vouch for another.
        """
        with self._changing:
            trials = {
                name: [claim.result for claim in claims.values()]
                for name, claims in self._of_host.get(host.name, {}).items()
            }
            for name, result in self._rows.stand_ins(host.name).items():
                trials.setdefault(name, []).append(result)
            cells = tuple(cell for cell in self._plan.cells if trials.get(cell.name))
            part = replace(self._plan, cells=cells)
            wanted = missing_controls(part, trials, outcomes_of_cells(part, trials))
            return {k: v for k, v in wanted.items() if (host.name, k) not in self._controls}

    def known(self) -> Known:
        """Of each control the one that behaved worst."""
        found: Known = {}
        with self._changing:
            for (_, key), claim in sorted(self._controls.items()):
                outcome = outcome_of(claim)
                if key not in found or outcome.verdict is not _control(claim).expected:
                    found[key] = outcome
        return found

    def misbehaved(self) -> list[tuple[ClusterHost, str]]:
        """Hosts whose control did not come out as it must where that of another host did."""
        rows: dict[str, list[tuple[ClusterHost, bool, str]]] = {}
        with self._changing:
            for (_, key), claim in self._controls.items():
                outcome, expected = outcome_of(claim), _control(claim).expected
                told = f"{outcome.name} is {outcome.verdict.name}, and had to be {expected.name}"
                rows.setdefault(key, []).append((claim.host, outcome.verdict is expected, told))
        return [
            (host, told)
            for row in rows.values()
            if any(good for _, good, _ in row)
            for host, good, told in row
            if not good
        ]

    def drawn(self, host: ClusterHost, seed: str) -> list[Claim]:
        """The claims of a host that are to be judged here, of those that say all was well."""
        found: list[Claim] = []
        with self._changing:
            listed, rows = self._of_host.get(host.name, {}), self._rows.of_host(host.name)
            for name in sorted(listed.keys() | rows.keys()):
                claims = listed.get(name, {})
                mine = [n for n, claim in claims.items() if claim.result.verdict in _SOUND]
                mine = sorted([*mine, *rows.get(name, ())])
                count = math.ceil(JUDGED_PART * len(mine))
                drawn = random.Random(f"{seed} {host.name} {name}").sample(mine, count)
                found += [claims[n] for n in drawn if n in claims and not claims[n].judged]
                left = [n for n in drawn if n not in claims and not self._rows.is_judged(name, n)]
                found += [self._of_row(host, name, self._rows.row(name, n)) for n in left]
        return found

    def _of_row(self, host: ClusterHost, name: str, row: Row) -> Claim:
        assert self._place_of is not None
        cell, number = self._cells[name], row.result.trial
        item = Item(name, cell.parameters, cell.trials[number - 1])
        return Claim(host, item, row.result, self._place_of(name, number), row=row)

    def set_judged(self, claim: Claim) -> bool:
        """The recording of a claim was fetched, and came to the same here; False if its host was
        found out meanwhile: another's claim of the trial was not judged then.
        """
        with self._changing:
            counts = claim.host.present
            if counts:
                claim.judged = True
                if claim.row is not None:
                    self._rows.set_judged(claim.item.name, claim.item.trial.number)
            return counts

    def restore_rows(self, hosts: Mapping[str, ClusterHost]) -> Iterator[Claim]:
        """Takes the rows that an interrupted run had of `hosts`; others are made again."""
        with self._changing:
            for name, row in self._rows.restore(frozenset(hosts)):
                claim = self._of_row(hosts[row.host], name, row)
                where = read_place(claim.place.path)
                if where is not None and where.judged_here and claim.place.kept:
                    self.set_judged(claim)
                yield claim

    def take_back(self, host: ClusterHost, why: str, *, distrusted: bool) -> None:
        """The claims of a host count no more, but for losses that were judged here.

        Of a distrusted host those do not count either: they are INCONCLUSIVE from here on, since
        they are not shown, and not to be forgotten.
        """
        with self._changing:
            mine = self._of_host.get(host.name, {})
            for name, claims in mine.items():
                for number, claim in list(claims.items()):
                    lossy = claim.result.verdict is Verdict.LOSSY
                    if lossy and claim.judged and not distrusted:
                        continue
                    del claims[number], self._claims[name][number]
                    if distrusted and lossy:
                        self._doubted[name, number] = _doubtful(claim, why)
                        continue
                    host.repeated += 1
                    claim.place.remove()
            host.repeated += self._rows.count(host.name)
            for name, number in self._rows.take_back(host.name):
                if self._place_of is not None:
                    self._place_of(name, number).remove()
            if not any(mine.values()):
                for key in [key for key in self._controls if key[0] == host.name]:
                    self._controls.pop(key).place.remove()

    def account(self, hosts: tuple[ClusterHost, ...]) -> FleetAccount:
        """Who made what counts, and how far their word was checked."""
        with self._changing:
            every = [claim for claims in self._claims.values() for claim in claims.values()]
            count = Counter(claim.host.name for claim in (*every, *self._controls.values()))
            rows = {host.name: self._rows.count(host.name) for host in hosts}
            judged = self._rows.judged
            again = [c for c in (*every, *self._controls.values()) if c.tries > 1]
        sound = [claim for claim in every if claim.result.verdict in _SOUND]
        judged += sum(claim.judged for claim in sound)
        lossy = [claim for claim in every if claim.result.verdict is Verdict.LOSSY]
        begun = Counter(claim.host.name for claim in again)
        made = {host.name: count[host.name] + rows[host.name] for host in hosts}
        return FleetAccount(
            hosts=tuple(host.account(made[host.name], begun[host.name]) for host in hosts),
            claims=len(sound) + sum(rows.values()),
            claims_judged=judged,
            losses_judged=sum(claim.judged for claim in lossy),
            false_claims_upper_95=upper_bound(0, judged) if judged else None,
        )


def outcome_of(claim: Claim) -> Outcome:
    """What a control came to."""
    return Outcome.of(f"control {claim.item.name} on {claim.host.name}", claim.result)


def _control(claim: Claim) -> Control:
    assert claim.item.control is not None
    return claim.item.control


def _doubtful(claim: Claim, why: str) -> TrialResult:
    message = f"{claim.host.name} called it LOSSY, and is not believed: {why}"
    finding = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, message)
    result = claim.result.model_copy(
        update={
            "verdict": Verdict.INCONCLUSIVE,
            "findings": (FindingRecord.of(finding),),
            "commits_lost": 0,
            "lost_lsns": (),
            "loss": None,
        }
    )
    claim.place.write_verdict(result)
    return result
