# SPDX-License-Identifier: Apache-2.0
"""A sandbox in which a program's check runs again and again, each time on another tree.

Namespaces of its own, by bubblewrap: the host's files read-only, /tmp, /run and the like empty
and in memory as in the guest, no network but loopback, no process but its own, and another
boot, a moment ago: the program itself may have run on this host's kernel (`where: loop`).  The
trees are in the sandbox's own memory, so that nothing is left whatever ends it.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from powercut.closing import Closing
from powercut.model.errors import HostError
from powercut.model.printable import parse_json
from powercut.recover.native import inside
from powercut.recover.plan import HostRoot
from powercut.sandbox.check import EMPTY, capabilities, guarded, host_view, limits
from powercut.sandbox.confined import in_lasting_thread
from powercut.sandbox.rebooted import booted_by, new_clocks
from powercut.sandbox.users import as_another, guard_binary

# A virtual environment may lie in a folder that is empty in there; what it was made from does not.
_PYTHON: Final = os.path.realpath(sys.executable)
_TRY_S: Final = 20.0
_ANSWER_S: Final = 30.0  # that unpacking and ending may take besides the check
_ANSWER_MAX: Final = 256 << 20


@dataclass(frozen=True)
class Checked:
    """What came of a check: status None if it did not end in time."""

    status: int | None
    lines: bytes
    said: str


@cache
def unavailable() -> str:
    """Why no such sandbox works on this host; empty if it does."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    root = HostRoot("/", ())
    try:
        argv = [*_sandbox(root), _PYTHON, "-I", "-S", "-c", "import os; os.listdir('/proc')"]
        done = subprocess.run(argv, capture_output=True, timeout=_TRY_S, check=False, text=True)
    except (HostError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip() or "bubblewrap fails")


def _sandbox(root: HostRoot, boot: Sequence[str] = ()) -> list[str]:
    needs = map(Path, (*root.visible, root.folder, _PYTHON))
    argv = [*new_clocks(), *limits(), *as_another((*needs, guard_binary()))]
    argv += ["bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session"]
    argv += capabilities(of_root=False)
    visible = [Path(path) for path in root.visible]
    shown = [path for path in visible if any(path.is_relative_to(place) for place in EMPTY)]
    argv += [*host_view(shown), *boot]
    argv += ["--tmpfs", inside.ROOT, "--mqueue", inside.QUEUES]
    booted = root.machine.boot_for("on the host")
    return [*argv, "--chdir", root.folder, "--", *guarded(shown, booted, of_root=False)]


class CheckSandbox(Closing):
    """One sandbox; restarts itself.  A context manager."""

    def __init__(self, root: HostRoot, check: tuple[str, ...], checks: tuple[str, ...]) -> None:
        """`check` checks once; `checks` stays and checks whenever it is asked, if it can."""
        self._root = root
        self._check = check
        self._checks = checks
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process of the host that made the sandbox; 0 before the first check."""
        return 0 if self._process is None else self._process.pid

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes its pipes
                self._process = None

    def check(self, memory: int, size: int, *, timeout_s: float) -> Checked:
        """Runs the check on the tree in `size` bytes of the shared memory `memory`.

        Raises HostError if the sandbox fails.
        """
        if self._process is None:
            self._start(memory)
        reply = self._ask(
            {"size": size, "timeout": timeout_s}, time.monotonic() + timeout_s + _ANSWER_S
        )
        if reply is None:
            self.close()
            raise HostError("the sandbox of the program's check ended")
        try:
            return checked_of(reply)
        except HostError:
            self.close()
            raise

    def _start(self, memory: int) -> None:
        source = Path(inside.__file__).read_text()
        boot = os.memfd_create("boot")
        try:
            argv = [*_sandbox(self._root, booted_by(boot)), _PYTHON, "-I", "-S", "-c", source]
            self._process = in_lasting_thread(
                lambda: subprocess.Popen(
                    [*argv, str(memory)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[memory, boot],
                    bufsize=0,
                )
            )
        except OSError as error:
            raise HostError(f"cannot start bwrap: {error.strerror}") from error
        finally:
            os.close(boot)
        setup = {
            "empty": [str(place) for place in EMPTY],
            "keep": self._root.visible,
            "folder": self._root.folder,
            "environment": dict(pair.split("=", 1) for pair in self._root.environment),
            "check": self._check,
            "checks": self._checks,
        }
        self._send(setup)

    def _send(self, message: Mapping[str, object]) -> bool:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def _ask(self, request: Mapping[str, object], deadline: float) -> bytes | None:
        assert self._process is not None
        assert self._process.stdout is not None
        if not self._send(request):
            return None
        out, text = self._process.stdout.fileno(), bytearray()
        while not text.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                return None
            data = os.read(out, 1 << 20)
            if not data or len(text) > _ANSWER_MAX:
                return None
            text += data
        return bytes(text)


def checked_of(reply: bytes) -> Checked:
    """What comes out of the sandbox, where the check is, too.  Raises HostError for nonsense."""
    try:
        told = parse_json(reply)
        status = None if told["status"] is None else int(told["status"])
        return Checked(status, str(told["lines"]).encode("latin-1"), str(told["said"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise HostError(f"the sandbox of the program's check answers nonsense: {error}") from None
