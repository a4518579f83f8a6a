# SPDX-License-Identifier: Apache-2.0
"""The system that a program runs on: how its verbs get there, and who recovers its disk.

A guest has a root of its own, which its agent mounts and in which it runs commands.  A kernel on
this host has a root from its start on, and runs nothing but verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from powercut.channel.line_channel import LineChannel
from powercut.channel.port import Channel, CommandResult, RunsVerbs
from powercut.disk.root_image import FILESYSTEM
from powercut.machine.port import LINES, CountsRequests, HasLines, Machine, ShutsDown
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.operations import Pressed
from powercut.recover.order import EngineOrder
from powercut.recover.plan import GuestRoot, RecoveryPlan
from powercut.recover.port import RecoveryEngine
from powercut.rig import commands
from powercut.rig.guest_disks import GuestDisks
from powercut.rig.guest_engine import GuestEngine
from powercut.rig.host_files import kernel_of
from powercut.rig.set_up import guest_command, mount_disks, prepare_disk
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.program_lines import ProgramLines, late, wait_patiently
from powercut.workload.program.sync_trace import TOOLS

_ASKED: Final = 2  # one turn of QEMU's loop may be under way already


class System(Protocol):
    """What a program runs on, of a machine that powercut makes."""

    boot_s: float
    """How long a recovery may take beside the program's check."""

    def enter(self, channel: Channel) -> None:
        """Brings a machine that has said hello to where a verb can start."""

    def make_ready(self, channel: Channel) -> None:
        """Once it is entered, for the verb that works until the cut: a program of powercut's own
        that starts it is there, too, and the kernel writes back early."""

    def hear(
        self, machine: Machine, folder: Path, file: Path, binding: Binding, *, dated: bool
    ) -> LineChannel:
        """What programs say, to `file`; `folder` is the machine's.  `dated`: by `start`ed ones,
        whose instants count."""

    def set_up(
        self, channel: Channel, argv: tuple[str, ...], look: Callable[[], None]
    ) -> CommandResult:
        """Makes the program's folder, the last word, and runs the verb to its end, unless `look`,
        which is called now and then if it can be, raises."""

    def start(
        self, channel: Channel, argv: tuple[str, ...], *, unsynced: bool, dated: bool
    ) -> None:
        """Starts the verb that works until the cut; `unsynced` takes its syncs away, and `dated`
        is as it was heard."""

    def shut_down(self, machine: Machine, channel: Channel) -> None:
        """Everything that was written is durable when it returns, and the machine has ended."""

    def last_words(self, machine: Machine) -> None:
        """What has to happen so that all that was said is heard, before the machine is gone."""

    def pressed(self, lines: ProgramLines) -> Pressed:
        """What `make_ready` has had the kernel do until now."""

    def recovering(self, plan: RecoveryPlan) -> AbstractContextManager[RecoveryEngine]:
        """What recovers the disk at power-on by `plan`, with writes over it; it is up."""


