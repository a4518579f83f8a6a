# SPDX-License-Identifier: Apache-2.0
"""`powercut try`: one program on a disk and on captured files at once, one verdict, one cause."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from powercut.campaign.files import RecordedFiles, judge_files
from powercut.campaign.program_try import TryOrder, require_contract, try_program
from powercut.campaign.verify import verify
from powercut.console import PlainConsole
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.verdict import Verdict
from powercut.paths import PROGRAMS
from powercut.recover.uml.boot import unavailable
from powercut.report.junit import junit_xml
from powercut.report.publish import write_reports
from powercut.report.terminal.table import print_run
from powercut.scenario.load import Scenario, expand, load_scenario
from powercut.scenario.program_text import RecordOptions
from powercut.scenario.settings import ProgramSettings
from powercut.store.files_tried import FILES, FilesTried
from powercut.store.folder import CaptureResult
from powercut.store.layout import ResultDir
from powercut.store.results import CampaignOutcome, CellResult, RunResult

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
    pytest.mark.fuse,
]

ACKS = 30

STORE = """\
#!/usr/bin/env python3
# A store that is one file, replaced by rename.  {left_out} is what it forgets.
import os, sys
verb, folder = sys.argv[1:3]
def say(text):
    os.write(int(os.environ["POWERCUT_FD"]), (text + "\\n").encode())
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
if verb == "setup":
    os.makedirs(folder, exist_ok=True)
elif verb == "run":
    if os.fork():
        os._exit(0)  # as the parent of a daemon does
    say("ready")
    for number in range(1, 1_000_000):
        say(f"? {{number}}")
        with open(f"{{folder}}/new", "w") as file:
            file.write("".join(f"{{each}}\\n" for each in range(1, number + 1)))
        sync(f"{{folder}}/new")
        os.rename(f"{{folder}}/new", f"{{folder}}/store")
        for path in {synced}:
            sync(path)
        say(f"+ {{number}}")
elif os.path.exists(f"{{folder}}/store"):
    for line in open(f"{{folder}}/store"):
        say(f"= {{int(line)}}")
"""


def tried(folder: Path, synced: str, *, portable: bool = False, budget: str = "32") -> RunResult:
    """What comes of a store that syncs these paths after its rename."""
    program = folder / "store"
    program.write_text(STORE.format(synced=synced, left_out="something"))
    program.chmod(0o755)
    order = TryOrder(
        program=ProgramSettings(kind="program", command=("./store",), folder=str(folder)),
        options=RecordOptions("ext4", "64MiB", 4096, (), "", ACKS, 10.0, budget, 60.0, 120.0),
        seed=5,
        results=folder / "results",
        stamp="now",
        portable=portable,
    )
    require_contract(order)
    return try_program(order)


@pytest.fixture(scope="module")
def disk_of_another(tmp_path_factory: pytest.TempPathFactory) -> CellResult:
    """What the disk of a store comes to that forgets nothing; none of these tests is about it."""
    folder = tmp_path_factory.mktemp("another")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("powercut.rig.folder.RECORDER", folder / "no-recorder")
        (cell,) = tried(folder, "[folder]").cells
        return cell


@pytest.fixture
def with_that_disk(disk_of_another: CellResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is recorded: it has come to that."""

    def run(
        scenarios: Sequence[Scenario], *, seed: int, results: Path, files: RecordedFiles, **_: Any
    ) -> CampaignOutcome:
        plan = expand(scenarios[0], seed=seed)
        directory = ResultDir.create(results, plan.scenario, seed)
        directory.write_scenario(scenarios[0].text)
        found = judge_files(directory, plan, files.join(directory))
        return CampaignOutcome(runs=(joined(disk_of_another, found, directory.path),))

    monkeypatch.setattr("powercut.campaign.program_try.run_scenarios", run)


def joined(cell: CellResult, files: FilesTried | None, path: Path = Path()) -> RunResult:
    return RunResult.of(
        powercut="0",
        scenario="store",
        seed=5,
        started="2026-11-29T10:15:02+00:00",
        seconds=1.5,
        cells=[cell],
        files=files,
        result_directory=str(path),
    )


def told(found: RunResult, capsys: pytest.CaptureFixture[str]) -> str:
    print_run(PlainConsole(width=100), found)
    return " ".join(capsys.readouterr().out.split())


def files_of(found: RunResult) -> FilesTried:
    assert found.files is not None
    return found.files


def journal_of(found: RunResult) -> CaptureResult:
    journal = files_of(found).journal
    assert journal is not None
    return journal


def verdicts(found: RunResult) -> tuple[Verdict, Verdict | None, Verdict | None]:
    (cell,), files = found.cells, files_of(found)
    return (
        cell.verdict,
        files.journal and files.journal.verdict,
        files.posix and files.posix.verdict,
    )


