# SPDX-License-Identifier: Apache-2.0
"""Scenarios on machines that are there already: what they may say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.contract import CutKind
from powercut.model.errors import UsageError
from powercut.scenario.load import parse_scenario
from powercut.scenario.settings_program import ON_MACHINE

MACHINE = """  backend: foreign
  host: root@192.0.2.7
  folder: /srv/powercut
"""
POWER = """  power:
    off: VBoxManage controlvm vm poweroff
    on: [VBoxManage startvm vm --type headless, [sleep, "10"]]
"""
REST = """filesystem: {type: ext4}
workload: {kind: program, command: ./prog}
expect: survived
"""


def text(machine: str = MACHINE + POWER, rest: str = REST) -> str:
    return f"powercut: 1\nname: x\nmachine:\n{machine}{rest}"


def parameters(source: str):
    ((_, made),) = parse_scenario(source, Path("/tmp/x.yaml")).cells
    return made


def test_commands_are_words_in_the_order_in_which_they_run():
    made = parameters(text())
    assert made.machine.power.off == (("VBoxManage", "controlvm", "vm", "poweroff"),)
    assert made.machine.power.on == (
        ("VBoxManage", "startvm", "vm", "--type", "headless"),
        ("sleep", "10"),
    )
    assert made.machine.power.status == ()
    assert made.workload.root == ON_MACHINE
    assert type(made).model_validate_json(made.model_dump_json()) == made


def test_a_kernel_that_restarts_needs_no_switch():
    made = parameters(text(MACHINE, REST + "cut: {kind: guest-crash}\n"))
    assert made.cut.kind is CutKind.GUEST_CRASH


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (text(MACHINE), "machine.power: say which commands take the power away (power-loss)"),
        (text("  backend: foreign\n" + POWER), "machine.host: foreign is a machine that is there"),
        (text("  backend: foreign\n" + POWER), "machine.folder: say which folder there"),
        (text(MACHINE + POWER + "  cache: unsafe\n"), "machine.cache: foreign is as it is"),
        (text(rest="expect: survived\n"), "workload.kind: foreign runs programs"),
        (
            text(rest=REST.replace("survived", "safe")),
            "expect: the disk of foreign is",
        ),
        (text(rest=REST + "explore: {budget: 10}\n"), "explore: foreign records no disk"),
        (text(rest=REST + "controls: [lying-disk]\n"), "controls: lying-disk is another disk"),
        (
            text(rest=REST.replace("./prog", "./prog, root: host")),
            "workload.root: the machine has a system of its own",
        ),
        (
            text(rest=REST.replace("./prog", "./prog, syncs: traced")),
            "workload.syncs: powercut brings no tracer to a machine",
        ),
        *(
            (
                text(rest=REST.replace("./prog", f"./prog, where: {kernel}")),
                "workload.where: a program runs on the machine's own kernel",
            )
            for kernel in ("no-vm", "loop")
        ),
        (text(rest=REST.replace("./prog", "prog")), "workload.command: there a program is named"),
        (text(rest=REST.replace("ext4", "raw")), "filesystem.type: a program keeps its data"),
        (text(rest=REST.replace("ext4", "ext4, mount: [sync]")), "filesystem.mount: the machine"),
        (text(MACHINE.replace("root@192.0.2.7", "-oProxyCommand=x") + POWER), "write [USER@]NAME"),
        (text(MACHINE.replace("/srv/powercut", "/") + POWER), "write an absolute path"),
        (text(MACHINE.replace("/srv/powercut", "/srv/../etc") + POWER), "write an absolute path"),
        (text(MACHINE + "  power: {off: []}\n"), "machine.power.off"),
        (text(MACHINE + "  power: {off: [[]]}\n"), "machine.power.off"),
        ("powercut: 1\nname: x\nmachine: {host: box}\n", "it is for `backend: foreign`"),
        (
            "powercut: 1\nname: x\nworkload: {kind: program, command: ./p, root: machine}\n",
            "workload.root: qemu brings no system along",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(source, words):
    with pytest.raises(UsageError) as error:
        parse_scenario(source, Path("/tmp/x.yaml"))
    assert words in str(error.value)
