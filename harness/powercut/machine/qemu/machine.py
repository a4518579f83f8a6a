# SPDX-License-Identifier: Apache-2.0
"""`QemuMachine`: the machine port over QEMU."""

from __future__ import annotations

import enum
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut.closing import Closing
from powercut.machine import nbd
from powercut.machine.fuse import NbdFuse
from powercut.machine.port import Ended, FileDisk, NbdDisk, NbdFile, RequestTotals, ServedDisk
from powercut.machine.qemu.argv import TemplateRam, build_argv, first_disk
from powercut.machine.qemu.build import find_qemu
from powercut.machine.qemu.host_view import host_view
from powercut.machine.qemu.hypervisor import Hypervisor, describe
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.template import Template, TemplateStore
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.machine.storage_daemon import PROGRAM, StorageDaemon
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.machine import Export, Move, Restart, Start
from powercut.sandbox.printed import tail
from powercut.sandbox.users import HostView

__all__ = ["Lifecycle", "Origin", "QemuMachine", "find_qemu"]

_DISCARD_TIMEOUT_S: Final = 5
_COUNTED: Final = ("wr_operations", "flush_operations", "wr_bytes")


class Lifecycle(enum.Enum):
    """A machine is started once; what failed stays failed."""

    NEW = "new"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


class Origin(enum.Enum):
    """How the guest came to run."""

    BOOT = "boot"
    TEMPLATE = "template"


