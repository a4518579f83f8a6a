# SPDX-License-Identifier: Apache-2.0
"""Certificates of real runs: they go on after a kill, and nobody changes them unseen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from powercut.campaign.run import Keep
from powercut.model.errors import UsageError
from powercut.model.verdict import LsnRange, Verdict
from powercut.rig.components import components_of
from powercut.rig.rig import Rig
from powercut.scenario.load import expand, parse_scenario
from powercut.store.layout import ResultDir
from powercut.store.trial_dir import TrialDir
from powercut_extras.certify.build import certificate_of
from powercut_extras.certify.certifier import (
    CertifyRunOptions,
    Request,
    certify,
    resume_certificate,
    write_certificate,
)
from powercut_extras.certify.confirm import confirm
from powercut_extras.certify.confirmation import write_confirmation
from powercut_extras.certify.order import CertificateDir
from powercut_extras.certify.sign import sign
from powercut_extras.certify.verify import examine

HEAD = """powercut: 1
filesystem: {type: raw}
workload: {direct: true, record: 4096, align: 4096}
cut: {trigger: {acks: 10}}
disk: {flush_latency: 10ms}  # longer than any ack is on its way on a busy host
"""
TWO = (
    HEAD
    + """name: two
cells:
  - {name: honest}
  - {name: unsafe, machine.cache: unsafe, expect: lossy}
"""
)
MANY = HEAD + "name: many\ntrials: 4\nmatrix: {machine.cache: [none, writeback]}\n"
WAIT_S = 240


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A certificate of two cells, with all that belongs to it."""
    scenario = parse_scenario(TWO, Path("two.yaml"))
    request = Request("two", (scenario,), 1, "./powercut certify two.yaml --seed 1")
    options = CertifyRunOptions(jobs=2, keep=Keep.ALL)
    return certify(request, tmp_path_factory.mktemp("results"), options).directory.path


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """A copy of it; its files are shared: to be replaced, never written to."""
    shutil.copytree(made, tmp_path / "copy", symlinks=True, copy_function=os.link)
    return tmp_path / "copy"


def test_what_it_says(made):
    certificate = CertificateDir.open(made)
    outcome = examine(made, deep=True)
    assert outcome.problems == ()
    assert outcome.certificate.verdicts == {"safe": 1, "inconclusive": 0, "lossy": 1}
    assert outcome.certificate.as_expected
    honest, unsafe = outcome.certificate.cells
    assert (honest.verdict, honest.lost, honest.explanation) == (Verdict.SAFE, 0, "")
    assert [control.behaved for control in honest.controls] == [True, True]
    assert (unsafe.verdict, unsafe.lost, unsafe.confirmed) == (Verdict.LOSSY, unsafe.acked, True)
    assert unsafe.acked >= 10
    assert unsafe.explanation.startswith("hypervisor: cache.no-flush")
    assert unsafe.wire is not None
    assert unsafe.wire.flush_ends_at == "hypervisor"
    roles = {outcome.certificate.components[index].role for index in honest.components}
    assert {"hypervisor", "guest kernel", "capture disk", "host kernel"} <= roles
    for part in outcome.certificate.components:
        assert part.version
        assert part.role == "host kernel" or len(part.sha256) == 64
    assert certificate.run_of("two") is not None


def change(path: Path, edit) -> None:
    value = json.loads(path.read_bytes())
    edit(value)
    path.unlink()
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    "edit",
    [
        lambda c: c["verdicts"].update(safe=2, lossy=0),
        lambda c: c.update(seed=2),
        lambda c: c.update(statement="All is well."),
        lambda c: c["host"].update(kernel="another"),
        lambda c: c["components"][0].update(sha256="0" * 64),
        lambda c: c["not_tested"].pop(),
        lambda c: c["cells"].pop(),
        lambda c: c["cells"][1].update(verdict="safe"),
        lambda c: c["cells"][1].update(lost=0),
        lambda c: c["cells"][1].update(explanation="bad luck"),
        lambda c: c["cells"][1]["evidence"][0].update(sha256="0" * 64),
        lambda c: c["cells"][0].update(loss_probability_upper_95=0.01),
        lambda c: c["cells"][0]["controls"][0].update(behaved=False),
        lambda c: c["cells"][0]["parameters"]["machine"].update(cache="writeback"),
        lambda c: c["cells"][0]["wire"]["disk"].update(flushes=1),
    ],
)
def test_a_field_that_was_changed_is_found(folder, edit):
    change(folder / "certificate.json", edit)
    assert examine(folder).problems


