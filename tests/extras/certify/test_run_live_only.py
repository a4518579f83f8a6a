# SPDX-License-Identifier: Apache-2.0
"""A whole run, and a certificate, on a machine that keeps its disk to itself.

The fake machine is a row of the table of machines and nothing else: no file of the package knows
it.  Whoever reads the results is told how far they go; whoever wants requests is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from fake_machine import FAKE_LIVE, FakeLiveBackend

from powercut.campaign.runner import run_scenarios
from powercut.campaign.selection import Selection
from powercut.campaign.verify import verify
from powercut.cli.commands import cli
from powercut.model.confidence import upper_bound
from powercut.model.errors import PowercutError
from powercut.model.events import CertifyStarted, TrialFinished
from powercut.model.verdict import EvidenceLevel, Verdict
from powercut.report.junit import junit_xml
from powercut.scenario.load import parse_scenario
from powercut.scenario.machines import MACHINES
from powercut.scenario.settings import ControlKind
from powercut.store.results import RunResult
from powercut_extras.certify.certifier import (
    CertifyRunOptions,
    Request,
    certify,
    resume_certificate,
)
from powercut_extras.certify.verify import contradictions, examine

CUTS = 3
SCENARIO = f"""powercut: 1
name: live
filesystem: {{type: raw}}
disk: {{size: 4MiB}}
workload: {{layout: raw, record: 512, capacity: 2MiB}}
machine: {{backend: fake-live}}
cut: {{trigger: {{acks: 20}}}}
trials: {CUTS}
expect: survived
"""


class Made(NamedTuple):
    run: RunResult
    folder: Path


@pytest.fixture(scope="module")
def table():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MACHINES, "fake-live", FAKE_LIVE)
        yield patch


@pytest.fixture(scope="module")
def made(table, tmp_path_factory) -> Made:
    scenario = parse_scenario(SCENARIO, Path("live.yaml"))
    folder = tmp_path_factory.mktemp("results")
    (run,) = run_scenarios([scenario], seed=7, results=folder).runs
    return Made(run, Path(run.result_directory))


@pytest.fixture(scope="module")
def certificate(table, tmp_path_factory):
    scenario = parse_scenario(SCENARIO, Path("live.yaml"))
    request = Request("live", (scenario,), 7, "powercut certify live.yaml", Selection())
    return certify(request, tmp_path_factory.mktemp("certified"), CertifyRunOptions())


def test_a_cell_whose_cuts_lost_nothing_survived_with_its_bound(made):
    (cell,) = made.run.cells
    assert (cell.verdict, cell.as_expected) == (Verdict.SURVIVED, True)
    assert cell.evidence_level is EvidenceLevel.LIVE_ONLY
    assert cell.loss_probability_upper_95 == upper_bound(0, CUTS)
    (control,) = cell.controls
    assert (control.kind, control.verdict, control.behaved) == (
        ControlKind.NO_SYNC,
        Verdict.LOSSY,
        True,
    )


def test_what_is_stored_says_so_and_is_no_safe(made):
    told = json.loads((made.folder / "verdict.json").read_text())
    (cell,) = told["cells"]
    assert (told["verdict"], cell["verdict"]) == ("survived", "survived")
    assert cell["evidence_level"] == "live-only"
    assert {trial["evidence_level"] for trial in cell["trials"]} == {"live-only"}
    assert '"safe"' not in json.dumps(told)


def test_a_person_and_a_ci_read_how_far_it_goes(made):
    shown = " ".join(CliRunner().invoke(cli, ["show", str(made.folder)]).stdout.split())
    for said in (
        "~ SURVIVED",
        "Live only: its disk was not recorded; no acknowledged record was lost in 3 cuts, which "
        "by itself only shows (95 % confidence) that fewer than 64 % of such cuts lose one",
    ):
        assert said in shown
    assert "✓ SAFE" not in shown
    page = made.folder / "report.html"
    assert not page.exists() or "live only" in page.read_text()
    xml = junit_xml(made.run).decode()
    assert '<property name="evidence_level" value="live-only"' in xml
    assert "fewer than 64 % of such cuts lose one" in xml


def test_who_goes_on_with_a_certificate_counts_what_was_made(certificate):
    seen = []
    resume_certificate(certificate.directory.path, CertifyRunOptions(on_event=seen.append))
    (begun,) = [event for event in seen if isinstance(event, CertifyStarted)]
    made = [event for event in seen if isinstance(event, TrialFinished)]
    assert len(made) == begun.trials == CUTS + 1
    assert all(event.earlier and event.as_expected for event in made)
    assert [event.control for event in made] == [False] * CUTS + [True]


def test_judged_again_it_is_the_same(made):
    again = verify(made.folder)
    assert (again.verdict, again.as_expected) == (Verdict.SURVIVED, True)
    assert again.cells[0].trials[0].lost_lsns == ()


@pytest.mark.parametrize(
    "words",
    [
        ("audit acks",),
        ("explore",),
        ("minimize",),
        ("export", "cut", "--format", "state", "--output", "state.img"),
        ("audit flushes",),
        ("export", "--format", "dm-log-writes", "--output", "log"),
    ],
)
def test_what_wants_requests_refuses_in_a_sentence(made, words, tmp_path):
    command, *options = words
    trial = made.folder / made.run.cells[0].trials[0].result_directory
    done = CliRunner().invoke(cli, [*command.split(), str(trial), *options])
    said = done.exception
    if isinstance(said, SystemExit):  # of click: the command wants other words
        pytest.fail(f"{command}: {done.output}")
    assert isinstance(said, PowercutError), done.output
    assert "fake-live does not record its disk" in str(said)


def test_a_certificate_counts_it_apart_and_says_what_it_means(certificate):
    told = certificate.certificate
    assert told.verdicts == {"safe": 0, "survived": 1, "inconclusive": 0, "lossy": 0}
    (cell,) = told.cells
    assert (cell.evidence_level, cell.coverage, cell.exposure) == (
        EvidenceLevel.LIVE_ONLY,
        None,
        None,
    )
    assert "kept every record" not in told.statement
    assert "1 survived. SURVIVED is less than SAFE" in told.statement
    assert cell.explanation.startswith("Live only: its disk was not recorded")
    assert "capture disk" not in {part.role for part in told.components}
    found = examine(certificate.directory.path, deep=True)
    assert found.problems == ()


def test_a_certificate_that_calls_it_safe_contradicts_itself(certificate):
    (cell,) = certificate.certificate.cells
    safe: dict[str, object] = {"verdict": Verdict.SAFE, "explanation": ""}
    recorded: dict[str, object] = {"evidence_level": EvidenceLevel.RECORDED}
    unseen = "it is safe, and its disk was not recorded"
    misnamed = "it is recorded, and its machine leaves what is live-only"
    for changes, why in ((safe, unseen), (recorded, misnamed), (safe | recorded, misnamed)):
        forged = certificate.certificate.model_copy(
            update={"cells": (cell.model_copy(update=changes),)}
        )
        assert f"live: live: {why}" in list(contradictions(forged))


def test_a_lossy_one_is_convicted_by_its_cut_and_nothing_confirms_it(
    table, tmp_path_factory, monkeypatch
):
    monkeypatch.setattr(FakeLiveBackend, "lies", True, raising=False)
    text = SCENARIO.replace("expect: survived", "expect: lossy")
    request = Request(
        "lying", (parse_scenario(text, Path("live.yaml")),), 7, "powercut certify", Selection()
    )
    done = certify(request, tmp_path_factory.mktemp("lying"), CertifyRunOptions())
    (cell,) = done.certificate.cells
    assert (cell.verdict, cell.confirmed, cell.controls) == (Verdict.LOSSY, None, ())
    assert [span.first for span in cell.lost_lsns] == [1]
    assert cell.lost == cell.acked >= 20
    assert cell.explanation.endswith("live only: its disk was not recorded")
    assert examine(done.directory.path, deep=True).problems == ()


def test_bundles_carry_the_level(made, tmp_path):
    trial = made.folder / made.run.cells[0].trials[0].result_directory
    bundle = tmp_path / "one.pcbundle"
    runner = CliRunner()
    assert runner.invoke(cli, ["export", str(trial), "-o", str(bundle)]).exception is None
    done = runner.invoke(cli, ["verify", str(bundle)])
    assert "SURVIVED" in done.stdout
    assert "✓ SAFE" not in done.stdout
