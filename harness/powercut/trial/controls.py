# SPDX-License-Identifier: Apache-2.0
"""Runs whose outcome is known in advance: they prove that the rig can see, and that it
does not see ghosts.

A SAFE verdict means something only if the same rig finds a loss where there must be
one; a LOSSY one only if it stays silent on an honest disk.  So each cell goes with
twins that differ from it in one thing:

- `lying-disk`: the same cell on a disk that ignores flushes and FUA.  Must be LOSSY.  Of several
  disks one each, on which that disk lies alone: else nothing shows that a loss of what lies on this
  disk would be seen, and a cell whose records lie on the others is SAFE whatever this one does.
- `no-sync`: the same cell with a workload that acknowledges what is only in the
  guest's page cache.  Must be LOSSY.  Of workloads that can be told to.  Where the machine keeps
  its disk to itself this is the only one: that losses are seen, it shows; not that the cut takes
  the disk's own cache.
- `no-flush`: the same cell on a machine whose kernel was told that its disk has no volatile cache
  (`queue/write_cache`), so that syncs reach the disk and no flush does.  Must be LOSSY: then the
  cut takes the disk's own cache.  For who asks for it, of machines that keep their disk to
  themselves.
- `honest`: the same cell on a disk that keeps its contract, with a workload that
  syncs, on a virtio disk of raw bytes under a cache mode that passes flushes on, mounted
  with barriers, without layers between; of a cell with errors of the disk, with its layers and
  without the errors.  Must be SAFE.

A control that must be LOSSY must have lost records in its cut: that the analysis of its
recording convicts it follows from its settings, and proves nothing (powercut.campaign.assemble).

Twins of different cells are often the same run; it is made once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from powercut.model.contract import CutKind, CutPolicy, Honour
from powercut.model.machine import (
    Aio,
    BackingImage,
    Bus,
    CacheMode,
    Export,
    ImageFormat,
    Start,
    is_dax,
)
from powercut.model.verdict import EvidenceLevel, Verdict
from powercut.scenario.choices import WITHOUT_BARRIERS
from powercut.scenario.place import OF_A_MACHINE, place_of
from powercut.scenario.settings import (
    ControlKind,
    GuestWriteCache,
    Parameters,
    ProgramSettings,
    Switch,
    TriggerSettings,
    WalSettings,
)
from powercut.scenario.settings_several import AlsoDisk, Holds
from powercut.workload.port import AcksByLines, HasUnsyncedTwin
from powercut.workload.table import workload_of

EXPECTED = {
    ControlKind.LYING_DISK: Verdict.LOSSY,
    ControlKind.NO_SYNC: Verdict.LOSSY,
    ControlKind.NO_FLUSH: Verdict.LOSSY,
    ControlKind.HONEST: Verdict.SAFE,
}
"""What each control must come to."""


_ELSEWHERE: Final = {"expect", "controls", "trials", "deadline", "explore"}
"""Settings that say nothing of what a run does."""


def same_run(parameters: Parameters) -> str:
    """Equal for runs that do the same, whatever is expected of them or vouches for them."""
    return parameters.model_dump_json(exclude=_ELSEWHERE)


@dataclass(frozen=True)
class Control:
    """A twin of a cell, and what it must come to."""

    kind: ControlKind
    parameters: Parameters
    disk: str | None = None  # the one of several that lies

    @property
    def name(self) -> str:
        return self.kind.of(self.disk)

    @property
    def expected(self) -> Verdict:
        """The only outcome that proves anything."""
        return EXPECTED[self.kind]


def controls_for(parameters: Parameters, verdict: Verdict) -> tuple[Control, ...]:
    """The controls that a cell needs to be believed with this verdict.

    None for INCONCLUSIVE: no control can make something of it.  A machine that keeps its disk to
    itself has that disk alone, so neither a lying twin nor an honest one.
    """
    match verdict:
        case Verdict.SAFE | Verdict.SURVIVED:
            wanted = {ControlKind.LYING_DISK}
            workload = workload_of(parameters)
            # A program may make its data durable in ways that cannot be taken away (O_DSYNC): its
            # twin without syncs is for who knows that it does not, and asks for it.
            # Where a machine has its own disk nothing else shows that its cuts lose anything.
            live = place_of(parameters).evidence_level is EvidenceLevel.LIVE_ONLY
            asked = live or not isinstance(workload, AcksByLines) or parameters.controls is not None
            if isinstance(workload, HasUnsyncedTwin) and asked:
                wanted.add(ControlKind.NO_SYNC)
            if live and ControlKind.NO_FLUSH in (parameters.controls or ()):
                wanted.add(ControlKind.NO_FLUSH)
        case Verdict.LOSSY:
            wanted = {ControlKind.HONEST}
        case _:
            wanted = set()
    if place_of(parameters).evidence_level is EvidenceLevel.LIVE_ONLY:
        wanted -= {ControlKind.LYING_DISK, ControlKind.HONEST}
    if parameters.controls is not None:
        wanted &= set(parameters.controls)
    controls = (
        Control(kind, twin(parameters, kind, disk), disk)
        for kind in ControlKind
        if kind in wanted
        for disk in _each(parameters, kind)
    )
    return tuple(control for control in controls if _differs(control, parameters))


def _each(parameters: Parameters, kind: ControlKind) -> tuple[str | None, ...]:
    """The disks that have a control of this kind by themselves."""
    disk = parameters.disk
    if kind is not ControlKind.LYING_DISK or not disk.also or disk.layers or parameters.nodes:
        return (None,)  # of a cluster all: what one node loses others may have
    return (disk.name, *(other.name for other in disk.also))


def _differs(control: Control, parameters: Parameters) -> bool:
    """Whether a control is another run than its cell.

    A program that loses on an honest disk has no honest twin: what it does wrong is its own.
    """
    if isinstance(parameters.workload, WalSettings):
        return True  # its twin has no planted fault, or syncs; or serves as its own control
    cut = control.parameters.cut
    return control.parameters != parameters.model_copy(
        update={"cut": cut, "controls": (), "trials": 1}
    )


_SETUP_IGNORES: Final[dict[str, Any]] = {
    **dict.fromkeys(("expect", "controls", "trials", "deadline", "explore", "cut"), True),
    "disk": {
        **dict.fromkeys(("volatile_cache", "flush", "fua", "cache_size", "errors"), True),
        "also": {"__all__": {"flush", "fua"}},
    },
}
"""Settings that `setup` of a program knows nothing of: its disk keeps its contract."""


def begins_alike(one: Parameters, other: Parameters) -> bool:
    """Whether `setup` of a program does the same in two cells (powercut.trial.record), so that
    a control can begin with the very disk that its cell began with."""
    return all(isinstance(each.workload, ProgramSettings) for each in (one, other)) and _of_setup(
        one
    ) == _of_setup(other)


def _of_setup(parameters: Parameters) -> dict[str, Any]:
    told = parameters.model_dump(exclude=_SETUP_IGNORES)
    if told["workload"]["syncs"] == "dropped":  # of `run` alone
        told["workload"]["syncs"] = "kept"
    return told


def twin(parameters: Parameters, kind: ControlKind, disk: str | None = None) -> Parameters:
    """The same cell but for what makes it a control of this kind, about `disk` of several.

    A control cuts once, with nothing left of the volatile cache, and when something has
    been acknowledged: only then is its outcome known in advance.
    """
    workload = workload_of(parameters)
    settings = workload.control(kind)
    changes: dict[str, dict[str, Any]] = {
        "cut": {"kind": CutKind.POWER_LOSS, "policy": CutPolicy.DROP},
        "disk": {},
        "machine": {},
    }
    match kind:
        case ControlKind.LYING_DISK:
            changes["disk"] = _lying(parameters, disk)
        case ControlKind.NO_SYNC:
            changes["disk"] = {
                "volatile_cache": True,
                "cache_size": 0,
                "also": _alike(parameters),
                **_HONEST,
            }
            if place_of(parameters).evidence_level is EvidenceLevel.LIVE_ONLY:
                changes["cut"] = {}  # what such a machine cannot do, its twin cannot either
            assert isinstance(workload, HasUnsyncedTwin), "others have no such control"
            settings = workload.unsynced()
        case ControlKind.NO_FLUSH:
            changes["machine"] = {"guest_write_cache": GuestWriteCache.WRITE_THROUGH}
            changes["cut"] = {}
        case ControlKind.HONEST:
            changes["disk"] = {**_HONEST, "layers": (), "also": _unlayered(parameters)}
            changes["machine"] = dict(_PASSING_ON)
            if parameters.disk.errors:  # which alone it is to be without
                changes["disk"] = {**_HONEST, "also": _alike(parameters)}
            # Only memory can be mounted with dax; without barriers no disk is told to flush.
            changes["filesystem"] = {
                "mount": tuple(
                    word
                    for word in parameters.filesystem.mount
                    if not is_dax(word) and word not in WITHOUT_BARRIERS
                )
            }
            if parameters.machine.cache is CacheMode.UNSAFE:
                changes["machine"]["cache"] = CacheMode.NONE
    if parameters.cut.trigger.acks is None:
        changes["cut"]["trigger"] = TriggerSettings(acks=_CONTROL_ACKS)
    changes["disk"]["errors"] = ()  # or a store that stops at one would be a control of nothing
    groups: dict[str, Any] = {
        name: getattr(parameters, name).model_copy(update=change)
        for name, change in changes.items()
    }
    groups["workload"] = settings
    return parameters.model_copy(update={**groups, "controls": (), "trials": 1})


_HONEST: Final = {"flush": Honour.HONOURED, "fua": Honour.HONOURED}
_LYING: Final = {"flush": Honour.IGNORED, "fua": Honour.IGNORED}


def _lying(parameters: Parameters, disk: str | None) -> dict[str, Any]:
    """The disk's settings where it lies, or where `disk` of several does and no other; below layers
    all do: a mirror that has one disk which does not lie loses nothing."""
    of_first = _HONEST if disk not in (None, parameters.disk.name) else _LYING
    return {
        "volatile_cache": True,
        "cache_size": 0,  # a full cache would save some records by accident
        **of_first,
        "also": tuple(
            other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST)
            for other in parameters.disk.also
        ),
    }


def _alike(parameters: Parameters, *more: str) -> tuple[AlsoDisk, ...]:
    """The disks beside the first, each of which is what the first is: none is so by itself."""
    by_themselves = {"flush": None, "fua": None, **dict.fromkeys(more)}
    return tuple(disk.model_copy(update=by_themselves) for disk in parameters.disk.also)


def _unlayered(parameters: Parameters) -> tuple[AlsoDisk, ...]:
    """Those of an honest twin: where no layer makes one of them, there is one disk."""
    disks = _alike(parameters, *OF_A_MACHINE)
    return tuple(disk for disk in disks if disk.holds is not Holds.LAYERS)


_CONTROL_ACKS = 20
"""Acknowledged records at which a control is cut if its cell is cut at another moment."""

_PASSING_ON: Final[dict[str, Any]] = {
    "guest_write_cache": GuestWriteCache.AS_PROMISED,
    "bus": Bus.VIRTIO_BLK,
    "format": ImageFormat.RAW,
    "format_options": (),
    "grows": False,
    "backing_image": BackingImage.NONE,
    "start": Start.AUTO,
    "during": (),
    "cache_after_move": None,
    "qemu_after_move": None,
    "aio": Aio.NBD,
    "export": Export.NONE,
    "config_wce": Switch.AUTO,
    "hotplug": False,
    "iothread": False,
    "queues": 0,
    "no_flush": Switch.AUTO,
}
"""Between the guest and the disk of an honest twin: only what is known to pass everything on."""
