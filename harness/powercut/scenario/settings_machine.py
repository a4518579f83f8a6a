# SPDX-License-Identifier: Apache-2.0
"""The settings of the virtual machine."""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from powercut.model.machine import (
    Aio,
    BackingImage,
    Bus,
    CacheFlags,
    CacheMode,
    Export,
    ImageFormat,
    Move,
    Queueing,
    Restart,
    Start,
)
from powercut.model.versions import GUEST, HOST, SUITES, is_path
from powercut.scenario.choices import AcceleratorChoice, GuestWriteCache, Switch
from powercut.scenario.machines import USUAL, backends
from powercut.scenario.quantity import Size
from powercut.scenario.settings_base import Settings, is_printable
from powercut.scenario.settings_program import Command

_NAMED = 3
"""Backends that an error names: those most like the one that was written."""


def _is_format_option(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_.-]*=[A-Za-z0-9_.:-]+", value):
        raise ValueError("write name=value")
    return value


def _is_happening(value: str) -> str:
    words = "|".join(one.value for one in (*Move, *Restart))
    if not re.fullmatch(f"({words})@[1-9][0-9]{{0,8}}", value):
        raise ValueError(f"write WHAT@LSN, where WHAT is one of {words.replace('|', ', ')}")
    return value


def _is_version(value: str, usual: str) -> str:
    if value in (usual, *SUITES) or (is_path(value) and value.isprintable()):
        return value
    words = ", ".join(f"'{word}'" for word in (usual, *SUITES))
    raise PydanticCustomError(
        "choice", "Input should be one of {expected}", {"expected": f"{words}, '/a/path'"}
    )


def _is_qemu(value: str) -> str:
    return _is_version(value, HOST)


def _is_kernel(value: str) -> str:
    return _is_version(value, GUEST)


def _is_backend(value: str) -> str:
    if value in backends():
        return value
    near = difflib.get_close_matches(value, backends(), n=_NAMED, cutoff=0)
    words = ", ".join(f"'{name}'" for name in near)
    raise PydanticCustomError("choice", "Input should be one of {expected}", {"expected": words})


def _version_schema(usual: str) -> dict[str, Any]:
    return {"type": "string", "anyOf": [{"enum": [usual, *SUITES]}, {"pattern": "^/"}]}


