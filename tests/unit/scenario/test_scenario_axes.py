# SPDX-License-Identifier: Apache-2.0
"""Axes from outside, and versions as settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.cli.scenarios import at_versions
from powercut.model.errors import UsageError
from powercut.scenario.axes import with_axes
from powercut.scenario.load import Scenario, expand, parse_scenario
from powercut.scenario.settings import MachineSettings

HEAD = "powercut: 1\nname: axes\n"


def scenario(text: str = "") -> Scenario:
    return parse_scenario(HEAD + text, Path("axes.yaml"))


def cells(made: Scenario) -> dict[str, MachineSettings]:
    return {cell.name: cell.parameters.machine for cell in expand(made, seed=1).cells}


def test_each_cell_is_multiplied() -> None:
    made = with_axes(
        scenario("matrix: {machine.cache: [none, unsafe]}\n"),
        {"machine.qemu": ["host", "sid"], "machine.kernel": []},
    )
    assert [(name, one.cache.value, one.qemu) for name, one in cells(made).items()] == [
        ("cache=none,qemu=host", "none", "host"),
        ("cache=none,qemu=sid", "none", "sid"),
        ("cache=unsafe,qemu=host", "unsafe", "host"),
        ("cache=unsafe,qemu=sid", "unsafe", "sid"),
    ]


def test_the_text_repeats_it() -> None:
    made = with_axes(scenario("# why\nseed: 3\n"), {"machine.kernel": ["trixie", "guest"]})
    again = parse_scenario(made.text, Path("elsewhere.yaml"))
    assert "# why" in made.text
    assert cells(again) == cells(made)
    assert list(cells(made)) == ["kernel=trixie", "kernel=guest"]


def test_what_the_scenario_says_gives_way() -> None:
    text = """\
machine: {qemu: bookworm}
matrix: {machine.qemu: [bookworm, trixie], machine.kernel: [sid]}
cells:
- {name: a, machine.kernel: bookworm}
"""
    made = with_axes(scenario(text), {"machine.qemu": ["sid", "sid"]})
    assert [(one.qemu, one.kernel) for one in cells(made).values()] == [("sid", "sid")]


def test_nothing_given_changes_nothing() -> None:
    given = scenario()
    assert with_axes(given, {"machine.qemu": []}) is given
    assert at_versions([given], (), ()) == [given]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"machine.qemo": ["sid"]}, "machine.qemo: unknown setting"),
        ({"machine.qemu": ["potato"]}, "machine.qemu: should be one of 'host', .*got 'potato'"),
        ({"machine.qemu": ["guest"]}, "machine.qemu: should be one of 'host'"),
        ({"machine.kernel": ["host"]}, "machine.kernel: should be one of 'guest'"),
        ({"trials": [0]}, "trials: should be greater"),
    ],
)
def test_mistakes(axes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with_axes(scenario(), axes)


def test_a_mistake_in_a_file_has_its_place() -> None:
    with pytest.raises(UsageError, match=r"axes.yaml:3:11: machine.qemu: .*did you mean trixie"):
        scenario("machine: {qemu: trixe}\n")


def test_paths_on_the_command_line_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (made,) = at_versions([scenario()], ["./qemu", "sid"], ["/boot/vmlinuz"])
    assert [(one.qemu, one.kernel) for one in cells(made).values()] == [
        (f"{tmp_path}/qemu", "/boot/vmlinuz"),
        ("sid", "/boot/vmlinuz"),
    ]


@pytest.mark.parametrize("strategy", ["product", "pairwise"])
def test_a_cell_that_is_called_by_a_version_runs_on_no_other(strategy):
    """A matrix that was chosen from is written out, the version in each name."""
    text = (
        f"powercut: 1\nname: s\nmatrix:\n  strategy: {strategy}\n"
        "  machine.qemu: [host, trixie]\n  machine.bus: [ide, virtio-blk]\n"
    )
    made = with_axes(parse_scenario(text, Path("s.yaml")), {"machine.qemu": ["sid", "host"]})
    assert [(d.name, p.machine.qemu, p.machine.bus.value) for d, p in made.cells] == [
        ("bus=ide,qemu=sid", "sid", "ide"),
        ("bus=ide,qemu=host", "host", "ide"),
        ("bus=virtio-blk,qemu=sid", "sid", "virtio-blk"),
        ("bus=virtio-blk,qemu=host", "host", "virtio-blk"),
    ], "each combination once, and called what it is"