@pytest.mark.parametrize(
    "name",
    ["trial.json", "base.img", "disk.log", "disk.data", "history.bin", "manifest.json"],
)
def test_evidence_that_was_changed_is_found(folder, name):
    file = next(folder.glob(f"runs/two/2*/cells/unsafe/0001/{name}"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)
    assert any(name in problem or "evidence" in problem for problem in examine(folder).problems)


def test_a_verdict_that_was_changed_with_its_certificate_is_found_by_judging_again(folder):
    one = [{"first": 1, "last": 1}]
    (run,) = folder.glob("runs/two/2*/")
    change(run / "cells/unsafe/0001/verdict.json", lambda v: v.update(lost_lsns=one))
    (problem,) = examine(folder).problems
    assert problem.endswith("trial 1: beside the recording stands another verdict")

    def agree(result) -> None:
        cell = result["cells"][1]
        cell.update(lost_lsns=one)
        cell["trials"][0].update(lost_lsns=one)

    change(run / "verdict.json", agree)
    directory = CertificateDir.open(folder)
    write_certificate(directory, certificate_of(directory))
    assert examine(folder).problems == (), "all that is written down agrees"
    (problem,) = examine(folder, deep=True).problems
    assert problem.endswith("judged again, other records are lost")


def test_the_kernel_that_recovers_crash_states_is_a_component():
    cells = "cells: [{name: cut, explore.budget: off}, {name: explored}, {name: raw}]\n"
    text = cells.replace("raw}", "raw, filesystem.type: raw}")
    plan = expand(parse_scenario(f"powercut: 1\nname: s\n{text}", Path("s.yaml")), seed=1)
    found = components_of(Rig.find(), plan.cells)
    roles = {
        cell: {found.components[index].role for index in indices}
        for cell, indices in found.cells.items()
    }
    assert roles["explored"] - roles["cut"] == {"recovery kernel"}
    assert roles["raw"] == roles["cut"]
    (uml,) = (part for part in found.components if part.role == "recovery kernel")
    assert uml.name == "User-Mode Linux"
    assert uml.version[0].isdigit()


def test_a_confirmation_is_made_again(folder):
    trial = TrialDir(next(folder.glob("runs/two/2*/cells/unsafe/0001")), folder)
    (lost,) = trial.read_verdict().lost_lsns
    made = confirm(trial, trial.read_verdict())
    assert (made.confirmed, made.lsns) == (True, (lost,))
    again = examine(folder, deep=True)
    assert again.problems == ()
    (said,) = (text for text in again.checked if "confirmation" in text)
    assert said.startswith("1 ")
    write_confirmation(trial, made.model_copy(update={"lsns": (LsnRange(1, 1),)}))
    (problem,) = examine(folder, deep=True).problems
    assert "the confirmation gives another outcome" in problem


def test_a_signature(folder):
    key = folder / "key"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tester", "-f", str(key)]
    subprocess.run(make, check=True, timeout=60)
    file = folder / "certificate.json"
    sign(file, key)
    allowed = folder / "allowed"
    allowed.write_text(f"tester@example.org {key.with_suffix('.pub').read_text()}")
    trusted = examine(folder, allowed_signers=allowed)
    assert trusted.problems == ()
    assert "Signed by tester@example.org." in trusted.checked
    stranger = folder / "stranger"
    make[-1] = str(stranger)
    subprocess.run(make, check=True, timeout=60)
    sign(file, stranger)
    (problem,) = examine(folder, allowed_signers=allowed).problems
    assert "its key belongs to no signer" in problem
    sign(file, key)
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data + b"\n")
    (problem,) = examine(folder).problems
    assert "does not fit certificate.json" in problem
    with pytest.raises(UsageError, match="there is no such key"):
        sign(file, folder / "missing")


