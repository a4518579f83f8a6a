# SPDX-License-Identifier: Apache-2.0
"""What recovery consists of: steps, in their order.

A step that opens something (`OpenImage`, `OpenDevice`, `Mount`) leaves it open for those that
follow, until one closes it (`Unmount`, `CloseDevice`).  What is open at the end is closed by
the engine, in whatever way it ends its system.  The first `Read` is what came back; what
follows a `GoOn` is life after recovery.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

from powercut.model.machine import ImageFormat
from powercut.model.machine_identity import ANY_MACHINE, MachineIdentity

_S = TypeVar("_S", bound="Step")


@dataclass(frozen=True)
class OpenImage:
    """The disk is an image of `format`: it is opened, and repaired if it says that it must be,
    before the system sees what is in it."""

    format: ImageFormat


@dataclass(frozen=True)
class OpenDevice:
    """The device is read as it is; nothing that was read of it earlier is still cached."""


@dataclass(frozen=True)
class Mount:
    """Mounting replays the journal of the file system.  `options` as mount(8) has them."""

    filesystem: str
    options: str
    point: str


@dataclass(frozen=True)
class Read:
    """The reader of the log, or a program's check: path first, without its channel."""

    command: tuple[str, ...]


@dataclass(frozen=True)
class GoOn:
    """A writer that continues by `records` records; the engine adds `first_lsn=N`, the record
    after the last one that came back.

    On the host's files, and in a root of its own, it is a program that begins where it will: it is
    killed once it has acknowledged so many operations, or after `seconds`.  With 0 `records`
    nothing continues, and everything is read twice.
    """

    command: tuple[str, ...]
    records: int
    seconds: float = 0.0


@dataclass(frozen=True)
class Unmount:
    """A clean unmount: everything that was written is durable then."""

    point: str


@dataclass(frozen=True)
class CloseDevice:
    """The device is closed, after which nothing of it is cached."""


@dataclass(frozen=True)
class Examine:
    """A program that looks at the unmounted disk, a block device at `EXAMINED`: a checker of file
    systems.  What it says follows what the reader has said."""

    command: tuple[str, ...]


EXAMINED: Final = "/tmp/disk"  # as guests/uml/init.h says

Step = OpenImage | OpenDevice | Mount | Read | GoOn | Unmount | CloseDevice | Examine


