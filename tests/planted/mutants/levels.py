# SPDX-License-Identifier: Apache-2.0
"""Planted where it is decided how much evidence a verdict has, and what it may be with it."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import EXPLORE_COMMAND, LEVELS, SECOND_LOOK, UNDECIDED

_P = "harness/powercut"
level = planter("level", LEVELS)
undecided = planter("undecided", UNDECIDED)
look = planter("look", SECOND_LOOK)
command = planter("explore-command", EXPLORE_COMMAND)

MUTANTS: tuple[Mutant, ...] = (
    *level(
        f"{_P}/verdict/judge.py",
        (
            "live-is-safe",
            At("judge_recording", "max(judgement.verdict, Verdict.SURVIVED)"),
            "judgement.verdict",
            "a machine whose disk nobody recorded can be SAFE",
        ),
        (
            "live-by-name",
            At("judge_recording", "record.evidence_level"),
            "type(record.evidence_level).RECORDED",
            "what survived cuts alone says that its disk was recorded",
        ),
        (
            "live-cut-short",
            At("judge_recording", "lambda: gaps.findings"),
            "lambda: [] if sealed.is_live else gaps.findings",
            "what is missing of a recording of cuts alone is forgiven",
        ),
        (
            "level-unchecked",
            At("judge_recording", "sealed.check_level()"),
            "None",
            "a recording may say another level of evidence than its machine leaves",
        ),
    ),
    *level(
        f"{_P}/verdict/records.py",
        (
            "live-log-goes-round",
            At("check_live", "2 * attempted > layout.slots"),
            "attempted > 2 * layout.slots",
            "what a log that goes round has given up unheard is a loss",
        ),
        (
            "live-unheard",
            At("attempted_at_least", "max(history.attempted, *seen, 0)"),
            "max(history.attempted, 0)",
            "what came back and was not heard of was never attempted",
        ),
    ),
    *level(
        f"{_P}/trial/controls.py",
        (
            "live-lying-control",
            At("controls_for", "{ControlKind.LYING_DISK, ControlKind.HONEST}"),
            "{ControlKind.HONEST}",
            "a machine with a disk of its own is to have a lying one",
        ),
    ),
    *level(
        "harness/powercut_extras/certify/verify.py",
        (
            "certified-safe-unrecorded",
            At("_level_contradictions", "not recorded and cell.verdict is Verdict.SAFE"),
            "not recorded and cell.verdict is Verdict.LOSSY and False",
            "a certificate may say SAFE of a disk that nobody recorded",
        ),
        (
            "certified-level",
            At("_level_contradictions", "cell.evidence_level is not level"),
            "cell.evidence_level is not level and False",
            "a certificate may say that a disk was recorded which was not",
        ),
    ),
    *undecided(
        f"{_P}/campaign/assemble.py",
        (
            "unknown-cuts-count",
            At("_cell_result", "Verdict.worst((trial.verdict for trial in trials))"),
            "vouched_for(trials)",
            "cuts that came to nothing are left out of a cell's verdict",
        ),
        (
            "no-controls-beside-unknown",
            At(
                "vouched_for",
                "(t.verdict for t in trials if t.verdict is not Verdict.INCONCLUSIVE)",
            ),
            "(t.verdict for t in trials)",
            "a cell of which one cut came to nothing has no controls",
        ),
    ),
    *undecided(
        f"{_P}/verdict/judge.py",
        (
            "states-left-out",
            At("verdict_of", "with_states(sealed, result, states)"),
            "result if with_states else result",
            "a verdict without what crash states lose",
        ),
    ),
    *undecided(
        f"{_P}/campaign/bundle.py",
        (
            "bundle-without-states",
            At("_files_of", "saved(trial)"),
            "saved(trial)[:1]",
            "a bundle holds one state of many",
        ),
        (
            "bundle-judged-elsewhere",
            At("_judged", "then.verdict is not Verdict.INCONCLUSIVE"),
            "False",
            "a host that cannot judge a recording bundles it as INCONCLUSIVE",
        ),
    ),
    *undecided(
        f"{_P}/verdict/states.py",
        (
            "explored-despite-gaps",
            At("with_states", "all((ACK_WINDOW in f.detail for f in missing))"),
            "True",
            "states convict a trial of which acks or attempts are missing",
        ),
        (
            "few-states",
            At("_missing", "states.states < STATES_MIN"),
            "states.states < 0",
            "a program of which few states were recovered may be SAFE",
        ),
        (
            "exploration-failed",
            At("with_states", "[_unknown(f'its crash states could not be explored: {error}')]"),
            "[]",
            "an exploration that was not possible is forgiven",
        ),
    ),
    *look(
        f"{_P}/checkers/repetition.py",
        (
            "unrepeatable-is-lost",
            At("repeated", "lose_the_same(first, again, nodes=nodes)"),
            "True",
            "what is lost in one of two recoveries is lost",
        ),
        (
            "cluster-loses-anything",
            At("lose_the_same", "bool(losses(one) & losses(other))"),
            "True",
            "a cluster that loses something else each time, or nothing, convicts",
        ),
        (
            "unrepeatable-forgiven",
            At("repeated", "(*kept, _not_repeated(first, again, number + 1))"),
            "tuple(kept)",
            "what is lost in one of two recoveries is nothing",
        ),
        (
            "contradiction-forgiven",
            At("Repeats.doubt", "self.differed * DIFFER_ONE_IN <= self.asked"),
            "self.differed < self.asked",
            "a check that mostly contradicts itself convicts",
        ),
    ),
    *look(
        f"{_P}/explore/confirmation.py",
        (
            "convicts-after-two",
            At("asked_again", "range(1, looks + 1)"),
            "range(1, 2)",
            "a state that convicts is asked three times and no more",
        ),
        (
            "other-losses-confirm",
            At("asked_again", "other or bool(nodes) or losses(found) <= losses(seen.findings)"),
            "True",
            "a check that loses other operations when it is asked again convicts",
        ),
        (
            "tired-check-convicts",
            At("DiskLastWord.doubt", "f'{WHOLE_LOSES}: {seen.message}' if seen.lossy else ''"),
            "''",
            "a check that finds nothing any more convicts an honest program on a disk",
        ),
    ),
    *look(
        f"{_P}/explore/findings.py",
        (
            "doubted-convicts",
            At("FindingCollector.findings", "[_acquitted(found) for found in found_kinds]"),
            "found_kinds",
            "a check that was found out convicts by what else it missed",
        ),
    ),
    *look(
        f"{_P}/recording/folder.py",
        (
            "never-written-whatever-was",
            At("FolderRecording.nothing_written_since", "one.submitted_ns >= since"),
            "False",
            "a check that does not see what was written is believed of all others",
        ),
    ),
    *look(
        f"{_P}/verdict/folder.py",
        (
            "kept-back-whatever-shows",
            At("_early", "any((not one.missing for one in found.examples))"),
            "True",
            "a loss that is none of an early ack tells of a program that writes late",
        ),
    ),
    *look(
        f"{_P}/crash/whole.py",
        (
            "discard-is-missing",
            At("lacks_nothing", "same | (full_source == _DISCARDED)"),
            "same",
            "a state without what was discarded lacks something",
        ),
        (
            "order-is-nothing",
            At(
                "_where_they_differ",
                "(places[0] | places[1]) if moved else"
                " (places[0] - places[1]) + (places[1] - places[0])",
            ),
            "(places[0] - places[1]) + (places[1] - places[0])",
            "a state whose writes came in another order lacks nothing",
        ),
    ),
    *look(
        f"{_P}/verdict/judge.py",
        (
            "whole-cut-convicts",
            At("_unbelieved", "_BOTH if whole else ''"),
            "''",
            "a cut that lacks nothing convicts, though the check found all on a disk of the same bytes",
        ),
    ),
    *look(
        f"{_P}/trial/positive.py",
        (
            "second-run-too-short",
            At("look_where_nothing_was_lost", "max(_MORE_LEAST, acked)"),
            "_MORE_LEAST",
            "a program that writes each nineteenth operation is not seen to write what it kept",
        ),
    ),
    *look(
        f"{_P}/verdict/states.py",
        (
            "cut-convicts-all-the-same",
            At("with_states", "_unbelievable(every)"),
            "(every, verdict)",
            "the cut convicts by a check that its crash states have found out",
        ),
    ),
    *look(
        f"{_P}/explore/folder_judge.py",
        (
            "whole-folder-convicts",
            At("FolderJudge.ask.answer", "name == self._whole and loses(findings)"),
            "False",
            "the folder as it was at the cut convicts by what a check misses there",
        ),
        (
            "torn-end-never-written",
            At("FolderJudge.positive", "control.trouble or not control.found or wrong & missing"),
            "control.trouble or not control.found",
            "what the check calls wrong was never written",
        ),
        (
            "blind-check-of-nothing-believed",
            At("FolderJudge.positive", "control.trouble or not control.found or wrong & missing"),
            "control.trouble or wrong & missing",
            "a check that finds nothing at all is believed where nothing was written",
        ),
        (
            "never-written-required",
            At(
                "FolderJudge.positive",
                "self.recording = replace(self.recording, history=history.without_acks(missing))",
            ),
            "pass",
            "what nothing could carry is lost in each state: a deleted key convicts",
        ),
        (
            "tired-folder-check-convicts",
            At("FolderJudge.doubt", "not loses(findings)"),
            "True",
            "a check that finds nothing any more convicts an honest program on captured files",
        ),
    ),
    *look(
        f"{_P}/explore/worker.py",
        (
            "loss-looked-at-once",
            At("LocalWorker._look_again", "found(observation)"),
            "judged",
            "a state that loses something is believed at once",
        ),
        (
            "pruned-loss-looked-at-once",
            At("LocalWorker._judge", "disk not in self._twice"),
            "disk in self._short",
            "a loss that an equal disk decides is believed at once",
        ),
        (
            "unrepeated-learned",
            At("LocalWorker._judge", "self._decided is None or once"),
            "self._decided is None",
            "a recovery that did not repeat itself decides equal disks",
        ),
        (
            "answers-of-other-states",
            At("LocalWorker.judge", "tuple(judged[at] for at in range(len(states)))"),
            "tuple(judged.values())",
            "answers come in the order of recovery, not in that of the states",
        ),
    ),
    *command(
        f"{_P}/cli/explore.py",
        (
            "states-alone",
            At("_judged", "explored.atomic_unit != sealed.opened.space.unit"),
            "sealed",
            "explore prints what its states alone come to as the verdict on the recording",
        ),
    ),
    *look(
        f"{_P}/explore/folder_judge.py",
        (
            "folder-loss-looked-at-once",
            At("FolderJudge.ask.answer", "repeated(self.findings(state, first.result()), again)"),
            "tuple(self.findings(state, first.result()) if repeated and again else ())",
            "a loss of a captured folder is believed at once",
        ),
    ),
    *look(
        f"{_P}/explore/clock.py",
        (
            "clock-forgets-the-start",
            At("Clock._left", "share - min(set_aside, _SET_ASIDE_MAX * self._budget) - self.taken"),
            "share - min(set_aside, _SET_ASIDE_MAX * self._budget) - self.worked",
            "the start of the engines is not in the budget",
        ),
        (
            "clock-forgets-confirmations",
            At("Clock._left", "share - min(set_aside, _SET_ASIDE_MAX * self._budget)"),
            "share",
            "no time is set aside for confirmations",
        ),
    ),
)