class MachineSettings(Settings):
    """The virtual machine."""

    backend: Annotated[
        StrictStr, AfterValidator(_is_backend), WithJsonSchema({"type": "string"})
    ] = USUAL
    """What runs it: `qemu`, started by powercut; or what an extra has: `libvirt`, whose domain is
    made for the trial and gone after it; `foreign`: a machine that is there, reached by ssh, whose
    power goes by commands (docs/foreign-machines.md)."""

    host: Host | None = None
    """Of a foreign machine: where ssh finds it, `[USER@]NAME[:PORT]` or a name of
    `~/.ssh/config`."""

    folder: Folder | None = None
    """Of a foreign machine: a folder there on the disk under test, which is to be new or empty."""

    power: PowerSettings | None = None
    """Of a foreign machine: the commands `off`, `on` and `status`."""

    connect: Annotated[StrictStr, AfterValidator(is_printable)] | None = None
    """libvirt's connection, of this host: `qemu:///system`, `qemu:///session`.  By default root's
    is the first and everybody else's the second."""

    like: Annotated[StrictStr, Field(max_length=1 << 16)] | None = None
    """What libvirt's domain is made like, as `powercut certify --domain` writes it: the parts of a
    domain's XML that decide on what becomes of its disk's requests."""

    qemu: Annotated[StrictStr, AfterValidator(_is_qemu), WithJsonSchema(_version_schema(HOST))] = (
        HOST
    )
    """Which QEMU: the `host`'s; that of a Debian suite (`bookworm`, `bookworm-backports`,
    `trixie`, `sid`), which is fetched and kept in the cache; or the absolute path of a
    qemu-system-x86_64."""

    kernel: Annotated[
        StrictStr, AfterValidator(_is_kernel), WithJsonSchema(_version_schema(GUEST))
    ] = GUEST
    """Which kernel the guest has: `guest`, the newest that the host's apt offers; that of a
    Debian suite, as for `qemu`; or the absolute path of a linux-image package, of a folder with
    boot/ and lib/modules/, or of a bzImage that needs no modules."""

    cache: CacheMode = CacheMode.NONE
    """QEMU's cache mode for the disk under test."""

    write_cache: Switch = Switch.AUTO
    """Whether the guest is offered a volatile write cache: `auto` as the cache mode has it
    (`on` but for writethrough and directsync), or `on` or `off` by itself."""

    direct: Switch = Switch.AUTO
    """Whether QEMU goes round the host's page cache (O_DIRECT): `auto` as the cache mode has
    it (`on` for none and directsync), or `on` or `off` by itself."""

    no_flush: Switch = Switch.AUTO
    """Whether QEMU drops flushes, those of its own for FUA and write-through included: `auto`
    as the cache mode has it (`on` for unsafe), or `on` or `off` by itself."""

    config_wce: Switch = Switch.AUTO
    """Whether the guest may switch the write cache of a virtio-blk disk (`config-wce`); `auto`
    as QEMU has it, which is `on`."""

    bus: Bus = Bus.VIRTIO_BLK
    """How the guest reaches the disk under test."""

    hotplug: StrictBool = False
    """Whether the disk is plugged in once the guest runs; it boots without.  The workload begins
    when the guest has it."""

    iothread: StrictBool = False
    """Whether the disk's requests are handled in a thread of their own (`iothread`) and not in
    QEMU's main loop; of virtio-blk, and of virtio-scsi, whose disks share it."""

    queues: Annotated[StrictInt, Field(ge=0, le=64)] = 0
    """Request queues of a disk on virtio-blk, virtio-scsi or NVMe, at most one each of `cpus`,
    since a guest uses no more; 0: as QEMU has it."""

    aio: Aio = Aio.NBD
    """How QEMU reaches the captured disk: by `nbd`; or as a file, which FUSE makes of it, with
    `threads`, `native` (Linux AIO, needs O_DIRECT) or `io_uring`.  The pmem buses map the file
    and read and write nothing."""

    export: Export = Export.NONE
    """Another server between QEMU and the captured disk, qemu-storage-daemon: its export by `nbd`;
    by `fuse`, a file, which takes an `aio` other than nbd; or by `vhost-user-blk`, to a virtio-blk
    device.  With that one the daemon's cache mode is `cache`, as QEMU has none."""

    format: ImageFormat = ImageFormat.RAW
    """The image format in which the hypervisor keeps the disk.  What is captured and cut is
    the file that holds the format."""

    format_options: tuple[Annotated[str, AfterValidator(_is_format_option)], ...] = ()
    """Options of the image format, as `qemu-img create -o` takes them, one `name=value` a list
    entry: `cluster_size=4096`, `lazy_refcounts=on`, `preallocation=metadata`."""

    grows: StrictBool = False
    """Whether the image is a file that QEMU makes longer when it allocates, as on a host's file
    system: then the file's size is a part of each crash state.  Else the format allocates on a disk
    of fixed size, or is allocated in full beforehand.  Needs a format, and `aio` other than nbd."""

    backing_image: BackingImage = BackingImage.NONE
    """What the image lies over, as that of a template or a snapshot does: a read-only image in this
    format.  It holds the file system, or, for a log on the device itself, records of an earlier
    log.  `format` is that of the empty image over it, whose file `grows`.  A write to a part of a
    cluster copies the rest from below."""

    start: Start = Start.AUTO
    """How the guest comes to run: `booted`; `restored`, from a guest that was saved after it
    had booted, as after a live migration; or `auto`, restored where that makes no difference."""

    during: tuple[Annotated[str, AfterValidator(_is_happening)], ...] = ()
    """What happens to the machine while the workload writes, one `WHAT@LSN` a list entry, as soon
    as the record with that LSN is acknowledged: the guest goes on in another QEMU on the same disk,
    live (`migrate@100`), or saved to a file and restored from it (`save-restore@100`); it is reset
    and boots again in its QEMU (`restart@100`), or in another one, after the first has ended in its
    usual order (`relaunch@100`), and the workload goes on with the record after the last one
    acknowledged.  Whatever is acknowledged before, during and after it must be there after the cut
    (docs/moves.md)."""

    cache_after_move: CacheMode | None = None
    """QEMU's cache mode in the QEMU to which the guest moves, or in which it is relaunched; by
    default that of the first."""

    qemu_after_move: (
        Annotated[StrictStr, AfterValidator(_is_qemu), WithJsonSchema(_version_schema(HOST))] | None
    ) = None
    """The QEMU to which the guest moves, or in which it is relaunched, as for `qemu`; by default
    the first one again.  The guest keeps the first one's board, which this one must have: so it is
    no older (docs/moves.md)."""

    memory: Annotated[Size, Field(ge=64 << 20)] = 192 << 20
    """RAM of the guest, in bytes or with a unit; at least 64 MiB."""

    cpus: Annotated[StrictInt, Field(ge=1, le=64)] = 1
    """Virtual processors."""

    kernel_arguments: tuple[Annotated[str, AfterValidator(is_printable)], ...] = ()
    """Added to the guest's kernel command line."""

    guest_write_cache: GuestWriteCache = GuestWriteCache.AS_PROMISED
    """What the guest makes of the disk's write cache: `as-promised` by the machine;
    `write-through`, written to the guest's `queue/write_cache`, so that it stops flushing and
    the disk knows nothing of it; or `switched-off`, "write through" written to `cache_type`, so
    that a virtio-blk disk writes through and the guest need not flush."""

    accelerator: AcceleratorChoice = AcceleratorChoice.AUTO
    """What runs the guest's instructions; `auto` takes KVM if a probe guest proves it."""

    @property
    def happenings(self) -> tuple[tuple[Move | Restart, int], ...]:
        """What `during` says: how the guest moves or restarts, and at which acknowledged LSN."""
        told = (word.split("@") for word in self.during)
        moves = [move.value for move in Move]
        return tuple((Move(how) if how in moves else Restart(how), int(lsn)) for how, lsn in told)

    @property
    def queueing(self) -> Queueing:
        """What `iothread` and `queues` say."""
        return Queueing(self.iothread, self.queues)

    @property
    def host_cache(self) -> CacheFlags:
        """What the cache mode and the settings that override its parts come to."""
        return CacheFlags(
            write_cache=self.write_cache.of(self.cache.write_cache),
            direct=self.direct.of(self.cache.direct),
            no_flush=self.no_flush.of(self.cache.no_flush),
        )


