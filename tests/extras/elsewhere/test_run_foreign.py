# SPDX-License-Identifier: Apache-2.0
"""Runs on a machine that is there already, with a fake of ssh's; its disk keeps or loses.

What a disk loses is planted: of the program's log all lines but the first ones.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import fake_remote
import pytest
from click.testing import CliRunner
from fake_remote import FakeHost

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.cli.commands import cli
from powercut.model.errors import HostError
from powercut.model.verdict import EvidenceLevel, FindingKind, LsnRange, Verdict
from powercut.paths import ROOT
from powercut.report.explained import explain
from powercut.scenario.load import load_scenario
from powercut.scenario.machines import MACHINES
from powercut.scenario.settings import ControlKind
from powercut_extras.elsewhere.backend import FOREIGN as OURS

KEPT = 5
FOREIGN = replace(OURS, place="fake_remote:fake_backend")


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setitem(MACHINES, "foreign", FOREIGN)
    with FakeHost(tmp_path) as made:
        monkeypatch.setattr(fake_remote, "HOSTS", [made])
        yield made


def scenario_of(host, tmp_path, *, expect="survived", controls="auto", **machine):
    folder = tmp_path / "scenario"
    if not folder.exists():
        folder.mkdir()
        shutil.copy(ROOT / "workloads/examples/append.sh", folder)
    settings = {
        "backend": "foreign",
        "host": "root@fake",
        "folder": str(host.folder),
        "power": {word: host.switch.command(word) for word in ("off", "on", "status")},
        **machine,
    }
    path = folder / "foreign.yaml"
    path.write_text(
        f"powercut: 1\nname: foreign\nmachine: {json.dumps(settings)}\n"
        "filesystem: {type: ext4}\nworkload: {kind: program, command: ./append.sh}\n"
        f"cut: {{trigger: {{acks: 20}}}}\ndeadline: 60s\n"
        f"controls: {controls}\nexpect: {expect}\n"
    )
    return load_scenario(path)


def run(scenario, tmp_path):
    (done,) = run_scenarios([scenario], seed=7, results=tmp_path / "results").runs
    (cell,) = done.cells
    return done, cell


def test_a_disk_that_keeps_what_was_synced_survives_and_nothing_is_left(host, tmp_path):
    done, cell = run(scenario_of(host, tmp_path), tmp_path)
    (trial,) = cell.trials
    assert (cell.verdict, cell.as_expected) == (Verdict.SURVIVED, True), cell.reasons
    assert (trial.evidence_level, trial.findings) == (EvidenceLevel.LIVE_ONLY, ())
    assert trial.commits_acked >= 20
    (control,) = cell.controls
    assert (control.kind, control.verdict, control.behaved) == (
        ControlKind.NO_SYNC,
        Verdict.LOSSY,
        True,
    )
    assert (host.boots, host.is_on) == (3, True)
    assert list(host.folder.iterdir()) == []
    shown = " ".join(CliRunner().invoke(cli, ["show", done.result_directory]).stdout.split())
    assert "as the control without syncs shows" in shown
    assert "nothing shows whether it takes the disk's own cache" in shown
    again = verify(Path(done.result_directory))
    assert (again.verdict, again.cells[0].trials[0].findings) == (Verdict.SURVIVED, ())
    record = json.loads(
        (Path(done.result_directory) / trial.result_directory / "trial.json").read_text()
    )
    facts = record["guest_facts"]
    assert (facts["filesystem"], facts["device"]) == ("ext4", "/dev/sda1")
    assert facts["boot_id"] != record["recovery_facts"]["boot_id"]


@pytest.mark.parametrize("lies", [False, True], ids=["honest", "lying"])
def test_a_check_that_writes_is_told_when_the_folder_is_used_again(host, tmp_path, lies):
    """As that of a database, which tries a transaction after it has looked."""
    script = tmp_path / "scenario" / "append.sh"
    script.parent.mkdir()
    text = (ROOT / "workloads/examples/append.sh").read_text().replace('" >&"$POWERCUT_FD" ;;', "")
    assert text.endswith('"$2/log\n' + "esac\n")
    writes = '[ -n "$POWERCUT_AFTER" ] || echo $(($(wc -l <"$2/log") + 1)) >>"$2/log"'
    looks = f'" >&"$POWERCUT_FD"\n    [ ! -e "$2/log" ] || {writes} ;;\nesac\n'
    script.write_text(text.removesuffix("\nesac\n") + looks)
    script.chmod(0o755)
    host.keeps = KEPT if lies else host.keeps
    _, cell = run(scenario_of(host, tmp_path, expect="lossy" if lies else "survived"), tmp_path)
    assert (cell.verdict, cell.as_expected) == (
        Verdict.LOSSY if lies else Verdict.SURVIVED,
        True,
    ), cell.reasons
    (trial,) = cell.trials
    assert trial.lost_lsns == ((LsnRange(KEPT + 1, trial.commits_acked),) if lies else ())


def test_a_disk_that_lies_is_convicted_of_exactly_what_it_lost(host, tmp_path):
    host.keeps = KEPT
    _, cell = run(scenario_of(host, tmp_path, expect="lossy"), tmp_path)
    (trial,) = cell.trials
    assert (cell.verdict, cell.as_expected) == (Verdict.LOSSY, True)
    (finding,) = trial.findings
    assert finding.kind is FindingKind.LOST
    assert trial.lost_lsns == (LsnRange(KEPT + 1, trial.commits_acked),)


def test_a_cut_that_takes_nothing_is_no_evidence(host, tmp_path):
    host.takes = False
    _, cell = run(scenario_of(host, tmp_path), tmp_path)
    assert cell.verdict is Verdict.INCONCLUSIVE
    (control,) = cell.controls
    assert (control.behaved, control.verdict) == (False, Verdict.INCONCLUSIVE)
    assert cell.trials[0].verdict is Verdict.SURVIVED


@pytest.mark.parametrize("takes", [True, False])
def test_a_cut_has_to_take_the_disks_own_cache_where_a_control_asks(host, tmp_path, takes):
    """A disk that is told to flush nothing loses what it had not written down, if the cut is one
    of power: a switch that leaves the disk its cache proves nothing about it."""
    host.takes_cache = takes
    _, cell = run(scenario_of(host, tmp_path, controls="[no-flush]"), tmp_path)
    assert (cell.trials[0].verdict, host.flushes) == (Verdict.SURVIVED, True)
    (control,) = cell.controls
    assert (control.kind, control.behaved) == (ControlKind.NO_FLUSH, takes)
    if takes:
        assert (cell.verdict, control.verdict) == (Verdict.SURVIVED, Verdict.LOSSY)
        assert explain(cell).endswith("without flushes the control lost it.")
        return
    assert (cell.verdict, control.verdict) == (Verdict.INCONCLUSIVE, Verdict.SURVIVED)
    assert "the cut did not take what lay in the disk's own cache" in cell.reasons[0]


def test_without_its_control_nothing_has_survived(host, tmp_path):
    scenario = scenario_of(host, tmp_path, controls="none")
    _, cell = run(scenario, tmp_path)
    assert (cell.verdict, cell.controls) == (Verdict.INCONCLUSIVE, ())
    assert "no control had to lose anything" in cell.reasons[0]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ({"orderly": True}, "had shut down before the cut, and a clean shutdown flushes"),
        ({"remounts": False}, "is not on the file system that it was on before the cut"),
        ({"filesystem": "tmpfs"}, "is on tmpfs, which no power cut leaves anything of"),
        ({"filesystem": "xfs"}, "is on xfs, and the scenario says ext4"),
        ({"unplugged": True}, "there was no cut"),
    ],
)
def test_what_is_not_known_is_inconclusive(host, tmp_path, monkeypatch, trouble, words):
    monkeypatch.setattr("powercut_extras.elsewhere.work._MOUNT_S", 1)
    monkeypatch.setattr("powercut_extras.elsewhere.machine._GONE_S", 1)
    for name, value in trouble.items():
        setattr(host, name, value)
    done, cell = run(scenario_of(host, tmp_path), tmp_path)
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert any(words in reason for reason in cell.reasons), cell.reasons
    assert host.is_on
    assert verify(Path(done.result_directory)).verdict is Verdict.INCONCLUSIVE


def test_somebody_elses_files_are_not_touched(host, tmp_path):
    host.folder.mkdir()
    (host.folder / "thesis.txt").write_text("mine")
    _, cell = run(scenario_of(host, tmp_path), tmp_path)
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert "it holds files that are not powercut's" in cell.reasons[0]
    assert [one.name for one in host.folder.iterdir()] == ["thesis.txt"]
    assert (host.folder / "thesis.txt").read_text() == "mine"
    assert (host.boots, host.is_on) == (1, True)  # what never ran keeps its power


def test_a_setup_that_fails_cuts_nothing_and_leaves_nothing(host, tmp_path):
    scenario = scenario_of(host, tmp_path)
    program = tmp_path / "scenario" / "append.sh"
    program.write_text("#!/bin/sh\necho 'No space left on device' >&2; exit 1\n")
    _, cell = run(scenario, tmp_path)
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert "No space left on device" in cell.reasons[0]
    assert (host.boots, host.is_on, list(host.folder.iterdir())) == (1, True, [])


def test_a_check_that_finds_what_nobody_tried_is_not_believed(host, tmp_path):
    scenario = scenario_of(host, tmp_path)
    program = tmp_path / "scenario" / "append.sh"
    program.write_text(program.read_text().replace("check) [ !", 'check) echo "= 1-9" >&3; [ !'))
    _, cell = run(scenario, tmp_path)
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert any("on which only `setup` has run" in reason for reason in cell.reasons)


def test_an_operation_whose_announcement_the_cut_swallowed_is_no_phantom(host, tmp_path):
    scenario = scenario_of(host, tmp_path)
    program = tmp_path / "scenario" / "append.sh"
    more = 'check) [ ! -s "$2/log" ] || echo "= 900000" >&3; [ !'
    program.write_text(program.read_text().replace("check) [ !", more))
    _, cell = run(scenario, tmp_path)
    assert (cell.verdict, cell.trials[0].findings) == (Verdict.SURVIVED, ())


def test_nobody_at_home_is_told_before_anything_is_made(host, tmp_path):
    host.lets_in = False
    with pytest.raises(HostError, match="Authentication failed"):
        run(scenario_of(host, tmp_path), tmp_path)
    assert not (tmp_path / "results").exists()


def test_a_machine_that_is_off_is_started_for_the_run(host, tmp_path):
    host.off()
    _, cell = run(scenario_of(host, tmp_path), tmp_path)
    assert (cell.verdict, host.boots) == (Verdict.SURVIVED, 4)
