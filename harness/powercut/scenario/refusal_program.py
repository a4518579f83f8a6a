# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work with anybody's program (powercut.scenario.refusal)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from powercut.model.contract import CutKind, Honour
from powercut.model.machine import ImageFormat
from powercut.model.versions import HOST, SUITES
from powercut.scenario.choices import ExploreEngine, FilesystemType
from powercut.scenario.machines import LOOP, UML
from powercut.scenario.place import Files, place_of
from powercut.scenario.refusal_foreign import refusals_on_machine
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings
from powercut.scenario.settings_program import NO_VM, ON_HOST, ClusterSettings, suite_of
from powercut.scenario.settings_several import Holds

Reason = tuple[str, str]

_USUAL: Final = MachineSettings()

_FLAGS_ON_HOST: Final = (
    *("barrier", "nobarrier", "delalloc", "nodelalloc", "auto_da_alloc", "noauto_da_alloc"),
    *("noatime", "relatime", "lazytime", "sync", "dirsync"),
    *("inode64", "wsync", "largeio", "autodefrag", "flushoncommit"),
)
_VALUES_ON_HOST: Final = ("data", "commit", "barrier", "logbufs", "logbsize", "compress")
_MOUNT_ON_HOST: Final = re.compile(
    f"{'|'.join(_FLAGS_ON_HOST)}|({'|'.join(_VALUES_ON_HOST)})=[a-z0-9:-]+"
)
"""Mount options that the host's own kernel is given: they name no other device, and do not let it
panic on an I/O error, of which each cut makes some."""


def refusals_of_program(parameters: Parameters) -> Iterator[Reason]:
    """Why the program cannot be run so: (dotted key, reason) each."""
    p, program = parameters, parameters.workload
    assert isinstance(program, ProgramSettings)
    if not Path(program.folder).is_absolute():
        yield "workload.folder", "a program starts in a folder: give an absolute path"
    if p.filesystem.type is FilesystemType.RAW:
        yield "filesystem.type", "a program keeps its data in a folder, which takes a file system"
    yield from _refusals_of_tracing(program)
    if place_of(p).files is Files.MACHINE:
        yield from refusals_on_machine(p, program)
    else:
        yield from _refusals_elsewhere(p, program)


def refusals_of_cluster(p: Parameters) -> Iterator[Reason]:
    """The same of its nodes."""
    program = p.workload
    assert isinstance(program, ClusterSettings)
    if place_of(p).machine != UML:
        yield "workload.kind", "nodes run in User-Mode Linux: root: host, or where: no-vm"
    held = [disk.holds for disk in p.disk.also]
    if held != [Holds.FOLDER] * (program.nodes - 1) or p.disk.layers:
        yield "disk.also", f"each of {program.nodes} nodes has one disk: leave it out"
    if program.syncs == "traced":
        yield "workload.syncs", "the calls of one program are traced, and nodes are several"
    if not program.node_cuts:
        return
    if p.cut.trigger.acks is None:
        yield "workload.node_cuts", "they are made at acks: set cut.trigger.acks"
    if Honour.IGNORED in (p.disk.flush, p.disk.fua) or not p.disk.volatile_cache:
        yield "workload.node_cuts", "a node's disk keeps its promises, and has a cache to lose"
    if gone := [one for one in program.node_cuts if len(one) == 1 and one not in p.nodes]:
        yield "workload.node_cuts", f"there is no node {gone[0]}: {', '.join(p.nodes)}"


def _refusals_elsewhere(p: Parameters, program: ProgramSettings) -> Iterator[Reason]:
    """Where powercut makes what the program runs on, or it is this host's."""
    place = place_of(p)
    yield from _refusals_of_root(program)
    if program.where == LOOP:
        yield from _refusals_on_loop(p, program)
    if program.kernel != HOST and place.machine != UML:
        yield "workload.kernel", "it goes with User-Mode Linux: leave it out"
    if place.virtual:
        yield from _refusals_in_guest(p)
    for key in () if place.virtual else MachineSettings.model_fields:
        if getattr(p.machine, key) != getattr(_USUAL, key):
            what = "root: host" if place.files is Files.HOST else "where: no-vm"
            yield (
                f"machine.{key}",
                f"with `{what}` a program runs in User-Mode Linux, without a virtual machine; "
                "leave it out",
            )
    if p.cut.kind is not CutKind.POWER_LOSS:
        yield "cut.kind", "a program is cut by power-loss; leave it out"
    if p.cut.trigger.flushes is not None:
        yield (
            "cut.trigger",
            "a program is cut after acks, or at a moment; use acks, after or random",
        )
    if not place.virtual and p.explore.engine not in (ExploreEngine.AUTO, ExploreEngine.UML):
        yield "explore.engine", "a program's check runs in User-Mode Linux: leave it out"


def _refusals_of_root(program: ProgramSettings) -> Iterator[Reason]:
    on_host, suite = program.root == ON_HOST, suite_of(program.root)
    if suite is not None and suite not in SUITES:
        yield "workload.root", f"there is no Debian suite {suite!r} here; use {', '.join(SUITES)}"
    if program.packages and suite is None:
        yield "workload.packages", "packages go with `root: debian` alone"
    if program.bring and (on_host or Path(program.command[0]).is_absolute()):
        yield "workload.bring", "it goes with a relative command and a root of its own"
    if on_host and program.where == NO_VM:
        yield "workload.where", "`no-vm` goes with a root of its own; `root: host` needs no VM"
    if not on_host and "/" not in program.command[0]:
        yield (
            "workload.command",
            "in a root of its own a program is named by its path there (/usr/bin/mydb-test), or by "
            "a path that begins at the scenario's folder (./mydb-test) and is brought there",
        )


def _refusals_of_tracing(program: ProgramSettings) -> Iterator[Reason]:
    if program.dropped_sync and program.syncs != "traced":
        yield "workload.dropped_sync", "one call site is dropped with `syncs: traced`"


def _refusals_on_loop(p: Parameters, program: ProgramSettings) -> Iterator[Reason]:
    if program.root != ON_HOST:
        yield "workload.where", "`loop` goes with `root: host`"
    if p.filesystem.type is FilesystemType.BTRFS:
        yield (
            "filesystem.type",
            "a kernel knows each btrfs by its UUID, and all of powercut's have the same: with "
            "`where: loop` take ext4 or xfs",
        )
    for option in p.filesystem.mount:
        if _MOUNT_ON_HOST.fullmatch(option) is None:
            yield (
                "filesystem.mount",
                f"{option!r}: with `where: loop` the host mounts; it takes options that name no "
                f"other device: {', '.join(_FLAGS_ON_HOST)}; {', '.join(_VALUES_ON_HOST)}=",
            )


def _refusals_in_guest(p: Parameters) -> Iterator[Reason]:
    if p.machine.bus.pmem:
        yield "machine.bus", "a program in a guest keeps its data on a block device"
    if p.machine.backend != _USUAL.backend:
        yield "machine.backend", "a root file system of its own is a disk that QEMU is given"
    if p.explore.depth and p.machine.format is not ImageFormat.RAW:
        yield "explore.depth", "second cuts of programs need `machine.format: raw`"
    if p.explore.engine not in (ExploreEngine.AUTO, ExploreEngine.GUEST):
        yield "explore.engine", "with a root of its own the check runs in guests: leave it out"
