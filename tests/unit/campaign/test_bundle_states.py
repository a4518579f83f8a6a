# SPDX-License-Identifier: Apache-2.0
"""A bundle of what only recovered crash states lose: the same verdict in it, and out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import runs_by_hand
from bundles import verify_bundle
from click.testing import CliRunner

from powercut.campaign.bundle import make_bundle, unpack
from powercut.campaign.verify import verify
from powercut.cli.commands import cli
from powercut.explore import disks, state_judge
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import HostError, UsageError
from powercut.model.observation import Extent
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.sealed import SealedTrial
from powercut.recording.state_ref import saved
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_open import write_image
from powercut.rig.scratch import scratch
from powercut.scenario.settings import ControlKind, FilesystemSettings
from powercut.store.exploration import read_exploration
from powercut.store.trial_dir import TrialDir
from powercut.verdict.judge import verdict_of
from powercut.wal.layout import SlotState


class Finds:
    """An engine that finds every record of the log."""

    boots = 1
    reads = None

    def __init__(self, order):
        self.order = order

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def start(self, *, timeout_s):
        pass

    def recover(self, writes, *, timeout_s):
        base = self.order.base
        run_id = bytes.fromhex(TrialDir(base.parent, base.parent).read_record().run_id)
        bare = self.order.parameters.model_copy(
            update={"filesystem": FilesystemSettings(type="raw")}
        )
        with scratch() as folder:
            write_image(base, writes, folder / "image")
            return self.seen(read_on_host(bare, run_id, folder / "image", timeout_s=timeout_s))

    @staticmethod
    def seen(observation):
        return observation


class Forgets(Finds):
    """A file system that never finds its way to record 7."""

    @staticmethod
    def seen(observation):
        there = [one for one in observation.extents if one.state is SlotState.INTACT]
        last = max((one.lsn + one.count - 1 for one in there), default=0)
        if last < 7:
            return observation
        kept = [Extent(0, 6, SlotState.INTACT, 1), Extent(6, 1, SlotState.ABSENT)]
        kept += [Extent(7, last - 7, SlotState.INTACT, 8)] if last > 7 else []
        return replace(observation, extents=(*kept, Extent(last, 64 - last, SlotState.ABSENT)))


class IsNotHere(Finds):
    def start(self, *, timeout_s):
        raise HostError("there is no kernel here")


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Recordings of an honest disk and a lying one, as if on a file system, judged as a run does,
    with an engine of the test's choice.
    """
    plain = runs_by_hand.record

    def on_a_file_system(run, cell, trial, *, early):
        xfs = {"filesystem": FilesystemSettings(type="xfs")}
        there = replace(cell, parameters=cell.parameters.model_copy(update=xfs))
        return plain(run, there, trial, early=early)

    monkeypatch.setattr(runs_by_hand, "record", on_a_file_system)
    monkeypatch.setattr(disks, "choose_engine", lambda *_, **__: EngineChoice("guest"))

    def made(engine):
        monkeypatch.setattr(state_judge, "open_engine", lambda _, order: engine(order))
        trial = runs_by_hand.make_run(tmp_path).place_of("honest", 1)
        trial.write_verdict(verdict_of(SealedTrial(trial), RecoveredStates()))
        return trial

    return made


def test_what_only_states_lose_is_bundled_as_lossy_with_all_its_states(recorded, tmp_path):
    trial, bundle = recorded(Forgets), tmp_path / "one.powercut"
    result = trial.read_verdict()
    assert (result.verdict, result.live_losses) == (Verdict.LOSSY, ())
    made = make_bundle(trial.path, bundle)
    assert (made.verdict, made.lost) == ("LOSSY", (LsnRange(7, 7),))
    named = {one.id for found in read_exploration(trial).findings for one in found.examples}
    assert named == set(saved(trial))
    assert named
    packed = {Path(each.path).stem for each in made.files if "/states/" in each.path}
    assert packed == named
    again = verify_bundle(bundle)
    assert (again.differences, again.untried) == ((), ())
    assert [cell.verdict for cell in again.run.cells] == [Verdict.LOSSY]
    assert again.exit_status == again.run.exit_status == 1, "it was expected to be SAFE"
    make_bundle(trial.path, bundle, force=True)
    unpack(bundle, tmp_path / "out")
    assert verify(tmp_path / "out", cells=("honest",), whole=False).exit_status == 1


def test_a_bundle_says_what_the_run_said(recorded, tmp_path):
    trial = recorded(Forgets)
    done = CliRunner().invoke(cli, ["export", str(trial.path), "-o", str(tmp_path / "b")])
    assert "the recording is LOSSY" in done.output


def test_its_honest_twin_is_bundled_as_safe(recorded, tmp_path):
    trial, bundle = recorded(Finds), tmp_path / "one.powercut"
    made = make_bundle(trial.path, bundle)
    assert (made.verdict, made.lost) == ("SAFE", ())
    again = verify_bundle(bundle)
    assert again.differences == ()
    assert [each.verdict for cell in again.run.cells for each in cell.trials] == [Verdict.SAFE]


def test_a_bundle_that_no_longer_loses_says_so(recorded, tmp_path, monkeypatch):
    trial, bundle = recorded(Forgets), tmp_path / "one.powercut"
    make_bundle(trial.path, bundle)
    monkeypatch.setattr(state_judge, "open_engine", lambda _, order: Finds(order))
    again = verify_bundle(bundle)
    assert again.differences == (
        "the recording was LOSSY and is SAFE",
        "the recording had lost 7 and loses nothing",
    )
    assert again.exit_status == 1


def test_a_control_is_bundled_with_what_it_vouches_for_alone(recorded, tmp_path):
    trial = recorded(Finds)
    record = trial.read_record().model_copy(update={"control": ControlKind.LYING_DISK})
    trial.write_record(record)
    trial.seal_recording()
    with pytest.raises(UsageError, match="is a control"):
        make_bundle(trial.path, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_cannot_be_judged_here_is_not_bundled_as_something_else(
    recorded, tmp_path, monkeypatch
):
    trial = recorded(Forgets)
    monkeypatch.setattr(state_judge, "open_engine", lambda _, order: IsNotHere(order))
    with pytest.raises(HostError, match=r"was LOSSY and cannot be judged here: .*no kernel here"):
        make_bundle(trial.path, tmp_path / "b")
    assert not (tmp_path / "b").exists()
