# SPDX-License-Identifier: Apache-2.0
"""Who may convict, of recorded disks: sealed recordings, whose states a played engine reads.

Operation N writes sector N and flushes; the check finds what is in the sectors, and sometimes says
something else.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from test_judge_lines import ALL, ALL_BUT_ONE, OPERATIONS, SECTOR, ran, recorded

from powercut.checkers.repetition import ASKED, TWICE
from powercut.explore import disks, explorer, state_judge
from powercut.explore.confirmation import last_word
from powercut.explore.trial import RecoveredStates
from powercut.model.observation import Observation
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.image_open import write_image
from powercut.store.exploration import read_exploration
from powercut.trial import positive
from powercut.verdict.judge import judge_recording
from powercut.verdict.states import with_states
from powercut.workload.table import workload_of

__all__ = ["recorded"]


class Reader:
    """Finds each operation whose sector is there."""

    boots = 1
    reads = None
    looks = 0

    def __init__(self, directory):
        self.directory = directory

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def start(self, *, timeout_s):
        pass

    def recover(self, writes, *, timeout_s):
        image = self.directory.path / "engine.img"
        image.unlink(missing_ok=True)
        write_image(self.directory.base_image, writes, image)
        data = image.read_bytes()
        there = [n for n in range(OPERATIONS) if data[n * SECTOR] == n + 1]
        type(self).looks += 1
        return Observation((), lines=self.says(there))

    def says(self, there):
        return lines(there)


def lines(there):
    return "".join(f"= {number}\n" for number in there).encode()


class Blind(Reader):
    """Finds nothing on a disk that lacks nothing."""

    def says(self, there):
        return b"" if len(there) == OPERATIONS else lines(there)


class Moody(Reader):
    """Does not see operation 3 at every look but the second."""

    def says(self, there):
        return lines(there if self.looks % 2 == 0 else [n for n in there if n != 3])


class Tired(Reader):
    """Finds nothing any more after ten looks."""

    def says(self, there):
        return b"" if self.looks > 10 else lines(there)


@pytest.fixture
def played(monkeypatch):
    """Has an engine recover the states of a recording."""

    def play(directory, engine):
        engine.looks = 0
        monkeypatch.setattr(disks, "choose_engine", lambda *_, **__: EngineChoice("guest"))
        monkeypatch.setattr(state_judge, "open_engine", lambda *_: engine(directory))
        monkeypatch.setattr(explorer, "require_recorded_program", lambda *_: None)

    return play


@pytest.fixture
def judged(played):
    """The verdict on a recording with the states that an engine makes of it."""

    def judge(directory, engine):
        played(directory, engine)
        return with_states(
            SealedTrial(directory), judge_recording(SealedTrial(directory)), RecoveredStates()
        )

    return judge


def test_the_state_that_lacks_nothing_is_asked_before_anything_convicts(recorded, played):
    directory = recorded(ALL)
    for engine, doubted in ((Reader, False), (Blind, True)):
        played(directory, engine)
        last = last_word(open_trial(directory), EngineChoice("guest"), after=0, kernels=True)
        assert ("20 operations are acknowledged and not there: 0-19" in last.doubt()) is doubted
        assert engine.looks == 1
    kept = recorded(b"= 0-16\n", issued=b"= 0-16\n", ended=ran(36, b"= 0-35\n"), run="kept")
    last = last_word(open_trial(kept), EngineChoice("guest"), after=0, kernels=True)
    assert last.doubt() == "", "what the disk was never given is not there"


@pytest.mark.parametrize(
    ("engine", "kernels", "other"),
    [("program", True, True), ("uml", True, False), ("program", False, False)],
)
def test_another_kernel_alone_may_lose_less(recorded, engine, kernels, other):
    """A check on the host is asked again in the guest, whose kernel has not mounted its states."""
    last = last_word(open_trial(recorded(ALL)), EngineChoice(engine), after=0, kernels=kernels)
    assert (last.other, last.looks) == (other, ASKED - TWICE)


def said(result, kind=FindingKind.CONTROL):
    return [one.message for one in result.findings if one.kind is kind]


# --- the cut itself ------------------------------------------------------------------------


@pytest.mark.parametrize(("there", "lost"), [(ALL_BUT_ONE, 1), (b"", OPERATIONS)])
def test_a_cut_that_lacks_nothing_convicts_nobody(recorded, there, lost):
    """All was durable, and on a disk of the same bytes the check found every operation."""
    result = judge_recording(SealedTrial(recorded(there, issued=ALL, unflushed=())))
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    (message,) = said(result, FindingKind.LOST)
    assert "it contradicts itself" in message


@pytest.mark.parametrize("there", [ALL_BUT_ONE, b""])
def test_a_cut_that_lacks_something_does(recorded, there):
    """The honest twin: what the last operation wrote was not flushed."""
    directory = recorded(there, issued=ALL)
    assert judge_recording(SealedTrial(directory)).verdict is Verdict.LOSSY


def test_what_was_never_given_to_the_disk_convicts_where_a_run_has_shown_it(recorded):
    """Acknowledged out of the page cache: nothing is missing of what the disk was given."""
    there, ended = b"= 0-16\n", ran(36, b"= 0-35\n")
    result = judge_recording(
        SealedTrial(recorded(there, issued=there, ended=ended, idle=3, unflushed=()))
    )
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(17, 19),))
    (message,) = said(result, FindingKind.LOST)
    assert message.endswith(
        "; never written: no write that was issued before the cut carries 17-19"
    )


def test_what_the_disk_was_given_and_lost_is_not_called_never_written(recorded):
    directory = recorded(
        b"= 0-15\n", unflushed=(16,), issued=b"= 0-16\n", ended=ran(36, b"= 0-35\n"), idle=3
    )
    (message,) = said(judge_recording(SealedTrial(directory)), FindingKind.LOST)
    assert message.startswith("4 operations are acknowledged and not there: 16-19; never written")
    assert message.endswith("carries 17-19")
    issued = Observation((), complete=False, failure="it broke off", lines=b"= 0-16\n")
    directory.write_whole(directory.issued, issued)
    directory.seal_recording()
    (message,) = said(judge_recording(SealedTrial(directory)), FindingKind.LOST)
    assert "never written" not in message, "a check that did not look at all of it has not shown it"


@pytest.mark.parametrize("each", [4, 16, 19])
def test_the_second_run_goes_on_until_one_that_writes_now_and_then_has_done_so_again(
    recorded, monkeypatch, each
):
    """It keeps up to `each` operations in memory: what it had acknowledged comes to be written."""
    kept = OPERATIONS // each * each
    directory = recorded(lines(range(kept)), issued=None, idle=OPERATIONS - kept)
    ran_to = []

    def started(acks):
        ran_to.append(acks)
        return nullcontext(SimpleNamespace(recover=lambda *_, **__: ended(acks)))

    def ended(acks):
        return Observation((), later=ran(acks, lines(range(acks // each * each))))

    record = directory.read_record()
    job = SimpleNamespace(parameters=record.parameters, run_id=bytes(16), control=None)
    run = SimpleNamespace(
        cut_ns=record.cut_ns, directory=directory, workload=workload_of(record.parameters), job=job
    )
    issued = SimpleNamespace(recover=lambda *_, **__: Observation((), lines=lines(range(kept))))
    monkeypatch.setattr(positive, "going_on", lambda _plan, _parameters, _run, acks, **_: acks)
    positive.look_where_nothing_was_lost(run, issued, None, started, [], timeout_s=1)
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    if kept == OPERATIONS:
        assert (result.verdict, ran_to) == (Verdict.SAFE, [])
        return
    assert (result.verdict, ran_to) == (Verdict.LOSSY, [OPERATIONS, 2 * OPERATIONS])
    assert result.lost_lsns == (LsnRange(kept, OPERATIONS - 1),)
    assert "never written" in said(result, FindingKind.LOST)[0]


# --- explored states -----------------------------------------------------------------------


def test_an_honest_program_and_check_are_safe(recorded, judged):
    assert judged(recorded(ALL, unflushed=(), budget="120"), Reader).verdict is Verdict.SAFE


def test_a_state_that_lacks_nothing_convicts_nobody(recorded, judged):
    directory = recorded(ALL, unflushed=(), budget="120")
    result = judged(directory, Blind)
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert any("lacks nothing" in one for one in said(result))
    assert result.states.lossy == 0


def test_an_early_ack_convicts_by_states_that_lack_nothing_of_their_instant(recorded, judged):
    """Its write came later, and where all was written the check finds it."""
    directory = recorded(ALL, unflushed=(), budget="120", early=(7,))
    result = judged(directory, Reader)
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(7, 7),))
    (found,) = read_exploration(directory).findings
    assert found.examples[0].confirmed == "yes"
    assert min(one.missing for one in found.examples) == 0


def test_a_check_that_contradicts_itself_convicts_nobody(recorded, judged):
    result = judged(recorded(ALL, unflushed=(), budget="120"), Moody)
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert any("contradicts itself" in one for one in said(result))


def test_a_check_that_finds_nothing_any_more_is_found_out(recorded, judged):
    result = judged(recorded(ALL, unflushed=(), budget="120"), Tired)
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert any("lacks nothing" in one for one in said(result))


def test_what_the_cut_lost_is_no_loss_either_by_a_check_that_was_found_out(recorded, judged):
    directory = recorded(ALL_BUT_ONE, issued=ALL, budget="120")
    assert judge_recording(SealedTrial(directory)).verdict is Verdict.LOSSY
    result = judged(directory, Blind)
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert "its check is not to be believed" in said(result, FindingKind.LOST)[0]
