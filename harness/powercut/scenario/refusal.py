# SPDX-License-Identifier: Apache-2.0
"""Combinations that cannot work, or that cannot mean what they say.

Each rule yields a dotted key and a reason.  All rules are asked, so that a person
sees every reason at once and nothing boots before they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from powercut.model.contract import CutKind, CutPolicy
from powercut.model.errors import UsageError
from powercut.model.machine import (
    Aio,
    BackingImage,
    Bus,
    CacheMode,
    Export,
    ImageFormat,
    Move,
    Restart,
    Start,
    is_dax,
)
from powercut.model.verdict import EvidenceLevel
from powercut.scenario.choices import SMALLEST_DISK, ControlKind, Expect
from powercut.scenario.machines import UML, USUAL, row_of
from powercut.scenario.mkfs_options import refused_mkfs_options
from powercut.scenario.place import machines_of_disks, place_of
from powercut.scenario.quantity import format_size
from powercut.scenario.refusal_foreign import refusals_of_place
from powercut.scenario.refusal_several import refusals_of_several
from powercut.scenario.settings import (
    DiskModel,
    DiskSettings,
    FilesystemType,
    GuestWriteCache,
    MachineSettings,
    Parameters,
    ProgramSettings,
    Switch,
    WalSettings,
)
from powercut.scenario.settings_several import Holds
from powercut.scenario.workloads import WORKLOADS, load

# Guests that cannot move to another hypervisor or be restarted, and moves that would not be what
# they are called.

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


# Threads and queues that a disk does not have, or that its guest would not use.

_KEYS: Final = ("iothread", "queues")
_SCSI: Final = (Bus.VIRTIO_SCSI, Bus.VIRTIO_SCSI_FUA)


def refusals_of_queues(p: Parameters) -> Iterator[Reason]:
    """Why a disk cannot have the thread or the queues that it is to have: (dotted key, reason)."""
    machines = machines_of_disks(p)
    names = [part.name for part in p.disk.parts] or [""]
    for name, machine in zip(names, machines, strict=True):
        for key, reason in _queues_of_disk(machine):
            if machine is machines[0]:
                yield f"machine.{key}", reason
            else:
                yield "disk.also", f"{name}: {key}: {reason}"
    shared = {machine.queueing for machine in machines if machine.bus in _SCSI}
    if len(shared) > 1:
        yield (
            "disk.also",
            "disks on virtio-scsi share a controller, with its thread and its queues: give each "
            "the same iothread and queues",
        )
    liked = any(machine.like is not None for machine in machines)
    for key in _KEYS:
        if liked and any(getattr(machine, key) for machine in machines):
            yield f"machine.{key}", "the domain that it is made like says so itself (machine.like)"


def _queues_of_disk(machine: MachineSettings) -> Iterator[Reason]:
    bus = machine.bus
    if machine.iothread and not bus.threaded:
        yield (
            "iothread",
            f"QEMU handles a disk on {bus.value} in its main loop; virtio-blk or virtio-scsi",
        )
    if machine.queues and not bus.multiqueue:
        yield "queues", f"a disk on {bus.value} has no such choice; virtio-blk, virtio-scsi or nvme"
    elif machine.queues > machine.cpus:
        yield (
            "queues",
            f"a guest uses at most one a processor, and this one has {machine.cpus}: "
            f"machine.cpus: {machine.queues}",
        )
    if machine.export is Export.VHOST_USER_BLK:
        for key in _KEYS:
            if getattr(machine, key):
                yield key, "with vhost-user-blk requests go to the daemon, past QEMU; leave it out"


# Combinations with layers between disk and file system that are not built, or cannot be.

_KEY: Final = "disk.layers"
_SECTOR: Final = 512


def refusals_of_layers(p: Parameters) -> Iterator[Reason]:
    """Why these layers cannot be used so: (dotted key, reason) each."""
    held = [disk.holds is Holds.LAYERS for disk in p.disk.also]
    if not p.disk.layers:
        if any(held):
            yield "disk.also", "`holds: layers` goes with disk.layers"
        return
    if not isinstance(p.workload, ProgramSettings) or place_of(p).machine != UML:
        yield (
            _KEY,
            "layers are activated in User-Mode Linux alone, below a program: workload.kind: "
            "program with `root: host`, or with `where: no-vm`",
        )
    if not all(held):
        yield "disk.also", "below layers each disk holds them: `holds: layers`"
    try:
        stack = p.disk.stack
    except UsageError as error:
        yield _KEY, str(error)
        return
    smallest = SMALLEST_DISK[p.filesystem.type]
    if stack is not None and stack.sectors * _SECTOR < smallest:
        yield (
            "disk.size",
            f"{p.filesystem.type.value} needs {format_size(smallest)}, and the layers leave "
            f"{format_size(stack.sectors * _SECTOR)} of it",
        )


# Disks that cannot be plugged into a guest that runs.


def refusals_of_hotplug(p: Parameters) -> Iterator[Reason]:
    """Why `machine.hotplug` cannot be: (dotted key, reason) each."""
    machine, key = p.machine, "machine.hotplug"
    if not machine.hotplug:
        return
    if machine.backend != USUAL:
        yield key, f"disks of {machine.backend} are there at boot; use machine.backend: {USUAL}"
    if p.workload.kind != "wal":
        yield (
            key,
            "the guest of a program has other disks, before this one; use kind: wal",
        )
    if not machine.bus.hotpluggable:
        known = ", ".join(bus.value for bus in Bus if bus.hotpluggable)
        yield key, f"no disk on {machine.bus.value} is plugged in while its guest runs; {known}"
    if machine.export is Export.VHOST_USER_BLK:
        yield key, "the disk of vhost-user-blk is there at boot; another export, or none"
    if machine.during:
        yield key, "a guest that moves or restarts has its disk at boot; leave machine.during out"


Reason = tuple[str, str]
Rule = Callable[[Parameters], Iterator[Reason]]


def refusals(parameters: Parameters) -> tuple[Reason, ...]:
    """Why `parameters` cannot be run: (dotted key, reason) each; empty if they can."""
    rows = WORKLOADS[parameters.workload.kind].refusals
    of_workload: list[Rule] = [load(place) for place in rows]
    rules = (
        _sizes,
        *of_workload[:1],
        refusals_of_place,
        refusals_of_level,
        *_RULES,
        *of_workload[1:],
    )
    return tuple(reason for rule in rules for reason in rule(parameters))


def _sizes(p: Parameters) -> Iterator[Reason]:
    smallest = SMALLEST_DISK[p.filesystem.type]
    if p.disk.size < smallest:
        yield (
            "disk.size",
            f"{p.filesystem.type.value} needs a disk of at least {format_size(smallest)}",
        )


def _f2fs(p: Parameters) -> Iterator[Reason]:
    if p.filesystem.type is FilesystemType.F2FS and place_of(p).machine != UML:
        yield (
            "filesystem.type",
            "the kernels of guests come without f2fs: take a program in User-Mode Linux "
            "(workload.kind: program)",
        )


def _disk(p: Parameters) -> Iterator[Reason]:
    disk = p.disk
    if disk.cache_size and not disk.volatile_cache:
        yield "disk.cache_size", "there is no volatile cache to have a size"
    if disk.model not in (DiskModel.TYPICAL, DiskModel.NONE):
        for key in ("flush_latency", "fua_latency"):
            if getattr(disk, key) is not None:
                yield f"disk.{key}", f"model {disk.model.value} says so already; give one of them"


def _errors(p: Parameters) -> Iterator[Reason]:
    if not p.disk.errors:
        return
    if not isinstance(p.workload, ProgramSettings) or place_of(p).virtual:
        yield (
            "disk.errors",
            "only a program under User-Mode Linux or on a loop device meets them; take one "
            "(workload.kind: program)",
        )
    names = [p.disk.name, *(disk.name for disk in p.disk.also)] if p.disk.also else []
    for error in p.disk.errors:
        if error.disk is not None and error.disk not in names:
            there = ", ".join(names) or "one alone, which needs none"
            yield "disk.errors", f"there is no disk {error.disk}; there are {there}"


def _cut(p: Parameters) -> Iterator[Reason]:
    cut = p.cut
    if cut.kind is not CutKind.POWER_LOSS and cut.policy is not CutPolicy.KEEP:
        yield (
            "cut.policy",
            f"{cut.kind.value} leaves the disk's power on, so that its cache keeps everything; "
            "leave the policy out, or cut with power-loss",
        )
    if p.disk.ordered and cut.policy is CutPolicy.RANDOM:
        yield "cut.policy", "a disk that keeps order loses a tail, never some by chance: use prefix"
    moment = cut.trigger.after or (cut.trigger.random or (0, 0))[1]
    if moment >= p.deadline:
        yield "cut.trigger", "the trial would miss its deadline before the cut comes"
    if cut.trigger.flushes is not None:
        if cut.kind is CutKind.GUEST_CRASH:
            yield (
                "cut.trigger",
                "guest-crash lets QEMU end in its usual order, which waits for the flush at which "
                "the disk has stopped; use acks, after or random",
            )
        # An NVMe controller always says that it has a cache, so that the guest flushes.
        cache = p.machine.host_cache
        if not cache.write_cache and p.machine.bus is not Bus.NVME:
            mode = "machine.write_cache: off"
            if p.machine.write_cache is Switch.AUTO:
                mode = f"cache mode {p.machine.cache.value}"
            yield "cut.trigger", f"{mode} sends writes with FUA and no flush at all"
        if cache.no_flush:
            unsafe = p.machine.no_flush is Switch.AUTO
            mode = "cache mode unsafe" if unsafe else "machine.no_flush"
            yield "cut.trigger", f"{mode} drops every flush before it gets to the disk"
        if p.machine.guest_write_cache is not GuestWriteCache.AS_PROMISED:
            yield "cut.trigger", "a guest that believes in write-through sends no flush at all"
        if p.machine.bus is Bus.NVDIMM:
            yield "cut.trigger", "an NVDIMM has no flush that the disk could see"


def _machine(p: Parameters) -> Iterator[Reason]:
    if p.machine.start is Start.RESTORED and not p.machine.bus.restorable:
        yield "machine.start", f"no guest with a disk on {p.machine.bus.value} can be saved"
    if p.machine.config_wce is not Switch.AUTO and p.machine.bus is not Bus.VIRTIO_BLK:
        yield "machine.config_wce", "only a virtio-blk disk lets its guest switch the write cache"
    if p.machine.guest_write_cache is GuestWriteCache.SWITCHED_OFF:
        if p.machine.bus is not Bus.VIRTIO_BLK:
            yield "machine.guest_write_cache", "only a virtio-blk disk can be switched by its guest"
        elif p.machine.config_wce is Switch.OFF:
            yield "machine.guest_write_cache", "with config_wce off the guest may not switch it"


_PMEM_UNIT: Final = 2 << 20
"""Bytes: QEMU aligns memory devices to the guest's large pages."""


