# SPDX-License-Identifier: Apache-2.0
"""Rows of trials: they come back as they were, and their digest names each of them."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from hostile import bounded

from powercut.model.errors import DamagedRecording, HostError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.store import rows as rows_module
from powercut.store.results import CellResult
from powercut.store.rows import LISTED, ROWS, Row, TrialRows, fits_a_row
from powercut.store.trial_result import Exposure, TrialResult

CELLS = expand(
    parse_scenario(
        "powercut: 1\nname: two\nfilesystem: {type: raw}\ntrials: 200\n"
        "cells: [{name: a}, {name: b, machine.cache: unsafe}]\n",
        Path("two.yaml"),
    ),
    seed=3,
).cells
PARAMETERS = {cell.name: cell.parameters for cell in CELLS}


def result(trial: Trial, **told) -> TrialResult:
    told = {"verdict": Verdict.SAFE, "acked": 10 + trial.number, "attempted": 300, **told}
    return TrialResult.judged(
        trial,
        **{"findings": [], **told},
        exposure=Exposure(records=trial.number % 3, never_durable=0, longest_ms=0.1 * trial.number),
        timings_s={"run": 0.5 + trial.number / 1000, "judge": 0.1},
        result_directory=f"cells/a/{trial.number:04d}",
        binding=f"{trial.number:064x}",
    )


def row(trial: Trial) -> Row:
    told = '{"format": "x"}' if trial.number == 50 else ""
    return Row.of(f"h{trial.number % 3}", 0.7, f"{trial.number:064x}", result(trial), told)


@pytest.fixture
def run(tmp_path):
    """Rows 33 to 200 of one cell, and a row of another."""
    with TrialRows.write(tmp_path / ROWS, PARAMETERS) as rows:
        for trial in CELLS[0].trials[LISTED:]:
            rows.add("a", row(trial))
        rows.add("b", row(CELLS[1].trials[-1]))
    return tmp_path


def cell_of(run: Path, *, rows: bool = True) -> CellResult:
    trials = CELLS[0].trials[:LISTED] if rows else CELLS[0].trials
    listed = [result(trial) for trial in trials]
    if not rows:
        return CellResult.of("two", CELLS[0], listed, verdict=Verdict.SAFE)
    with TrialRows.find(run) as found:
        told = found.of_cell("a")
        return CellResult.of("two", CELLS[0], listed, verdict=Verdict.SAFE, rows=told)


def test_rows_come_back_as_they_were(run):
    with TrialRows.find(run) as rows:
        assert list(rows.of_cell("a")) == [row(trial) for trial in CELLS[0].trials[LISTED:]]
        assert rows.row("a", 50) == row(CELLS[0].trials[49])
        assert rows.row("a", 1) is None
        assert list(rows.makers("b")) == [200]
        assert (rows.any_explored("a"), rows.any_explored("b")) == (True, False)


def test_a_cell_with_rows_adds_up_to_what_it_is_without(run):
    told, whole = cell_of(run), cell_of(run, rows=False)
    assert (told.trials_in_all, len(told.trials), told.unlisted.trials) == (200, 32, 168)
    left_out = {"trials", "unlisted", "timings_s"}
    assert told.model_dump(exclude=left_out) == whole.model_dump(exclude=left_out)
    assert told.loss_probability_upper_95 == pytest.approx(1 - 0.05 ** (1 / 200))
    assert told.timings_s == pytest.approx(whole.timings_s)
    again = CellResult.model_validate_json(told.model_dump_json())
    assert (again, again.trials_in_all) == (told, 200)


def test_a_cell_without_rows_is_written_as_before(run):
    assert "unlisted" not in cell_of(run, rows=False).model_dump_json()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET host = 'h9' WHERE number = 77",
        "UPDATE trials SET manifest = zeroblob(32) WHERE number = 77",
        "UPDATE trials SET seconds = 9 WHERE number = 77",
        "UPDATE trials SET exploration = NULL WHERE number = 50",
        "DELETE FROM trials WHERE number = 200 AND cell = 1",
    ],
)
def test_the_digest_covers_each_column_and_each_row(run, change):
    before = cell_of(run).unlisted
    with sqlite3.connect(run / ROWS) as database:
        assert database.execute(change).rowcount == 1
    assert cell_of(run).unlisted.sha256 != before.sha256


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE trials SET acked = acked + 1", "its counts are not those of its result"),
        ("UPDATE trials SET lost = 1", "its counts are not those of its result"),
        ("UPDATE trials SET seed = seed + 1", "it is not what its result says"),
        ("UPDATE trials SET verdict = 'survived'", "it is not what its result says"),
        ("UPDATE trials SET number = 999", "it is not what its result says"),
        ("UPDATE trials SET result = x'00'", "trial 77: "),
    ],
)
def test_a_row_that_contradicts_its_result_is_damaged(run, change, words):
    with sqlite3.connect(run / ROWS) as database:
        assert database.execute(f"{change} WHERE number = 77").rowcount == 1
    with pytest.raises(DamagedRecording, match=words):
        cell_of(run)


def test_what_is_no_such_file_is_damaged(tmp_path):
    (tmp_path / ROWS).write_bytes(b"no database" * 100)
    with pytest.raises(DamagedRecording, match="not the trials of a run"):
        TrialRows.find(tmp_path)


def test_rows_of_other_settings_are_refused(run):
    with pytest.raises(DamagedRecording, match="of other settings"):
        TrialRows.write(run / ROWS, {**PARAMETERS, "b": PARAMETERS["a"]})


def test_all_that_a_host_made_can_be_taken_back(run):
    with TrialRows.write(run / ROWS, PARAMETERS) as rows:
        assert rows.hosts() == ("h0", "h1", "h2")
        rows.drop_host("h1")
        assert rows.hosts() == ("h0", "h2")
        assert all(number % 3 != 1 for number in rows.makers("a"))


LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(1, 10),))
NOTE = Finding(FindingKind.INCOMPLETE, Verdict.SAFE, "something is said of it")


@pytest.mark.parametrize(
    ("number", "told", "fits"),
    [
        (LISTED, {}, False),
        (LISTED + 1, {}, True),
        (LISTED + 1, {"verdict": Verdict.SURVIVED}, True),
        (LISTED + 1, {"verdict": Verdict.INCONCLUSIVE}, False),
        (LISTED + 1, {"verdict": Verdict.LOSSY, "findings": [LOST]}, False),
        (LISTED + 1, {"findings": [NOTE]}, False),
    ],
)
def test_only_trials_that_nobody_needs_to_look_at_are_rows(number, told, fits):
    trial = Trial(number, 7, 8, Trigger(TriggerKind.ACKS, 10))
    assert fits_a_row(result(trial, **told)) is fits


NEVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "


@pytest.mark.parametrize(
    "attack",
    [
        f"CREATE VIEW trials AS {NEVER} SELECT x AS cell, x AS number FROM n",
        f"CREATE VIEW cells AS {NEVER} SELECT x AS number, x AS name, x AS sample FROM n",
        "CREATE TRIGGER t AFTER INSERT ON more BEGIN DELETE FROM more; END",
        "CREATE INDEX i ON more (x) WHERE x > 1",
    ],
)
def test_a_file_with_tables_of_its_own_is_not_asked(run, attack):
    """A view that never ends took `show` and `verify` with it."""
    with sqlite3.connect(run / ROWS) as database:
        database.execute("CREATE TABLE more (x)")
        name = attack.split()[2]
        if name in ("trials", "cells"):
            database.execute(f"DROP TABLE {name}")
        database.execute(attack)
    with bounded(), pytest.raises(DamagedRecording, match="its tables are others"):
        TrialRows.find(run)


def test_a_query_that_does_not_end_is_interrupted(run, monkeypatch):
    """Pages of a damaged file can lead in circles."""
    monkeypatch.setattr(rows_module, "_QUERY_S", -1.0)
    monkeypatch.setattr(rows_module, "_STEPS", 1)
    with pytest.raises(DamagedRecording, match="to read"):
        TrialRows.find(run)


def test_any_damage_to_its_pages_ends_in_an_error_or_in_rows(run, tmp_path):
    whole = (run / ROWS).read_bytes()
    rng = random.Random(1)
    found = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 4, 64])):
            data[rng.randrange(100 if rng.random() < 0.2 else len(data))] = rng.randrange(256)
        (run / ROWS).write_bytes(data)
        with bounded():
            try:
                with TrialRows.find(run) as rows:
                    found += len(list(rows.of_cell("a")))
            except (DamagedRecording, HostError):
                pass
    assert found > 0
