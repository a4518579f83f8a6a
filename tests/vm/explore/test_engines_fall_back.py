# SPDX-License-Identifier: Apache-2.0
"""On a host where User-Mode Linux panics, guests recover crash states, and powercut says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from processors import SAID, be_such_a_host, large_registers, passes_all_registers

from powercut.campaign.runner import run_scenarios
from powercut.cli.commands import cli
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.events import Notice
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.recover.uml.engine import unavailable
from powercut.store.exploration import read_exploration
from powercut.store.witness import read_witness

pytestmark = [
    pytest.mark.amx,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

SCENARIO = """
powercut: 1
name: fallback
controls: none
disk: {size: 16 MiB, flush: ignored, fua: ignored}
filesystem: {type: ext4}
workload: {record: 512, writeback: usual}  # what the smallest witness loses is exact
cut: {trigger: {acks: 12}}
expect: lossy
cells:
  - {name: ext4}
  - {name: explored, explore.budget: 3, explore.policies: [durable-only]}
  - {name: qcow2, machine.format: qcow2}
"""
REASON = f"User-Mode Linux does not work here: {SAID}"


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    if why := passes_all_registers():
        pytest.skip(why)
    return large_registers(tmp_path_factory.mktemp("large-registers"))


@pytest.fixture(autouse=True)
def such_a_host(processor, monkeypatch):
    be_such_a_host(monkeypatch, processor, cured=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory, processor, guest_image):
    """The run's result folder, and the notices that it gave."""
    folder = tmp_path_factory.mktemp("fallback")
    (folder / "fallback.yaml").write_text(SCENARIO)
    notices = []
    with pytest.MonkeyPatch.context() as patch:
        be_such_a_host(patch, processor, cured=False)
        outcome = run_scenarios(
            [folder / "fallback.yaml"],
            seed=7,
            results=folder,
            on_event=lambda event: notices.append(event) if isinstance(event, Notice) else None,
        )
    return Path(outcome.runs[0].result_directory), [notice.text for notice in notices]


def say(*words: object) -> str:
    """What the command line prints, in one line; it must end well."""
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    assert "Kernel panic" not in done.output
    return " ".join(done.output.split())


def trial(made, cell):
    from powercut.store.trial_dir import TrialDir

    return TrialDir(made[0] / "cells" / cell / "0001", made[0])


def test_a_run_explores_with_guests_and_says_so_once(made):
    folder, notices = made
    line = f"Crash states are recovered by engine guest, which is slower: {REASON}"
    assert notices.count(line) == 1
    explored = read_exploration(trial(made, "explored"))
    assert explored is not None
    assert (explored.engine, explored.engine_reason) == ("guest", REASON)
    assert explored.verdict is Verdict.LOSSY
    assert say("verify", folder).count(REASON) == 1


@pytest.mark.nightly
def test_explore_finds_with_guests_what_uml_finds(made, monkeypatch):
    wanted = ExploreRequest(policies=("durable-only",), budget=Budget(states=3), seed=1)
    by_guest = explore(SealedTrial(trial(made, "ext4")), wanted)
    text = say("explore", trial(made, "ext4").path, "--budget", 3, "--policy", "durable-only")
    assert f"engine: guest, since {REASON}" in text
    monkeypatch.undo()
    by_uml = explore(SealedTrial(trial(made, "ext4")), wanted)
    assert (by_guest.engine, by_uml.engine) == ("guest", "uml")
    assert by_guest.coverage.distinct == by_uml.coverage.distinct == 3
    assert [(f.kind, f.lsns) for f in by_guest.findings] == [
        (f.kind, f.lsns) for f in by_uml.findings
    ]
    assert by_guest.verdict is by_uml.verdict is Verdict.LOSSY


@pytest.mark.nightly
def test_minimize_gives_the_witness_that_uml_gives(made, monkeypatch, tmp_path):
    path = trial(made, "ext4").path
    text = say("minimize", path, "--budget", 60)
    assert f"engine guest, since {REASON}" in text
    by_guest = read_witness(trial(made, "ext4").path)
    monkeypatch.undo()
    say("minimize", path, "--engine", "uml", "--budget", 60)
    by_uml = read_witness(trial(made, "ext4").path)
    assert by_guest is not None
    assert by_uml is not None
    assert (by_guest.confirmed, by_guest.minimal) == ("yes", True)
    assert (by_guest.state, by_guest.lost) == (by_uml.state, by_uml.lost)
    image = tmp_path / "state.img"
    say("export", path, by_guest.state, "--format", "state", "-o", image)
    assert image.stat().st_size == 16 << 20


@pytest.mark.nightly
def test_minimize_works_on_image_formats(made):
    text = say("minimize", trial(made, "qcow2").path, "--budget", 60)
    assert "(engine guest)" in text
    assert "bytes: qcow2 image)" in text
    witness = read_witness(trial(made, "qcow2").path)
    assert witness is not None
    assert (witness.engine, witness.engine_reason, witness.confirmed) == ("guest", "", "yes")
    assert witness.minimal
    acked = open_trial(trial(made, "qcow2")).evidence.claims.acked
    assert witness.lost == (LsnRange(1, acked),)
