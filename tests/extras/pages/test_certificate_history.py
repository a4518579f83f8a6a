# SPDX-License-Identifier: Apache-2.0
"""Certificates over time: what changed, what is noise, what cannot be read."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from certificate_maker import LINUX, QEMU, cell_of, certificate_of_cells, cost_of
from click.testing import CliRunner

from powercut.cli.commands import cli
from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict
from powercut_extras.certify.certificate import CertifiedCell
from powercut_extras.pages.history import Series, changed_names
from powercut_extras.pages.history_page import (
    change_lines,
    history_html,
    spark_svg,
    strip_svg,
    when,
)
from powercut_extras.pages.history_reader import read_history

NAMES = [f"cell{number}" for number in range(12)]

Night = Callable[..., Path]


@pytest.fixture
def night(tmp_path: Path) -> Night:
    """Writes one certificate; returns the folder of its profile."""
    counter = iter(range(1000))

    def write(cells: Sequence[CertifiedCell], profile: str = "nightly", **changes: object) -> Path:
        number = next(counter)
        started = f"2026-{1 + number // 28:02}-{1 + number % 28:02}T01:00:00+00:00"
        certificate = certificate_of_cells(cells, **({"started": started} | changes))
        folder = tmp_path / "certify" / profile / f"n{number:03}"
        folder.mkdir(parents=True)
        (folder / "certificate.json").write_text(certificate.model_dump_json())
        return folder

    return write


def cells(speeds: dict[str, float], **verdicts: Verdict) -> list[CertifiedCell]:
    return [
        cell_of(name, verdicts.get(name, Verdict.SAFE), costs=(cost_of(100.0, round(speed * 100)),))
        for name, speed in speeds.items()
    ]


def noisy(rnd: random.Random, host: float = 1.0, **changed: float) -> dict[str, float]:
    """Commits a second of every cell: 100 to 1200, times the host's pace, give or take 5 %."""
    return {
        name: 100.0 * (number + 1) * host * changed.get(name, 1.0) * rnd.uniform(0.95, 1.05)
        for number, name in enumerate(NAMES)
    }


def only(tmp_path: Path) -> Series:
    (series,) = read_history(tmp_path).series
    return series


def test_one_run_has_nothing_to_compare_with(night: Night, tmp_path: Path):
    night(cells(noisy(random.Random(1))))
    series = only(tmp_path)
    assert series.changes is None
    page = history_html(read_history(tmp_path), tmp_path)
    assert "nothing to compare it with" in page


def test_verdicts_come_first_and_the_worse_before_the_better(night: Night, tmp_path: Path):
    rnd = random.Random(2)
    night(cells(noisy(rnd), cell1=Verdict.LOSSY))
    night(
        cells(noisy(rnd), cell5=Verdict.INCONCLUSIVE, cell7=Verdict.LOSSY),
        components=(QEMU.model_copy(update={"version": "10.0.2"}), LINUX),
    )
    changes = only(tmp_path).changes
    assert changes is not None
    assert [(c.name[1], c.before, c.after) for c in changes.verdicts] == [
        ("cell7", Verdict.SAFE, Verdict.LOSSY),
        ("cell5", Verdict.SAFE, Verdict.INCONCLUSIVE),
        ("cell1", Verdict.LOSSY, Verdict.SAFE),
    ]
    lines = [text for _, text in change_lines(changes)]
    assert lines[0] == "some: cell7 was SAFE and is LOSSY."
    assert lines[-1].startswith("hypervisor: qemu-system-x86_64: 7.2.22 (")
    assert [version.what for version in changes.versions] == ["hypervisor: qemu-system-x86_64"]


def test_a_rebuilt_binary_of_the_same_version_is_a_change(night: Night, tmp_path: Path):
    night([cell_of("a", Verdict.SAFE)])
    night(
        [cell_of("a", Verdict.SAFE)],
        components=(QEMU.model_copy(update={"sha256": "cd" * 32}), LINUX),
    )
    changes = only(tmp_path).changes
    assert changes is not None
    assert len(changes.versions) == 1


@pytest.mark.parametrize("runs", [2, 3, 7, 40])
def test_a_slower_host_is_no_change_but_a_slower_cell_is(night: Night, tmp_path: Path, runs: int):
    rnd = random.Random(runs)
    for _ in range(runs - 1):
        night(cells(noisy(rnd, host=rnd.uniform(0.7, 1.3))))
    night(cells(noisy(rnd, host=0.5, cell3=2.0, cell8=0.4)))
    series = only(tmp_path)
    changes = series.changes
    assert changes is not None
    assert {cost.name[1] for cost in changes.costs} == {"cell3", "cell8"}
    factor = {cost.name[1]: cost.factor for cost in changes.costs}
    assert factor["cell3"] == pytest.approx(2.0, rel=0.15)
    assert factor["cell8"] == pytest.approx(0.4, rel=0.15)
    assert series.paces[-1] == pytest.approx(0.5, rel=0.45)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_changes_nothing(night: Night, tmp_path: Path, seed: int):
    rnd = random.Random(seed)
    for _ in range(8):
        night(cells(noisy(rnd, host=rnd.uniform(0.6, 1.4))))
    changes = only(tmp_path).changes
    assert changes is not None
    assert changes.costs == ()
    assert changes.verdicts == ()


