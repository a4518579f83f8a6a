# SPDX-License-Identifier: Apache-2.0
"""What the explorer asks of a medium: a recorded disk, or a captured folder.

The explorer draws states in the one order, within the budget, and counts what is found.  A medium
has the states, and whoever judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from powercut.crash.arrays import I64
from powercut.crash.explore import Coverage, InstantKind
from powercut.crash.kinds import Names
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.confirmation import LastWord
from powercut.explore.findings import FindingCollector
from powercut.explore.request import ExploreRequest
from powercut.explore.state_map import StateMapper
from powercut.explore.work import Workers
from powercut.model.verdict import Finding
from powercut.rig.engine_choice import EngineChoice


@dataclass(frozen=True)
class RecordedCell:
    """Which recording it is."""

    scenario: str
    cell: str
    trial: int


class BulkReader(Protocol):
    """Reads the states of a recording all at once, and draws them itself."""

    checked: int
    compared: int

    @property
    def saw_all_acks(self) -> bool:
        """As powercut.crash.explore.Exploration."""

    def run(self, more: Callable[[], bool]) -> None:
        """Draws and judges while there is `more` time, and then what is named and was not drawn."""

    def coverage(self) -> Coverage:
        """So far."""


class Medium(Protocol):
    """A recording whose states are explored."""

    recorded_cell: RecordedCell
    """Which recording it is."""

    engine: EngineChoice
    """What recovers its states."""

    space: StateSpace
    gaps: Sequence[str]
    """What is missing of the recording."""

    at_cut: Sequence[CrashState]
    """States that come first, within the budget."""

    names: Names | None
    """Tells kinds of writes."""

    last_word: LastWord | None
    """Whoever confirms what is found; None if that is the engine itself."""

    confirmation_s: float
    """Seconds that a confirmation takes."""

    recoveries_first: Sequence[CrashState | None]
    """States whose recoveries are cut before others; None for the live recovery."""

    records_recoveries: bool
    """Whether recoveries of states are put on record, to be cut again."""

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        """Those after events of these kinds at which states are drawn."""

    def bulk(
        self,
        wanted: ExploreRequest,
        collected: FindingCollector,
        mapper: StateMapper,
        scratch: Path,
    ) -> BulkReader | None:
        """Whoever reads all states at once; None where each is judged alone."""

    def possible(self, wanted: ExploreRequest) -> tuple[ExploreRequest, Sequence[Finding]]:
        """What is `wanted`, without what would say nothing here, and why."""

    def workers(self, wanted: ExploreRequest) -> AbstractContextManager[Workers]:
        """Whoever judges batches of states."""

    def name(self, state: CrashState, *, keep: bool) -> str:
        """The name of a state, which is kept beside the recording if it is to; empty if none."""

    def contradictions(self, lost: set[int], *, saw_all_acks: bool) -> Iterable[Finding]:
        """Where another way to the same answer disagrees."""
