# SPDX-License-Identifier: Apache-2.0
"""What a run was made on is told in words, and none of it is left out."""

from __future__ import annotations

from powercut.model.reached import FilesMet, Reached
from powercut.model.verdict import Verdict
from powercut.report.page.run import facts_of, plain
from powercut.report.words import how_far, how_seeing
from powercut.store.host_load import HostLoad


def test_every_entry_of_the_environment_has_a_row(made):
    environment = {
        "powercut": "0.1.0",
        "seed": 1,
        "started": "then",
        "selection": {"only": []},
        "options": "--trials 3",
        "host": {"cpus": 2, "system": "Debian", "of": None},
        "sessions": [{"started": "then"}, {"started": "later"}, {"started": "at last"}],
        "versions": [
            {"qemu_version": "7.2", "qemu_package": "1:7.2+b3", "kernel_release": "6.1",
             "kernel_package": "linux 6.1.1", "flavour": "cloud"},
            {"qemu_version": "11"},
            {"uml": "6.1.176"},
        ],
        "fresh": [True, False, {"a": [1, 2]}],
        "qemu": "7.2",
    }  # fmt: skip
    load = HostLoad(seconds=1, processors=2, average_before=1.25, stolen=0, others=0.1)
    run = made.run.model_copy(update={"load": load})
    assert facts_of(run, environment) == [
        ("started", made.run.started),
        ("seed", "4711"),
        ("powercut", "0.1.0"),
        ("host", "cpus: 2; system: Debian"),
        ("gone on with", "later, at last"),
        ("machine", "QEMU 7.2 (1:7.2+b3); Linux 6.1 (linux 6.1.1); flavour: cloud"),
        ("machine", "QEMU 11"),
        ("machine", "uml: 6.1.176"),
        ("fresh", "yes, no, a: 1, 2"),
        ("QEMU", "7.2"),
        ("host load", "other programs took 10 % of the time of 2 processors, the load average "
         "before was 1.2"),
    ]  # fmt: skip


def test_an_environment_of_another_shape_is_told_as_it_is(made):
    names = {name for name, _ in facts_of(made.run, {"versions": "odd", "sessions": []})}
    assert "versions" in names
    assert plain({"a": {"b": None}, "c": []}) == ""


def test_how_far_the_shortest_safe_run_of_a_program_came_is_told(made):
    (cell, *_) = [one for one in made.run.cells if one.verdict is Verdict.SAFE]
    assert how_far(made.run.cells) == ""
    runs = [Reached(500, 8000, 2.0), Reached(40, 700, 1.0, FilesMet(2, 0, looks=3))]
    (trial, *_) = cell.trials
    trials = tuple(trial.model_copy(update={"reached": one}) for one in runs)
    told = cell.model_copy(update={"trials": trials})
    assert how_far([told]) == (
        f"The shortest run of a SAFE cell ({cell.cell}) reached 40 operations, 700 bytes, 1.0 s; "
        "files: 2 made, none removed (names at 3 instants; renames and truncations are not seen)."
    )
    assert f"Cell {cell.cell}: reached: {runs[1].words}." in how_seeing([told])
    assert how_far([told.model_copy(update={"verdict": Verdict.LOSSY})]) == ""