def _pmem(p: Parameters) -> Iterator[Reason]:
    """Memory is mapped: QEMU neither reads nor writes, and no block layer of its comes into it."""
    machine = p.machine
    if machine.aio is Aio.NATIVE and not machine.host_cache.direct:
        yield "machine.aio", "native works with O_DIRECT only: cache none or directsync, or direct"
    if not machine.bus.pmem:
        if any(is_dax(option) for option in p.filesystem.mount):
            yield "filesystem.mount", "dax needs a disk that is memory: virtio-pmem or nvdimm"
        return
    for key, idle in (
        ("cache", CacheMode.NONE),
        ("aio", Aio.NBD),
        ("write_cache", Switch.AUTO),
        ("direct", Switch.AUTO),
        ("no_flush", Switch.AUTO),
        ("format", ImageFormat.RAW),
    ):
        if getattr(machine, key) is not idle:
            yield f"machine.{key}", f"a disk on {machine.bus.value} is mapped memory; leave it out"
    dax = any(is_dax(option) for option in p.filesystem.mount)
    if dax and machine.bus is Bus.NVDIMM:
        # Linux describes its pages (ND_REGION_PAGEMAP) for virtio-pmem and not for an NFIT's.
        yield "filesystem.mount", "an NVDIMM has no dax before `ndctl create-namespace -m fsdax`"
    elif dax and p.filesystem.type is FilesystemType.EXT4 and "-b" not in p.filesystem.mkfs:
        # mke2fs gives small file systems small blocks, and ext4 refuses to mount them with dax.
        yield "filesystem.mkfs", "dax needs blocks of 4096 bytes: give mkfs [-b, '4096']"
    if p.cut.kind is not CutKind.POWER_LOSS:
        yield (
            "cut.kind",
            f"{p.cut.kind.value} leaves the host's page cache, where such a disk lives and where "
            "the capture disk does not see it; cut with power-loss",
        )
    if p.disk.size % _PMEM_UNIT:
        yield "disk.size", f"memory is a whole number of {format_size(_PMEM_UNIT)}"


