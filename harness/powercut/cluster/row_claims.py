# SPDX-License-Identifier: Apache-2.0
"""Claims that are rows of trials.sqlite (powercut.store.rows): of a host and a cell their numbers.

A million claims have to fit in memory, so of each there is a number here, and one result of those
of a host and a cell: like all of them it lost nothing, and nothing is said of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from powercut.model.errors import DamagedRecording
from powercut.scenario.plan import Plan
from powercut.store.results import TrialResult
from powercut.store.rows import ROWS, ROWS_FROM, Row, TrialRows


class RowClaims:
    """Not for several threads; the ledger is."""

    def __init__(self, plan: Plan, rows: TrialRows | None) -> None:
        self._rows = rows
        self._seeds = {cell.name: cell.trials for cell in plan.cells}
        self._made = {cell.name: bytearray(cell.trials[-1].number + 1) for cell in plan.cells}
        self._of_host: dict[str, dict[str, array[int]]] = {}
        self._first: dict[tuple[str, str], TrialResult] = {}
        self._judged: set[tuple[str, int]] = set()

    def add(self, cell: str, row: Row, *, new: bool = True) -> None:
        """Counts a row, and writes it unless it stands there.  Raises HostError."""
        if self._rows is None:
            raise ValueError("a run without rows")
        if new:
            self._rows.add(cell, row)
        number = row.result.trial
        self._made[cell][number] = True
        self._of_host.setdefault(row.host, {}).setdefault(cell, array("Q")).append(number)
        self._first.setdefault((row.host, cell), row.result)

    def has(self, cell: str, number: int) -> bool:
        """Whether the trial is a row."""
        return bool(self._made[cell][number])

    def of_host(self, host: str) -> dict[str, list[int]]:
        """The numbers of a host's rows by cell, in order."""
        return {cell: sorted(made) for cell, made in self._of_host.get(host, {}).items()}

    def stand_ins(self, host: str) -> dict[str, TrialResult]:
        """Of each cell in which a host has rows the result of one."""
        return {cell: self._first[host, cell] for cell in self._of_host.get(host, {})}

    def row(self, cell: str, number: int) -> Row:
        """That of a trial that has one.  Raises DamagedRecording."""
        found = None if self._rows is None else self._rows.row(cell, number)
        if found is None:
            raise DamagedRecording(f"{cell}, trial {number}: its row is gone")
        return found

    def count(self, host: str) -> int:
        """How many a host has."""
        return sum(map(len, self._of_host.get(host, {}).values()))

    def set_judged(self, cell: str, number: int) -> None:
        """The recording was judged here, and came to the same."""
        self._judged.add((cell, number))

    def is_judged(self, cell: str, number: int) -> bool:
        """Whether it was."""
        return (cell, number) in self._judged

    @property
    def judged(self) -> int:
        """How many were."""
        return len(self._judged)

    def take_back(self, host: str) -> Iterator[tuple[str, int]]:
        """Removes all rows of a host; those whose recordings are here.  Raises HostError."""
        mine = self._of_host.pop(host, {})
        if not mine or self._rows is None:
            return
        self._rows.drop_host(host)
        for cell, numbers in mine.items():
            self._first.pop((host, cell))
            for number in numbers:
                self._made[cell][number] = False
                if (cell, number) in self._judged:
                    self._judged.discard((cell, number))
                    yield cell, number

    def restore(self, hosts: frozenset[str]) -> Iterator[tuple[str, Row]]:
        """Takes the rows that an interrupted run had of `hosts`; the others are dropped.

        Raises DamagedRecording, HostError.
        """
        if self._rows is None:
            return
        for host in self._rows.hosts():
            if host not in hosts:
                self._rows.drop_host(host)
        for cell, trials in self._seeds.items():
            for row in self._rows.of_cell(cell):
                number = row.result.trial
                if number > trials[-1].number or trials[number - 1].seed != row.result.seed:
                    raise DamagedRecording(
                        f"{self._rows.path}: {cell}, trial {number}: its seed is not the one that "
                        "follows from that of the run"
                    )
                self.add(cell, row, new=False)
                yield cell, row


def rows_for(run: Path, plan: Plan) -> TrialRows | None:
    """For the trials that lose nothing, where there are too many for a folder each; else None.

    Raises HostError, and DamagedRecording if those of an interrupted run are of other cells.
    """
    path = run / ROWS
    if plan.trials <= ROWS_FROM and not path.is_file():
        return None
    return TrialRows.write(path, {cell.name: cell.parameters for cell in plan.cells})
