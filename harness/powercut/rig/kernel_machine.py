# SPDX-License-Identifier: Apache-2.0
"""Machines that are a kernel on this host: User-Mode Linux, and the host's own with a loop device.

There is no hypervisor, and no agent: a command is a verb of the program, and its lines come on a
source of the machine's own, which dates them.  What is mounted where is part of the machine, so
that these are machines of the rig: a plan of recovery says it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from socket import socket
from typing import Final, Protocol

from powercut.channel.check_lines import LinesAlone
from powercut.channel.line_sources import LineSource, PacketSource
from powercut.channel.port import CommandResult
from powercut.channel.stamped_source import StampedSource
from powercut.machine.lines_backend import LinesBackend
from powercut.machine.package import package_of, sha256_of_file
from powercut.machine.port import (
    Ended,
    MachineAndChannel,
    MachineSpec,
    NbdDisk,
    Part,
    served_disk,
    under_test,
)
from powercut.machine.storage_daemon import storage_daemon
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.history import History
from powercut.model.operations import Pressed
from powercut.model.outside import LeftFiles
from powercut.model.versions import HOST
from powercut.recover.uml import boot
from powercut.rig import loop_guest
from powercut.rig.host_files import KernelOptions, sha256_of, uml_release
from powercut.rig.loop_guest import LoopGuest
from powercut.rig.program_guest import ProgramGuest
from powercut.rig.recovery_kernel import recovery_kernel
from powercut.scenario.settings import MachineSettings

GUEST_KERNEL: Final = "guest kernel"


class KernelGuest(Protocol):
    """A kernel with a disk mounted, on which verbs are run one after the other."""

    console: str

    def start(self, *, timeout_s: float) -> None:
        """Mounts the disk.  Raises HostError."""

    def begin(self, argv: tuple[str, ...], *, unsynced: bool = False) -> None:
        """Starts a verb and returns at once; `unsynced` takes its syncs away."""

    def set_up(self, argv: tuple[str, ...]) -> None:
        """The same of one whose last word is a folder, which is made before."""

    def press(self, seed: int, *, timeout_s: float) -> None:
        """Has it write back early, and a neighbour commit; raises HostError if that cannot be had
        of it."""

    def wait_end(self, deadline: float) -> int | None:
        """Its exit status; None if it has not ended by `deadline`, on time.monotonic's clock."""

    def unmount(self, *, timeout_s: float) -> None:
        """A clean unmount: everything that was written is durable then."""

    def left(self, *, timeout_s: float) -> LeftFiles | None:
        """What the verb has left in memory; None if that cannot be known."""

    def pressed(self, *, timeout_s: float) -> Pressed:
        """What `press` has done so far."""

    def kill(self) -> None:
        """Ends it at once; idempotent."""

    def close(self) -> None:
        """Ends it, and gives back what it holds; idempotent."""

    @property
    def console_now(self) -> str:
        """The last lines that were printed, for a message."""


class KernelMachine:
    """A `Machine` that loses its power with its kernel."""

    def __init__(self, guest: KernelGuest, source: LineSource) -> None:
        self._guest = guest
        self._source: LineSource | None = source
        self._started = False
        self.ended: Ended | None = None

    def start(self, *, timeout_s: float) -> None:
        """Boots, if that is needed, and mounts the disk."""
        if self._started:
            raise HostError("a machine is started once")
        self._started = True
        self._guest.start(timeout_s=timeout_s)

    def crash(self, *, timeout_s: float) -> None:
        """The same as `kill`: no hypervisor is left that could end in order."""
        if not self.running:
            raise HostError("the machine was gone before the crash")
        self.kill(timeout_s=timeout_s)

    def kill(self, *, timeout_s: float) -> None:
        del timeout_s
        self._guest.kill()
        if self.running:
            self.ended = Ended.KILLED

    def lose_power(self, *, timeout_s: float) -> None:
        self.kill(timeout_s=timeout_s)

    def left(self, *, timeout_s: float) -> LeftFiles | None:
        return self._guest.left(timeout_s=timeout_s)

    def shut_down(self, *, timeout_s: float) -> None:
        self._guest.unmount(timeout_s=timeout_s)
        self._guest.kill()
        self.ended = Ended.BY_ITSELF

    @property
    def running(self) -> bool:
        return self._started and self.ended is None

    @property
    def diagnosis(self) -> str:
        """What its kernel and its programs printed; once it has ended."""
        return self._guest.console

    def take_lines(self) -> LineSource:
        source, self._source = self._source, None
        if source is None:
            raise HostError("the lines of this machine have been taken")
        return source

    def close(self) -> None:
        """Ends it; lines that somebody has taken stay with them."""
        self.kill(timeout_s=0)
        self._guest.close()
        if self._source is not None:
            self._source.close()


