# SPDX-License-Identifier: Apache-2.0
"""`LibvirtMachine`: the machine port over a domain that libvirt runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from powercut.closing import Closing
from powercut.machine import nbd
from powercut.machine.fuse import NbdFuse
from powercut.machine.port import Attachment, Ended, FileDisk, NbdDisk, NbdFile, RequestTotals
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.paths import expanded
from powercut.sandbox.printed import tail
from powercut_extras.libvirt.connection import libvirt_module, wait_until, within
from powercut_extras.libvirt.process import ForeignProcess

_CLOSE_S: Final = 20.0
_FOUND_S: Final = 5.0
_LOGS: Final = (Path("/var/log/libvirt/qemu"), Path("~/.cache/libvirt/qemu/log"))
"""Where the system's and the user's libvirtd write what QEMU says (libvirt.org/daemons.html)."""

_SLOW: Final = (
    "where root can open /dev/kvm and libvirt's user cannot, libvirt examines QEMU anew for each "
    "domain, which takes a minute: give that user the right, or set `user` in qemu.conf"
)

_COUNTED: Final = ("wr.reqs", "fl.reqs", "wr.bytes")


class LibvirtMachine(Closing):
    """A transient domain, which ends with the connection that made it, and so with powercut.

    `xml` makes its definition for the disks as they are then reached.
    """

    def __init__(
        self,
        connection: Any,
        uuid: UUID,
        disks: Sequence[Attachment],
        xml: Callable[[Sequence[Attachment]], str],
        folder: Path,
    ) -> None:
        self._connection = connection
        self._uuid = uuid
        self._disks = tuple(disks)
        self._xml = xml
        self._folder = folder
        self._defined = ""
        self._domain: Any = None
        self._process: ForeignProcess | None = None
        self._files: list[NbdFuse] = []
        self._used = False
        self._ended: Ended | None = None

    def start(self, *, timeout_s: float) -> None:
        if self._used:
            raise HostError("a machine is started once; this one was")
        self._used = True
        deadline = time.monotonic() + timeout_s
        self._disks = tuple([self._provided(disk, deadline) for disk in self._disks])
        self._defined = self._xml(self._disks)
        flag = libvirt_module().VIR_DOMAIN_START_AUTODESTROY
        try:
            self._domain = within(
                deadline - time.monotonic(),
                "start the domain",
                lambda: self._connection.createXML(self._defined, flag),
            )
        except PowercutError as error:
            hint = _SLOW if isinstance(error, DeadlineExceeded) else error.hint
            raise type(error)(f"{error}\n{self.diagnosis}", hint=hint) from None
        wait_until(self._found, min(_FOUND_S, deadline - time.monotonic()))
        if self._process is None:
            raise HostError(
                f"libvirt runs the domain, and its QEMU cannot be found\n{self.diagnosis}",
                hint="a cut is SIGKILL of that process: libvirtd has to run on this host, in "
                "powercut's PID namespace",
            )

    def crash(self, *, timeout_s: float) -> None:
        """Ends the domain as destroy() does: QEMU gets SIGTERM, and flushes what it had."""
        if self._process is None or not self._process.running:
            raise HostError(f"QEMU was gone before the crash\n{self.diagnosis}")
        deadline = time.monotonic() + timeout_s
        flag = libvirt_module().VIR_DOMAIN_DESTROY_GRACEFUL
        within(timeout_s, "destroy the domain", lambda: self._domain.destroyFlags(flag))
        try:
            self._process.wait_ended(timeout_s=deadline - time.monotonic())
        finally:
            self.kill(timeout_s=_CLOSE_S)

    def kill(self, *, timeout_s: float) -> None:
        """Takes the hypervisor away (SIGKILL) and returns once it is gone; idempotent."""
        process = self._process
        if process and self._ended is None:
            self._ended = Ended.KILLED if process.running else Ended.BY_ITSELF
        try:
            if process:
                self._signal(process)
            for file in self._files:
                # What was written is at the disk.  QEMU does not end before it has its answers,
                # and a disk that has stopped at a flush gives none.
                file.kill(timeout_s=timeout_s)
        finally:
            if process:
                process.wait_ended(timeout_s=timeout_s)

    def lose_power(self, *, timeout_s: float) -> None:
        """Takes hypervisor and host away at one instant; idempotent.

        QEMU is stopped first; then a disk that it has open as a file loses its server, so that
        the kernel writes nothing back.
        """
        try:
            if self._files and self._process and self._process.running:
                self._process.freeze(timeout_s=timeout_s)
        finally:
            for file in self._files:
                file.kill()
            self.kill(timeout_s=timeout_s)

    def requests(self, *, timeout_s: float) -> RequestTotals:
        """What the guest has asked of the disk (virConnectGetAllDomainStats: block).

        Counts are those of the device, before QEMU's cache mode or format has done anything.
        """
        if not self.running:
            raise HostError(f"QEMU is not there to be asked\n{self.diagnosis}")
        libvirt = libvirt_module()
        ((_, said),) = within(
            timeout_s,
            "count requests",
            lambda: self._connection.domainListGetStats(
                [self._domain], libvirt.VIR_DOMAIN_STATS_BLOCK, 0
            ),
        )
        writes, flushes, written = (int(said[f"block.0.{name}"]) for name in _COUNTED)
        return RequestTotals(writes, flushes, written, said)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def ended(self) -> Ended | None:
        """How it ended.  Not as our child, so that its status is not known: what ended without
        our signal may have flushed, and counts as if it had."""
        if self._process is None:
            return self._ended
        return None if self._process.running else self._ended or Ended.BY_ITSELF

    @property
    def diagnosis(self) -> str:
        """For a person: the domain, what libvirt and the guest's console say."""
        state = "not started"
        if self._process:
            state = f"process {self._process.pid}" + ("" if self.running else ", which has ended")
        lines = [f"domain: {self._defined or 'not defined'}", f"QEMU: {state}"]
        for what, path in (("output", self._log), ("guest's console", self._console)):
            if text := tail(path):
                lines.append(f"{what}: {text}")
        return "\n".join(lines)

    def close(self) -> None:
        try:
            self.kill(timeout_s=_CLOSE_S)
        finally:
            if self._domain is not None:
                self._forget_domain()
            if self._process:
                self._process.close()
                self._process = None

    # How it starts and ends

    def _provided(self, attached: Attachment, deadline: float) -> Attachment:
        """A disk as it is reached from here on: one that is to be opened as a file is one."""
        disk, timeout_s = attached.disk, deadline - time.monotonic()
        if isinstance(disk, NbdFile):
            file = NbdFuse.of(disk, self._folder, timeout_s=timeout_s)
            self._files.append(file)
            return replace(attached, disk=FileDisk(file.path, disk.aio))
        if isinstance(disk, NbdDisk):
            no_flush = attached.cache.no_flush
            nbd.examine_for(disk.socket, no_flush=no_flush, timeout_s=timeout_s, name=disk.export)
        return attached

    def _found(self) -> bool:
        self._process = ForeignProcess.of_domain(self._uuid)
        return self._process is not None

    def _signal(self, process: ForeignProcess) -> None:
        try:
            process.kill()
        except PermissionError:
            raise HostError(
                f"QEMU (process {process.pid}) is another user's, and may not be killed",
                hint="connect to qemu:///session, or be root",
            ) from None

    def _forget_domain(self) -> None:
        """Waits until libvirt has noticed, and takes its log away, which nobody would."""
        libvirt = libvirt_module()

        def gone() -> bool:
            try:
                self._connection.lookupByUUID(self._uuid.bytes)
            except libvirt.libvirtError as error:
                return bool(error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN)
            return False

        with suppress(PowercutError):
            within(_CLOSE_S, "end the domain", lambda: wait_until(gone, _CLOSE_S, poll_s=0.01))
        with suppress(OSError):
            self._log.unlink()
        self._domain = None

    @property
    def _console(self) -> Path:
        return self._folder / "console.log"

    @property
    def _log(self) -> Path:
        name = f"powercut-{self._uuid}.log"
        places = (expanded(folder) / name for folder in _LOGS)
        return next((place for place in places if place.exists()), self._folder / "qemu.log")