def with_files(found: RunResult, **changed: Any) -> RunResult:
    """The same run with other files."""
    return joined(found.cells[0], files_of(found).model_copy(update=changed))


def test_a_store_that_its_file_system_saves_is_safe_there_and_its_missing_sync_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tried(tmp_path, '[f"{folder}/store"]')
    assert verdicts(found) == (Verdict.SAFE, Verdict.SAFE, Verdict.LOSSY), told(found, capsys)
    assert (found.verdict, found.exit_status, found.cause) == (Verdict.SAFE, 0, "")
    text = told(found, capsys)
    assert "No acknowledged operation is lost on ext4, nor where names keep their order." in text
    assert "POSIX alone allows a loss: Operation" in text
    assert "the renaming of new to store" in text
    assert "no sync of the folder came after it" in text
    (trial,) = found.cells[0].trials
    assert trial.reached is not None
    assert (trial.reached.operations, trial.reached.size > 0) == (trial.commits_acked, True)
    assert trial.reached.files is not None
    assert trial.reached.files.looks > 1
    assert trial.reached.words in text
    reached = journal_of(found).reached
    assert reached.operations == journal_of(found).acknowledged >= ACKS
    assert reached.files is not None
    assert (reached.files.renamed, reached.files.removed) >= (ACKS, 0)
    assert f"as files {reached.words}" in text
    portable = with_files(found, portable=True)
    assert (portable.verdict, portable.exit_status) == (Verdict.LOSSY, 1)
    assert portable.cause == files_of(found).cause
    assert "POSIX alone allows" not in told(portable, capsys)

    run = ResultDir.open(Path(found.result_directory))
    assert run.read_verdict() == found
    again = verify(run.path)
    assert (again.verdict, verdicts(again)) == (found.verdict, verdicts(found))
    assert files_of(again) == but_for_times(files_of(found), files_of(again))
    write_reports(run)
    assert (run.path / FILES / "report.html").is_file()
    page = run.report.read_text()
    assert 'href="files/report.html"' in page
    assert "POSIX alone allows a loss" in page

    def judged_again() -> FilesTried | None:
        plan = expand(load_scenario(run.scenario_copy), seed=5)
        return judge_files(run, plan, run.read_environment(), again=True)

    (run.path / FILES).rename(tmp_path / "elsewhere")
    with pytest.raises(DamagedRecording, match="files"):
        judged_again()
    verdict = (run.path / "verdict.json").rename(tmp_path / "verdict.json")
    part = judged_again()  # as of what a bundle of its disk unpacks to
    assert part is not None
    assert part.counted == (Verdict.INCONCLUSIVE,)
    assert part.reason == "their recording is not in this folder"
    verdict.rename(run.path / "verdict.json")
    environment = run.read_environment()
    run.write_environment({key: said for key, said in environment.items() if key != FILES})
    with pytest.raises(DamagedRecording, match=r"environment\.json: files"):
        judged_again()


def but_for_times(before: FilesTried, now: FilesTried) -> FilesTried:
    """What was said before, with the times of now: all else has to be equal."""
    changed = {}
    for name in ("journal", "posix"):
        then, later = getattr(before, name), getattr(now, name)
        times = ("seconds", "seconds_in_all", "processor_seconds")
        update = {key: getattr(later.explored, key) for key in times}
        explored = then.explored.model_copy(update=update)
        changed[name] = then.model_copy(update={"explored": explored})
    return before.model_copy(update=changed)


def test_a_store_that_forgets_the_rename_is_lossy_everywhere_for_one_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tried(tmp_path, "[]")
    assert verdicts(found) == (Verdict.LOSSY, Verdict.LOSSY, Verdict.LOSSY)
    assert "the renaming of new to store" in found.cause
    assert "could be lost" in found.cause
    assert told(found, capsys).count(" ".join(found.cause.split())) == 1


def test_a_store_that_forgets_nothing_is_safe_by_posix_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_that_disk: None
) -> None:
    found = tried(tmp_path, "[folder]")
    assert verdicts(found) == (Verdict.SAFE, Verdict.SAFE, Verdict.SAFE)
    assert files_of(found).cause == ""
    assert "Nor by what POSIX alone promises." in told(found, capsys)


