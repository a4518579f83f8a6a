# SPDX-License-Identifier: Apache-2.0
"""`powercut list presets`, and `--preset` where commands take it."""

from __future__ import annotations

import json

from command_line import powercut

from powercut.scenario.preset import all_presets


def test_presets_are_listed() -> None:
    done = powercut("list", "presets")
    assert done.returncode == 0
    for preset in all_presets():
        (line,) = [x for x in done.stdout.splitlines() if x.split()[:1] == [preset.name]]
        assert line.split()[-2:] == [preset.expect.value.upper(), preset.status.value]
    assert done.stdout.count("\n") >= len(all_presets())
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_a_preset_is_explained() -> None:
    done = powercut("list", "presets", "virtualbox-ide", "crosvm/remedy")
    assert done.returncode == 0
    for words in ("IgnoreFlush", "DrvVD.cpp", "machine.no_flush: on", "machine.no_flush: off"):
        assert words in done.stdout
    assert "preset: virtualbox-ide, virtualbox-ide/remedy" in done.stdout
    assert "preset: crosvm\n" in done.stdout


def test_presets_as_json() -> None:
    found = json.loads(powercut("list", "presets", "--json", "-").stdout)["presets"]
    assert [preset["name"] for preset in found] == [preset.name for preset in all_presets()]


def test_a_plan_of_presets() -> None:
    done = powercut(
        "run", "--dry-run", "--brief", "--preset", "virtualbox-ide", "--preset", "crosvm"
    )
    assert done.returncode == 0
    assert "presets: 3 cells" in done.stdout
    assert "first-light" not in done.stdout


def test_no_such_preset() -> None:
    for argv in (["list", "presets", "virtualbox"], ["run", "--preset", "virtualbox"]):
        done = powercut(*argv)
        assert done.returncode == 2
        assert "there is no preset 'virtualbox'; did you mean virtualbox-" in done.stderr
        assert "Traceback" not in done.stderr
