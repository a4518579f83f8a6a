# SPDX-License-Identifier: Apache-2.0
"""Presets: files that load, settings that are legal, and what a scenario makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from powercut.model.errors import UsageError
from powercut.model.machine import Bus, CacheMode, ImageFormat
from powercut.report.reference import preset_schema
from powercut.scenario.load import expand, parse_scenario, preset_scenario
from powercut.scenario.preset import (
    PRESETS,
    FlushReaches,
    SourceStatus,
    all_presets,
    find_preset,
    named_settings,
    parse_preset,
    preset_names,
)
from powercut.scenario.settings import Expect

FILES = sorted(PRESETS.glob("*.yaml"))
GOOD = (PRESETS / "virtualbox-ide.yaml").read_text()
HERE = Path("virtualbox-ide.yaml")


def scenario(text: str) -> tuple[str, dict[str, object]]:
    made = parse_scenario("powercut: 1\nname: s\n" + text, Path("s.yaml"))
    return made.text, {draft.name: parameters for draft, parameters in made.cells}


def cells(text: str) -> dict[str, object]:
    return scenario(text)[1]


def mistakes(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        parse_scenario("powercut: 1\nname: s\n" + text, Path("s.yaml"))
    return str(caught.value).splitlines()


def preset_mistakes(old: str, new: str) -> list[str]:
    assert old in GOOD
    with pytest.raises(UsageError) as caught:
        parse_preset(GOOD.replace(old, new, 1), HERE)
    return str(caught.value).splitlines()


def test_there_are_all_the_products_that_were_asked_for() -> None:
    assert len(FILES) == 24
    assert {preset.name for preset in all_presets()} == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_preset_loads_expands_and_fits_its_schema(path: Path) -> None:
    preset = find_preset(path.stem)
    made = preset_scenario([path.stem])
    plan = expand(made, seed=1)
    names = [path.stem] + [f"{path.stem}-remedy"] * (preset.remedy is not None)
    assert [cell.name for cell in plan.cells] == names
    assert plan.cells[0].expect is preset.expect
    assert all(cell.expect is Expect.SAFE for cell in plan.cells[1:])
    document = YAML(typ="safe").load(path.read_text())
    jsonschema.Draft202012Validator(preset_schema()).validate(document)
    assert "preset" not in YAML(typ="safe").load(made.text)


def test_every_default_that_loses_records_has_a_remedy() -> None:
    for preset in all_presets():
        assert (preset.remedy is not None) == (preset.expect is Expect.LOSSY), preset.name
        assert (preset.flush_reaches is FlushReaches.STABLE_MEDIA) == (preset.expect is Expect.SAFE)
        assert (preset.status is SourceStatus.UNCONFIRMED) == bool(preset.open_question)


def test_a_preset_of_a_cell_stands_below_the_cell() -> None:
    made = cells(
        "machine: {bus: nvme, memory: 256MiB}\n"
        "cells:\n"
        "  - {name: a, preset: virtualbox-ide}\n"
        "  - {name: b, preset: virtualbox-ide, machine.bus: ahci, expect: safe}\n"
        "  - {name: c}\n"
    )
    assert [cell.machine.bus for cell in made.values()] == [Bus.IDE, Bus.AHCI, Bus.NVME]
    assert {cell.machine.memory for cell in made.values()} == {256 << 20}
    assert [cell.expect for cell in made.values()] == [Expect.LOSSY, Expect.SAFE, Expect.SAFE]
    assert made["a"].machine.host_cache.no_flush
    assert made["a"].machine.format is ImageFormat.VDI


def test_a_preset_of_the_scenario_stands_below_everything() -> None:
    made = cells(
        "preset: virtualbox-ide\n"
        "machine: {cache: none}\n"
        "cells:\n"
        "  - {name: a}\n"
        "  - {name: b, preset: virtualbox-ide/remedy, machine.format: raw}\n"
    )
    assert [cell.machine.cache for cell in made.values()] == [CacheMode.NONE, CacheMode.WRITEBACK]
    assert [cell.machine.format for cell in made.values()] == [ImageFormat.VDI, ImageFormat.RAW]
    assert [cell.machine.host_cache.no_flush for cell in made.values()] == [True, False]
    assert [cell.expect for cell in made.values()] == [Expect.LOSSY, Expect.SAFE]


def test_a_scenario_with_a_preset_and_no_cells_has_one_of_its_name() -> None:
    text, made = scenario("preset: firecracker\n")
    assert list(made) == [""]
    assert not made[""].machine.host_cache.write_cache
    assert cells(text.partition("name: s\n")[2]) == {"s": made[""]}


def test_a_matrix_takes_presets() -> None:
    made = cells(
        "cells:\n"
        "  - {name: x, disk.size: 32MiB}\n"
        "matrix:\n"
        "  preset: [virtualbox-ide, virtualbox-ide/remedy, crosvm]\n"
        "  filesystem.type: [xfs, raw]\n"
        "  exclude:\n"
        "    - {preset: crosvm, filesystem.type: raw}\n"
    )
    assert list(made) == [
        "x,preset=virtualbox-ide,type=xfs",
        "x,preset=virtualbox-ide,type=raw",
        "x,preset=virtualbox-ide_remedy,type=xfs",
        "x,preset=virtualbox-ide_remedy,type=raw",
        "x,preset=crosvm,type=xfs",
    ]
    assert [cell.machine.bus for cell in made.values()] == [Bus.IDE] * 4 + [Bus.VIRTIO_BLK]


def test_what_is_kept_names_no_preset_and_makes_the_same_cells() -> None:
    text = (
        "preset: proxmox\n"
        "seed: 7\n"
        "cut: {trigger: {random: [100ms, 2s]}}\n"
        "cells:\n"
        "  - {name: a, description: one, preset: virtualbox-ide, trials: 3}\n"
        "  - {name: b}\n"
        "matrix: {filesystem.type: [ext4, raw]}\n"
    )
    first = parse_scenario("powercut: 1\nname: s\n" + text, Path("s.yaml"))
    assert "preset" not in YAML(typ="safe").load(first.text)
    assert "# virtualbox-ide: VirtualBox" in first.text
    again = parse_scenario(first.text, Path("s.yaml"))
    assert again.text == first.text
    plans = [expand(made, seed=7) for made in (first, again)]
    for one, other in zip(plans[0].cells, plans[1].cells, strict=True):
        assert (one.name, one.description) == (other.name, other.description)
        assert (one.parameters, one.trials) == (other.parameters, other.trials)


def test_what_is_kept_does_not_name_what_cannot_be() -> None:
    text = (
        "matrix:\n"
        "  strategy: product\n"
        "  preset: [crosvm, virtualbox-ide]\n"
        "  machine.config_wce: [auto, on]\n"
    )
    first = parse_scenario("powercut: 1\nname: s\n" + text, Path("s.yaml"))
    again = parse_scenario(first.text, Path("s.yaml"))
    assert [draft.name for draft, _ in again.cells] == [
        "preset=crosvm,config_wce=auto",
        "preset=crosvm,config_wce=on",
        "preset=virtualbox-ide,config_wce=auto",
    ]
    assert [made for _, made in again.cells] == [made for _, made in first.cells]


def test_a_scenario_without_presets_is_kept_as_it_is() -> None:
    text = "powercut: 1\nname: s\n# a remark\nmachine: {bus: ide}\n"
    assert parse_scenario(text, Path("s.yaml")).text == text


def test_presets_by_name_make_a_cell_for_each_and_its_remedy() -> None:
    made = preset_scenario(["virtualbox-ide", "crosvm", "firecracker/remedy"])
    assert made.name == "presets"
    assert [draft.name for draft, _ in made.cells] == [
        "virtualbox-ide",
        "virtualbox-ide-remedy",
        "crosvm",
        "firecracker-remedy",
    ]
    assert preset_scenario(["crosvm"]).name == "preset-crosvm"
    assert len(preset_names()) == 24 + sum(p.remedy is not None for p in all_presets())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "preset: virtualbox-idee\n",
            's.yaml:3:1: preset: there is no such preset, got "virtualbox-idee"; '
            "did you mean virtualbox-ide?",
        ),
        (
            "cells:\n  - name: a\n    preset: crosvm/remedy\n",
            "s.yaml:5:5: cells.0.preset: crosvm has no remedy: it is safe as it comes, "
            'got "crosvm/remedy"',
        ),
        (
            "cells:\n  - {name: a, preset: 3}\n",
            "s.yaml:4:15: cells.0.preset: should be the name of a preset, got 3",
        ),
        (
            "matrix:\n  preset: [crosvm, nothing-like-it]\n",
            's.yaml:4:20: matrix.preset.1: there is no such preset, got "nothing-like-it"',
        ),
        (
            "cells:\n  - name: a\n    preset: cloud-hypervisor\n    machine.bus: ide\n",
            "s.yaml:5:5: cells.0.preset: machine.config_wce: only a virtio-blk disk lets its "
            "guest switch the write cache",
        ),
        (
            "preset: cloud-hypervisor\nmachine: {bus: ide}\n",
            "s.yaml:3:1: preset: machine.config_wce: only a virtio-blk disk lets its "
            "guest switch the write cache",
        ),
    ],
)
def test_a_mistake_points_at_the_preset(text: str, expected: str) -> None:
    assert mistakes(text) == [expected]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "  machine.bus: ide\n",
            "  machine.bus: idea\n",
            "settings.machine.bus: should be one of",
        ),
        (
            "  machine.bus: ide\n",
            "  machine.buz: ide\n",
            "settings.machine.buz: no setting of the machine or of the disk; "
            "did you mean machine.bus?",
        ),
        (
            "  machine.bus: ide\n",
            "  workload.sync: none\n",
            "settings.workload.sync: no setting of the machine or of the disk",
        ),
        ("expect: lossy", "expect: safe", "flush_reaches and expect contradict each other"),
        ("status: confirmed", "status: unconfirmed", "has an open_question"),
        ("status: confirmed", "status: sure", "status: should be one of confirmed, unconfirmed"),
        ("name: virtualbox-ide", "name: virtualbox", "should be 'virtualbox-ide', as its file"),
        ("product: ", "produkt: ", "produkt: unknown key; did you mean product?"),
        ('    machine.no_flush: "off"', '    machine.no_flush: "on"', "the remedy changes nothing"),
        ("powercut-preset: 1", "powercut-preset: 2", "powercut-preset: "),
    ],
)
def test_a_mistake_in_a_preset_has_its_place(old: str, new: str, expected: str) -> None:
    found = preset_mistakes(old, new)
    assert any(expected in line for line in found), found
    assert all(line.startswith("virtualbox-ide.yaml:") for line in found)


def test_no_preset_of_that_name() -> None:
    with pytest.raises(UsageError, match="did you mean crosvm"):
        named_settings("crosvn")
    with pytest.raises(UsageError, match="NAME or NAME/remedy"):
        named_settings("firecracker/cure")


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(preset_schema())
    assert json.dumps(preset_schema())