def test_the_half_that_loses_alone_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_that_disk: None
) -> None:
    found = tried(tmp_path, "[]")
    assert verdicts(found) == (Verdict.SAFE, Verdict.LOSSY, Verdict.LOSSY)
    assert (found.verdict, found.as_expected, found.exit_status) == (Verdict.LOSSY, False, 1)
    assert "The disk lost nothing in" in told(found, capsys)
    junit = junit_xml(found).decode()
    assert 'tests="2" failures="1" errors="0"' in junit
    assert junit.count("<failure ") == 1
    assert 'name="files, names in order"' in junit
    safe = journal_of(found).model_copy(update={"verdict": Verdict.SAFE})
    lossy = found.cells[0].model_copy(update={"verdict": Verdict.LOSSY, "as_expected": False})
    other = joined(lossy, FilesTried(recording=FILES, journal=safe))
    assert (other.verdict, other.exit_status) == (Verdict.LOSSY, 1)
    assert "The files lost nothing: ext4 keeps less" in told(other, capsys)


def test_a_time_is_shared_by_both_promises(tmp_path: Path, with_that_disk: None) -> None:
    files = files_of(tried(tmp_path, "[folder]", budget="3s"))
    for found in (files.journal, files.posix):
        assert found is not None
        assert found.explored.budget == "1.5s"
        assert found.explored.coverage.distinct > 0


def test_a_program_that_does_not_keep_the_contract_is_told_before_anything_is_cut(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="run acknowledged nothing") as refused:
        tried(tmp_path, "[exit()]")
    assert "nothing was cut yet" in refused.value.hint
    assert not (tmp_path / "results").exists()


def test_files_that_cannot_be_recorded_are_named_and_the_disk_decides(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_that_disk: None,
) -> None:
    monkeypatch.setattr("powercut.rig.folder.RECORDER", tmp_path / "no-recorder")
    found = tried(tmp_path, "[folder]")
    assert verdicts(found) == (Verdict.SAFE, None, None)
    text = told(found, capsys)
    assert "captured files were not tried: the captured folder is not built" in text
    assert "names keep their order" not in text
    assert found.verdict is Verdict.SAFE
    assert with_files(found, portable=True).verdict is Verdict.INCONCLUSIVE


def test_files_that_were_recorded_and_cannot_be_judged_are_no_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_that_disk: None,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HostError("no sandbox")

    monkeypatch.setattr("powercut.campaign.files.judge_folder", fails)
    found = tried(tmp_path, "[folder]")
    assert verdicts(found) == (Verdict.SAFE, None, None)
    assert (found.verdict, found.exit_status) == (Verdict.INCONCLUSIVE, 3)
    assert "not all is known of the captured files: no sandbox" in told(found, capsys)
    assert 'tests="2" failures="0" errors="1"' in junit_xml(found).decode()


def test_a_cause_that_cannot_be_found_takes_no_verdict_away(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_that_disk: None,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HostError("no room for the search")

    monkeypatch.setattr("powercut.campaign.files.minimize_capture", fails)
    found = tried(tmp_path, '[f"{folder}/store"]', portable=True)
    assert verdicts(found) == (Verdict.SAFE, Verdict.SAFE, Verdict.LOSSY)
    assert found.verdict is Verdict.LOSSY
    text = told(found, capsys)
    assert "not all is known of the captured files: no room for the search" in text


def tried_tail(folder: Path, *settings: str) -> RunResult:
    """What comes of workloads/programs/tail, which syncs nothing."""
    order = TryOrder(
        program=ProgramSettings(
            kind="program", command=(str(PROGRAMS / "tail"), *settings), folder=str(folder)
        ),
        options=RecordOptions("ext4", "64MiB", 4096, (), "", 100, 10.0, "64", 60.0, 120.0),
        seed=5,
        results=folder / "results",
        stamp="now",
    )
    require_contract(order)
    return try_program(order)


def test_a_store_that_keeps_the_prefix_that_it_promises_is_safe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the lying disk of its control each ack counts: else nothing would be missed there."""
    found = tried_tail(tmp_path, "promise=prefix")
    (cell,) = found.cells
    (trial,) = cell.trials
    assert (found.verdict, trial.keeps, journal_of(found).keeps) == (
        Verdict.SAFE,
        "prefix",
        "prefix",
    )
    assert [(one.verdict, one.behaved) for one in cell.controls] == [(Verdict.LOSSY, True)]
    assert trial.states is not None
    assert trial.states.at_acks is None
    text = told(found, capsys)
    assert "What is lost is the end of what it acknowledged, as it promises" in text
    assert "not tested: whether its last acknowledged operations survive" in text
    assert "chance of being found" not in text
    again = verify(Path(found.result_directory))
    assert (again.verdict, again.cells[0].trials[0].keeps) == (Verdict.SAFE, "prefix")


@pytest.mark.parametrize("settings", [("promise=opens", "fault=count"), ("promise=every",)])
def test_one_that_does_not_open_or_that_promises_each_ack_is_lossy(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    found = tried_tail(tmp_path, *settings)
    assert found.verdict is Verdict.LOSSY
    assert (journal_of(found).verdict, journal_of(found).control) == (Verdict.LOSSY, "LOSSY")
