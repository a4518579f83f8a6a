# SPDX-License-Identifier: Apache-2.0
"""A database server for as long as a program needs it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, Self, TypeVar

from bank import DamagedError, stop

START_S = 90.0
STOP_S = 30.0
_POLL_S = 0.005
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
T = TypeVar("T")


def find(name: str, remedy: str, folders: Sequence[str] = ()) -> str:
    """Where it is, `folders` before others; ends this program with `remedy` if nowhere."""
    before = [str(Path(folder).absolute()) for folder in folders]
    found = shutil.which(name, path=os.pathsep.join([*before, _PATH]))
    # Not resolved: what redis-server is depends on the name of the link.
    return str(Path(found).absolute()) if found else stop(f"{name} is not installed; {remedy}")


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> tuple[int, int] | None:
    """Another user for servers that refuse to run as root; None if we are not root."""
    return None if os.geteuid() else (65534, 65534)


def give(folder: Path, owner: tuple[int, int] | None) -> None:
    """Makes `owner` the owner of everything below `folder`."""
    if owner is None:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, *owner, follow_symlinks=False)


def call(argv: Sequence[str], owner: tuple[int, int] | None = None) -> None:
    """Runs a tool to its end; ends the program if it fails."""
    done = subprocess.run(argv, text=True, capture_output=True, check=False, **_as(owner))
    if done.returncode:
        stop(
            f"{argv[0]} ended with status {done.returncode}: {(done.stderr or done.stdout)[-600:]}"
        )


@contextmanager
def settings_file(text: str) -> Iterator[str]:
    """A file with `text`, outside of the folder under test."""
    with tempfile.NamedTemporaryFile("w", prefix="powercut-") as file:
        file.write(text)
        file.flush()
        yield file.name


def _as(owner: tuple[int, int] | None) -> dict[str, object]:
    if owner is None:
        return {}
    return {"user": owner[0], "group": owner[1], "extra_groups": []}


class Server:
    """Starts `argv` and stops it on the way out.

    `damaged` is a pattern of what the server says in its log when it refuses what is in
    its folder: then, and only then, is a server that does not start the store's fault.
    `quit` is the signal that ends it quickest; everything is on the disk by then, or not.
    """

    def __init__(
        self,
        argv: Sequence[str],
        damaged: str,
        *,
        owner: tuple[int, int] | None = None,
        end: int = signal.SIGKILL,
    ) -> None:
        self._argv = argv
        self._damaged = re.compile(damaged, re.IGNORECASE)
        self._owner = owner
        self._end = end
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the server
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            **_as(self._owner),
        )  # fmt: skip
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(self._end)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def wait(self, attempt: Callable[[], T], refused: tuple[type[Exception], ...]) -> T:
        """What `attempt` returns once the server answers it; `refused` means not yet.

        Raises DamagedError if the server ends and says that its folder is the reason.
        """
        assert self._process is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self.fail(f"it ended with status {self._process.returncode}")
            try:
                return attempt()
            except refused as error:
                last = error
            time.sleep(_POLL_S)
        return self.fail(f"it does not answer within {START_S:g} s: {last}")

    def wait_end(self) -> None:
        """Waits until the server has ended by itself."""
        assert self._process is not None
        self._process.wait(START_S)

    def fail(self, why: str) -> NoReturn:
        """Ends the program, or raises DamagedError if the server says that its store is damaged."""
        said = self.said()
        found = [line for line in said.splitlines() if self._damaged.search(line)]
        name = Path(self._argv[0]).name
        if found:
            raise DamagedError(f"{name} says: {found[0].strip()[:300]}")
        stop(f"{name}: {why}; it said: {said[-1200:]}")

    def said(self) -> str:
        """The server's log so far."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")