def test_a_cell_that_always_scatters_needs_a_larger_change(night: Night, tmp_path: Path):
    rnd = random.Random(5)
    wild = [0.5, 1.6, 0.7, 1.5, 0.6, 1.4, 0.8, 1.3, 0.5]
    for factor in wild:
        night(cells(noisy(rnd, cell4=factor)))
    night(cells(noisy(rnd, cell4=1.7, cell9=1.7)))
    changes = only(tmp_path).changes
    assert changes is not None
    assert [cost.name[1] for cost in changes.costs] == ["cell9"]


def test_too_few_costs_tell_no_pace(night: Night, tmp_path: Path):
    night(cells({"a": 100.0, "b": 200.0}))
    night(cells({"a": 100.0, "b": 400.0}))
    series = only(tmp_path)
    assert series.paces == (None, None)
    assert series.changes is not None
    assert series.changes.pace is None


def test_cells_that_come_and_go(night: Night, tmp_path: Path):
    night([cell_of("a", Verdict.SAFE), cell_of("b", Verdict.SAFE)])
    night([cell_of("a", Verdict.LOSSY), cell_of("c", Verdict.SAFE)])
    night([cell_of("b", Verdict.SAFE), cell_of("c", Verdict.SAFE)])
    series = only(tmp_path)
    assert series.changes is not None
    assert series.changes.added == (("some", "b"),)
    assert series.changes.gone == (("some", "a"),)
    assert series.changes.verdicts == ()
    assert series.verdicts(("some", "a")) == [Verdict.SAFE, Verdict.LOSSY, None]
    assert changed_names(series) == [("some", "a")]
    assert "without it" in strip_svg(series.verdicts(("some", "b")), "b")


def test_damage_is_said_and_not_fatal(night: Night, tmp_path: Path):
    good = night([cell_of("a", Verdict.SAFE)])
    bad = night([cell_of("a", Verdict.SAFE)])
    text = (bad / "certificate.json").read_text()
    (bad / "certificate.json").write_text(text[: len(text) // 2])
    odd = night([cell_of("a", Verdict.SAFE)])
    (odd / "certificate.json").write_text(text.replace('"safe"', '"fine"'))
    history = read_history(tmp_path)
    assert [path.parent for path, _ in history.damaged] == [bad, odd]
    assert [one.directory for one in history.series[0].nights] == [good]
    done = CliRunner().invoke(cli, ["history", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.count("not readable:") == 2
    assert (tmp_path / "history.html").is_file()


def test_nothing_readable_is_a_mistake_of_the_user(night: Night, tmp_path: Path):
    with pytest.raises(UsageError, match="no certificate, run or captured folder that can be read"):
        read_history(tmp_path)
    bad = night([cell_of("a", Verdict.SAFE)])
    (bad / "certificate.json").write_text("{")
    with pytest.raises(UsageError, match="1 cannot"):
        read_history(tmp_path)
    with pytest.raises(UsageError, match="called weekly"):
        read_history(tmp_path, profile="weekly")


def test_profiles_are_kept_apart_and_latest_counts_once(night: Night, tmp_path: Path):
    last = night([cell_of("a", Verdict.SAFE)])
    (last.parent / "latest").symlink_to(last.name)
    night([cell_of("a", Verdict.LOSSY)], profile="quick")
    history = read_history(tmp_path)
    assert [(one.profile, len(one.nights)) for one in history.series] == [
        ("nightly", 1),
        ("quick", 1),
    ]
    assert [one.profile for one in read_history(tmp_path, profile="quick").series] == ["quick"]
    # One profile, or one run, by itself.
    assert [one.profile for one in read_history(last.parent).series] == ["nightly"]
    assert [len(one.nights) for one in read_history(last).series] == [1]


def test_a_hundred_runs(night: Night, tmp_path: Path):
    rnd = random.Random(8)
    for _ in range(100):
        night(cells(noisy(rnd, host=rnd.uniform(0.8, 1.2))))
    history = read_history(tmp_path)
    page = history_html(history, tmp_path / "certify")
    assert len(history.series[0].nights) == 100
    assert len(page) < 200_000
    assert page.count('href="nightly/n') == 100
    assert not re.search(r"<script|@import|url\((?!#)|https?://", page)


def test_hostile_names_stay_text(night: Night, tmp_path: Path):
    evil = "<script>x</script>"
    cell = cell_of("a", Verdict.SAFE).model_copy(update={"cell": evil, "explanation": evil})
    night([cell])
    night([cell.model_copy(update={"verdict": Verdict.LOSSY})])
    assert "<script" not in history_html(read_history(tmp_path), tmp_path)


def test_strips_and_sparks_draw_what_is_there():
    safe, lossy = Verdict.SAFE, Verdict.LOSSY
    strip = strip_svg([safe, safe, lossy, None, safe], "x")
    assert strip.count("<rect") == 3
    assert "2 SAFE, 1 LOSSY, 1 without it, 1 SAFE" in strip
    assert spark_svg([None, None], "x") == ""
    spark = spark_svg([1.0, None, 2.0, 4.0], "x")
    assert spark.count("M") == 3  # the axis, and two pieces
    assert when("2026-11-21T10:15:02+00:00") == "2026-11-21 10:15"
    assert when("yesterday") == "yesterday"