def _mkfs(p: Parameters) -> Iterator[Reason]:
    if p.filesystem.type is FilesystemType.RAW:
        return  # said elsewhere
    for reason in refused_mkfs_options(p.filesystem.type.value, p.filesystem.mkfs):
        yield "filesystem.mkfs", reason


def _format(p: Parameters) -> Iterator[Reason]:
    machine = p.machine
    for reason in refused_format_options(machine.format, machine.format_options):
        yield "machine.format_options", reason
    if not machine.grows:
        return
    if machine.format is ImageFormat.RAW:
        yield "machine.grows", "a raw image has the size of its disk: give machine.format"
    if machine.aio is Aio.NBD:
        yield "machine.grows", "a disk of NBD has a fixed size: machine.aio: threads, for instance"


def _backing(p: Parameters) -> Iterator[Reason]:
    machine, key = p.machine, "machine.backing_image"
    if machine.backing_image is BackingImage.NONE:
        return
    if not machine.format.overlays:
        yield key, "an image that lies over another is qcow2 or qed: give machine.format"
    if not machine.grows:
        yield key, "an overlay is a file that grows: machine.grows: true, and an aio other than nbd"
    if any(option.startswith("preallocation=") for option in machine.format_options):
        yield "machine.format_options", "what is allocated beforehand hides the backing image"
    if machine.backend != USUAL:
        yield key, "QEMU is given an overlay by powercut: machine.backend: qemu"
    if machine.during:
        yield key, "two hypervisors would open the backing image; leave machine.during out"
    if p.workload.kind != "wal":
        yield key, "what a program's `setup` makes would lie in the overlay: workload.kind: wal"


