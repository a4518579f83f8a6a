# SPDX-License-Identifier: Apache-2.0
"""Certificates of one profile, or runs of one scenario, over time: which verdicts and costs
changed, and what else did.

Verdicts are compared as they are.  Costs are times on a machine that is faster today than
yesterday, so they are corrected first and then held against their own noise:

1. The *pace* of a run is the median, over all its costs, of what each is to its own median
   over all runs.  Every cost is divided by the pace of its run.  With fewer than
   `PACED_MIN` costs nothing can be said about the pace, and it counts as 1.
2. A cost has changed if its corrected value differs from the median of its earlier ones
   by more than a factor of `NOISE_MIN`, and by more than `SPREADS` standard deviations.
   The deviation is the larger of its own (once it has `OWN_MIN` earlier values) and that
   of all costs of this run against their medians, both from the median absolute deviation,
   which a few real changes do not disturb.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Final

from powercut.model.verdict import Verdict
from powercut.report.certificates import CellName, CellThen, CostName, Night

NOISE_MIN: Final = 1.3
SPREADS: Final = 4.0
OWN_MIN: Final = 5
PACED_MIN: Final = 4
_SIGMA_OF_MAD: Final = 1.4826


@dataclass(frozen=True)
class VerdictChange:
    """A cell that has another verdict than in the run before; None where there was none."""

    name: CellName
    before: Verdict | None
    after: Verdict | None
    explanation: str = ""

    @property
    def worse(self) -> bool:
        """Whether the cell got worse."""
        return self.before is not None and self.after is not None and self.after > self.before


@dataclass(frozen=True)
class CostChange:
    """A cost that differs from its earlier ones by more than noise.

    `usual` and `now` are commits a second at the pace of the last run; `noise` is the
    factor that a change had to exceed.
    """

    name: CostName
    usual: float
    now: float
    noise: float

    @property
    def factor(self) -> float:
        """What it is to what it was."""
        return self.now / self.usual


@dataclass(frozen=True)
class VersionChange:
    """A component whose version or binary differs; empty where there was none."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Changes:
    """What is different in the last run against the one before, and against all for costs."""

    before: Night
    after: Night
    verdicts: tuple[VerdictChange, ...]
    added: tuple[CellName, ...]
    gone: tuple[CellName, ...]
    costs: tuple[CostChange, ...]
    versions: tuple[VersionChange, ...]
    pace: float | None
    """The pace of the last run against the one before; None if it cannot be told."""


