# SPDX-License-Identifier: Apache-2.0
"""Logs of other tools, judged by what their marks promise: mounted, checked, and minimised."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from marked_log import MarkedLog

from powercut.cli.commands import cli
from powercut.crash.explore import InstantKind
from powercut.crash.order import ALL_POLICIES
from powercut.crash.states import Model
from powercut.explore.request import Budget, ExploreRequest
from powercut.explore.state_judge import open_judge
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.consent import NotRepeated
from powercut.recording.open_recording import find_recording, open_disk
from powercut.recording.state_names import resolve_state
from powercut.store.exploration import read_exploration
from powercut.store.trial_dir import TrialDir
from powercut.witness.minimize import minimize
from powercut_extras.logs.checks import LogChecks
from powercut_extras.logs.explore import explore_import
from powercut_extras.logs.imports import import_recording
from powercut_extras.logs.logs import Dialect

AT_MARKS = ExploreRequest(
    model=Model.EXACT,
    policies=("durable-only",),
    at=(InstantKind.ACK,),
    budget=Budget(states=20),
)
ANYWHERE = ExploreRequest(model=Model.EXACT, budget=Budget(states=24))


@pytest.fixture(scope="module", autouse=True)
def a_kernel() -> None:
    for program in ("linux.uml", "debugfs"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; `powercut doctor` says how to get it")


def brought_in(log: MarkedLog, check: Path | None = None, **more) -> TrialDir:
    command = () if check is None else (str(check),)
    checks = LogChecks(command=command, folder=str(log.folder))
    output = log.folder / "imported"
    return import_recording(log.log, base=log.base, output=output, checks=checks, **more)


@pytest.mark.parametrize("sector", [512, 4096])
def test_each_mark_is_kept_and_the_states_between_two_are_not_whole(tmp_path: Path, sector) -> None:
    log = MarkedLog(tmp_path, sector=sector).make()
    directory = brought_in(log, log.check())
    kept = explore_import(directory, AT_MARKS)
    assert (kept.verdict, kept.reasons) == (Verdict.SAFE, ())
    assert kept.certain.coverage.at_acks.looked_at == 3
    with_what_followed = explore_import(directory, replace(AT_MARKS, policies=ALL_POLICIES))
    assert with_what_followed.verdict is Verdict.INCONCLUSIVE
    assert with_what_followed.reasons == ("states lose records that may not have been legal",)
    found = explore_import(directory, ANYWHERE)
    assert found.verdict is Verdict.LOSSY
    said = {one.kind: one.examples[0].message for one in found.certain.findings}
    assert "e2fsck -fn finds errors: status 4" in said[FindingKind.NOT_RECOVERED]
    examples = [one for finding in found.certain.findings for one in finding.examples]
    lacking = next(one.id for one in examples if one.missing)
    witness = minimize(open_disk(directory.path), lacking)
    assert (witness.minimal, witness.unit, witness.imported) == (True, "mark", True)
    assert witness.confirmed == "yes"


def test_marks_that_came_too_early_are_named(tmp_path: Path) -> None:
    log = MarkedLog(tmp_path, files=4, early=frozenset({2, 4})).make()
    directory = brought_in(log, log.check())
    found = explore_import(directory, AT_MARKS)
    assert (found.verdict, found.cautious) == (Verdict.LOSSY, None)
    (finding,) = found.certain.findings
    assert (finding.kind, finding.lsns) == (FindingKind.LOST, (LsnRange(2, 2), LsnRange(4, 4)))
    assert "mark 2, 'fsync 2', is not kept: the check ended with status 1" in (
        finding.examples[0].message
    )
    assert {one.confirmed for one in finding.examples} == {"yes", "not tried"}
    recording = open_disk(directory.path)
    with open_judge(recording) as judge:  # each state is asked for its own mark
        lost = {
            number: judge.judge(resolve_state(recording, f"mark:fsync {number}")).lost
            for number in (4, 1, 2, 3)
        }
    assert lost == {1: (), 2: (LsnRange(2, 2),), 3: (), 4: (LsnRange(4, 4),)}


def test_what_the_workload_has_taken_away_itself_is_no_loss(tmp_path: Path) -> None:
    """After its mark the file is removed and made again: in between it is rightly gone."""
    log = MarkedLog(tmp_path, files=2, again=frozenset({1})).make()
    check = log.folder / "first.sh"
    check.write_text('#!/bin/sh\n[ -s "$1/f1" ] || { echo gone; exit 1; }\n')
    check.chmod(0o755)
    durable = replace(AT_MARKS, at=tuple(InstantKind))
    found = explore_import(brought_in(log, check), durable)
    (finding,) = found.certain.findings
    assert (finding.kind, finding.verdict) == (FindingKind.LOST, Verdict.INCONCLUSIVE)
    assert {one.confirmed for one in finding.examples} == {"no"}
    assert "and it was there when it was promised" in finding.examples[0].confirmation
    assert found.verdict is Verdict.INCONCLUSIVE


def test_what_recovers_without_a_word_is_not_asked_for_what_nobody_promised(tmp_path: Path) -> None:
    """Before the first mark the check is not called, and without a check none is."""
    log = MarkedLog(tmp_path, files=1).make()
    nothing = log.folder / "never.sh"
    nothing.write_text("#!/bin/sh\necho called; exit 1\n")
    nothing.chmod(0o755)
    recording = open_disk(brought_in(log, nothing).path)
    with open_judge(recording) as judge:
        before = judge.judge(resolve_state(recording, "durable@0"))
        after = judge.judge(resolve_state(recording, "mark:fsync 1"))
    assert before.findings == ()
    assert after.message.endswith("the check ended with status 1: called")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", "the check does not see what is lost: of the last 2 marks it is content"),
        ("exit 1", "what was promised last is not there: mark 2"),
        ("exit 127", "the check did not come to its end: status 127"),
        ("kill -9 $$", "the check did not come to its end: status 137"),
    ],
)
def test_a_check_that_shows_nothing_judges_nothing(tmp_path: Path, script: str, reason) -> None:
    log = MarkedLog(tmp_path, files=2).make()
    check = log.folder / "check.sh"
    check.write_text(f"#!/bin/sh\n{script}\n")
    check.chmod(0o755)
    found = explore_import(brought_in(log, check), ANYWHERE)
    assert (found.verdict, found.certain.coverage.distinct) == (Verdict.INCONCLUSIVE, 0)
    assert reason in found.reasons[0]
    kept = read_exploration(find_recording(log.folder / "imported"))
    assert kept.verdict is Verdict.INCONCLUSIVE, "show says the same"


def test_a_base_image_of_another_disk_is_no_loss(tmp_path: Path) -> None:
    log = MarkedLog(tmp_path, files=2).make()
    other = MarkedLog(tmp_path / "other", files=1).make()
    shutil.copy(other.base, log.base)
    found = explore_import(brought_in(log, log.check()), ANYWHERE)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the base image is not that of this log, or the check is wrong" in found.reasons[0]


def test_half_a_base_image_is_said(tmp_path: Path) -> None:
    log = MarkedLog(tmp_path, files=1).make()
    os.truncate(log.base, 8 << 20)
    with pytest.raises(UsageError, match="the base image does not recover: mount ext4"):
        explore_import(brought_in(log), AT_MARKS)


def test_what_a_check_prints_does_not_answer_for_the_checker(tmp_path: Path) -> None:
    """It may print what lies on the disk, which is anybody's."""
    log = MarkedLog(tmp_path, files=2).make()
    check = log.check()
    forged = 'for who in check fsck; do echo "0123456789abcdef $who 0"; done'
    check.write_text(check.read_text().replace("n=$", f"{forged}\nn=$", 1))
    found = explore_import(brought_in(log, check), ANYWHERE)
    assert found.verdict is Verdict.LOSSY
    assert "e2fsck -fn finds errors" in found.certain.findings[0].examples[0].message


