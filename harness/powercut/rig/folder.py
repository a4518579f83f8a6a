# SPDX-License-Identifier: Apache-2.0
"""A captured folder at work: the recorder over it, a command in it, and the cut.

The recorder (harness/capture/folder.h) mounts itself over the folder in a mount namespace of its
own, and the command runs in there: so no mount is left, whatever is killed, and nobody else on
the host sees it.  The command is PID 1's child of a process namespace, which ends with it: what it
has left in the background ends with the cut, too.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from powercut.closing import Closing
from powercut.machine.fuse import alone_argv
from powercut.machine.process import guarded, spawn
from powercut.model.errors import DeadlineExceeded, HostError, UsageError
from powercut.paths import PARTS, REBUILD
from powercut.recover.native.folder import confined_command
from powercut.sandbox.printed import finish, tail

RECORDER: Final = PARTS / "bin" / "powercut-folder"
_IN_FOLDER: Final = PARTS / "bin" / "powercut-in-folder"
LINES_NAME: Final = ".powercut-lines"
_START_S: Final = 60.0
_CUT_S: Final = 60.0
_END_S: Final = 60.0
_ANSWER_MAX: Final = 64
_READ: Final = 1 << 16


class CapturedFolder(Closing):
    """`folder` with the recorder over it, until it is cut; made by its constructor."""

    def __init__(
        self,
        folder: Path,
        log: Path,
        *,
        atomic_unit: int,
        seed: int,
        output: Path,
        on_said: Callable[[bytes], None],
    ) -> None:
        """Records into LOG.log and LOG.data, which must not be there.

        `on_said` hears what programs say on POWERCUT_FD, in another thread.  What the recorder
        and the command print is appended to `output`.  Raises HostError, UsageError.
        """
        if not folder.is_dir():
            raise UsageError(f"{folder}: it is no folder", hint="name the folder of the files")
        for part in (RECORDER, _IN_FOLDER):
            if not part.exists():
                raise HostError(f"the captured folder is not built: no {part}", hint=REBUILD)
        recorder = [*alone_argv(), *guarded([str(RECORDER)])]
        self.folder = folder
        self._output = output
        self._control, control = socket.socketpair()
        self._syncs, syncs = socket.socketpair()
        said, lines = os.pipe()
        own = [control.fileno(), lines, syncs.fileno()]
        argv = [*recorder, str(folder), str(log), str(atomic_unit), str(seed), *map(str, own)]
        self._listener = threading.Thread(target=_listen, args=(said, on_said), daemon=True)
        self._command: subprocess.Popen[bytes] | None = None
        self._cut = False
        try:
            self._recorder = spawn(argv, output, pass_fds=own)
        except HostError:
            self._control.close()
            self._syncs.close()
            raise
        finally:
            control.close()
            syncs.close()
            os.close(lines)
            self._listener.start()
        try:
            if self._answer(_START_S) != "ready":
                raise HostError(
                    f"the recorder of {folder} ended\ncommand: {shlex.join(argv)}\noutput: "
                    f"{tail(output) or '(none)'}",
                    hint="it needs /dev/fuse and, without root, user namespaces",
                )
        except BaseException:
            self.close()
            raise

    def run(self, command: Sequence[str]) -> None:
        """Starts `command`, called from the current folder.  Raises HostError."""
        inside = ["nsenter", f"--mount=/proc/{self._pid}/ns/mnt"]
        if os.geteuid():
            inside += [f"--user=/proc/{self._pid}/ns/user", "--preserve-credentials"]
        here = ["sh", "-c", 'cd "$0" && exec "$@"', str(Path.cwd())]
        # With a /proc of its own: bubblewrap looks there for the process that it has made, by the
        # number that this has in the new namespace.
        alone = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        alone += ["--propagation", "unchanged", "--"]  # the recorder's namespace is private
        lines = str(self.folder / LINES_NAME)
        words = [str(_IN_FOLDER), lines, str(self._syncs.fileno()), *command]
        # As for the recorder: who enters a user namespace has to be guarded anew.
        argv = [*inside, "--", *guarded([*here, *alone, *words])]
        self._command = spawn(argv, self._output, pass_fds=[self._syncs.fileno()])
        self._syncs.close()

    @property
    def _pid(self) -> int:
        return self._recorder.pid

    def wait_ended(self, *, timeout_s: float) -> int | None:
        """The command's exit status; None if it has not ended in time."""
        assert self._command is not None
        try:
            return self._command.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def cut(self) -> None:
        """Takes the power: first the recorder's, while requests are on their way.

        The log is durable when this returns.  Raises HostError if it could not be closed.
        """
        self._cut = True
        with contextlib.suppress(OSError):
            self._control.sendall(b"c")
        answer = self._answer(_CUT_S)
        self._end()
        if answer != "cut 0":
            what = answer.removeprefix("cut ") if answer else "the recorder ended before"
            number = int(what) if what.isdigit() else 0
            raise HostError(
                f"the log of {self.folder} could not be closed: "
                f"{os.strerror(number) if number else what}"
            )

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._command is not None:
            self._kill_command(self._command)
        self._recorder.kill()
        for process in (self._command, self._recorder):
            if process is None:
                continue
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                raise DeadlineExceeded(f"{process.args!r} outlived SIGKILL") from None
        self._listener.join(_END_S)
        finish(self._output, timeout_s=_END_S)
        self._control.close()
        self._syncs.close()

    @staticmethod
    def _kill_command(command: subprocess.Popen[bytes]) -> None:
        """Kills all that the command has started, so that none is left once `command` has ended.

        unshare(1) ends when the PID 1 that it has made is reaped, which the kernel puts off until
        all others of that namespace are gone (pid_namespaces(7)).  Were unshare itself killed, they
        would end a little later, and might still print.
        """
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
        found: list[str] = []
        with contextlib.suppress(OSError):  # it has ended
            found = children.read_text().split()
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if not found:
            command.kill()

    def _answer(self, timeout_s: float) -> str:
        """The recorder's next line without its end; empty if it has gone."""
        deadline = time.monotonic() + timeout_s
        text = b""
        while not text.endswith(b"\n") and len(text) < _ANSWER_MAX:
            self._control.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._control.recv(1)
            except TimeoutError:
                raise DeadlineExceeded("the recorder of the folder says nothing") from None
            except OSError:
                return ""
            if not data:
                return ""
            text += data
        return text.decode(errors="replace").strip()


def try_folder() -> None:
    """Has a command run in a captured folder, in the sandbox that `capture` gives it.

    Raises HostError if that does not work on this host.
    """
    with tempfile.TemporaryDirectory(prefix="powercut-try-") as place:
        folder, memory, log = (Path(place, name) for name in ("folder", "memory", "log"))
        folder.mkdir()
        memory.mkdir()
        output = Path(place, "output")
        with CapturedFolder(
            folder, log, atomic_unit=512, seed=1, output=output, on_said=lambda _: None
        ) as captured:
            captured.run(confined_command(["true"], folder, folder, memory))
            status = captured.wait_ended(timeout_s=_START_S)
            captured.cut()
        if status != 0:
            raise HostError(
                f"no command runs in a captured folder\noutput: {tail(output) or status}",
                hint="it needs bubblewrap, and namespaces inside of namespaces; in a container: "
                "--privileged, or --cap-add SYS_ADMIN --cap-add SYS_PTRACE --security-opt "
                "seccomp=unconfined",
            )


def _listen(said: int, on_said: Callable[[bytes], None]) -> None:
    with os.fdopen(said, "rb", buffering=0) as stream:
        while data := stream.read(_READ):
            on_said(data)
