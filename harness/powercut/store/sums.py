# SPDX-License-Identifier: Apache-2.0
"""What the trials of a cell add up to."""

from __future__ import annotations

from array import array
from collections import Counter

from powercut.model.confidence import upper_bound
from powercut.model.log2 import log2_sum
from powercut.model.verdict import EvidenceLevel, FindingKind, LsnRange, Verdict
from powercut.store.states_recovered import StatesRecovered
from powercut.store.trial_result import AckInstants, Exposure, TrialResult


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
