# SPDX-License-Identifier: Apache-2.0
"""A cluster in a scenario: a disk for each node, one control, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict
from powercut.rig.commands import recovery_plan
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import ControlKind, Parameters
from powercut.scenario.settings_program import ClusterSettings
from powercut.trial.controls import controls_for
from powercut.workload.program.workload import ProgramWorkload
from powercut.workload.table import workload_of

MIB = 1 << 20


def cell(more: str = "", workload: str = "") -> Parameters:
    text = f"""\
powercut: 1
name: cluster
workload: {{kind: cluster, command: /bin/true{workload}}}
filesystem: {{type: ext4}}
{more}
"""
    (found,) = expand(parse_scenario(text, Path("/tmp/cluster.yaml")), seed=1).cells
    return found.parameters


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_each_node_has_a_disk_of_its_own(nodes: int) -> None:
    parameters = cell(workload=f", nodes: {nodes}")
    names = ("a", "b", "c", "d")[:nodes]
    assert parameters.nodes == names
    assert [(part.name, part.size) for part in parameters.disk.parts] == [
        (name, 128 * MIB) for name in names
    ]
    assert refusals(parameters) == ()


def test_the_size_that_is_said_is_that_of_each() -> None:
    parameters = cell("disk: {size: 64MiB}")
    assert [part.size for part in parameters.disk.parts] == [64 * MIB] * 3


def test_it_is_a_program_with_nodes_in_its_plan_and_the_modules_that_join_them() -> None:
    parameters = cell()
    assert isinstance(workload_of(parameters), ProgramWorkload)
    plan = recovery_plan(parameters, bytes(16))
    assert plan.host is not None
    assert plan.host.nodes == ("a", "b", "c")
    assert plan.layers is not None
    assert (plan.layers.modules, plan.layers.lines) == (("bridge", "veth"), ())


def test_a_program_has_no_nodes() -> None:
    workload = {"kind": "program", "command": "/bin/true", "folder": "/"}
    parameters = Parameters.model_validate({"workload": workload})
    assert parameters.nodes == ()
    plan = recovery_plan(parameters, bytes(16))
    assert (plan.host is not None and plan.host.nodes, plan.layers) == ((), None)


def test_its_control_lies_on_all_disks_at_once() -> None:
    """What one node loses others may have, so that a disk which lies alone loses nothing."""
    (control,) = controls_for(cell(), Verdict.SAFE)
    assert (control.kind, control.disk) == (ControlKind.LYING_DISK, None)
    assert {part.flush.value for part in control.parameters.disk.parts} == {"ignored"}


def test_a_control_cuts_once_and_none_of_its_nodes_before() -> None:
    parameters = cell(workload=", node_cuts: [b, majority]")
    assert refusals(parameters) == ()
    (control,) = controls_for(parameters, Verdict.SAFE)
    assert isinstance(control.parameters.workload, ClusterSettings)
    assert control.parameters.workload.node_cuts == ()


@pytest.mark.parametrize(
    ("more", "workload", "says"),
    [
        ("", ", nodes: 1", "greater than or equal to 2"),
        ("", ", nodes: 5", "less than or equal to 4"),
        ("", ", where: loop", "nodes run in User-Mode Linux"),
        ("", ", root: debian", "nodes run in User-Mode Linux"),
        ("", ", syncs: traced", "nodes are several"),
        (
            "disk: {also: [{name: b, size: 64MiB, holds: folder}]}",
            "",
            "each of 3 nodes has one disk",
        ),
        ("filesystem: {type: btrfs}", "", "several disks take xfs or ext4"),
        ("", ", nodes: 2, node_cuts: [c]", "there is no node c: a, b"),
        ("", ", node_cuts: [a, a, a, a]", "at most 3"),
        ("", ", node_cuts: [most]", "should be one of a, b, c, d, minority, majority"),
        ("disk: {flush: ignored}", ", node_cuts: [a]", "a node's disk keeps its promises"),
        ("disk: {volatile_cache: false}", ", node_cuts: [a]", "and has a cache to lose"),
        ("cut: {trigger: {after: 1s}}", ", node_cuts: [a]", "set cut.trigger.acks"),
    ],
)
def test_what_cannot_be_says_why(more: str, workload: str, says: str) -> None:
    text = f"""\
powercut: 1
name: cluster
workload: {{kind: cluster, command: /bin/true{workload}}}
{more or "filesystem: {type: ext4}"}
"""
    with pytest.raises(UsageError) as raised:
        expand(parse_scenario(text, Path("/tmp/cluster.yaml")), seed=1)
    assert says in str(raised.value)
