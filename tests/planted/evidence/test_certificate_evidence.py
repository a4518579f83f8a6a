# SPDX-License-Identifier: Apache-2.0
"""`verify --deep` passes only if every verdict's evidence is there and agrees."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import runs_by_hand
from click.testing import CliRunner

from powercut.campaign.run import Keep, keep_or_drop
from powercut.campaign.selection import Selection
from powercut.cli.commands import cli
from powercut.model.verdict import Verdict
from powercut.store.component import RunComponents, write_components
from powercut.store.layout import ResultDir
from powercut.store.manifest import PACK
from powercut.store.trial_dir import TrialDir
from powercut_extras.certify.build import certificate_of
from powercut_extras.certify.certifier import CertifyRunOptions, write_certificate
from powercut_extras.certify.order import CertificateDir, Order
from powercut_extras.certify.verify import examine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the run by hand, all of its evidence packed."""
    order = Order(
        title="t",
        seed=1,
        command="./powercut certify",
        scenarios=("by-hand",),
        strategy="listed",
        selection=Selection().as_json(),
    )
    texts = {"by-hand": runs_by_hand.TEXT}
    directory = CertificateDir.create(tmp_path_factory.mktemp("c"), order, texts)
    run = runs_by_hand.make_run(directory.runs)
    write_components(run, RunComponents(components=(), cells={}))
    for trial in run.trials():
        keep_or_drop(trial, Verdict.SAFE, Verdict.SAFE, CertifyRunOptions().keep, control=False)
    write_certificate(directory, certificate_of(directory))
    return directory.path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy, to be spoiled."""
    shutil.copytree(made, tmp_path / "certificate", symlinks=True)
    return tmp_path / "certificate"


def honest(folder: Path, number: int = 1) -> TrialDir:
    (run,) = folder.glob("runs/by-hand/2*")
    return ResultDir(run).place_of("honest", number)


def test_what_a_safe_rests_on_is_kept_unless_somebody_says_otherwise(folder):
    assert CertifyRunOptions().keep is Keep.EVIDENCE
    assert (honest(folder).path / PACK).is_file()
    outcome = examine(folder, deep=True)
    assert outcome.problems == ()
    assert (
        "4 of 4 recordings are there, each judged again with the same outcome." in outcome.checked
    )
    assert not [text for text in outcome.unchecked if "recording" in text]
    assert examine(folder, deep=True, jobs=2) == outcome


def test_missing_evidence_fails_unless_it_is_allowed(folder):
    honest(folder).drop_evidence()
    shallow = examine(folder)
    assert shallow.problems == ()
    assert "1 recordings are gone that were there when it was drawn up." in shallow.unchecked
    (problem,) = examine(folder, deep=True).problems
    assert "1 of 4 recordings are gone" in problem
    assert "cells/honest/0001" in problem
    allowed = examine(folder, deep=True, allow_missing=True)
    assert allowed.problems == ()
    assert [text for text in allowed.unchecked if "are gone" in text]


def test_evidence_that_was_never_kept_fails_as_well(folder):
    for number in (1, 2):
        honest(folder, number).drop_evidence()
    directory = CertificateDir.open(folder)
    write_certificate(directory, certificate_of(directory))
    assert "2 of 4 recordings were not kept." in examine(folder).unchecked
    assert "2 of 4 recordings are gone" in examine(folder, deep=True).problems[0]
    assert examine(folder, deep=True, allow_missing=True).problems == ()


def test_evidence_that_is_there_in_part_fails_always(folder):
    (honest(folder).path / PACK).unlink()
    problems = examine(folder, deep=True, allow_missing=True).problems
    assert [text for text in problems if "disk.log: No such file" in text]


def test_exchanged_evidence_fails_though_all_seals_were_renewed(folder):
    """And the certificate drawn up anew, so that every digest in it fits."""
    first, second = honest(folder), honest(folder, 2)
    shutil.copy(second.path / PACK, first.path / PACK)
    first.seal_recording()
    directory = CertificateDir.open(folder)
    write_certificate(directory, certificate_of(directory))
    assert examine(folder).problems == ()
    (problem,) = examine(folder, deep=True).problems
    assert "honest/0001: judged again it is INCONCLUSIVE" in problem


@pytest.mark.parametrize("place", ["scenarios/by-hand.yaml", "runs/by-hand/*Z-1/scenario.yaml"])
def test_a_scenario_that_was_changed_after_it_was_run(folder, place):
    (path,) = folder.glob(place)
    path.write_text(runs_by_hand.TEXT + "description: something else\n")
    assert [text for text in examine(folder).problems if "it is not the scenario that" in text]


def test_the_command(folder):
    def run(*words: str) -> tuple[int, str]:
        argv = ["verify", str(folder), *words]
        done = CliRunner().invoke(cli, argv, standalone_mode=False)
        return done.return_value, done.output

    before = hashlib.sha256((folder / "certificate.json").read_bytes()).digest()
    assert run("--deep", "--jobs", "1")[0] == 0
    honest(folder).drop_evidence()
    status, output = run("--deep", "--jobs", "1")
    assert status == 1
    assert "accept it with --allow-missing" in output
    assert run("--deep", "--allow-missing", "--jobs", "1")[0] == 0
    assert run()[0] == 0
    assert hashlib.sha256((folder / "certificate.json").read_bytes()).digest() == before
