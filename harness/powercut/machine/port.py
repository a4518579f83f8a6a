# SPDX-License-Identifier: Apache-2.0
"""The port to a machine: something that boots a guest, hears it, and can be cut off.

A `MachineBackend` knows one way to run machines; the table of them is powercut.rig.rig.
What only some machines can do is a protocol of its own, asked for with isinstance.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, runtime_checkable

from powercut.channel.line_sources import LineSource
from powercut.channel.port import Channel
from powercut.model.binding import NOT_BOUND
from powercut.model.errors import HostError
from powercut.model.machine import (
    USUAL_QUEUEING,
    Aio,
    Bus,
    CacheMode,
    HostCache,
    ImageFormat,
    Move,
    Queueing,
    Restart,
    Start,
)
from powercut.model.outside import LeftFiles
from powercut.model.versions import GUEST
from powercut.scenario.settings import AcceleratorChoice, MachineSettings

LINES: Final = "lines"
"""The socket of a machine's port for lines, in the folder in which it was opened."""


class Role(enum.Enum):
    """What a disk is attached for."""

    UNDER_TEST = "under test"
    ROOT = "root"
    """A root file system, read-only; such a machine has a second port, for a program's lines, a
    unix socket on which it listens: LINES in the folder in which it was opened."""

    PROGRAM = "program"
    """The folder of a program in that root, read-only."""


@dataclass(frozen=True)
class NbdDisk:
    """A disk served by NBD on a unix socket, there by the name `export`."""

    socket: Path
    export: str = ""


@dataclass(frozen=True)
class FileDisk:
    """An image file that the machine opens itself, with the system calls of `aio` (not NBD), or
    maps, if the bus wants memory.  `size` in bytes; None: to be found out.

    Beside others it lies `offset` bytes into the file; None: it is the file."""

    path: Path
    aio: Aio = Aio.THREADS
    size: int | None = None
    offset: int | None = None

    @property
    def serves_part(self) -> bool:
        """Whether other disks lie in the same file."""
        return self.offset is not None


@dataclass(frozen=True)
class NbdFile:
    """A disk of `size` bytes, served by NBD on a unix socket, there by the name `export`, which the
    machine opens as a file with the system calls of `aio`, or maps, if the bus wants memory.

    With `grows` the file is the one that lies on that disk (powercut.disk.growing_file)."""

    socket: Path
    size: int
    aio: Aio = Aio.THREADS
    grows: bool = False
    export: str = ""


@dataclass(frozen=True)
class OwnDisk:
    """A disk that the machine keeps to itself: powercut sees no request of it.

    It begins as `base`, an image file that never changes; None: as the machine has it.  Whatever
    of it outlives a machine lies in `folder`, or where the backend has its machines: the next one
    on the same `folder` finds it.
    """

    base: Path | None
    folder: Path


ServedDisk = NbdDisk | FileDisk | NbdFile
Disk = ServedDisk | OwnDisk


@dataclass(frozen=True)
class ImageLayer:
    """A format between the machine's disk and what the guest sees, which has `size` bytes.

    An overlay lies over the image `backing`, which is read only."""

    format: ImageFormat
    size: int
    backing: Path | None = None
    backing_format: ImageFormat = ImageFormat.RAW


@dataclass(frozen=True)
class Attachment:
    """One disk of a machine: what it is there for, and how the guest gets at it.

    `layer` is None if the guest sees the bytes of `disk` themselves.  Of several disks under test
    each has a `size` in bytes, a `serial` number, by which the guest finds it, and `options` as a
    machine has them.
    """

    role: Role
    disk: Disk
    bus: Bus = Bus.VIRTIO_BLK
    cache: HostCache = CacheMode.NONE
    layer: ImageLayer | None = None
    size: int = 0
    serial: str = ""
    options: object = None
    queueing: Queueing = USUAL_QUEUEING


