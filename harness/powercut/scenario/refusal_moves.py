# SPDX-License-Identifier: Apache-2.0
"""Guests that cannot move to another hypervisor or be restarted, and moves that would not be what
they are called (powercut.scenario.refusal)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from powercut.model.contract import CutKind
from powercut.model.machine import Aio, Export, ImageFormat, Move, Restart
from powercut.scenario.machines import USUAL
from powercut.scenario.settings import Parameters, WalSettings

Reason = tuple[str, str]

_MOVED_FORMATS: Final = (ImageFormat.RAW, ImageFormat.QCOW2, ImageFormat.QED)
"""The others keep their metadata in QEMU and refuse to be handed over (migrate_add_blocker in
block/vdi.c, vmdk.c, vhdx.c and vpc.c)."""


def refusals_of_moves(p: Parameters) -> Iterator[Reason]:
    """Why the guest cannot move or restart as `machine.during` says: (dotted key, reason) each."""
    machine, key = p.machine, "machine.during"
    moving = p.cut.trigger.moving is not None
    if moving and p.cut.kind is CutKind.GUEST_CRASH:
        yield (
            "cut.kind",
            "in the midst of a move or restart there are two hypervisors, or none; power-loss or "
            "vm-kill",
        )
    if not machine.during:
        if moving:
            yield "cut.trigger", f"the guest never moves: say when in {key}"
        if machine.cache_after_move is not None:
            yield "machine.cache_after_move", f"the guest never moves: say when in {key}"
        if machine.qemu_after_move is not None:
            yield "machine.qemu_after_move", f"the guest never moves: say when in {key}"
        return
    happenings = {how for how, _ in machine.happenings}
    if machine.backend != USUAL:
        yield key, f"guests of {machine.backend} stay where they are; use machine.backend: {USUAL}"
    if p.workload.kind != "wal":
        yield (
            key,
            "the lines of a program come over a port of the first QEMU, and end with it; use "
            "workload.kind: wal",
        )
    if machine.export is not Export.NONE:
        yield key, "QEMU moves with its own disk; leave machine.export out"
    if any(isinstance(how, Move) for how in happenings):
        yield from _moves(p)
    if any(isinstance(how, Restart) for how in happenings):
        yield from _restarts(p)
    yield from _moments(p)
    for after in ("cache_after_move", "qemu_after_move"):
        if getattr(machine, after) is not None and happenings == {Restart.RESTART}:
            yield f"machine.{after}", "a guest that restarts stays in its QEMU; relaunch it"
    yield from _cache(p)


def _moves(p: Parameters) -> Iterator[Reason]:
    machine, key = p.machine, "machine.during"
    if not machine.bus.restorable:
        yield key, f"QEMU moves no guest that has a disk on {machine.bus.value}"
    if machine.format not in _MOVED_FORMATS:
        formats = ", ".join(one.value for one in _MOVED_FORMATS)
        yield key, f"QEMU moves no guest whose image is {machine.format.value}; one of {formats}"


def _restarts(p: Parameters) -> Iterator[Reason]:
    log, key = p.workload, "machine.during"
    if p.machine.bus.pmem:
        yield key, f"powercut restarts no guest whose disk is memory ({p.machine.bus.value})"
    if not isinstance(log, WalSettings):
        return  # said already
    if log.records:
        yield "workload.records", "the workload is started twice; leave it out: it ends at the cut"
    if log.plant != "none":
        yield "workload.plant", "the workload is started twice, and the fault is planted in one run"
    if log.slots is not None and log.layout.wraps and (p.cut.trigger.acks or 0) > log.slots:
        yield (
            "cut.trigger",
            f"the log wraps after {log.slots} records, over what the restart may have lost",
        )


def _moments(p: Parameters) -> Iterator[Reason]:
    cut, lsns = p.cut.trigger.acks, [lsn for _, lsn in p.machine.happenings]
    if cut is None:
        if p.cut.trigger.moving is None:
            yield (
                "cut.trigger",
                "a guest that moves or restarts is cut at an LSN after that (acks), or meanwhile "
                "(moving)",
            )
    elif lsns[-1] >= cut:
        yield "machine.during", f"the power goes at LSN {cut}, before all of this is over"
    if any(second <= first for first, second in pairwise(lsns)):
        yield "machine.during", "write what happens in the order of LSNs, each at another one"


def _cache(p: Parameters) -> Iterator[Reason]:
    machine, there = p.machine, p.machine.cache_after_move
    if there is None:
        return
    key = "machine.cache_after_move"
    if there.write_cache is not machine.host_cache.write_cache:
        yield (
            key,
            "the guest would find another write cache at its disk than before; a mode with the "
            "same one",
        )
    if there.no_flush and machine.aio is Aio.NBD:
        yield (
            key,
            f"{there.value} has no effect on a disk of NBD, which is sent flushes all the same; "
            "give machine.aio: threads",
        )
    if machine.aio is Aio.NATIVE and not there.direct:
        yield key, "aio native works with O_DIRECT only: none or directsync"