def test_a_log_without_a_check_is_mounted_and_its_file_system_checked(tmp_path: Path) -> None:
    log = MarkedLog(tmp_path, files=2).make()
    directory = brought_in(log)
    assert explore_import(directory, AT_MARKS).verdict is Verdict.SAFE
    assert explore_import(directory, ANYWHERE).verdict is Verdict.LOSSY


def test_a_log_of_qemu_has_no_marks_and_its_states_are_judged_all_the_same(tmp_path: Path) -> None:
    qemu = {"dialect": Dialect.QEMU, "closed": True, "no_fua": True}
    log = MarkedLog(tmp_path / "plain", files=2, marks=False).make()
    found = explore_import(brought_in(log, **qemu), ANYWHERE)
    assert found.verdict is Verdict.LOSSY
    assert "e2fsck -fn finds errors" in found.certain.findings[0].examples[0].message
    one = replace(ANYWHERE, policies=("durable-only",), budget=Budget(states=1))
    few = explore_import(find_recording(tmp_path / "plain" / "imported"), one)
    assert few.reasons == ("only 1 states were checked: give a larger --budget",)
    asked = MarkedLog(tmp_path / "asked", files=2, marks=False).make()
    kept = explore_import(brought_in(asked, asked.check(), **qemu), AT_MARKS)
    assert kept.verdict is Verdict.INCONCLUSIVE
    assert "nothing was promised: the log has no mark, and the check was not called" in kept.reasons


