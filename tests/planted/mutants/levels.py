# SPDX-License-Identifier: Apache-2.0
"""Planted where it is decided how much evidence a verdict has, and what it may be with it."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.suites import LEVELS, SECOND_LOOK, UNDECIDED

_P = "harness/powercut"
level = planter("level", LEVELS)
undecided = planter("undecided", UNDECIDED)
look = planter("look", SECOND_LOOK)

MUTANTS: tuple[Mutant, ...] = (
    *level(
        f"{_P}/verdict/judge.py",
        (
            "live-is-safe",
            "        verdict=max(judgement.verdict, Verdict.SURVIVED),",
            "        verdict=judgement.verdict,",
            "a machine whose disk nobody recorded can be SAFE",
        ),
        (
            "live-by-name",
            "        evidence_level=EvidenceLevel.LIVE_ONLY,\n        acked=",
            "        evidence_level=EvidenceLevel.RECORDED,\n        acked=",
            "what survived cuts alone says that its disk was recorded",
        ),
        (
            "live-cut-short",
            '    checkers: dict[str, Checker] = {"recording": lambda: list(loaded.gaps)}\n'
            "    attempted = history",
            '    checkers: dict[str, Checker] = {"recording": list}\n    attempted = history',
            "what is missing of a recording of cuts alone is forgiven",
        ),
        (
            "level-unchecked",
            "    check_level(directory, record)\n    loaded = _load",
            "    loaded = _load",
            "a recording may say another level of evidence than its machine leaves",
        ),
    ),
    *level(
        f"{_P}/checkers/live.py",
        (
            "live-log-goes-round",
            "    if layout.wraps and 2 * attempted > layout.slots:",
            "    if layout.wraps and attempted > 2 * layout.slots:",
            "what a log that goes round has given up unheard is a loss",
        ),
        (
            "live-unheard",
            "    return max(history.attempted, *seen, 0)",
            "    return max(history.attempted, 0)",
            "what came back and was not heard of was never attempted",
        ),
    ),
    *level(
        f"{_P}/trial/controls.py",
        (
            "live-lying-control",
            "        wanted -= {ControlKind.LYING_DISK, ControlKind.HONEST}",
            "        wanted -= {ControlKind.HONEST}",
            "a machine with a disk of its own is to have a lying one",
        ),
    ),
    *level(
        f"{_P}/certify/verify.py",
        (
            "certified-safe-unrecorded",
            "    if not recorded and cell.verdict is Verdict.SAFE:",
            "    if not recorded and cell.verdict is Verdict.LOSSY and False:",
            "a certificate may say SAFE of a disk that nobody recorded",
        ),
        (
            "certified-level",
            "    if cell.evidence_level is not level:",
            "    if cell.evidence_level is not level and False:",
            "a certificate may say that a disk was recorded which was not",
        ),
    ),
    *undecided(
        f"{_P}/campaign/assemble.py",
        (
            "unknown-cuts-count",
            "    return Verdict.worst(trial.verdict for trial in trials)",
            "    return vouched_for(trials)",
            "cuts that came to nothing are left out of a cell's verdict",
        ),
        (
            "no-controls-beside-unknown",
            "    return Verdict.worst(t.verdict for t in trials if t.verdict is not "
            "Verdict.INCONCLUSIVE)",
            "    return Verdict.worst(t.verdict for t in trials)",
            "a cell of which one cut came to nothing has no controls",
        ),
    ),
    *undecided(
        f"{_P}/verdict/judge.py",
        (
            "states-left-out",
            "    return with_states(directory, result, states)",
            "    return result if with_states else result",
            "a verdict without what crash states lose",
        ),
    ),
    *undecided(
        f"{_P}/campaign/bundle.py",
        (
            "bundle-without-states",
            "    paths += [path_of(trial, name) for name in saved(trial)]",
            "    paths += [path_of(trial, name) for name in saved(trial)[:1]]",
            "a bundle holds one state of many",
        ),
        (
            "bundle-judged-elsewhere",
            "        if then.verdict is not Verdict.INCONCLUSIVE:",
            "        if False:",
            "a host that cannot judge a recording bundles it as INCONCLUSIVE",
        ),
    ),
    *undecided(
        f"{_P}/verdict/states.py",
        (
            "explored-despite-gaps",
            "    late_acks = all(ACK_WINDOW in f.detail for f in missing)",
            "    late_acks = True",
            "states convict a trial of which acks or attempts are missing",
        ),
        (
            "few-states",
            "    elif states.states < STATES_MIN and not recognised:",
            "    elif states.states < 0 and not recognised:",
            "a program of which few states were recovered may be SAFE",
        ),
        (
            "exploration-failed",
            '        findings = [_unknown(f"its crash states could not be explored: {error}")]',
            "        findings = []",
            "an exploration that was not possible is forgiven",
        ),
    ),
    *look(
        f"{_P}/checkers/repetition.py",
        (
            "unrepeatable-is-lost",
            "    if lose_the_same(first, second):",
            "    if True:",
            "what is lost in one of two recoveries is lost",
        ),
        (
            "unrepeatable-forgiven",
            "    return (*kept, _not_repeated(first, second))",
            "    return tuple(kept)",
            "what is lost in one of two recoveries is nothing",
        ),
    ),
    *look(
        f"{_P}/explore/worker.py",
        (
            "loss-looked-at-once",
            "        second = found(observation)\n",
            "        second = judged\n",
            "a state that loses something is believed at once",
        ),
        (
            "pruned-loss-looked-at-once",
            "again = loses(pruned.findings) and disk not in self._twice",
            "again = loses(pruned.findings) and disk in self._short",
            "a loss that an equal disk decides is believed at once",
        ),
        (
            "unrepeated-learned",
            "        if self._decided is None or once:",
            "        if self._decided is None:",
            "a recovery that did not repeat itself decides equal disks",
        ),
    ),
    *look(
        f"{_P}/explore/folder_judge.py",
        (
            "folder-loss-looked-at-once",
            "            return [*repeated(self.findings(state, first.result()), again)]",
            "            return self.findings(state, first.result()) if repeated and again else []",
            "a loss of a captured folder is believed at once",
        ),
    ),
    *look(
        f"{_P}/explore/clock.py",
        (
            "clock-forgets-the-start",
            "self._budget) - self.taken",
            "self._budget) - self.worked",
            "the start of the engines is not in the budget",
        ),
        (
            "clock-forgets-confirmations",
            "        return share - min(set_aside, _SET_ASIDE_MAX * self._budget) - self.taken",
            "        return share - self.taken",
            "no time is set aside for confirmations",
        ),
    ),
)