@dataclass(frozen=True)
class MachineSpec:
    """One machine, completely described.

    `kernel` is the guest's, by the name that a scenario gives it; `options` are the backend's
    own (`MachineBackend.options`), None for its usual ones.  With `hotplug` it boots without the
    disk under test (`PlugsDisk`).
    """

    attachments: tuple[Attachment, ...]
    memory_mib: int = 128
    cpus: int = 1
    kernel: str = GUEST
    kernel_arguments: tuple[str, ...] = ()
    accelerator: AcceleratorChoice = AcceleratorChoice.AUTO
    start: Start = Start.AUTO
    options: object = None
    hotplug: bool = False


_OTHERS: Final[tuple[list[Role], ...]] = ([], [Role.ROOT], [Role.ROOT, Role.PROGRAM])


def under_test(spec: MachineSpec) -> Attachment:
    """The one disk of a machine that has no other but a root.  Raises HostError for any other."""
    (first, *more) = all_under_test(spec)
    if more:
        raise HostError(
            f"a machine with {len(spec.attachments)} disks: it is told here of one, under test, "
            "and of a root"
        )
    return first


def all_under_test(spec: MachineSpec) -> tuple[Attachment, ...]:
    """The disks under test of a machine that has no other but a root.  Raises HostError for any
    other."""
    disks = tuple(one for one in spec.attachments if one.role is Role.UNDER_TEST)
    others = spec.attachments[len(disks) :]
    if (
        not disks
        or disks != spec.attachments[: len(disks)]
        or [one.role for one in others] not in _OTHERS
    ):
        raise HostError(
            f"a machine with {len(spec.attachments)} disks: those under test come first, then a "
            "root"
        )
    return disks


def flavour_for(spec: MachineSpec) -> str:
    """The kernel that has drivers for the buses of the disks under test."""
    flavours = {one.bus.flavour for one in all_under_test(spec)}
    return "full" if "full" in flavours else "cloud"


def served_disk(attachment: Attachment) -> ServedDisk:
    """The disk, which powercut serves.  Raises HostError for one that the machine is to bring."""
    if isinstance(attachment.disk, OwnDisk):
        raise HostError("it brings no disk along: this machine is given one, which is recorded")
    return attachment.disk


def image_of(spec: MachineSpec, role: Role) -> Path | None:
    """The image of the root file system, or of the program in it; None without one."""
    disks = [one.disk for one in spec.attachments if one.role is role]
    if not disks:
        return None
    assert isinstance(disks[0], FileDisk), "a root is an image file"
    return disks[0].path


class Ended(enum.Enum):
    """How a machine came to its end."""

    KILLED = "killed"
    BY_ITSELF = "by itself"
    """In order, and having flushed what it had: so nothing was cut off."""