def _export(p: Parameters) -> Iterator[Reason]:
    machine, key = p.machine, "machine.export"
    if machine.export is Export.NONE:
        return
    if machine.backend != USUAL:
        yield key, "QEMU is given an export by powercut: machine.backend: qemu"
    if machine.bus.pmem or machine.grows:
        yield key, "it serves a disk of fixed size, and no memory"
    if (machine.export is Export.FUSE) != (machine.aio is not Aio.NBD):
        yield "machine.aio", "an export by fuse is a file (threads, native, io_uring), others none"
    if machine.export is not Export.VHOST_USER_BLK:
        return
    if machine.bus is not Bus.VIRTIO_BLK:
        yield "machine.bus", "vhost-user-blk is a virtio-blk device"
    if machine.format is not ImageFormat.RAW:
        yield "machine.format", "vhost-user-blk gives the guest the bytes of the disk"
    if machine.start is Start.RESTORED:
        yield "machine.start", "the memory of a guest with vhost-user is shared: it is booted"
    if machine.guest_write_cache is not GuestWriteCache.AS_PROMISED:
        yield "machine.guest_write_cache", "vhost-user-blk has a promise of its own: leave it out"
    if p.explore.depth:
        yield "explore.depth", "what a recovery behind vhost-user-blk flushes is not known"
    if p.workload.kind != "wal":
        yield key, "a guest behind vhost-user-blk cannot be asked whether its lines have come"