# How the power of a machine goes and comes that powercut did not make: commands of this host.

_HOST_MAX = 255


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


_COMMAND_SCHEMA = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}

Commands = Annotated[
    tuple[Command, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": _COMMAND_SCHEMA}]}),
]
"""Command lines, one after the other: strings, or lists of words; a single one may stand alone."""


class PowerSettings(Settings):
    """Commands of this host, each run without a shell; they must end with status 0."""

    off: Annotated[Commands, Field(min_length=1)]
    """What takes the power away at once: `VBoxManage controlvm NAME poweroff`, `ipmitool ...
    chassis power off`, a PDU, a smart plug.  Not a shutdown in order: that one flushes."""

    on: Commands = ()
    """What gives it back; none if the machine comes back after `off` without help."""

    status: Commands = ()
    """What says whether it is off: its output then holds the word `off`, `poweroff` or
    `powered off`.  With it a cut is waited for; without it, the machine's new boot id alone shows
    that there was one."""


def _is_host(value: str) -> str:
    name = value.rpartition("@")[2]
    ascii_word = value.isascii() and value.isprintable() and " " not in value
    if not ascii_word or not name or value.startswith("-") or len(value) > _HOST_MAX:
        raise ValueError("write [USER@]NAME[:PORT], or a name of ~/.ssh/config")
    return value


Host = Annotated[str, AfterValidator(_is_host)]
"""A host for ssh."""


def _is_folder(value: str) -> str:
    clean = value.isprintable() and not {"", ".", ".."} & set(value.split("/")[1:])
    if not value.startswith("/") or value.count("/") < 2 or not clean:
        raise ValueError("write an absolute path of at least two parts, such as /srv/powercut")
    return value


Folder = Annotated[str, AfterValidator(_is_folder)]
"""A folder of another system."""