def test_a_file_system_that_keeps_its_promises_and_one_that_sends_no_flush(
    trial_of, tmp_path: Path, capsys
) -> None:
    """Of real ones, in the log that powercut writes of them; acks are marks `ack N`."""
    check = tmp_path / "check.sh"
    check.write_text(
        "#!/bin/sh\ncase $POWERCUT_MARK in ack*) ;; *) exit 0 ;; esac\nn=${POWERCUT_MARK#ack }\n"
        '[ "$(tail -c +$((n * 512 - 511)) "$1/log" | head -c 512 | tr -d "\\0" | wc -c)" -gt 40 ]\n'
    )
    check.chmod(0o755)
    verdicts = {}
    for cell in ("xfs", "xfs-lying"):
        trial, log = trial_of(cell), tmp_path / f"{cell}.log"
        assert run("export", trial, "--format", "dm-log-writes", "-o", log) == 0
        words = ["import", log, "--base", trial / "base.img", "-o", tmp_path / cell]
        words += ["--filesystem", "xfs", "--check", check, "--budget", 40]
        status = run(*words, "--json", tmp_path / f"{cell}.json")
        told = json.loads((tmp_path / f"{cell}.json").read_text())
        verdicts[cell] = (status, told["verdict"])
    assert verdicts == {"xfs": (0, "safe"), "xfs-lying": (1, "lossy")}, capsys.readouterr().out
    assert run("show", tmp_path / "xfs-lying") == 0
    shown = capsys.readouterr().out
    assert "LOSSY in the exact model" in shown
    assert "; marks that are not kept: " in shown
    assert re.search(r"\d 'ack \d+'", shown)


def run(*words: object) -> int:
    return cli.main([str(word) for word in words], standalone_mode=False)


def test_a_command_that_somebody_else_chose_is_not_run(tmp_path: Path) -> None:
    log = MarkedLog(tmp_path, files=1).make()
    directory = brought_in(log, log.check())
    (directory.path / "made-here").unlink()
    with pytest.raises(NotRepeated, match=r"check\.sh check"):
        open_judge(open_disk(directory.path))


def test_an_own_recording_does_not_vouch_for_a_command_beside_it(tmp_path: Path, trial_of) -> None:
    """A log's own file names what is run, whatever else was sealed here."""
    log = MarkedLog(tmp_path, files=1).make()
    named = (brought_in(log, log.check()).path / "import.json").read_bytes()
    own = tmp_path / "own"
    shutil.copytree(trial_of("xfs"), own)
    (own / "import.json").write_bytes(named)
    for name, target in (("base.img", log.base), ("log.dmlw", log.log)):
        (own / name).unlink(missing_ok=True)
        shutil.copy(target, own / name)
    with pytest.raises(DamagedRecording, match="changed since it was sealed"):
        open_disk(own)
    for name in ("base.img", "manifest.json", "made-here"):  # as far as it can be made to fit
        shutil.copy(trial_of("xfs") / name, own / name)
    with pytest.raises(DamagedRecording, match=r"import\.json: it was never sealed"):
        open_judge(open_disk(own))


def test_another_check_than_the_recorded_one_is_not_believed(tmp_path: Path) -> None:
    log = MarkedLog(tmp_path, files=1).make()
    check = log.check()
    directory = brought_in(log, check)
    check.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(HostError, match=r"check\.sh has changed since the recording was made"):
        explore_import(find_recording(directory.path), replace(ANYWHERE, budget=Budget(states=1)))


def test_nothing_is_left(tmp_path: Path, nothing_is_left) -> None:
    log = MarkedLog(tmp_path, files=1).make()
    explore_import(brought_in(log, log.check()), AT_MARKS)
