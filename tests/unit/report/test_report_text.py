# SPDX-License-Identifier: Apache-2.0
"""Table, story, progress and failure as a person sees them."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from powercut.cli.commands import cli
from powercut.model.errors import UsageError
from powercut.model.events import (
    Notice,
    Phase,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialPhase,
)
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report import words
from powercut.report.explained import explain
from powercut.report.page.run import html_report
from powercut.report.terminal.progress import ProgressView
from powercut.report.terminal.show import print_story
from powercut.report.terminal.table import failure_text, print_plan, print_run
from powercut.scenario.settings import Parameters
from powercut.store.trial_result import Exposure, InFlight

GOLDEN = Path(__file__).parents[2] / "golden"


def console() -> Console:
    return Console(file=io.StringIO(), width=80, color_system=None)


def text_of(target: Console) -> str:
    assert isinstance(target.file, io.StringIO)
    return "\n".join(line.rstrip() for line in target.file.getvalue().splitlines()) + "\n"


def compare(name: str, text: str, tmp_path: Path) -> None:
    """Compares with a golden file, in which the folder of the results is called RESULTS, a name
    that a command need not quote."""
    text = re.sub(rf"'({re.escape(str(tmp_path))}[^'\n]*)'", r"\1", text)
    text = text.replace(str(tmp_path), "RESULTS")
    assert text == (GOLDEN / name).read_text(), f"if this is meant, put it into {GOLDEN / name}"


def test_the_table_of_first_light(made, tmp_path):
    target = console()
    print_run(target, made.run)
    compare("first-light.txt", text_of(target), tmp_path)


def test_the_table_of_many_cuts_breaks_no_word(made):
    cells = tuple(
        cell.model_copy(update={"trials": cell.trials * 6, "commits_acked": 1_017_517})
        for cell in made.run.cells
    )
    target = console()
    print_run(target, made.run.model_copy(update={"cells": cells}))
    text = text_of(target)
    assert re.search("^ cell .* verdict +expected$", text, re.MULTILINE)
    assert re.search("^ no-sync +6 +1,017,517 .* LOSSY +yes$", text, re.MULTILINE)


def test_the_table_when_things_are_not_as_expected(make, tmp_path):
    hang = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "the guest hung")
    torn = Finding(FindingKind.TORN, Verdict.LOSSY, "torn", (LsnRange(200, 200),))
    run = make((torn,), (hang,), ()).run
    assert run.exit_status == 1
    target = console()
    print_run(target, run)
    compare("not-as-expected.txt", text_of(target), tmp_path)


def test_unknown_is_3_and_never_as_expected(make):
    hang = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "the guest hung")
    run = make((hang,), (hang,), (hang,)).run
    assert run.exit_status == 3
    assert not run.as_expected
    assert run.verdict is Verdict.INCONCLUSIVE


def test_what_a_cut_interrupted_is_said(made):
    honest, lying, no_sync = (cell.trials[0].in_flight for cell in made.run.cells)
    assert words.in_flight(honest) == "3 writes, 1 flush"
    assert words.survived(honest) == "2 of the writes survived, in whole or in part"
    assert (words.in_flight(lying), words.survived(lying)) == ("nothing", "")
    assert words.in_flight(no_sync) == "not known"
    all_kinds = InFlight(writes=1, zeroes=2, discards=1, flushes=2, survived=0)
    assert words.in_flight(all_kinds) == "1 write, 2 write-zeroes, 1 discard, 2 flushes"
    assert words.survived(all_kinds) == "none of the writes survived, in whole or in part"
    cells = made.run.cells
    assert words.interrupted(cells[2].trials) == ""
    assert words.interrupted(cells[0].trials) == "In flight at the cut: 3 writes, 1 flush."
    target = console()
    print_story(target, made.directory, cell="honest", trial=None)
    assert "In flight at the cut: 3 writes, 1 flush; 2 of the writes survived" in text_of(target)
    assert "honest: In flight at the cut: 3 writes, 1 flush." in html_report(
        made.directory, made.run
    )


def test_the_story_of_a_cell(made, tmp_path):
    target = console()
    print_story(target, made.directory, cell="lying", trial=None)
    text = text_of(target)
    assert "✗ LOSSY (as expected)  The disk ignores flushes and FUA." in text
    assert "302 records acknowledged, 302 of them lost." in text.replace("\n", " ")
    assert "0-301  absent" in text
    assert "--seed 4711 --only lying" in text
    # The recording of this test has no log and no history: that is said, not hidden.
    assert text.count("not readable:") == 2
    assert "The recording is as it was sealed: 2 files" in text


@pytest.mark.parametrize("folder", ["cells/honest/0001", "cells/honest"])
def test_the_folder_of_a_trial_or_a_cell_is_that_one(made, folder):
    shown = CliRunner().invoke(cli, ["show", str(made.directory.path / folder)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("\nhonest ")
    assert "\nlying " not in shown.output


def test_the_story_says_that_a_recording_was_changed(made):
    trial = made.directory.at("cells/lying/0001")
    (trial.path / "observation.json").write_text("{}")
    target = console()
    print_story(target, made.directory, cell="lying", trial=None)
    assert "The recording is damaged:" in text_of(target)
    assert "observation.json: has 2 bytes" in text_of(target).replace("\n", "")


def test_a_wrong_cell_or_trial_is_a_mistake_of_the_user(made):
    with pytest.raises(UsageError, match="did you mean lying"):
        print_story(console(), made.directory, cell="lyin", trial=None)
    with pytest.raises(UsageError, match="has no trial 2"):
        print_story(console(), made.directory, cell="lying", trial=2)


def test_a_failure_says_what_was_acked_what_came_back_and_how_to_repeat_it(make):
    made = make((LOSS,), (), ())
    cell = made.run.cells[0]
    text = failure_text(made.run, cell)
    assert text.splitlines()[0] == "first-light, cell honest: LOSSY, expected SAFE"
    assert "acked       records 1-302" in text
    assert "lost        2 (LSN 301-302)" in text
    assert f"again       {cell.reproduce}" in text
    assert cell.reproduce.endswith("--seed 4711 --only honest")


LOSS = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(301, 302),))
GONE = Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, "it does not mount", (LsnRange(1, 16),))


def test_a_system_that_did_not_recover_lost_what_was_acknowledged(make):
    text = explain(make((GONE,), (), ()).run.cells[0])
    assert text.startswith("Of 302 acknowledged records, 16 (LSN 1-16) did not come back. ")


@pytest.mark.parametrize(
    ("exposure", "text"),
    [
        (None, "not known"),
        (Exposure(records=0, never_durable=0, longest_ms=0), "never"),
        (Exposure(records=1200, never_durable=0, longest_ms=12.34), "1,200 (up to 12 ms)"),
        (Exposure(records=2, never_durable=1, longest_ms=1500), "2 (at least 1.5 s)"),
        (Exposure(records=2, never_durable=2, longest_ms=9), "2 (at least 9 ms)"),
    ],
)
def test_exposure_in_words(exposure, text):
    assert words.exposed(exposure) == text


def test_ranges_are_cut_short():
    spans = [LsnRange(1, 3), LsnRange(7, 7), LsnRange(9, 10), LsnRange(12, 13), LsnRange(20, 20)]
    assert words.ranges(spans) == "1-3, 7, 9-10 and 3 more"
    assert words.ranges(spans[:3]) == "1-3, 7, 9-10"


def test_a_loss_by_exposure_alone_is_called_luck(make):
    exposed = Finding(FindingKind.EXPOSED, Verdict.LOSSY, "exposed", (LsnRange(3, 4),))
    cell = make((exposed,), (), (), exposed=2).run.cells[0]
    assert cell.commits_lost == 0
    assert explain(cell).startswith(
        "Every acknowledged record came back this time, by luck. 2 records were acknowledged "
        "while not yet durable on the disk"
    )


def test_progress_off_a_terminal_is_a_line_a_trial():
    target = console()
    with ProgressView(target) as view:
        view(RunStarted("first-light", 7, ("a", "b"), 2, Path("x")))
        view(TrialPhase("a", 1, Phase.BOOT))
        view(TrialFinished("a", 1, Verdict.SAFE, 300, 0, 1.25))
        view(TrialFinished("no-sync", 1, Verdict.LOSSY, 300, 300, 1.0, control=True))
        view(TrialFinished("[b]", 1, Verdict.INCONCLUSIVE, 0, 0, 60.0))  # one more than foretold
        view(Notice("[not markup]"))
        view(RunFinished("first-light", Verdict.LOSSY, Path("x")))
    assert text_of(target).splitlines() == [
        "first-light: 2 cells, 2 power cuts with controls, seed 7",
        "  ✓ SAFE         a #1: 300 acknowledged, 0 lost, 1.2 s",
        "  ✗ LOSSY        control no-sync #1: 300 acknowledged, 300 lost, 1.0 s",
        "  ? INCONCLUSIVE [b] #1: 0 acknowledged, 0 lost, 60.0 s",
        "[not markup]",
    ]


def test_progress_on_a_terminal_does_not_fail():
    target = Console(file=io.StringIO(), width=110, force_terminal=True)
    with ProgressView(target) as view:
        view(RunStarted("first-light", 7, ("a",), 1, Path("x")))
        view(TrialPhase("a", 1, Phase.BOOT))
        view(TrialFinished("a", 1, Verdict.SAFE, 300, 0, 1.25))
        view(TrialFinished("a", 2, Verdict.SAFE, 300, 0, 1.25))
        view(RunFinished("first-light", Verdict.SAFE, Path("x")))


def test_the_line_of_a_terminal_has_what_each_is_busy_with():
    target = Console(file=io.StringIO(), width=200, force_terminal=True)
    with ProgressView(target) as view:
        view(RunStarted("first-light", 7, ("a",), 2, Path("x")))
        view(TrialPhase("a", 1, Phase.EXPLORE, "40 of 320, about 7 s left"))
        view(TrialPhase("files", 0, Phase.EXPLORE, "8 of 320, about 20 s left"))
        (task,) = view._bar.tasks
        assert task.fields["now"] == (
            "a: recovering crash states 40 of 320, about 7 s left; "
            "files: recovering crash states 8 of 320, about 20 s left"
        )
        view(TrialFinished("a", 1, Verdict.SAFE, 300, 0, 1.25))
        view(TrialPhase("b", 1, Phase.BOOT))
        assert "a: " not in task.fields["now"]


def test_a_plan_shows_seeds_cuts_and_machines(make):
    target = console()
    print_plan(target, make.plan, 4, lambda cell: ["qemu", f"cell={cell.name}", "a b"])
    text = text_of(target)
    assert text.startswith("first-light: 3 cells, 3 power cuts and 1 for controls, seed 4711\n")
    assert "  disk.flush: ignored\n" in text
    assert "  machine: qemu cell=lying 'a b'\n" in text
    seed = make.plan.cells[0].trials[0].seed
    assert f"  trial 1: seed {seed}, cut once 300 commits are acknowledged\n" in text


def test_a_program_acknowledges_operations_and_a_log_records():
    program = Parameters.model_validate({"workload": {"kind": "program", "command": "x"}})
    assert words.unit_of(program).place("3-7") == "no. 3-7"
    assert words.unit_of(program).first(9) == "9 operations"
    assert words.unit_of(Parameters()).place("3-7") == "LSN 3-7"
    assert words.unit_of(Parameters()).first(9) == "records 1-9"
    assert words.with_article("operation") == "an operation"