class KernelChannel(LinesAlone):
    """A `Channel` whose commands are verbs of a program."""

    def __init__(self, guest: KernelGuest, release: str) -> None:
        self._guest = guest
        self._release = release

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        """Its kernel, which is there as soon as the machine is started."""
        del timeout_s
        return {"release": self._release}

    def run(self, *argv: str, timeout_s: float) -> CommandResult:
        self.start(*argv)
        return self.wait_done(timeout_s=timeout_s)

    def start(self, *argv: str) -> None:
        self._guest.begin(argv)

    def set_up(self, *argv: str, timeout_s: float) -> CommandResult:
        self._guest.set_up(argv)
        return self.wait_done(timeout_s=timeout_s)

    def press(self, seed: int, *, timeout_s: float) -> None:
        self._guest.press(seed, timeout_s=timeout_s)

    def pressed(self, *, timeout_s: float) -> Pressed:
        return self._guest.pressed(timeout_s=timeout_s)

    def start_unsynced(self, *argv: str) -> None:
        self._guest.begin(argv, unsynced=True)

    def cut_nodes(
        self, names: Collection[str], dark: AbstractContextManager[None], *, timeout_s: float
    ) -> None:
        assert isinstance(self._guest, ProgramGuest), "nodes run in User-Mode Linux"
        self._guest.cut_nodes(names, dark, timeout_s=timeout_s)

    def wait_done(self, *, timeout_s: float) -> CommandResult:
        status = self._guest.wait_end(time.monotonic() + timeout_s)
        if status is None:
            raise DeadlineExceeded(f"the program did not end within {timeout_s:g} s")
        return CommandResult(status, "", {}, (), (self._guest.console_now,), None)

    def drain(self, *, timeout_s: float) -> History:
        del timeout_s
        return History.nothing()


class _KernelBackend(LinesBackend):
    """What User-Mode Linux and the host's own kernel have in common as backends."""

    def __init__(
        self,
        unavailable: Callable[[], tuple[str, ...]],
        source: Callable[[], PacketSource | StampedSource],
        guest: Callable[[KernelOptions, Path, Path, socket], KernelGuest],
        *,
        own_kernel: bool,
    ) -> None:
        """`own_kernel`: it is that of this host, and User-Mode Linux only recovers."""
        self._unavailable = unavailable
        self._source = source
        self._guest = guest
        self._own_kernel = own_kernel

    def problems(self, settings: MachineSettings) -> tuple[str, ...]:
        del settings
        return self._unavailable()

    def options(self, settings: MachineSettings) -> None:
        del settings

    def describe(self, spec: MachineSpec, folder: Path) -> list[str]:
        del folder
        return [] if self._own_kernel else [str(_options(spec).kernel.program)]

    def identity(self, spec: MachineSpec) -> tuple[Part, ...]:
        """The kernel that recovers is the guest's, too; and what serves it the disk."""
        kernel = _options(spec).kernel
        guest = Part(
            role=GUEST_KERNEL,
            name="User-Mode Linux",
            version=uml_release(kernel),
            package=package_of(kernel.program),
            sha256=sha256_of_file(kernel.program),
        )
        return (guest, storage_daemon())

    def versions(self, spec: MachineSpec) -> dict[str, str]:
        kernel = _options(spec).kernel
        host = {"host_kernel": platform.release()} if self._own_kernel else {}
        return {
            **host,
            "kernel_release": uml_release(kernel),
            "kernel_sha256": sha256_of(kernel.program),
        }

    @contextmanager
    def opened(self, spec: MachineSpec, folder: Path) -> Iterator[MachineAndChannel]:
        options, disk = _options(spec), served_disk(under_test(spec))
        assert isinstance(disk, NbdDisk), "the disk of a kernel on this host is served"
        source = self._source()
        guest = self._guest(options, disk.socket, folder, source.theirs)
        machine = KernelMachine(guest, source)
        release = platform.release() if self._own_kernel else uml_release(options.kernel)
        try:
            yield MachineAndChannel(machine, KernelChannel(guest, release))
        finally:
            machine.close()


def uml_backend(cache: Path) -> _KernelBackend:
    """User-Mode Linux; nothing of it is kept in `cache`."""
    del cache
    return _KernelBackend(
        lambda: tuple(boot.unavailable(recovery_kernel(HOST))),
        PacketSource,
        lambda options, nbd, folder, lines: ProgramGuest(
            options.kernel, nbd, options.plan, folder, lines
        ),
        own_kernel=False,
    )


def loop_backend(cache: Path) -> _KernelBackend:
    """The kernel of this host, which mounts the disk over a loop device."""
    del cache
    return _KernelBackend(
        lambda: (*boot.unavailable(recovery_kernel(HOST)), *loop_guest.unavailable()),
        StampedSource,
        lambda options, nbd, folder, lines: LoopGuest(nbd, options.plan, folder, lines),
        own_kernel=True,
    )


def _options(spec: MachineSpec) -> KernelOptions:
    assert isinstance(spec.options, KernelOptions), "options come from the rig"
    return spec.options
