# SPDX-License-Identifier: Apache-2.0
"""What was found out: cell by cell, and for the whole run.

This is what verdict.json holds and what `powercut run --json` prints.  Its schema
is verdict.schema.json (powercut.report.reference).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, Self

from pydantic import Field

from powercut.model.confidence import log2_sum, upper_bound
from powercut.model.verdict import EvidenceLevel, FindingKind, LsnRange, Verdict
from powercut.scenario.plan import Cell
from powercut.scenario.settings import ControlKind, Expect, Parameters
from powercut.store.files_tried import FilesTried
from powercut.store.host_load import HostLoad
from powercut.store.record import Record, VerdictName
from powercut.store.states_recovered import StatesRecovered
from powercut.store.trial_result import AckInstants, Exposure, TrialResult

VERDICT_FORMAT: Final = "powercut-verdict/1"


def wanted_verdict(expect: Expect) -> Verdict:
    """The verdict that `expect` asks for."""
    return _WANTED[expect]


_WANTED: Final = {
    Expect.SAFE: Verdict.SAFE,
    Expect.SURVIVED: Verdict.SURVIVED,
    Expect.LOSSY: Verdict.LOSSY,
}


class ControlResult(Record):
    """A run whose outcome was known in advance."""

    kind: ControlKind
    """Which control."""

    disk: str | None = None
    """The disk that lied, where the cell has several."""

    expected: Expect
    """What had to come out."""

    verdict: VerdictName
    """What came out."""

    behaved: bool
    """Whether the two are the same."""

    message: str = ""
    """What served as the control, or why it did not behave."""

    result_directory: str = ""
    """Folder of its recording, below that of the run; empty if it has none."""

    @property
    def name(self) -> str:
        return self.kind.of(self.disk)


class CellResult(Record):
    """One cell: all of its trials and what they add up to."""

    scenario: str
    """Name of the scenario."""

    cell: str
    """Name of the cell."""

    description: str = ""
    """What the cell shows."""

    parameters: Parameters
    """Every setting of the cell, defaults included."""

    overrides: dict[str, Any] = Field(default_factory=dict)
    """The settings in which it differs from the scenario, as written there."""

    expected: Expect
    """The verdict that the scenario expects."""

    verdict: VerdictName
    """The worst verdict of its trials; never safe, nor survived, unless its controls behaved."""

    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED
    """What the verdict rests on; `live-only` if any of its trials was."""

    as_expected: bool
    """Whether the two are the same."""

    commits_acked: int
    """Acknowledged records, over all trials."""

    commits_lost: int
    """Acknowledged records that did not come back unaltered, over all trials."""

    lost_lsns: tuple[LsnRange, ...] = ()
    """Which ones, in the trial that lost the most; LSNs count anew in each trial."""

    findings: dict[FindingKind, int] = Field(default_factory=dict)
    """How many findings of each kind, over all trials."""

    exposure: Exposure | None = None
    """Exposed records over all trials; null if nothing could be analysed."""

    acks: AckInstants | None = None
    """How well it is known when acks were made, in the trial in which it is known least; null
    if nothing could be analysed."""

    states: StatesRecovered | None = None
    """Crash states that were recovered besides those of the cuts, over all trials; null if none
    were."""

    loss_probability_upper_95: float | None = None
    """For a safe cell, and for one that survived, the chance that such a cut loses a record is
    below this, with a confidence of 95 %, by the number of cuts alone; null for other verdicts."""

    controls: tuple[ControlResult, ...] = ()
    """The runs of known outcome that vouch for the verdict."""

    reasons: tuple[str, ...] = ()
    """Why the verdict is inconclusive, in sentences."""

    timings_s: dict[str, float] = Field(default_factory=dict)
    """How long each phase took over all trials, in seconds."""

    reproduce: str = ""
    """The command that repeats the cell with the same seed."""

    result_directory: str = ""
    """Folder of its recordings, below that of the run; empty if it has none."""

    trials: tuple[TrialResult, ...] = ()
    """Each trial."""

    @property
    def worst_trial(self) -> TrialResult | None:
        """The trial to look at first: the worst verdict, then the most records lost."""
        return max(self.trials, key=lambda t: (t.verdict, t.commits_lost), default=None)

    @classmethod
    def of(
        cls,
        scenario: str,
        cell: Cell,
        trials: Sequence[TrialResult],
        *,
        verdict: Verdict,
        controls: Sequence[ControlResult] = (),
        reasons: Sequence[str] = (),
        reproduce: str = "",
        result_directory: str = "",
    ) -> Self:
        """What `trials` add up to.

        `verdict` is the caller's, who knows whether the controls vouch for it; it must not
        be better than the worst trial's.
        """
        sums = CellSums()
        for trial in trials:
            sums.add(trial)
        if verdict < sums.worst:
            raise ValueError(f"{cell.name}: {verdict.name} hides a trial that is {sums.worst.name}")
        return cls(
            scenario=scenario,
            cell=cell.name,
            description=cell.description,
            parameters=cell.parameters,
            overrides=dict(cell.overrides),
            expected=cell.expect,
            verdict=verdict,
            evidence_level=sums.evidence_level,
            as_expected=verdict is wanted_verdict(cell.expect),
            commits_acked=sums.commits_acked,
            commits_lost=sums.commits_lost,
            lost_lsns=sums.lost_lsns,
            findings=dict(sums.findings),
            exposure=sums.exposure,
            acks=sums.acks,
            states=sums.states,
            loss_probability_upper_95=sums.loss_probability(verdict),
            controls=tuple(controls),
            reasons=tuple(dict.fromkeys((*reasons, *sums.inconclusive))),
            timings_s=dict(sums.timings_s),
            reproduce=reproduce,
            result_directory=result_directory,
            trials=tuple(trials),
        )


class RunResult(Record):
    """A run of one scenario: verdict.json."""

    format: Literal["powercut-verdict/1"] = VERDICT_FORMAT
    """Name and version of this format."""

    powercut: str
    """Version of powercut that judged."""

    scenario: str
    """Name of the scenario."""

    description: str = ""
    """What the scenario shows."""

    scenario_file: str = ""
    """The file that it was read from."""

    seed: int
    """Seed of every random choice."""

    started: str
    """When the run began, UTC, ISO 8601."""

    seconds: float
    """How long it took."""

    verdict: VerdictName
    """The worst verdict of its cells, and of captured files as far as they count."""

    as_expected: bool
    """Whether every cell got the verdict that was expected, and no file lost anything."""

    exit_status: int
    """0 all as expected; 1 a verdict differs from what was expected; 3 inconclusive."""

    cells: tuple[CellResult, ...]
    """Each cell."""

    controls: tuple[ControlResult, ...] = ()
    """The runs of known outcome that vouch for the cells."""

    files: FilesTried | None = None
    """What captured files show of a program that was tried; null for other runs."""

    reproduce: str = ""
    """The command that repeats the run with the same seed."""

    result_directory: str = ""
    """Folder of the run; the other folders in this file are below it."""

    load: HostLoad | None = None
    """What else the host had to do during the run; null if that was not measured."""

    @property
    def cause(self) -> str:
        """A loss in a sentence: for want of which sync, as the files show it, else what was found
        on the disk; empty if nothing that counts was lost.
        """
        if self.files is not None and self.files.loses and self.files.cause:
            return self.files.cause
        findings = (one for cell in self.cells for trial in cell.trials for one in trial.findings)
        return next((one.message for one in findings if one.verdict is Verdict.LOSSY), "")

    @classmethod
    def of(
        cls, *, cells: Sequence[CellResult], files: FilesTried | None = None, **told: Any
    ) -> Self:
        """What `cells` and `files` add up to; `told` are the fields that do not follow from it."""
        outcomes = [(cell.verdict, cell.as_expected) for cell in cells]
        outcomes += [(one, one is Verdict.SAFE) for one in (files.counted if files else ())]
        status = exit_status(outcomes)
        return cls(
            verdict=Verdict.worst(verdict for verdict, _ in outcomes),
            as_expected=status == 0,
            exit_status=status,
            cells=tuple(cells),
            files=files,
            **told,
        )


def exit_status(outcomes: Sequence[tuple[Verdict, bool]]) -> int:
    """0 if all verdicts are as expected, 1 if one differs, else 3: one is unknown."""
    if any(not expected and verdict is not Verdict.INCONCLUSIVE for verdict, expected in outcomes):
        return 1
    return 0 if outcomes and all(expected for _, expected in outcomes) else 3


class CampaignOutcome(Record):
    """All runs of one call of powercut: what `--json` writes."""

    format: Literal["powercut-campaign/1"] = "powercut-campaign/1"
    """Name and version of this format."""

    runs: tuple[RunResult, ...]
    """Each run, in the order of the command line."""

    @property
    def exit_status(self) -> int:
        """The exit status of the command: 1 if that of a run is, else 3 if one is unknown."""
        statuses = {run.exit_status for run in self.runs}
        return 1 if 1 in statuses else max(statuses, default=3)


class CellSums:
    """Takes the trials of a cell in their order."""

    def __init__(self) -> None:
        self.trials = 0
        self.commits_acked = 0
        self.commits_lost = 0
        self.lost_lsns: tuple[LsnRange, ...] = ()  # of the trial that lost the most
        self.findings: Counter[FindingKind] = Counter()
        self.timings_s: Counter[str] = Counter()
        self.inconclusive: dict[str, None] = {}  # what such findings say, each once
        self.exposure: Exposure | None = None
        self.acks: AckInstants | None = None
        self.evidence_level = EvidenceLevel.RECORDED
        self._verdicts: dict[Verdict, None] = {}
        self._most: int | None = None
        self._cuts_that_tell = 0
        self._most_exposed = -1
        self._states: StatesRecovered | None = None
        self._engines: dict[str, None] = {}
        self._policies: Counter[str] = Counter()
        self._legal = array("d")

    def add(self, trial: TrialResult) -> None:
        """The next trial."""
        self.trials += 1
        self._verdicts[trial.verdict] = None
        self.commits_acked += trial.commits_acked
        self.commits_lost += trial.commits_lost
        self._cuts_that_tell += trial.commits_acked > 0
        if self._most is None or trial.commits_lost > self._most:
            self._most, self.lost_lsns = trial.commits_lost, trial.lost_lsns
        for finding in trial.findings:
            self.findings[finding.kind] += 1
            if finding.verdict is Verdict.INCONCLUSIVE:
                self.inconclusive[finding.message] = None
        self.timings_s.update(trial.timings_s)
        if trial.evidence_level is EvidenceLevel.LIVE_ONLY:
            self.evidence_level = EvidenceLevel.LIVE_ONLY
        if trial.exposure is not None:
            self._add_exposure(trial.exposure)
        if trial.acks is not None and (
            self.acks is None or _window(trial.acks) > _window(self.acks)
        ):
            self.acks = trial.acks
        if trial.states is not None:
            self._add_states(trial.states)

    def _add_exposure(self, more: Exposure) -> None:
        known = self.exposure or Exposure(records=0, never_durable=0, longest_ms=more.longest_ms)
        lsns = known.lsns
        if more.records > self._most_exposed:
            self._most_exposed, lsns = more.records, more.lsns
        self.exposure = Exposure(
            records=known.records + more.records,
            never_durable=known.never_durable + more.never_durable,
            longest_ms=max(known.longest_ms, more.longest_ms),
            lsns=lsns,
        )

    def _add_states(self, more: StatesRecovered) -> None:
        self._engines[more.engine] = None
        self._policies.update(more.by_policy)
        self._legal.append(more.legal_log2)
        known = self._states
        if known is None:
            self._states = more
            return
        names = ("states", "decided", "went_on", "lossy", "instants", "instants_all")
        sums = {name: getattr(known, name) + getattr(more, name) for name in names}
        at_acks = more.at_acks
        if known.at_acks is not None:
            at_acks = known.at_acks if at_acks is None else known.at_acks.joined(at_acks)
        self._states = known.model_copy(update={**sums, "at_acks": at_acks})

    @property
    def worst(self) -> Verdict:
        """The worst verdict of the trials; that of no trial at all if there are none."""
        return Verdict.worst(self._verdicts)

    @property
    def states(self) -> StatesRecovered | None:
        """Crash states that were recovered; None if none were."""
        if self._states is None:
            return None
        return self._states.model_copy(
            update={
                "engine": ", ".join(self._engines),
                "by_policy": dict(self._policies),
                "legal_log2": round(log2_sum(self._legal), 2),
            }
        )

    def loss_probability(self, verdict: Verdict) -> float | None:
        """The upper bound for a cell that came to `verdict`; None if it lost something.

        A cut that came before anything was acknowledged had nothing to lose and counts for
        nothing.
        """
        if verdict not in (Verdict.SAFE, Verdict.SURVIVED) or not self._cuts_that_tell:
            return None
        return upper_bound(0, self._cuts_that_tell)


def _window(acks: AckInstants) -> float:
    return float("inf") if acks.window_us is None else acks.window_us