_RULES: Final[tuple[Rule, ...]] = (
    _disk,
    _errors,
    _machine,
    refusals_of_queues,
    refusals_of_hotplug,
    refusals_of_moves,
    _pmem,
    _mkfs,
    _f2fs,
    _format,
    _backing,
    _export,
    _cut,
    refusals_of_several,
    refusals_of_layers,
)


# Combinations that cannot work where the machine keeps its disk to itself, and those that ask for
# less than is there.
#
# Of such a disk powercut decides nothing and records nothing: its cuts can be judged, and no more.

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
    yield from _live_of_disk(p)
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


def _live_of_disk(p: Parameters) -> Iterator[Reason]:
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


# Which options of an image format a scenario may give to `qemu-img create -o`.
#
# Only those that say how the one image is laid out: options that name a backing file or a data
# file would have QEMU open what a stranger chose.  What a newer QEMU brings is refused until it
# was looked at.

_ALLOWED: Final = {
    ImageFormat.QCOW2: (
        "cluster_size",
        "compat",
        "extended_l2",
        "lazy_refcounts",
        "preallocation",
        "refcount_bits",
    ),
    ImageFormat.VDI: ("static",),
    ImageFormat.VMDK: (
        "adapter_type",
        "compat6",
        "hwversion",
        "subformat",
        "toolsversion",
        "zeroed_grain",
    ),
    ImageFormat.VHDX: ("block_size", "block_state_zero", "log_size", "subformat"),
    ImageFormat.VPC: ("force_size", "subformat"),
    ImageFormat.QED: ("cluster_size", "table_size"),
    ImageFormat.PARALLELS: ("cluster_size",),
}
"""What the drivers of QEMU 7.2 to 11.1 take (qemu-img create -f FORMAT -o help)."""

_WHY: Final = {
    "backing_file": "the image stands alone: another file below it would not be captured",
    "backing_fmt": "the image stands alone: another file below it would not be captured",
    "data_file": "the image stands alone: a data file beside it would not be captured",
    "data_file_raw": "the image stands alone: a data file beside it would not be captured",
    "size": "the size of the disk is disk.size",
    "encryption": "powercut finds records by their content, and has no key",
    "encrypt.format": "powercut finds records by their content, and has no key",
    "compression_type": "powercut finds records by their content; nothing is compressed",
}
"""What is known of options that are not allowed."""

_VARIANTS: Final = {
    # One file that begins with its header, on a disk that may be longer than the file.
    (ImageFormat.VMDK, "subformat"): ("monolithicSparse",),
    (ImageFormat.VPC, "subformat"): ("dynamic",),
    (ImageFormat.VHDX, "subformat"): ("dynamic", "fixed"),
    (ImageFormat.VPC, "force_size"): ("on",),
}
"""The values that an option may take."""


def refused_format_options(image: ImageFormat, options: Sequence[str]) -> tuple[str, ...]:
    """What of `options`, `name=value` each, may not be given, a sentence each."""
    return tuple(_refused(image, options))


def _refused(image: ImageFormat, options: Sequence[str]) -> Iterator[str]:
    if image is ImageFormat.RAW:
        if options:
            yield "raw is no format and has no options"
        return
    names = [option.partition("=")[0] for option in options]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is given more than once"
    for option in options:
        name, _, value = option.partition("=")
        if name in _WHY:
            yield f"{name}: {_WHY[name]}"
        elif name not in _ALLOWED[image]:
            known = ", ".join(_ALLOWED[image])
            yield f"{image.value} has no option {name!r} here; it has {known}"
        possible = _VARIANTS.get((image, name))
        if possible and value not in possible:
            yield (
                f"{name}={value} does not fit on one disk of fixed size; "
                f"it can be {' or '.join(possible)}"
            )
