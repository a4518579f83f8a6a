# SPDX-License-Identifier: Apache-2.0
"""A recovery plan as PID 1 of the recovery kernel wants it (CONFIGURE, guests/uml/share.h)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from powercut.model.errors import UsageError
from powercut.recover.plan import GoOn, HostRoot, Mount, PlanLayers, RecoveryPlan
from powercut.recover.uml.kernel import UmlKernel

_LINES_MAX: Final = 60  # guests/uml/init.h


def plan_text(plan: RecoveryPlan, kernel: UmlKernel, *, boot: int = 0) -> bytes:
    """The plan in bytes, for `kernel`: its `boot`th boot for checks, or 0 for a run.

    PID 1 knows one order of steps: open or mount, read, and if wanted go on, close, the same
    again.  Raises UsageError for any other.
    """
    mount, go_on = plan.find(Mount), plan.find(GoOn)
    point = "" if mount is None else mount.point
    known = RecoveryPlan.of(
        plan.filesystem,
        plan.mount_options,
        point,
        plan.reader,
        device=plan.device,
        host=plan.host,
        disks=plan.disks,
        layers=plan.layers,
    )
    if go_on is not None:
        known = known.going_on(go_on.command, go_on.records, go_on.seconds)
    if known != plan:
        raise UsageError(
            "engine uml cannot recover this disk: its recovery has steps of which the "
            "recovery kernel knows nothing",
            hint="--engine guest",
        )
    words = [plan.filesystem, plan.mount_options, point, *plan.reader, ""]
    words += [*(go_on.command if go_on is not None else ()), "", *_root(plan.host, boot)]
    words += ["0", "0"] if go_on is None else [f"{go_on.records}", f"{go_on.seconds * 1000:.0f}"]
    words += [f"{disk.offset} {disk.size} {disk.holds} {disk.name}" for disk in plan.disks]
    words += ["", *_layers(plan.layers, kernel), ""]
    return b"".join(word.encode() + b"\0" for word in words)


def _layers(layers: PlanLayers | None, kernel: UmlKernel) -> list[str]:
    if layers is None:
        return []
    lines = [*(f"+{Path(file).stem}" for file in kernel.files_of(layers)), *layers.lines]
    if len(lines) > _LINES_MAX:
        raise UsageError("disk.layers: they are more than the recovery kernel takes")
    return lines


def _root(host: HostRoot | None, boot: int) -> list[str]:
    if host is None:
        return [""] * 10
    lists = [*host.environment, "", *host.visible, ""]
    machine = [host.machine.mac, host.machine.machine_id, f"{host.machine.boot(boot).first_pid}"]
    return ["/host", host.folder, *lists, host.base, host.program, host.tools, *machine]
