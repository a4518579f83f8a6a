# SPDX-License-Identifier: Apache-2.0
"""exploration.json: what the crash states of one recording said.

It lies beside the recording and outside of its seal, since it follows from it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from powercut.model.confidence import STATES_MIN
from powercut.model.verdict import Confirmed, Difference, FindingKind, LsnRange
from powercut.store.files import write_atomic
from powercut.store.record import Record, VerdictName, find_model
from powercut.store.states_recovered import StatesAtAcks
from powercut.store.trial_dir import TrialDir

EXPLORATION_FORMAT: Final = "powercut-exploration/1"
_NAME: Final = "exploration.json"


class FoundState(Record):
    """The first crash state that showed one particular finding."""

    id: str
    """Its name; states/<id>.json beside the recording holds it.  Empty for a finding that is not
    about a single state, and of a captured folder for a state after a second cut."""

    policy: str
    """Who drew it."""

    instant: int
    """When the power was cut, in nanoseconds on the clock of the recording."""

    missing: int = 0
    """Of the writes that were not durable then, how many the state lacks, ..."""

    volatile: int = 0
    """... and how many there were."""

    lsns: tuple[LsnRange, ...]
    """The records concerned."""

    message: str
    """What the checker said."""

    difference: Difference | None = None
    """All that a program's check found there, against what was acknowledged; null for other
    workloads."""

    confirmed: Confirmed = "not tried"
    """Whether the recorded system itself (the recorded kernel in a guest; for a raw log
    its own reader) makes the same of this state; of a program, whether its check does each time."""

    confirmation: str = ""
    """What it said instead, if it did not."""


class ExplorationFinding(Record):
    """All findings of one kind that imply the same verdict."""

    kind: FindingKind
    """What is wrong."""

    verdict: VerdictName
    """What it alone implies."""

    states: int
    """In how many of the states checked."""

    distinct: int
    """How many different sets of records they concern."""

    lsns: tuple[LsnRange, ...]
    """Every record concerned in some state."""

    by_policy: dict[str, int]
    """The states by the policy that drew them."""

    torn_within: int = 0
    """Of the states, how many tear a write within an aligned block of 4,096 bytes: a disk that
    writes such a block whole or not at all cannot leave them."""

    examples: tuple[FoundState, ...]
    """The first state of each distinct finding, up to a limit."""


class StateGroups(Record):
    """Groups of like states: at one stage of the work, with the same kinds of writes missing.

    Grouping assumes that one state of a group loses something if another one does.  Nothing makes
    that so; no verdict rests on it.
    """

    seen: int
    """Groups of which a state was drawn."""

    groups: int
    """All groups of the recording, at the instants asked for."""

    stages: int
    """Stages of the work to which they belong."""


class ExploreCoverage(Record):
    """What was looked at, and out of how much."""

    instants: int
    """Instants of a cut that were looked at."""

    instants_all: int
    """Instants at which the set of legal states changes."""

    legal_log2: float
    """Binary logarithm of the number of legal states, summed over the instants looked at."""

    distinct: int
    """States that differ in content or in what is required of them, all of them checked."""

    recovered: int
    """Of these, how many an engine recovered, or read."""

    pruned: int
    """Of these, how many were decided by an earlier one from which they cannot differ: the
    disk is the same, or all of it that recovery and reader read."""

    pruned_rerun: int
    """Of those decided so, how many were recovered all the same, to keep the rule honest."""

    repeated: int
    """States that were drawn again and not counted."""

    by_policy: dict[str, int]
    """Distinct states by the policy that drew them first."""

    same_files: int = 0
    """Of those recovered, how many had the files of an earlier one, whose check holds for them."""

    lossy: int = 0
    """States in which something was lost, borne out by the last word or not; none if the check is
    not to be believed."""

    compared: int = 0
    """States whose answer was compared with that of a second, independent reader."""

    went_on: int = 0
    """States after whose recovery the workload went on."""

    no_room: int = 0
    """States after whose recovery it could not, since log or disk were full."""

    recoveries: int = 0
    """Recoveries whose writes were recorded, to be cut again."""

    recoveries_live: int = 0
    """Of these, that of the recorded cut itself, by the recorded system (0 or 1)."""

    recoveries_unrecorded: int = 0
    """Recoveries that were to be recorded and were not, since the kernel died in them."""

    recovery_states: int = 0
    """States of those recoveries that were checked, besides `distinct`."""

    recovery_states_ended: int = 0
    """Of these, at a second cut after the workload had gone on: what it had acknowledged was
    required, too."""

    recovery_lossy: int = 0
    """States of recoveries in which something was lost; `lossy` counts them, too."""

    recovery_depth: int = 0
    """How many cuts followed the first at most."""

    recovery_log2: float = 0.0
    """Binary logarithm of the number of legal states of those recoveries, summed over the
    instants looked at."""

    exhausted: bool
    """Whether every policy that ends came to its end at every instant asked for."""

    groups: StateGroups | None = None
    """Groups of like states, if states were selected by them (policy `representatives`)."""

    at_acks: StatesAtAcks | None = None
    """What was looked at just after acks, if the recording has any."""

    not_looked_at: str
    """What was left out, in words."""

    @staticmethod
    def makes_certain(states: int, lossy: int) -> bool:
        """Whether a loss is certain, whatever more states would say: in so many `lossy` of them."""
        return states >= STATES_MIN and lossy >= STATES_MIN // 4


class ExploreResult(Record):
    """The outcome of exploring one recording."""

    format: Literal["powercut-exploration/1"] = EXPLORATION_FORMAT
    """Format of this document."""

    powercut: str
    """The version that explored."""

    scenario: str
    cell: str
    trial: int

    engine: str
    """What recovered the states."""

    engine_reason: str = ""
    """Why a faster engine was not taken; empty if there is none."""

    engine_kernel: str = ""
    """Which User-Mode Linux recovered, with its version: `host (6.1.176)`; empty for others."""

    model: str
    """Which states counted as legal."""

    atomic_unit: int | None = None
    """Aligned bytes that no state tears, since the disk has to promise as much; null if an older
    powercut explored, which did not say."""

    policies: tuple[str, ...]
    """Who drew them."""

    at: tuple[str, ...]
    """After which events the power was cut."""

    budget: str
    """States or seconds that were to be spent."""

    prune: str
    """Which states were decided by an earlier one: `bytes`, `reads` or `nothing`."""

    seed: int
    """Seed of every random choice."""

    after: int = 0
    """Records by which the workload went on after each recovery; 0: it did not."""

    depth: int = 0
    """How many cuts were to follow the first, each in the recovery from the one before."""

    jobs: int
    """Engines at the same time."""

    seconds: float
    """How long it took."""

    seconds_in_all: float = 0.0
    """The same with what came before and after: starting engines, confirming."""

    processor_seconds: float = 0.0
    """Processor time of `seconds`, on all processors and with all engines; 0: not measured."""

    engine_boots: int = 0
    """How often an engine's kernel was started."""

    coverage: ExploreCoverage
    """What was looked at."""

    findings: tuple[ExplorationFinding, ...]
    """What was found, the worst first."""

    map: StateMap | None = None
    """Where the states lie that were checked; null if none were."""

    verdict: VerdictName
    """The worst finding; SAFE if states were checked and nothing was found in them."""

    @property
    def states_per_s(self) -> float:
        """States decided per second."""
        return self.coverage.distinct / self.seconds if self.seconds else 0.0

    @property
    def states_per_processor_s(self) -> float:
        """States decided per second of processor time; 0 if that was not measured."""
        busy = self.processor_seconds
        return self.coverage.distinct / busy if busy else 0.0


