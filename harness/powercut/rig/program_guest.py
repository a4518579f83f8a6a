# SPDX-License-Identifier: Apache-2.0
"""User-Mode Linux on the host's files, with a program's folder on a disk outside.

    capture disk (nbdkit)  <- NBD -  qemu-storage-daemon  <- vhost-user -  linux.uml

The capture disk stays outside, on the host's clock, and sees every flush that the guest's
file system sends (guests/uml/live.c says what it takes for that).  The program's lines go from
UML's serial line to a socket of ours without a relay, each with the host's clock
(guests/uml/stamp.c).  Killing the guest kills all of it; nothing is flushed.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Final

from powercut.closing import Closing
from powercut.machine.process import spawn
from powercut.model.errors import HostError
from powercut.model.operations import Pressed
from powercut.model.outside import LeftFiles
from powercut.model.printable import printable
from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml.boot import OutsideDisks, UbdDisk, UmlProcess, unavailable
from powercut.recover.uml.engine import initramfs, plan_text
from powercut.recover.uml.kernel import UmlKernel
from powercut.recover.uml.share import Answer, Flag, Share, Step, Verb

DISK_BRIDGE: Final = "qemu-storage-daemon"
"""What gives a disk that is served by NBD to User-Mode Linux."""

_SHARE_BYTES: Final = 1 << 20
_NO_ORIGIN: Final = 16 << 20  # bytes of the disks inside, of which layers may use one
_MEMORY_MIB: Final = 1024  # at most; the host gives what is used
_NEED_BYTES: Final = 256 << 20
_KILL_S: Final = 20.0
_CONSOLE_LINES: Final = 5
_MAKE_RAID6: Final = ("btrfs",)
"""File systems that may keep RAID6."""

_NO_FLAG: Final = Flag(0)


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    return listener


class ProgramGuest(Closing):
    """One guest on the disk that `nbd` serves.  A context manager; leaving it kills the guest."""

    def __init__(
        self,
        kernel: UmlKernel,
        nbd: Path,
        plan: RecoveryPlan,
        folder: Path,
        lines: socket.socket,
        *,
        image: Path | None = None,
    ) -> None:
        """`folder` is for sockets; `lines` is the end on which programs say theirs, and the guest's
        from `start` on.  With an `image` the layers of the plan are made, to hold what that does.
        Nothing is started yet."""
        self._image = image
        self._kernel = kernel
        self._nbd = nbd
        self._plan = plan
        self._folder = folder
        self._lines = lines
        self._share = Share(_SHARE_BYTES)
        self._server: subprocess.Popen[bytes] | None = None
        self._process: UmlProcess | None = None
        self.console = ""

    def close(self) -> None:
        """Ends the guest and lets go of the memory shared with it; idempotent."""
        self.kill()
        self._share.close()

    def start(self, *, timeout_s: float) -> None:
        """Boots and mounts the disk.  Raises HostError."""
        if reasons := unavailable(self._kernel):
            raise HostError("programs cannot be run here: " + "; ".join(reasons))
        deadline = time.monotonic() + timeout_s
        sockets = [self._folder / f"vhost{number}" for number in range(len(self._disks))]
        with ExitStack() as stack:
            listeners = [stack.enter_context(_listening(path)) for path in sockets]
            fds = [listener.fileno() for listener in listeners]
            log = self._folder / "storage-daemon.txt"
            self._server = spawn(self._server_argv(fds), log, pass_fds=fds)
        self._share.prepare_boot(_NO_ORIGIN, 64)
        layers = self._plan.layers
        with ExitStack() as stack:
            disk = None
            if self._image is not None:
                disk = UbdDisk(stack.enter_context(self._image.open("rb")).fileno(), "r")
            self._process = UmlProcess(
                self._kernel,
                initramfs({}, self._kernel, layers),
                self._share.fd,
                memory_mib=_MEMORY_MIB,
                need=_NEED_BYTES,
                disk=disk,
                outside=OutsideDisks(tuple(sockets), self._lines.fileno()),
                host=self._plan.host,
                raid6=bool(layers and layers.lines) or self._plan.filesystem in _MAKE_RAID6,
            )
        self._lines.close()  # so that its end is seen when the guest ends
        self._wait(deadline)
        text = plan_text(self._plan, self._kernel)
        self._share.put(text)
        self._checked(Verb.CONFIGURE, deadline, length=len(text))
        making = Flag.LIVE if self._image is None else Flag.LIVE | Flag.MAKE
        self._checked(Verb.MOUNT, deadline, flags=making)
        self._running.clear_console()  # from here on it is what the program prints

    def set_up(self, argv: tuple[str, ...]) -> None:
        """Makes DIR, the last word, and starts the verb."""
        self._begin(argv, Flag.LIVE | Flag.FOLDER)

    def begin(self, argv: tuple[str, ...], *, unsynced: bool = False) -> None:
        """Starts a verb and returns at once; `unsynced` takes its syncs away."""
        self._begin(argv, Flag.LIVE | Flag.UNSYNCED if unsynced else Flag.LIVE)

    def _begin(self, argv: tuple[str, ...], flags: Flag) -> None:
        text = b"".join(word.encode() + b"\0" for word in argv) + b"\0"
        self._share.put(text)
        self._ask(Verb.EXEC, length=len(text), flags=flags)

    def press(self, seed: int, *, timeout_s: float) -> None:
        """From now on what is dirty is written back early, and a neighbour commits, at instants
        that `seed` decides."""
        self._checked(Verb.PRESS, time.monotonic() + timeout_s, offset=seed)

    def wait_end(self, deadline: float) -> int | None:
        """The exit status of what was begun; None if it has not ended by `deadline`.

        `deadline` is on the clock of time.monotonic.  Raises HostError if the guest died or the
        program could not be started.
        """
        process = self._running
        rang = process.wait_ring(deadline)
        if rang is None:
            return None
        answer = self._share.answer() if rang else None
        if answer is None:
            raise HostError(f"the guest's kernel ended: {process.console()}")
        if answer.step not in (Step.NONE, Step.READ):
            raise HostError(f"the guest failed: {answer.reason}")
        return answer.status

    def unmount(self, *, timeout_s: float) -> None:
        """A clean unmount: everything that was written is durable then."""
        self._checked(Verb.UMOUNT, time.monotonic() + timeout_s)

    def left(self, *, timeout_s: float) -> LeftFiles | None:
        """What is left in memory, while a verb is at work or after it; None if it does not say."""
        answer = self._asked_meanwhile(Verb.LEFT, timeout_s)
        if answer is None:
            return None
        names = self._share.bytes(answer.answer).split(b"\0")[:-1]
        told = (printable(name.decode(errors="replace")) for name in names)
        return LeftFiles(tuple(told), bool(answer.status))

    def pressed(self, *, timeout_s: float) -> Pressed:
        """What `press` has done so far, as `left`; nothing if it does not say."""
        answer = self._asked_meanwhile(Verb.PRESSED, timeout_s)
        return Pressed() if answer is None else Pressed(answer.attempted, answer.acked)

    def cut_nodes(
        self, names: Collection[str], dark: AbstractContextManager[None], *, timeout_s: float
    ) -> None:
        """Nodes of a cluster that is at work lose their power, and begin again.

        While it is `dark` their disks refuse every request, and then hold what is left."""
        bits = sum(1 << number for number, name in enumerate(self._disks) if name in names)
        deadline = time.monotonic() + timeout_s
        self._checked(Verb.NODES_END, deadline, offset=bits)
        with dark:
            self._checked(Verb.NODES_GONE, deadline, offset=bits)
        self._checked(Verb.NODES_BEGIN, deadline, offset=bits)

    def _asked_meanwhile(self, verb: Verb, timeout_s: float) -> Answer | None:
        deadline = time.monotonic() + timeout_s
        with suppress(HostError):
            self._ask(verb)
            while self._running.wait_ring(deadline):  # the verb may have ended just before
                if (answer := self._share.answer()) is not None:
                    return answer
        return None

    def kill(self) -> None:
        """Ends the guest and what serves its disk, at once; idempotent."""
        if self._process is not None:
            self.console = self._process.console()
            self._process.kill()
            self._process = None
        if self._server is not None:
            self._server.kill()
            self._server.wait(_KILL_S)
            self._server = None

    @property
    def console_now(self) -> str:
        """The last lines that the kernel or the program printed, for a message."""
        text = self._running.console()
        return " / ".join(text.splitlines()[-_CONSOLE_LINES:]) or "it printed nothing"

    @property
    def _running(self) -> UmlProcess:
        if self._process is None:
            raise HostError("the guest is not running")
        return self._process

    @property
    def _disks(self) -> tuple[str, ...]:
        """The exports of the capture disk, in the order in which the guest has them."""
        return tuple(disk.name for disk in self._plan.disks) or ("",)

    def _server_argv(self, listeners: Sequence[int]) -> list[str]:
        argv = [DISK_BRIDGE]
        for number, (name, listener) in enumerate(zip(self._disks, listeners, strict=True)):
            disk = {
                "driver": "nbd",
                "node-name": f"disk{number}",
                "server": {"type": "unix", "path": str(self._nbd)},
                "export": name,
            }
            export = {
                "type": "vhost-user-blk",
                "id": f"export{number}",
                "node-name": f"disk{number}",
                "writable": True,
                "addr": {"type": "fd", "str": str(listener)},
            }
            argv += ["--blockdev", json.dumps(disk), "--export", json.dumps(export)]
        return argv

    def _ask(self, verb: Verb, *, offset: int = 0, length: int = 0, flags: Flag = _NO_FLAG) -> None:
        self._share.ask(verb, offset=offset, length=length, flags=flags)
        try:
            self._running.ring()
        except OSError as error:
            raise HostError(f"the guest's kernel ended: {self._running.console()}") from error

    def _wait(self, deadline: float) -> Answer | None:
        rang = self._running.wait_ring(deadline)
        if not rang:
            how = "did not answer in time" if rang is None else "ended"
            raise HostError(f"the guest's kernel {how}: {self._running.console()}")
        return self._share.answer()

    def _checked(
        self,
        verb: Verb,
        deadline: float,
        *,
        offset: int = 0,
        length: int = 0,
        flags: Flag = _NO_FLAG,
    ) -> None:
        self._ask(verb, offset=offset, length=length, flags=flags)
        answer = self._wait(deadline)
        if answer is None or answer.step is not Step.NONE:
            why = "no answer" if answer is None else answer.reason
            raise HostError(f"the guest failed: {why}\n{self._running.console()}".strip())