class GuestSystem:
    """A root file system in a virtual machine, and powercut's agent."""

    boot_s = 60.0

    def __init__(self, run: RecordingInProgress) -> None:
        self._run = run
        self._disks: GuestDisks | None = None

    def enter(self, channel: Channel) -> None:
        run, parameters = self._run, self._run.job.parameters
        guest_command(channel, run.deadline, *self._root.mounting(FILESYSTEM))
        guest_command(channel, run.deadline, *self._root.naming())
        self._disks, run.facts = prepare_disk(channel, parameters, run.deadline)
        mount_disks(channel, parameters, self._disks, run.plan.mount_point, run.deadline)

    def make_ready(self, channel: Channel) -> None:
        run = self._run
        tool = commands.contents_of(self._run.job.parameters).tool
        if tool is not None:
            words = self._root.showing(tool.name, f"{TOOLS}/{tool.name}")
            guest_command(channel, run.deadline, *words)
        assert self._disks is not None, "it was not entered"
        words = ("press", str(run.run.seed), *self._disks.points(run.plan.mount_point))
        run.press(lambda: guest_command(channel, run.deadline, *words))

    def hear(
        self, machine: Machine, folder: Path, file: Path, binding: Binding, *, dated: bool
    ) -> LineChannel:
        """On the machine's port, each stamped by the agent where a program is to be cut."""
        del machine
        on = LineChannel.on_guest if dated else LineChannel.on_port
        return on(folder / LINES, file, binding)

    def set_up(
        self, channel: Channel, argv: tuple[str, ...], look: Callable[[], None]
    ) -> CommandResult:
        del look
        deadline = self._run.deadline
        data = f"{self._run.plan.mount_point}/{PurePosixPath(argv[-1]).name}"
        guest_command(channel, deadline, "mkdir", data)
        try:
            return channel.run(*self._root.command(*argv), timeout_s=deadline.remaining_s)
        except DeadlineExceeded as error:
            raise late(f"{' '.join(argv)} did not end", deadline) from error

    def start(
        self, channel: Channel, argv: tuple[str, ...], *, unsynced: bool, dated: bool
    ) -> None:
        channel.start(*self._root.command_that_works(*argv, stamped=dated, unsynced=unsynced))

    def shut_down(self, machine: Machine, channel: Channel) -> None:
        """Whatever the machine holds gets to the disk as it ends in order."""
        assert self._disks is not None, "it was not entered"
        deadline = self._run.deadline
        for point in reversed(self._disks.points(self._run.plan.mount_point)):
            guest_command(channel, deadline, "umount", point)
        machine.crash(timeout_s=deadline.remaining_s)

    def last_words(self, machine: Machine) -> None:
        """QEMU is asked something: its answer comes after all that the guest had given it."""
        if not isinstance(machine, CountsRequests):
            raise HostError("this machine cannot be asked whether its guest's lines have come")
        for _ in range(_ASKED):
            machine.requests(timeout_s=self._run.deadline.at_least(GRACE_S))

    def pressed(self, lines: ProgramLines) -> Pressed:
        return lines.pressed

    @contextmanager
    def recovering(self, plan: RecoveryPlan) -> Iterator[RecoveryEngine]:
        run = self._run
        with GuestEngine(run.directory.base_image, run.job.parameters, plan) as engine:
            timeout_s = run.workload.recovery_s + self.boot_s
            engine.start(timeout_s=max(run.deadline.at_least(GRACE_S), timeout_s))
            yield engine

    @property
    def _root(self) -> GuestRoot:
        root = self._run.plan.root
        assert root is not None
        return root


class KernelSystem:
    """A kernel on this host, which has mounted the disk in its root."""

    boot_s = 0.0

    def __init__(self, run: RecordingInProgress) -> None:
        self._run = run
        self._channel: RunsVerbs | None = None

    def enter(self, channel: Channel) -> None:
        """It is there."""

    def make_ready(self, channel: Channel) -> None:
        run = self._run
        assert isinstance(channel, RunsVerbs), "a kernel on this host runs verbs"
        self._channel = channel
        run.press(partial(channel.press, run.run.seed, timeout_s=run.deadline.remaining_s))

    def hear(
        self, machine: Machine, folder: Path, file: Path, binding: Binding, *, dated: bool
    ) -> LineChannel:
        """From the machine's own source, which has the instants at which they were said."""
        del folder, dated
        assert isinstance(machine, HasLines), "a kernel on this host dates what its programs say"
        return LineChannel(machine.take_lines(), file, binding)

    def set_up(
        self, channel: Channel, argv: tuple[str, ...], look: Callable[[], None]
    ) -> CommandResult:
        assert isinstance(channel, RunsVerbs), "a kernel on this host runs verbs"
        return wait_patiently(
            self._run.deadline,
            lambda seconds: channel.set_up(*argv, timeout_s=seconds),
            lambda seconds: channel.wait_done(timeout_s=seconds),
            f"{' '.join(argv)} did not end",
            look,
        )

    def start(
        self, channel: Channel, argv: tuple[str, ...], *, unsynced: bool, dated: bool
    ) -> None:
        del dated
        if not unsynced:
            channel.start(*argv)
            return
        assert isinstance(channel, RunsVerbs), "a kernel on this host runs verbs"
        channel.start_unsynced(*argv)

    def shut_down(self, machine: Machine, channel: Channel) -> None:
        del channel
        assert isinstance(machine, ShutsDown)
        machine.shut_down(timeout_s=self._run.deadline.remaining_s)

    def last_words(self, machine: Machine) -> None:
        """What was said has been put into the source's queue by the write that said it."""

    def pressed(self, lines: ProgramLines) -> Pressed:
        del lines
        if self._channel is None:
            return Pressed()
        return self._channel.pressed(timeout_s=self._run.deadline.at_least(GRACE_S))

    def recovering(self, plan: RecoveryPlan) -> AbstractContextManager[RecoveryEngine]:
        run, parameters = self._run, self._run.job.parameters
        order = EngineOrder(run.directory.base_image, plan, parameters, kernel_of(parameters))
        return run.shelf.lend("uml", order)