def test_what_cannot_be_looked_at_is_said(folder, tmp_path):
    alone = tmp_path / "certificate.json"
    shutil.copy(folder / "certificate.json", alone)
    outcome = examine(alone)
    assert outcome.problems == ()
    assert [text for text in outcome.unchecked if text.startswith("Its results are not beside")]
    (trial,) = ResultDir(next(folder.glob("runs/two/2*"))).path.glob("cells/honest/0001")
    for file in trial.iterdir():
        if file.name not in ("manifest.json", "verdict.json", "trial.json", "exploration.json"):
            file.unlink()
    outcome = examine(folder)
    assert outcome.problems == ()
    assert "1 recordings are gone that were there when it was drawn up." in outcome.unchecked
    assert [text for text in examine(folder, deep=True).problems if "are gone" in text]


def test_it_goes_on_after_a_kill(tmp_path, nothing_is_left):
    scenario = tmp_path / "many.yaml"
    scenario.write_text(MANY)
    arguments = [str(scenario), "--seed", "5", "--no-cost", "--jobs", "1"]
    argv = [sys.executable, "-m", "powercut.cli.main", "certify", *arguments, "--keep", "notable"]
    process = subprocess.Popen(
        [*argv, "--results", str(tmp_path / "results")], stdout=subprocess.DEVNULL
    )
    runs = tmp_path / "results/certify/many/latest/runs/many"
    deadline = time.monotonic() + WAIT_S
    while len(list(runs.glob("latest/cells/*/*/verdict.json"))) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    fourth = "latest/cells/*/0004"  # in the middle of it, unless this process sleeps too long
    while not [*runs.glob(f"{fourth}/disk.log"), *runs.glob(f"{fourth}/verdict.json")]:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    (run,) = (path for path in runs.iterdir() if not path.is_symlink())
    before = {path: path.stat().st_ino for path in run.glob("cells/*/*/manifest.json")}
    assert 3 <= len(before) < 8
    with pytest.raises(UsageError, match="1 of 1 runs have not ended"):
        examine_unfinished(runs.parent.parent)
    done = resume_certificate(runs.parent.parent, CertifyRunOptions(jobs=2))
    after = {path: path.stat().st_ino for path in run.glob("cells/*/*/manifest.json")}
    assert len(after) == 8
    assert before.items() <= after.items(), "what was sealed was not made again"
    assert done.certificate.verdicts == {"safe": 2, "inconclusive": 0, "lossy": 0}
    assert [cell.cuts for cell in done.certificate.cells] == [4, 4]
    assert all(control.behaved for cell in done.certificate.cells for control in cell.controls)
    assert examine(done.directory.path).problems == ()
    seeds = {
        json.loads(path.with_name("trial.json").read_text())["trial"]["seed"] for path in after
    }
    plan = [t.seed for cell in done.certificate.cells for t in trials_of(run, cell.cell)]
    assert seeds == set(plan)
    again = resume_certificate(done.directory.path, CertifyRunOptions()).certificate
    assert again.cells == done.certificate.cells
    assert done.certificate.seconds <= again.seconds < done.certificate.seconds + 60


def examine_unfinished(path: Path) -> None:
    certificate_of(CertificateDir.open(path))


def trials_of(run: Path, cell: str):
    from powercut.scenario.load import expand

    scenario = parse_scenario(MANY, Path("many.yaml"))
    (found,) = (c for c in expand(scenario, seed=5).cells if c.name == cell)
    return found.trials