@dataclass(frozen=True)
class HostRoot:
    """The host's own files, read-only, as the root of programs in the guest.

    They start in `folder` with `environment` (NAME=VALUE each).  /tmp, /run, /var/tmp and
    /dev/shm are empty and writable there, but for the folders in `visible`.  What a program
    writes to descriptor 3 comes back as it is (`Observation.lines`).

    `base` is the folder of the host that is this root: all of its files, or a root file system that
    was unpacked there.  In that the host's folder `program`, if there is one, is /opt/powercut.
    The host's folder `tools`, if there is one, is /run/powercut.  It is all on the `machine`.  With
    `nodes`, each on its disk, verbs are those of a cluster (guests/uml/nodes.c).
    """

    folder: str
    environment: tuple[str, ...]
    visible: tuple[str, ...] = ()
    base: str = "/"
    program: str = ""
    tools: str = ""
    machine: MachineIdentity = ANY_MACHINE
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GuestRoot:
    """A root file system on a disk of the guest's own, for readers that are anybody's programs.

    With `program` their folder is on another one, which is mounted at /opt/powercut.

    They start in `folder` with `environment` (NAME=VALUE each), below MOUNT; what they write to
    descriptor 3 comes back as it is (`Observation.lines`).
    """

    MOUNT: ClassVar[str] = "/root"
    SERIAL: ClassVar[str] = "powercut-root"
    PROGRAM_SERIAL: ClassVar[str] = "powercut-program"

    folder: str
    environment: tuple[str, ...]
    program: bool = False
    machine: MachineIdentity = ANY_MACHINE

    def mounting(self, filesystem: str) -> tuple[str, ...]:
        """What the agent is told so that it mounts the root, whose images hold `filesystem`."""
        return ("root", self.SERIAL, filesystem, *((self.PROGRAM_SERIAL,) if self.program else ()))

    def naming(self, boot: int = 0) -> tuple[str, ...]:
        """What the agent is told once the root is mounted: which machine it is, in its `boot`th
        boot for checks, or for a run."""
        pid = self.machine.boot(boot).first_pid
        return ("machine", self.machine.mac, self.machine.machine_id, f"{pid}")

    def showing(self, tool: str, path: str) -> tuple[str, ...]:
        """What the agent is told so that its own program `tool` is `path` there."""
        return ("show", f"/bin/{tool}", f"{self.MOUNT}{path}")

    def command(self, *argv: str) -> tuple[str, ...]:
        """What the agent is told to run `argv` there."""
        return ("program", *self._words(argv))

    def command_that_works(
        self, *argv: str, stamped: bool = False, unsynced: bool = False
    ) -> tuple[str, ...]:
        """The same until the cut: `stamped` if its lines are to get the guest's clock; `unsynced`
        takes its syncs away."""
        return ("works", str(int(stamped)), str(int(unsynced)), *self._words(argv))

    def command_for_acks(self, step: GoOn, point: str) -> tuple[str, ...]:
        """The same for a program that continues, with its data below `point`."""
        limits = (str(step.records), str(int(step.seconds * 1000)), point)
        return ("acks", *limits, *self._words(step.command))

    def _words(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return (self.folder, str(len(self.environment)), *self.environment, *argv)


@dataclass(frozen=True)
class PlanDisk:
    """One of several disks that lie one behind the other on the image, in bytes.

    `holds`: `first`, `xfs-log`, `xfs-realtime`, `folder`, `stripe` or `layers`.
    """

    name: str
    offset: int
    size: int
    holds: str


@dataclass(frozen=True)
class PlanLayers:
    """Devices between the disks and the file system, brought up before each mount and ended after
    it: the `modules` that they take, `helpers` that a kernel may have built in, and `lines` as
    guests/uml/share.h has them."""

    modules: tuple[str, ...]
    helpers: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """All that activates them, as a recording keeps it."""
        return "\n".join((*self.modules, *self.lines))


@dataclass(frozen=True)
class RecoveryPlan:
    """The `steps` of a recovery.

    `device` is what the guest calls its disk; engines that have a disk of their own do not ask.
    `disks` are those that the image holds, if there are several; `layers` lie on it.  `host` and
    `root` are for readers that are anybody's programs; at most one of them is there.
    """

    steps: tuple[Step, ...]
    device: str = "vda"
    host: HostRoot | None = None
    root: GuestRoot | None = None
    disks: tuple[PlanDisk, ...] = ()
    layers: PlanLayers | None = None

    @classmethod
    def of(
        cls,
        filesystem: str,
        mount_options: str,
        mount_point: str,
        reader: tuple[str, ...],
        *,
        device: str = "vda",
        host: HostRoot | None = None,
        root: GuestRoot | None = None,
        image: ImageFormat = ImageFormat.RAW,
        disks: tuple[PlanDisk, ...] = (),
        layers: PlanLayers | None = None,
    ) -> RecoveryPlan:
        """Mounting and reading; without a `filesystem` the device itself is read."""
        opened = OpenDevice() if not filesystem else Mount(filesystem, mount_options, mount_point)
        image_open = () if image is ImageFormat.RAW else (OpenImage(image),)
        steps = (*image_open, opened, Read(reader))
        return cls(steps, device, host, root, disks, layers)

    def going_on(
        self, command: tuple[str, ...], records: int, seconds: float = 0.0
    ) -> RecoveryPlan:
        """The same; then a writer continues, and everything is closed, opened and read again.

        Raises ValueError for a plan that continues already.
        """
        lines = self.host is not None or self.root is not None
        if records < (not lines) or self.find(GoOn) is not None:
            raise ValueError(f"a writer that continues by {records} records: {command}")
        again = tuple(step for step in self.steps if not isinstance(step, OpenImage))
        closed = tuple(
            Unmount(step.point) if isinstance(step, Mount) else CloseDevice()
            for step in reversed(again)
            if isinstance(step, Mount | OpenDevice)
        )
        return replace(self, steps=(*self.steps, GoOn(command, records, seconds), *closed, *again))

    def read_by(self, command: tuple[str, ...]) -> RecoveryPlan:
        """The same with another reader."""
        steps = (Read(command) if isinstance(step, Read) else step for step in self.steps)
        return replace(self, steps=tuple(steps))

    def examined(self, command: tuple[str, ...]) -> RecoveryPlan:
        """The same; then the file system is unmounted, and `command` gets the disk."""
        examine = Examine((*command, EXAMINED))
        return replace(self, steps=(*self.steps, Unmount(self.mount_point), examine))

    def find(self, kind: type[_S]) -> _S | None:
        """The first step of its kind."""
        return next((step for step in self.steps if isinstance(step, kind)), None)

    @property
    def filesystem(self) -> str:
        """The type that is mounted; empty if none is."""
        mount = self.find(Mount)
        return mount.filesystem if mount is not None else ""

    @property
    def mount_point(self) -> str:
        """Where that is mounted; empty if none is."""
        mount = self.find(Mount)
        return mount.point if mount is not None else ""

    @property
    def mount_options(self) -> str:
        """Those of the mount; empty if there is none."""
        mount = self.find(Mount)
        return mount.options if mount is not None else ""

    @property
    def reader(self) -> tuple[str, ...]:
        """The command of the first `Read`; empty if nothing is read."""
        read = self.find(Read)
        return read.command if read is not None else ()