class Machine(Protocol):
    """A machine, on or off.  It is started once; what failed stays failed."""

    def start(self, *, timeout_s: float) -> None:
        """Powers on: returns once the guest runs (it may not have said hello yet)."""

    def crash(self, *, timeout_s: float) -> None:
        """Takes the guest's RAM away; the hypervisor ends in its usual order.

        Raises HostError if it was gone before.
        """

    def kill(self, *, timeout_s: float) -> None:
        """Takes the hypervisor away (SIGKILL) and returns once it is gone; idempotent.

        The host lives on: what its page cache holds for the disk gets there.
        """

    @property
    def running(self) -> bool:
        """Whether the hypervisor is there."""

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs, or if it never did."""

    @property
    def diagnosis(self) -> str:
        """For a person: what was started, how it ended, the end of its output."""


@runtime_checkable
class LosesPower(Protocol):
    """A machine that can be taken away together with its host."""

    def lose_power(self, *, timeout_s: float) -> None:
        """Takes hypervisor and host away at one instant; idempotent.

        What the host's page cache holds for the disk never gets there, and nothing that the
        guest says afterwards is heard.
        """


@runtime_checkable
class PlugsDisk(Protocol):
    """A machine whose guest can be given the disk under test while it runs."""

    def plug_disk(self, *, timeout_s: float) -> None:
        """Plugs it in, once; the guest finds it a little later.

        Raises HostError for a machine that has it already, or whose hypervisor refuses.
        """


@runtime_checkable
class HasLines(Protocol):
    """A machine whose kernel dates what its programs say."""

    def take_lines(self) -> LineSource:
        """Where their lines come in, once; closed by whoever has taken it."""


@runtime_checkable
class TellsLeft(Protocol):
    """A machine that can tell what its program has left in memory, outside of its disk."""

    def left(self, *, timeout_s: float) -> LeftFiles | None:
        """So far, while it runs; None if that cannot be known."""


@runtime_checkable
class ShutsDown(Protocol):
    """A machine that can unmount its disk and end, without an agent that is told to."""

    def shut_down(self, *, timeout_s: float) -> None:
        """Everything that was written is durable when it returns."""


@dataclass(frozen=True)
class RequestTotals:
    """What the guest has asked of a disk, before a cache mode or a format has done anything.

    `raw` is what the machine said of it, for the evidence.
    """

    writes: int
    flushes: int
    written_bytes: int
    raw: Mapping[str, object]


@runtime_checkable
class CountsRequests(Protocol):
    """A machine that counts what its guest asks of the disk under test."""

    def requests(self, *, timeout_s: float) -> RequestTotals:
        """Counts so far.  Raises HostError if there is nobody to ask."""


@dataclass(frozen=True)
class Part:
    """A program or kernel that machines are made of, exactly; empty is what is not known."""

    role: str
    name: str
    version: str
    package: str = ""
    sha256: str = ""


class MachineAndChannel(NamedTuple):
    """A machine that is off, and the channel on which its guest will speak."""

    machine: Machine
    channel: Channel


class MachineBackend(Protocol):
    """One way to run machines."""

    def problems(self, settings: MachineSettings) -> tuple[str, ...]:
        """All reasons why such a machine cannot run here, with remedies; empty if it can."""

    def options(self, settings: MachineSettings) -> object:
        """What of the settings concerns this backend alone; for `MachineSpec.options`."""

    def describe(self, spec: MachineSpec, folder: Path) -> list[str]:
        """The command line of the machine, whose files will lie in `folder`; starts nothing."""

    def identity(self, spec: MachineSpec) -> tuple[Part, ...]:
        """Exactly what the machine is made of.  Raises HostError if a part cannot be had."""

    def versions(self, spec: MachineSpec) -> dict[str, str]:
        """The same in short, as recordings keep it."""

    def environment(self, accelerators: Iterable[AcceleratorChoice]) -> dict[str, object]:
        """What a reader of results has to know of this backend on this host, whose machines ask
        for one of these `accelerators` each.  Raises HostError.
        """

    def emulates(self, accelerator: AcceleratorChoice) -> bool:
        """Whether guests that ask for it run in emulation, and so slowly.  Raises HostError."""

    def open(
        self,
        spec: MachineSpec,
        folder: Path,
        *,
        history: Path | None = None,
        digest: bytes = NOT_BOUND,
    ) -> AbstractContextManager[MachineAndChannel]:
        """The machine, off, and its channel, listening; leaving the context ends both.

        `folder` is for sockets, logs and consoles; its path must be short.  What the guest claims
        goes to the file `history`, bound to its recording by `digest`.
        """


@dataclass(frozen=True)
class ConsoleGuest:
    """A guest for a person: the image that is its disk, and a second `initramfs` over the usual
    one, whose /shell is PID 1 and asks with `prompt`."""

    disk: Path
    layer: ImageLayer | None
    initramfs: bytes
    prompt: str


@runtime_checkable
class HasConsole(Protocol):
    """A backend whose machines can be used by a person."""

    def run_console(self, wanted: ConsoleGuest) -> int:
        """Boots a guest with its console on this process's stdin and stdout.

        Returns the exit status once it is gone.  Raises HostError if something is missing.
        """


# The port to machines to which something can happen while their guest works (`machine.during`).


@runtime_checkable
class MovesGuest(Protocol):
    """A machine whose guest can go on in another hypervisor, on the same disk."""

    def move(self, how: Move, *, timeout_s: float) -> int:
        """Returns once it runs there and the hypervisor before is gone.

        The channel goes along: the other hypervisor connects to it.  Returns an instant
        (CLOCK_MONOTONIC, ns) at which the guest stood still in the one before.  Raises HostError or
        DeadlineExceeded; then the machine may be on or off.
        """


@runtime_checkable
class RestartsGuest(Protocol):
    """A machine whose guest can be started anew, from the disk that it has written so far."""

    def restart(self, how: Restart, *, timeout_s: float) -> int:
        """Returns once it boots; it has not said hello yet.  Whoever has heard it says so
        (`came_up`).

        Nothing that it did not say before is heard: it connects to the channel anew.  The caches
        of the disk stay as they are, but for what the hypervisor itself does to them.  Returns an
        instant (CLOCK_MONOTONIC, ns) at which the guest stood still.  Raises HostError or
        DeadlineExceeded; then the machine may be on or off.
        """

    def came_up(self, *, timeout_s: float) -> None:
        """It was heard again after a restart: if it resets itself from now on, the machine ends,
        as one does that is started."""


# The command line of a guest's kernel, whatever starts the guest.


def guest_words(
    bus: Bus,
    *beside: Bus,
    emulated: bool,
    acpi: bool = False,
    cpus: int = 1,
    hotplug: bool = False,
    tsc_khz: int | None = None,
    added: Iterable[str] = (),
) -> str:
    """What a kernel is told whose disk under test is on `bus`, with the words `added` at the end;
    other disks are on the buses `beside`.

    `emulated`: guests run by TCG, and without ACPI unless the board has it (`acpi`) or they have
    several processors (`cpus`); with `hotplug` the disk on `bus` is not there yet.  `tsc_khz` is
    the frequency of the host's time-stamp counter.
    """
    # Without ACPI a guest boots in two thirds of the time under TCG and works as fast; it
    # then has no APIC for message-signalled interrupts.  With KVM it would pay.
    # Linux finds processors but the first by a table of ACPI, the MADT, and an NVDIMM by the NFIT;
    # on a board `pc` ACPI says, too, that a PCI function was plugged in.  QEMU's NVMe disk holds
    # an interrupt line up when it has nothing to say, until Linux takes the line away ("nobody
    # cared"): then each commit of several writes waits for a timer, 0.4 s.  Its messages do not
    # have that.
    buses = (bus, *beside)
    modules = ",".join(dict.fromkeys(one.modules for one in buses if one.modules))
    needed = cpus > 1 or Bus.NVME in buses or (hotplug and bus.is_pci_function)
    without_acpi = () if acpi or needed or Bus.NVDIMM in buses else ("acpi=off",)
    without_messages = () if needed else ("pci=nomsi",)
    words = [
        "quiet",
        "loglevel=4",  # errors and what is worse: they go to the console, one exit a byte
        "earlyprintk=ttyS0,115200,keep",  # from the first instruction, and without the 8250 driver
        "8250.nr_uarts=0",  # whose probing takes longer than all else
        "panic=-1",
        "cryptomgr.notests",
        *((*without_acpi, *without_messages, "no_timer_check") if emulated else ()),
        *(() if hotplug else (f"powercut.disk={bus.device}",)),
        *((f"powercut.load={modules}",) if modules else ()),
        *(("tsc=reliable", f"tsc_early_khz={tsc_khz}") if tsc_khz else ()),
        *added,
    ]
    return " ".join(words)


# The small guest that machines boot, as files.


@dataclass(frozen=True)
class GuestImage:
    """A small guest: kernel, initramfs with the agent as PID 1, and what they are.

    `digest` changes whenever any of its bytes does; `package` names the kernel's package and
    its version, and is empty if there was none.
    """

    kernel: Path
    initramfs: Path
    kernel_release: str
    digest: str
    package: str = ""