@dataclass(frozen=True)
class Series:
    """All certificates of one profile, or all runs of one scenario, the oldest first."""

    profile: str
    nights: tuple[Night, ...]
    certified: bool = True
    """Whether these are certificates."""

    @property
    def verdicts_shown(self) -> tuple[Verdict, ...]:
        """The verdicts that are counted; SURVIVED, which few machines come to, if it is there."""
        survived = any(night.count(Verdict.SURVIVED) for night in self.nights)
        usual = (Verdict.SAFE, Verdict.LOSSY, Verdict.INCONCLUSIVE)
        return (*usual, Verdict.SURVIVED) if survived else usual

    @property
    def noun(self) -> str:
        """What each is."""
        return "certificate" if self.certified else "run"

    @cached_property
    def paces(self) -> tuple[float | None, ...]:
        """The pace of each run, as the module's text has it; None if it cannot be told."""
        usual = {name: median(values) for name, values in self._values.items()}
        paces: list[float | None] = []
        for night in self.nights:
            # A cost that only one run has says nothing about pace.
            ratios = [
                value / usual[name]
                for name, value in night.costs.items()
                if len(self._values[name]) > 1
            ]
            paces.append(median(ratios) if len(ratios) >= PACED_MIN else None)
        return tuple(paces)

    @cached_property
    def _values(self) -> dict[CostName, list[float]]:
        values: defaultdict[CostName, list[float]] = defaultdict(list)
        for night in self.nights:
            for name, value in night.costs.items():
                values[name].append(value)
        return dict(values)

    def corrected(self, name: CostName) -> list[float | None]:
        """A cost over all runs, each divided by its pace; None where a run has none."""
        return [
            value / (pace or 1.0) if (value := night.costs.get(name)) else None
            for night, pace in zip(self.nights, self.paces, strict=True)
        ]

    def verdicts(self, name: CellName) -> list[Verdict | None]:
        """The verdicts of a cell over all runs."""
        return [cell.verdict if (cell := night.cells.get(name)) else None for night in self.nights]

    @cached_property
    def names(self) -> list[CellName]:
        """Every cell that some run has, in the order of the newest run that has it."""
        return list(dict.fromkeys(name for night in reversed(self.nights) for name in night.cells))

    @property
    def changes(self) -> Changes | None:
        """What changed with the last run; None if it is the first."""
        if len(self.nights) < 2:
            return None
        before, after = self.nights[-2:]
        paces = self.paces[-2:]
        known = paces[0] is not None and paces[1] is not None
        # What only a part of an earlier run left out is not new.
        earlier = [before] if before.whole else self.nights[:-1]
        known_cells = {name for night in earlier for name in night.cells}
        return Changes(
            before=before,
            after=after,
            verdicts=tuple(_verdict_changes(self.nights[:-1], after)),
            added=tuple(name for name in after.cells if name not in known_cells),
            gone=tuple(name for name in before.cells if name not in after.cells and after.whole),
            costs=tuple(self._cost_changes()),
            versions=tuple(_version_changes(before.versions, after.versions)),
            pace=(paces[1] or 1.0) / (paces[0] or 1.0) if known else None,
        )

    def _cost_changes(self) -> Iterator[CostChange]:
        """Costs of the last run that differ by more than noise, the largest change first."""
        moved: dict[CostName, tuple[float, float, float]] = {}
        for name in self.nights[-1].costs:
            values = [math.log(value) for value in self.corrected(name) if value]
            if len(values) > 1:
                earlier = values[:-1]
                own = _spread(earlier) if len(earlier) >= OWN_MIN else 0.0
                moved[name] = (median(earlier), values[-1], own)
        pooled = _spread([now - usual for usual, now, _ in moved.values()], centre=0.0)
        pace = self.paces[-1] or 1.0
        changes = []
        for name, (usual, now, own) in moved.items():
            noise = max(math.log(NOISE_MIN), SPREADS * max(own, pooled))
            if abs(now - usual) > noise:
                was, is_now = math.exp(usual) * pace, math.exp(now) * pace
                changes.append(CostChange(name, was, is_now, math.exp(noise)))
        yield from sorted(changes, key=lambda change: -abs(math.log(change.factor)))


def _spread(values: Sequence[float], centre: float | None = None) -> float:
    """A standard deviation that outliers do not disturb; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    middle = median(values) if centre is None else centre
    return _SIGMA_OF_MAD * median(abs(value - middle) for value in values)


def _verdict_changes(earlier: Sequence[Night], after: Night) -> list[VerdictChange]:
    """Cells whose verdict is not what it was when they were last run, those that got worse
    first."""
    last: dict[CellName, CellThen] = {}
    for night in earlier:
        last.update(night.cells)
    found = [
        VerdictChange(name, was.verdict, cell.verdict, cell.explanation)
        for name, cell in after.cells.items()
        if (was := last.get(name)) is not None and was.verdict is not cell.verdict
    ]
    return sorted(found, key=lambda change: (not change.worse, -(change.after or 0)))


def _version_changes(
    before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[VersionChange]:
    for what in dict.fromkeys((*after, *before)):
        was, now = before.get(what, ""), after.get(what, "")
        if was != now:
            yield VersionChange(what, was, now)


def changed_names(series: Series) -> list[CellName]:
    """Cells whose verdict was not the same in every run that has them, newest change first."""

    def last_change(name: CellName) -> int:
        present = [(n, v) for n, v in enumerate(series.verdicts(name)) if v is not None]
        turns = (now[0] for was, now in pairwise(present) if was[1] is not now[1])
        return max(turns, default=-1)

    turned = [(last_change(name), name) for name in series.names]
    return [name for at, name in sorted(turned, key=lambda item: -item[0]) if at >= 0]


def joined(name: Iterable[str]) -> str:
    """A cell or a cost as one name."""
    return ": ".join(name)
