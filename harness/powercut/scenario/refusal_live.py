# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work where the machine keeps its disk to itself, and those that ask for
less than is there (powercut.scenario.refusal).

Of such a disk powercut decides nothing and records nothing: its cuts can be judged, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.contract import CutKind, CutPolicy
from powercut.model.machine import Aio, ImageFormat
from powercut.model.verdict import EvidenceLevel
from powercut.scenario.choices import ControlKind, Expect
from powercut.scenario.machines import row_of
from powercut.scenario.settings import DiskSettings, Parameters

Reason = tuple[str, str]

_USUAL_DISK: Final = DiskSettings()


def refusals_of_level(p: Parameters) -> Iterator[Reason]:
    """What the machine's evidence does not allow: (dotted key, reason) each."""
    backend = p.machine.backend
    if row_of(backend).evidence_level is EvidenceLevel.RECORDED:
        if p.expect is Expect.SURVIVED:
            yield "expect", f"{backend} records its disk, which shows more: expect safe or lossy"
        if ControlKind.NO_FLUSH in (p.controls or ()):
            yield "controls", f"{backend} records its disk: lying-disk shows what no-flush would"
        return
    if p.expect is Expect.SAFE:
        yield (
            "expect",
            f"the disk of {backend} is not recorded, and cuts alone never make SAFE: "
            "expect survived or lossy",
        )
    yield from _of_disk(p)
    if p.cut.trigger.flushes is not None:
        yield "cut.trigger", f"no flush of {backend} is seen; use acks, after or random"
    usual = CutPolicy.DROP if p.cut.kind is CutKind.POWER_LOSS else CutPolicy.KEEP
    if p.cut.policy is not usual:
        yield "cut.policy", f"the disk of {backend} decides what a cut leaves; leave it out"
    states = p.explore
    if states.budget not in ("auto", "off") or states.after or states.depth:
        yield "explore", f"{backend} records no disk whose crash states could be recovered"
    for kind in p.controls or ():
        if kind is ControlKind.NO_FLUSH and row_of(backend).own_system:
            if p.cut.kind is not CutKind.POWER_LOSS:
                yield (
                    "controls",
                    f"{p.cut.kind.value} leaves the disk its power, and so its cache: no-flush is "
                    "for cut.kind: power-loss",
                )
        elif kind is not ControlKind.NO_SYNC:
            yield "controls", f"{kind.value} is another disk, and {backend} has its own: no-sync"


def _of_disk(p: Parameters) -> Iterator[Reason]:
    backend = p.machine.backend
    for key in DiskSettings.model_fields:
        if key != "size" and getattr(p.disk, key) != getattr(_USUAL_DISK, key):
            yield (
                f"disk.{key}",
                f"the disk is that of {backend}, which does as it does; leave it out",
            )
    if p.machine.aio is not Aio.NBD:
        yield "machine.aio", f"the disk is that of {backend}; leave it out"
    if p.machine.format is not ImageFormat.RAW:
        yield "machine.format", f"the disk is that of {backend}; leave it out"
