# SPDX-License-Identifier: Apache-2.0
"""The root file system that a program has for itself is among what a cell runs on."""

import pytest

from powercut.recover.uml.boot import unavailable
from powercut.rig.components import components_of
from powercut.rig.rig import Rig
from powercut.scenario.load import expand, parse_scenario

TEXT = (
    "powercut: 1\nname: s\nworkload: {kind: program, where: no-vm, root: ./image, command: /prog}\n"
)
PLAIN = "powercut: 1\nname: s\nworkload: {kind: program, command: image/prog}\n"


def roots(folder, text):
    scenario = folder / "s.yaml"
    plan = expand(parse_scenario(text, scenario), seed=1)
    found = components_of(Rig(folder / "cache"), plan.cells)
    return [part for part in found.components if part.role == "root file system"]


@pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))
def test_a_root_of_its_own_is_named_with_its_digest(tmp_path):
    image, other = tmp_path / "image", tmp_path / "other"
    for folder in (image, other):
        folder.mkdir()
        (folder / "prog").write_text("#!/bin/sh\n")
        (folder / "prog").chmod(0o755)
    (other / "database-2.0").write_text("newer")
    (first,) = roots(tmp_path, TEXT)
    assert first.name == "image"
    assert len(first.sha256) == 64
    assert first.sha256.startswith(first.version)
    (second,) = roots(tmp_path, TEXT.replace("image", "other"))
    assert second.sha256 != first.sha256
    assert roots(tmp_path, PLAIN) == []