class QemuMachine(Closing):
    """A guest in QEMU, booted or, where `templates` are given, restored from one.

    `directory` receives `qemu.log` (QEMU's own output) and `console.log` (what the
    guest's kernel says: errors, and everything once it panics).
    """

    def __init__(
        self,
        spec: QemuSpec,
        directory: Path,
        *,
        qemu: Path | None = None,
        templates: TemplateStore | None = None,
    ) -> None:
        self.spec = spec
        self.state = Lifecycle.NEW
        self.origin: Origin | None = None
        self.notes: list[str] = []
        """Why a template was not used, if one should have been; and where the guest has moved."""
        self.console_log = directory / "console.log"
        self.qemu_log = directory / "qemu.log"
        self._directory = directory
        self._files: list[NbdFuse] = []
        self._export: StorageDaemon | None = None
        self._given_qemu = qemu
        self._templates = templates
        self._hypervisor: Hypervisor | None = None
        self._argv: Sequence[str] = ()
        self._ram: TemplateRam | None = None
        self._moves = 0
        self._plugged = False

    # What the port promises

    def start(self, *, timeout_s: float) -> None:
        """Powers on: returns once the guest runs (it may not have said hello yet).

        Raises UsageError for a configuration that would not do what it says, HostError
        or DeadlineExceeded if QEMU cannot be started.
        """
        if self.state is not Lifecycle.NEW:
            raise HostError(f"a machine is started once; this one is '{self.state.value}'")
        deadline = time.monotonic() + timeout_s
        self.state = Lifecycle.FAILED
        chosen = self.spec.qemu.program if self.spec.qemu else None
        qemu = self._given_qemu or chosen or find_qemu()
        size = self._examine_disk(timeout_s)
        self._provide_export(deadline)
        self._provide_file(deadline)
        templates = self._templates if self._may_restore else None
        if not (templates and self._start_from_template(templates, qemu, size, deadline)):
            if self.spec.start is Start.RESTORED:
                why = "; ".join(self.notes) or "there are no templates"
                raise HostError(f"the guest was to be restored and could not be: {why}")
            self._boot(qemu, deadline)
        self.state = Lifecycle.RUNNING

    def crash(self, *, timeout_s: float) -> None:
        """Takes the guest's RAM away; QEMU drains and flushes what it had, and ends."""
        if self._hypervisor is None or not self._hypervisor.running:
            raise HostError(f"QEMU was gone before the crash\n{self.diagnosis}")
        try:
            self._hypervisor.quit(timeout_s=timeout_s)
        except DeadlineExceeded:
            self.kill(timeout_s=timeout_s)
            raise
        self.kill(timeout_s=timeout_s)

    def kill(self, *, timeout_s: float) -> None:
        """Takes the hypervisor away (SIGKILL) and returns once it is gone; idempotent.

        The host lives on: what its page cache holds for the disk gets there.
        """
        if self._hypervisor:
            self._hypervisor.process.kill()
        if self._export:
            self._export.kill(timeout_s=timeout_s)
        for file in self._files if not self.spec.bus.pmem else ():
            # What was written is at the disk.  QEMU does not end before it has its answers,
            # and a disk that has stopped at a flush gives none.
            file.kill(timeout_s=timeout_s)
        try:
            if self._hypervisor:
                self._hypervisor.kill(timeout_s=timeout_s)
        finally:
            for file in self._files:
                file.close(timeout_s=timeout_s)
        if self.state is not Lifecycle.FAILED:
            self.state = Lifecycle.ENDED

    def lose_power(self, *, timeout_s: float) -> None:
        """Takes hypervisor and host away at one instant; idempotent.

        QEMU is stopped first, so that the guest acknowledges nothing any more; then the file
        loses its server, so that QEMU's end makes the kernel write nothing back.
        """
        try:
            if (self._files or self._export) and self.running and self._hypervisor:
                self._hypervisor.freeze(timeout_s=timeout_s)
        finally:
            if self._export:
                self._export.kill()
            for file in self._files:
                file.kill()
            self.kill(timeout_s=timeout_s)

    def move(self, how: Move, *, timeout_s: float) -> int:
        """Lets the guest go on in another QEMU, on the same disk."""
        if self._hypervisor is None or not self._hypervisor.running:
            raise HostError(f"QEMU is not there any more\n{self.diagnosis}")
        self._moves += 1
        cache, qmp = self.spec.cache_after_move, self.spec.qmp.with_name(f"qmp{self._moves}")
        spec = replace(self.spec, qmp=qmp, cache=cache or self.spec.cache)
        argv = build_argv(
            spec,
            self._next_qemu,
            ram=self._ram,
            tsc_khz=host_tsc_khz(),
            waits=True,
        )
        way = self._directory / f"moved{self._moves}"
        view = host_view(spec, self._next_qemu, self._directory, self._ram)
        next_one = Successor(argv, qmp, self.qemu_log, self.console_log, way, view)
        moved = move(self._hypervisor, next_one, how, timeout_s=timeout_s)
        self.spec, self._argv, self._hypervisor = spec, argv, moved.hypervisor
        self.notes.append(f"moved by {how.value}: this is QEMU number {self._moves + 1}")
        return moved.stopped_ns

    def restart(self, how: Restart, *, timeout_s: float) -> int:
        """Resets the guest; or ends QEMU in its usual order, in which it flushes, and boots the
        guest in another one."""
        if self._hypervisor is None or not self._hypervisor.running:
            raise HostError(f"QEMU is not there any more\n{self.diagnosis}")
        if how is Restart.RESTART:
            self.notes.append("the guest was reset")
            return self._hypervisor.reset(self.spec.channel, timeout_s=timeout_s)
        deadline = time.monotonic() + timeout_s
        self._hypervisor.quit(timeout_s=timeout_s)
        stopped_ns = time.monotonic_ns()
        self._hypervisor = None  # it has not ended: it is about to be there again
        self._moves += 1
        self.spec = replace(
            self.spec,
            qmp=self.spec.qmp.with_name(f"qmp{self._moves}"),
            cache=self.spec.cache_after_move or self.spec.cache,
        )
        self._boot(self._next_qemu, deadline)
        self.notes.append(f"relaunched: this is QEMU number {self._moves + 1}")
        return stopped_ns

    def came_up(self, *, timeout_s: float) -> None:
        if self._hypervisor is None:
            raise HostError(f"QEMU is not there any more\n{self.diagnosis}")
        self._hypervisor.end_on_reboot(timeout_s=timeout_s)

    def plug_disk(self, *, timeout_s: float) -> None:
        """Plugs the disk in, once; the guest finds it a little later."""
        if not self.spec.hotplug or self._plugged:
            raise HostError("the machine has its disk already")
        if self._hypervisor is None or not self._hypervisor.running:
            raise HostError(f"QEMU is not there any more\n{self.diagnosis}")
        self._hypervisor.plug(first_disk(self.spec).disk, timeout_s=timeout_s)
        self._plugged = True

    def requests(self, *, timeout_s: float) -> RequestTotals:
        """What the guest has asked of the disk under test so far (QMP query-blockstats).

        Counts are those of the device, before QEMU's cache mode or format has done anything.
        Raises HostError if there is no QEMU to ask.
        """
        if self._hypervisor is None or not self._hypervisor.running:
            raise HostError(f"QEMU is not there to be asked\n{self.diagnosis}")
        said = self._hypervisor.block_statistics(timeout_s=timeout_s)
        writes, flushes, written = (int(said[name]) for name in _COUNTED)
        return RequestTotals(writes, flushes, written, said)

    @property
    def running(self) -> bool:
        return self._hypervisor is not None and self._hypervisor.running

    @property
    def ended(self) -> Ended | None:
        """How QEMU ended: by itself when its guest panics, and then it flushes what it had."""
        status = self._hypervisor.process.poll() if self._hypervisor else None
        if status is None:
            return None
        return Ended.KILLED if status == -signal.SIGKILL else Ended.BY_ITSELF

    @property
    def diagnosis(self) -> str:
        """For a person: command line, exit status, the end of QEMU's and the guest's output."""
        process = self._hypervisor.process if self._hypervisor else None
        lines = [describe(self._argv, process, self.qemu_log)]
        if self.origin is Origin.TEMPLATE:
            lines.append("the guest was restored from a template")
        lines += [f"note: {note}" for note in self.notes]
        if console := tail(self.console_log):
            lines.append(f"guest's console: {console}")
        return "\n".join(lines)

    def close(self) -> None:
        self.kill(timeout_s=_DISCARD_TIMEOUT_S)

    # How it starts

    @property
    def _next_qemu(self) -> Path:
        there = self.spec.qemu_after_move
        return there.program if there else Path(self._argv[0])

    @property
    def _may_restore(self) -> bool:
        spec = self.spec
        if spec.export is Export.VHOST_USER_BLK:
            return False  # its memory is shared with the daemon
        if spec.start is Start.AUTO:
            beside = (one.bus.same_restored(one.cache) for one in spec.beside)
            return spec.bus.same_restored(spec.cache) and all(beside)
        restorable = all(bus.restorable for bus in spec.buses)
        return spec.start is Start.RESTORED and restorable

    def _start_from_template(
        self, templates: TemplateStore, qemu: Path, disk_size: int, deadline: float
    ) -> bool:
        """Tries twice, the second time with a template made anew; False: boot instead."""
        for _ in range(2):
            template = None
            # Half of what is left each time, so that enough remains for a boot.
            timeout_s = (deadline - time.monotonic()) / 2
            try:
                template = templates.obtain(self.spec, qemu, disk_size, timeout_s=timeout_s)
                self._restore(template, qemu, deadline)
            except PowercutError as error:
                self.notes.append(f"no template was used: {error}")
                if template is None:
                    return False
                templates.discard(template, timeout_s=_DISCARD_TIMEOUT_S)
            else:
                return True
        return False

    def _restore(self, template: Template, qemu: Path, deadline: float) -> None:
        hypervisor = self._launch(qemu, TemplateRam(template.ram, saving=False), deadline)
        try:
            hypervisor.restore(template.state, timeout_s=(deadline - time.monotonic()) / 2)
        except PowercutError as error:
            hypervisor.kill()
            raise HostError(
                f"{error}\n{describe(self._argv, hypervisor.process, self.qemu_log)}"
            ) from None
        self.origin = Origin.TEMPLATE

    def _boot(self, qemu: Path, deadline: float) -> None:
        self._launch(qemu, None, deadline)
        self.origin = Origin.BOOT

    def _launch(self, qemu: Path, ram: TemplateRam | None, deadline: float) -> Hypervisor:
        self._ram = ram
        self._argv = build_argv(self.spec, qemu, ram=ram, tsc_khz=host_tsc_khz())
        self._hypervisor = Hypervisor.launch(
            self._argv,
            self.spec.qmp,
            self.qemu_log,
            self.console_log,
            view=host_view(self.spec, qemu, self._directory, ram),
            timeout_s=deadline - time.monotonic(),
        )
        return self._hypervisor

    def _provide_export(self, deadline: float) -> None:
        disk, kind = self.spec.disk, self.spec.export
        if kind is Export.NONE or isinstance(disk, FileDisk):
            return
        self._export = StorageDaemon(
            kind,
            disk.socket,
            self._directory,
            cache=self.spec.cache,
            program=self.spec.daemon or Path(PROGRAM),
            timeout_s=deadline - time.monotonic(),
        )
        served: ServedDisk = NbdDisk(self._export.path)
        if isinstance(disk, NbdFile):
            served = FileDisk(self._export.path, disk.aio)
        self.spec = replace(self.spec, disk=served)

    def _provide_file(self, deadline: float) -> None:
        """From here on a disk that is to be opened as a file is one, and its size is known."""
        disk = self._as_file(self.spec.disk, deadline)
        if isinstance(disk, FileDisk) and not disk.serves_part:
            try:
                disk = replace(disk, size=disk.path.stat().st_size)
            except OSError as error:
                raise HostError(f"cannot use disk {disk.path}: {error.strerror}") from None
        beside = tuple(
            replace(one, disk=self._as_file(one.disk, deadline)) for one in self.spec.beside
        )
        self.spec = replace(self.spec, disk=disk, beside=beside)

    def _as_file(self, disk: ServedDisk, deadline: float) -> ServedDisk:
        if not isinstance(disk, NbdFile):
            return disk
        timeout_s = deadline - time.monotonic()
        file = NbdFuse.of(disk, self._directory, timeout_s=timeout_s)
        self._files.append(file)
        return FileDisk(file.path, disk.aio)

    def _examine_disk(self, timeout_s: float) -> int:
        """Bytes of the disk that the guest sees; refuses what would not be what it is called."""
        disk, layer = self.spec.disk, self.spec.layer
        for one in self.spec.beside:
            if isinstance(one.disk, NbdDisk):
                nbd.examine_for(
                    one.disk.socket,
                    no_flush=one.cache.no_flush,
                    timeout_s=timeout_s,
                    name=one.disk.export,
                )
        if isinstance(disk, FileDisk):
            if disk.serves_part and disk.size is not None:
                return disk.size
            try:
                size = -(-disk.path.stat().st_size // 512) * 512
            except OSError as error:
                raise HostError(f"cannot use disk {disk.path}: {error.strerror}") from None
            return layer.size if layer else size
        dropped = isinstance(disk, NbdDisk) and self.spec.cache.no_flush
        export = nbd.examine_for(
            disk.socket, no_flush=dropped, timeout_s=timeout_s, name=disk.export
        )
        return layer.size if layer else export.size


# A guest that runs goes on in another QEMU, which has opened the same disk.
#
# What QEMU does at its disk in between (migration_completion in migration/migration.c, do_vm_stop
# in softmmu/cpus.c, bdrv_inactivate_all and bdrv_activate_all in block.c):
#
# 1. The other QEMU opens the disk when it starts, and keeps its hands off it. 2. The guest's RAM is
# sent while it runs; then its processors stop (event STOP), all requests are    waited for, and the
# disk is flushed. 3. The state of the devices is sent.  The first QEMU gives the disk up, the other
# one takes it over:    it forgets what it has read of an image's metadata, and lets the guest run.
#
# So what was acknowledged before is durable before the other QEMU writes, and what was in flight
# has completed.  The first QEMU is killed then, so that nothing of it can be of any help later.


@dataclass(frozen=True)
class Successor:
    """The QEMU to which a guest moves: its command line, where it is commanded from, the files that
    it and its guest print to; a path for a socket, or a file, over which the guest comes; and what
    root's has of the host."""

    argv: Sequence[str]
    qmp: Path
    log: Path
    console: Path
    way: Path
    view: HostView | None


@dataclass(frozen=True)
class Moved:
    """Where the guest runs now, and an instant (CLOCK_MONOTONIC, ns) at which it stood still."""

    hypervisor: Hypervisor
    stopped_ns: int


def move(source: Hypervisor, to: Successor, how: Move, *, timeout_s: float) -> Moved:
    """Moves the guest of `source`, which is gone afterwards.

    Raises HostError, with what the other QEMU said, of which nothing is left then.
    """
    deadline = time.monotonic() + timeout_s
    way = _migrate if how is Move.MIGRATE else _save_and_restore
    try:
        return way(source, to, deadline)
    finally:
        to.way.unlink(missing_ok=True)


def _migrate(source: Hypervisor, to: Successor, deadline: float) -> Moved:
    with _launched(to, deadline) as successor:
        uri = f"unix:{to.way}"
        successor.listen(uri, timeout_s=deadline - time.monotonic())
        stopped_ns = source.hand_over(uri, timeout_s=deadline - time.monotonic())
        successor.wait_status("running", timeout_s=deadline - time.monotonic())
        source.kill()
        return Moved(successor, stopped_ns)


def _save_and_restore(source: Hypervisor, to: Successor, deadline: float) -> Moved:
    stopped_ns = source.save(to.way, with_ram=True, timeout_s=deadline - time.monotonic())
    source.kill()
    with _launched(to, deadline) as successor:
        successor.restore(to.way, with_ram=True, timeout_s=deadline - time.monotonic())
        return Moved(successor, stopped_ns)


@contextmanager
def _launched(to: Successor, deadline: float) -> Iterator[Hypervisor]:
    launch_s = deadline - time.monotonic()
    successor = Hypervisor.launch(
        to.argv, to.qmp, to.log, to.console, view=to.view, timeout_s=launch_s
    )
    try:
        yield successor
    except PowercutError as error:
        successor.kill()
        raise HostError(
            f"the guest did not get to the other QEMU: {error}\n"
            f"{describe(to.argv, successor.process, to.log)}"
        ) from None
    except BaseException:
        successor.kill()
        raise
