# SPDX-License-Identifier: Apache-2.0
"""What a certificate says was executed: whose it is, and what confines it."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.rig.components import Walls, executed_by
from powercut.scenario.load import expand, parse_scenario
from powercut.store.component import Component, Executed

BOTH = Walls("bubblewrap", "bubblewrap", "bubblewrap, else Landlock")
NONE = Walls("", "", "")
QEMU = Component(
    role="hypervisor", name="qemu-system-x86_64", version="8.2", package="qemu 8.2", sha256="a" * 64
)
UML = Component(role="recovery kernel", name="User-Mode Linux", version="6.1", sha256="b" * 64)
PROGRAM = Component(role="program", name="prog", version="c" * 16, package="", sha256="c" * 64)
LOG = "filesystem: {type: raw}\nworkload: {layout: raw}\n"
OWN = "workload: {kind: program, command: /usr/bin/prog x}\n"


def executed(text: str, *parts: Component, walls: Walls = BOTH) -> dict[str, Executed]:
    scenario = f"powercut: 1\nname: s\n{text}"
    (cell,) = expand(parse_scenario(scenario, Path("/s/s.yaml")), seed=1).cells
    return {one.what: one for one in executed_by(cell.parameters, parts, walls)}


def test_a_hypervisor_has_a_digest_a_source_and_its_own_sandbox_alone():
    found = executed(LOG, QEMU)["hypervisor"]
    assert (found.sha256, found.source) == ("a" * 64, "this host, package qemu 8.2")
    assert found.confined == "its own sandbox alone (-sandbox on), as the caller"


def test_one_by_its_path_is_of_whoever_wrote_the_scenario():
    part = QEMU.model_copy(update={"package": ""})
    found = executed(f"machine: {{qemu: /opt/qemu/qemu}}\n{LOG}", part)["hypervisor"]
    assert found.source == "the path that the scenario names: /opt/qemu/qemu"
    found = executed(f"machine: {{qemu: trixie}}\n{LOG}", part)["hypervisor"]
    assert found.source == "Debian trixie"


@pytest.mark.parametrize(
    ("where", "runs", "checks"),
    [
        ("uml", "User-Mode Linux, bubblewrap", "bubblewrap on this host, samples of it in"),
        ("loop", "namespaces of its own, as nobody", "bubblewrap on this host, samples of it in"),
    ],
)
def test_a_program_and_its_check_are_named_with_what_confines_them(where, runs, checks):
    found = executed(OWN.replace("x}", f"x, where: {where}}}"), PROGRAM, UML)
    assert found["program"].command == "/usr/bin/prog x run"
    assert found["check"].command == "/usr/bin/prog x check"
    assert found["program"].sha256 == found["check"].sha256 == "c" * 64
    assert found["program"].source == "this host's files"
    assert found["program"].confined == runs
    assert found["check"].confined.startswith(checks)
    assert found["recovery kernel"].confined.startswith("bubblewrap, no capability")


def test_where_no_sandbox_works_it_is_said():
    found = executed(OWN, PROGRAM, UML, walls=NONE)
    assert found["tools on images"].confined == "not confined: there is no sandbox here"
    assert found["check"].confined == "User-Mode Linux, no view of files of its own"


def test_a_program_in_a_virtual_machine_is_of_its_root():
    root = "workload: {kind: program, root: ./image, command: /prog}\n"
    found = executed(root, QEMU)
    assert found["program"].source == "the root file system /s/image"
    assert found["check"].confined == "in a virtual machine"
