# SPDX-License-Identifier: Apache-2.0
"""What an exploration adds to a trial and to a certificate, and no more than that."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from extras import extra
from powercut.crash.order import ALL_POLICIES
from powercut.explore import disks, explorer, state_judge
from powercut.explore import trial as explore_trial
from powercut.explore.confirmation import Heard
from powercut.explore.request import Budget
from powercut.model.errors import HostError
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording import state_ref
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_open import write_image
from powercut.scenario.settings import (
    ControlKind,
    ExploreSettings,
    FilesystemSettings,
    MachineSettings,
    Parameters,
)
from powercut.store.exploration import read_exploration, write_exploration
from powercut.store.trial_result import TrialResult
from powercut.verdict import states
from powercut.verdict.states import with_states
from powercut.wal.layout import SlotState


def explored(recorded, result, **how):
    """`result` and what the crash states of a recording say, recovered as a run does."""
    return with_states(recorded.sealed, result, explore_trial.RecoveredStates(**how))


def explored_recording(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 4))
    settings = ExploreSettings(budget="100")
    parameters = recorded.parameters.model_copy(update={"explore": settings})
    record = recorded.record.model_copy(update={"parameters": parameters})
    recorded.directory.write_record(record)
    recorded.sealed.record = record
    return recorded, world.explore(recorded)


def test_what_went_after_a_recovery_is_no_record_of_the_trial(world, monkeypatch):
    """Else a trial of 4 acknowledged records would have lost 9."""
    recorded, seen = explored_recording(world)
    later = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(3, 11),))
    monkeypatch.setattr(explore_trial, "explore", lambda *_, **__: seen)
    monkeypatch.setattr(states, "findings_of", lambda _: [later])
    plain = TrialResult.judged(
        recorded.record.trial, verdict=Verdict.SAFE, acked=4, attempted=4, findings=()
    )
    result = explored(recorded, plain)
    assert (result.verdict, result.commits_lost) == (Verdict.LOSSY, 2)
    assert result.lost_lsns == (LsnRange(3, 4),)
    assert result.findings[0].lsns == (LsnRange(3, 11),), "nothing is hidden"


def test_a_certificate_sets_what_was_checked_against_all_that_was_legal(world):
    recorded, seen = explored_recording(world)
    trial = recorded.directory
    plain = seen.coverage.model_copy(update={"legal_log2": 10.0, "recovered": 600})
    write_exploration(trial, seen.model_copy(update={"coverage": plain}))
    coverage_of = extra("certify.build").coverage_of
    one = coverage_of([read_exploration(trial)])
    two = coverage_of([read_exploration(trial)] * 2)
    assert one is not None
    assert two is not None
    assert (one.legal_log2, one.checked) == (10.0, 600)
    assert (two.legal_log2, two.checked) == (11.0, 1200), "not 1,200 of 1,024"
    again = plain.model_copy(update={"recovery_log2": 10.0, "recovery_states": 7})
    write_exploration(trial, seen.model_copy(update={"coverage": again}))
    cut = coverage_of([read_exploration(trial)])
    assert cut is not None
    assert (cut.legal_log2, cut.checked) == (11.0, 607)


# --- what a SAFE rests on ------------------------------------------------------------------


def on_file_system(world, monkeypatch, engine, *, early=0, name="guest", **parameters):
    """A recording of 80 commits as if on a file system, whose states `engine` recovers."""
    slots = replace(world, slots=80)
    made = slots.disk()
    recorded = slots.recorded(made, slots.commits(made, 80, early=early))
    changes = {"filesystem": FilesystemSettings(type="xfs"), **parameters}
    record = recorded.record.model_copy(
        update={"parameters": recorded.parameters.model_copy(update=changes)}
    )
    recorded.directory.write_record(record)
    recorded.sealed.record = record
    monkeypatch.setattr(disks, "choose_engine", lambda *_, **__: EngineChoice(name))
    monkeypatch.setattr(state_judge, "open_engine", lambda *_: engine(recorded))
    return recorded


def live(recorded, *, verdict=Verdict.SAFE, acked=80):
    return TrialResult.judged(
        recorded.record.trial, verdict=verdict, acked=acked, attempted=acked, findings=()
    )


class Honest:
    """Finds every record that the state has: 80 slots, read by the real reader."""

    boots = 1
    reads = None
    made = 0

    def __init__(self, recorded):
        self.recorded = recorded

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def start(self, *, timeout_s):
        type(self).made += 1

    def recover(self, writes, *, timeout_s):
        image = self.recorded.directory.path / "engine.img"
        image.unlink(missing_ok=True)
        write_image(self.recorded.directory.base_image, writes, image)
        bare = self.recorded.parameters.model_copy(
            update={"filesystem": FilesystemSettings(type="raw")}
        )
        return read_on_host(bare, self.recorded.run_id, image, timeout_s=timeout_s)


class Forgetful(Honest):
    """A file system that never finds its way to the last record."""

    def recover(self, writes, *, timeout_s):
        seen = super().recover(writes, timeout_s=timeout_s)
        intact = [e.lsn + e.count - 1 for e in seen.extents if e.state is SlotState.INTACT]
        last = max(intact, default=1)
        kept = [Extent(0, last - 1, SlotState.INTACT, 1)] if last > 1 else []
        return replace(seen, extents=(*kept, Extent(last - 1, 81 - last, SlotState.ABSENT)))


class DoesNotStart(Honest):
    def start(self, *, timeout_s):
        raise HostError("there is no kernel here")


class TimesOut(Honest):
    def recover(self, writes, *, timeout_s):
        raise HostError("no answer in time")


class HalfRead(Honest):
    def recover(self, writes, *, timeout_s):
        return Observation((), complete=False, failure="the reader was killed")


def test_an_honest_trial_is_safe_with_exact_counts(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Honest)
    result = explored(recorded, live(recorded))
    assert (result.verdict, result.findings) == (Verdict.SAFE, ())
    assert result.states is not None
    assert result.states.states == explore_trial.AUTO_STATES == 64
    assert result.states.by_policy["durable-only"] == 32
    assert sum(result.states.by_policy.values()) == 64
    assert (result.states.engine, result.states.lossy) == ("guest", 0)
    again = explored(recorded, live(recorded), again=True)
    assert again.states == result.states, "a second look sees the same states"


def test_what_was_found_is_looked_at_again_and_once(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Forgetful)
    result = explored(recorded, live(recorded))
    again = explored(recorded, live(recorded), again=True)
    assert (again.verdict, again.states) == (Verdict.LOSSY, result.states)
    assert again.findings == result.findings

    wanted = explore_trial.wanted_by(recorded.parameters, recorded.record.trial.seed)
    assert wanted is not None
    wanted = explore_trial.as_before(recorded.sealed, wanted)
    names = {state_ref.state_id(state) for state in wanted.named}
    assert names
    elsewhere = replace(wanted, policies=("everything-issued",), budget=Budget(states=1))
    seen = explorer.explore(recorded.sealed, elsewhere, keep=False)
    assert seen.coverage.distinct == 1 + len(names)
    assert {one.id for found in seen.findings for one in found.examples} >= names


def test_a_state_that_loses_a_record_convicts_whatever_the_cut_spared(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Forgetful)
    result = explored(recorded, live(recorded))
    assert result.verdict is Verdict.LOSSY
    assert result.states is not None
    assert result.states.lossy >= 32, "every ack at which nothing but the durable is left"


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        (DoesNotStart, "could not be explored: there is no kernel here"),
        (TimesOut, "the engine failed"),
        (HalfRead, "the reader was killed"),
    ],
)
def test_an_exploration_that_fails_is_no_pass(world, monkeypatch, engine, says):
    recorded = on_file_system(world, monkeypatch, engine)
    result = explored(recorded, live(recorded))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any(says in finding.message for finding in result.findings)
    assert any("no crash state was recovered" in finding.message for finding in result.findings)


def test_without_states_bytes_alone_are_no_safe(world, monkeypatch):
    off = ExploreSettings(budget="off")
    recorded = on_file_system(world, monkeypatch, Honest, explore=off)
    result = explored(recorded, live(recorded))
    (finding,) = result.findings
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "explore.budget is off" in finding.message
    bare = {"filesystem": FilesystemSettings(type="raw")}
    recorded = on_file_system(world, monkeypatch, Honest, explore=off, **bare)
    assert explored(recorded, live(recorded)).verdict is Verdict.SAFE


def test_states_that_hold_more_than_what_is_durable_are_not_enough(world, monkeypatch):
    some = ExploreSettings(budget="20", policies=("everything-issued",))
    recorded = on_file_system(world, monkeypatch, Honest, explore=some)
    result = explored(recorded, live(recorded))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "nothing but what was durable" in result.findings[0].message


def test_few_states_of_bytes_that_are_not_recognised_are_not_enough(world, monkeypatch):
    some = ExploreSettings(budget="20")
    recorded = on_file_system(world, monkeypatch, Honest, explore=some)
    assert explored(recorded, live(recorded)).verdict is Verdict.SAFE
    monkeypatch.setattr(states, "is_recognised", lambda _: False)
    result = explored(recorded, live(recorded))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "only 20 states were recovered" in result.findings[0].message


@pytest.mark.parametrize(
    ("told", "verdict"),
    [("yes", Verdict.LOSSY), ("no", Verdict.INCONCLUSIVE), ("not tried", Verdict.INCONCLUSIVE)],
)
def test_only_the_recorded_kernel_convicts(world, monkeypatch, told, verdict):
    """User-Mode Linux is another build of the kernel."""
    recorded = on_file_system(world, monkeypatch, Forgetful, name="uml")
    last = SimpleNamespace(confirm=lambda *_: Heard(told, "said so"), doubt=str)
    monkeypatch.setattr(disks, "last_word", lambda *_, **__: last)
    result = explored(recorded, live(recorded))
    assert result.verdict is verdict
    assert (result.commits_lost > 0) is (told == "yes")
    if told != "yes":
        assert "by the last word: said so" in result.findings[0].message
        assert result.lost_lsns == ()


@pytest.mark.parametrize(
    ("control", "verdict", "explores"),
    [
        (None, Verdict.SAFE, True),
        (ControlKind.HONEST, Verdict.SAFE, True),
        (None, Verdict.LOSSY, False),
        (ControlKind.LYING_DISK, Verdict.SAFE, False),
        (ControlKind.NO_SYNC, Verdict.LOSSY, False),
    ],
)
def test_what_must_lose_or_has_lost_needs_no_states(world, monkeypatch, control, verdict, explores):
    monkeypatch.setattr(Honest, "made", 0)
    recorded = on_file_system(world, monkeypatch, Honest)
    recorded.sealed.record = recorded.record.model_copy(update={"control": control})
    result = explored(recorded, live(recorded, verdict=verdict))
    assert result.verdict is verdict
    assert (Honest.made > 0, result.states is not None) == (explores, explores)


def undecided(recorded, **detail):
    finding = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "acks, perhaps", (), detail)
    return TrialResult.judged(
        recorded.record.trial,
        verdict=Verdict.INCONCLUSIVE,
        acked=80,
        attempted=80,
        findings=(finding,),
    )


@pytest.mark.parametrize(
    ("engine", "verdict"), [(Honest, Verdict.INCONCLUSIVE), (Forgetful, Verdict.LOSSY)]
)
def test_a_trial_whose_acks_decide_nothing_is_explored(world, monkeypatch, engine, verdict):
    """It may still lose records; what was found cannot make it SAFE."""
    recorded = on_file_system(world, monkeypatch, engine)
    made = undecided(recorded, ack_window_ns=5_000_000)
    result = explored(recorded, made)
    assert result.verdict is verdict
    assert result.states is not None
    again = explored(recorded, made, again=True)
    assert (again.verdict, again.lost_lsns) == (verdict, result.lost_lsns)


def test_a_trial_that_lacks_other_evidence_is_not_explored(world, monkeypatch):
    recorded = on_file_system(world, monkeypatch, Forgetful)
    result = explored(recorded, undecided(recorded))
    assert (result.verdict, result.states) == (Verdict.INCONCLUSIVE, None)


def test_what_is_asked_for_by_default():
    """On anything that allocates the workload goes on; a bare log has nothing to go on in."""
    raw = FilesystemSettings(type="raw")
    on_format = MachineSettings(format="qcow2")
    cells = {
        "xfs": Parameters(),
        "bare": Parameters(filesystem=raw),
        "raw in qcow2": Parameters(filesystem=raw, machine=on_format),
    }
    asked = {name: explore_trial.wanted_by(cell, 5) for name, cell in cells.items()}
    assert {name: w and (w.after, w.policies, w.budget) for name, w in asked.items()} == {
        "xfs": (16, ALL_POLICIES, Budget(64, first=64)),
        "bare": (0, ALL_POLICIES, Budget(64, first=64)),
        "raw in qcow2": (16, ALL_POLICIES, Budget(64, first=64)),
    }
    assert all(wanted is not None and wanted.seed == 5 for wanted in asked.values())
    some = ExploreSettings(budget=200)
    plain = explore_trial.wanted_by(Parameters(explore=some), 5, convicted=True)
    assert plain is not None
    assert (plain.after, plain.budget) == (0, Budget(200)), "what is asked for is done"
    assert explore_trial.wanted_by(Parameters(), 5, convicted=True) is None