def write_exploration(trial: TrialDir, result: ExploreResult) -> None:
    """Writes exploration.json beside the recording.  Raises HostError."""
    write_atomic(trial.path / _NAME, result.model_dump_json(indent=1).encode() + b"\n")


def read_exploration(trial: TrialDir) -> ExploreResult | None:
    """Reads it; None if there is none.  Raises DamagedRecording."""
    return find_model(trial.path / _NAME, ExploreResult)


# Where the crash states of an exploration lie: when the power was cut, and how much they lack.
#
# It is bounded, however many states there were.

COLUMNS: Final = 120
"""Of equal width, from the first instant to the last."""

TENTHS: Final = 10
ROWS: Final = TENTHS + 2
"""0: nothing is missing; 1 to 10: up to so many tenths of the writes that were not durable, but not
all; 11: all of them."""


class MapField(Record):
    """The states of one column and row."""

    column: Annotated[int, Field(ge=0, lt=COLUMNS)]
    row: Annotated[int, Field(ge=0, lt=ROWS)]
    states: int

    lossy: int = 0
    """In how many of them something was lost, borne out by the recorded kernel or not."""

    undecided: int = 0
    """How many could not be judged."""


class StateMap(Record):
    """All states that were checked of the recording itself, without those of recoveries."""

    begin: int
    """The first instant, in nanoseconds on the clock of the recording."""

    end: int

    fields: Annotated[tuple[MapField, ...], Field(max_length=COLUMNS * ROWS)]
    """Those with states, by column and row."""
