# SPDX-License-Identifier: Apache-2.0
"""Inside of the sandbox: unpacks trees and runs a program's check in each.

Runs alone, with nothing but the standard library.  Speaks JSON, a line each, on standard input
and output; the archives (guests/uml/share.h, struct pcu_entry) are in the memory of the descriptor
that the command line names.

    {"folder": F, "environment": {}, "check": [...], "checks": [...]}   first, once; no answer
    {"size": bytes of the archive, "timeout": seconds}                  a state
    {"status": exit status or null if it took too long, "lines": text, "said": text}

`checks` is a program's optional verb: it stays, and forks a check for each byte that it reads.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict, TypeVar

ROOT = "/mnt"
QUEUES = "/dev/mqueue"
FIRST = 4096  # where archives begin: after the page that the guest and the engine share
PECULIAR = struct.Struct("<Q")
ENTRY = struct.Struct("<QIIIIqqII")
PART = struct.Struct("<QQ")
XATTR = struct.Struct("<II")
SAME_FILE = 0xFFFFFFFF  # parts of a further name of a file
SAID_MAX = 2000
LINES_MAX = 64 << 20
_TOO_MUCH = 1  # a status: it did not look at everything
READY = b"ready\n"
DONE = b"done "
_POLL_S = 0.0005
T = TypeVar("T")
Answer = tuple[int | None, bytes]
"""Exit status, None if it took too long, and lines."""


def unpack(archive: memoryview, root: str) -> None:
    """Makes the files of an archive below `root`, which is empty."""
    at = PECULIAR.size
    folders = []
    while at < len(archive):
        size, mode, length, parts, xattrs, *seen = ENTRY.unpack_from(archive, at)
        times = (seen[0] * 10**9 + seen[2], seen[1] * 10**9 + seen[3])
        at += ENTRY.size
        path = Path(root, os.fsdecode(bytes(archive[at : at + length])))
        at += length
        attributes = []
        for _ in range(xattrs):
            name, value = XATTR.unpack_from(archive, at)
            at += XATTR.size + name + value
            both = bytes(archive[at - name - value : at])
            attributes.append((both[:name], both[name:]))
        if stat.S_ISDIR(mode):
            path.mkdir()
            folders.append((path, stat.S_IMODE(mode), times))
        elif stat.S_ISLNK(mode) or parts == SAME_FILE:
            _, length = PART.unpack_from(archive, at)
            at += PART.size + length
            other = os.fsdecode(bytes(archive[at - length : at]))
            if stat.S_ISLNK(mode):
                path.symlink_to(other)
            else:
                path.hardlink_to(Path(root, other))
        else:
            at = _unpack_file(archive, at, path, size, parts)
        for attribute, content in attributes:
            os.setxattr(path, attribute, content)
        if stat.S_ISREG(mode) and parts != SAME_FILE:
            path.chmod(stat.S_IMODE(mode))  # last: it may forbid to set attributes
        if not stat.S_ISDIR(mode) and parts != SAME_FILE:
            os.utime(path, ns=times, follow_symlinks=False)
    for path, mode, times in folders:
        path.chmod(mode)
        os.utime(path, ns=times)


def _unpack_file(archive: memoryview, at: int, path: Path, size: int, parts: int) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.ftruncate(fd, size)
    for _ in range(parts):
        offset, length = PART.unpack_from(archive, at)
        at += PART.size
        data = archive[at : at + length]
        at += length
        while len(data):
            written = os.pwrite(fd, data, offset)
            data, offset = data[written:], offset + written
    os.close(fd)
    return at


def clear(root: str, keep: Sequence[str] = ()) -> None:
    """Removes everything below `root`, but for what `keep` names and what that lies in."""
    for entry in os.scandir(root):
        if any(f"{path}/".startswith(f"{entry.path}/") for path in keep):
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def forget_shared() -> None:
    """Removes the shared memory, semaphores and queues of System V, which no file system has."""
    libc = ctypes.CDLL(None)
    for kind in ("shm", "sem", "msg"):
        for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]:
            libc[f"{kind}ctl"](int(line.split()[1]), 0, 0, 0)  # IPC_RMID is 0


def end_others(keep: int = 0) -> None:
    """Ends every process but PID 1, this one, and `keep` with its children; waits for them.

    What a check has left behind has lost its parent, and is PID 1's.
    """
    mine = {1, os.getpid(), keep}
    while left := [
        pid for pid in map(int, _numbers("/proc")) if pid not in mine and _parent(pid) != keep
    ]:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                continue
        time.sleep(_POLL_S)


def _parent(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return -1
    return int(fields[1])


def _numbers(folder: str) -> list[str]:
    return [entry.name for entry in os.scandir(folder) if entry.name.isdigit()]


class Checks:
    """A program that stays, and checks whenever it is asked."""

    def __init__(self, argv: list[str], folder: str, environment: dict[str, str]) -> None:
        # Its lines come on descriptor 3, which is made of its standard output.
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec "$@" 3>&1 1>&2', "sh", *argv], cwd=folder, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )  # fmt: skip
        self._text = b""

    def is_ready(self, deadline: float) -> bool:
        """Whether it can stay: it says so first of all."""
        return self._until(self._readiness, deadline) is True

    def _readiness(self) -> bool | None:
        if READY.startswith(self._text):
            return True if self._text == READY else None
        return False

    def check(self, deadline: float) -> Answer | None:
        """What it says of the tree; None if it does not answer as it must."""
        self._text = b""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"c")
        except OSError:
            return None
        return self._until(self._answer, deadline)

    def _answer(self) -> Answer | None:
        if not self._text.endswith(b"\n"):
            return None
        lines, _, last = self._text[:-1].rpartition(b"\n")
        if not last.startswith(DONE):
            return None
        return int(last[len(DONE) :]), lines + b"\n" if lines else b""

    def _until(self, found: Callable[[], T | None], deadline: float) -> T | None:
        assert self.process.stdout is not None
        out = self.process.stdout.fileno()
        while (answer := found()) is None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                return None
            data = os.read(out, 1 << 20)
            if not data or len(self._text) + len(data) > LINES_MAX:
                return None
            self._text += data
        return answer


class Setup(TypedDict):
    """What is the same for all states.

    `empty` are the folders in memory where a check may leave something, but for `keep`.
    """

    empty: list[str]
    keep: list[str]
    folder: str
    environment: dict[str, str]
    check: list[str]
    checks: list[str]


class Checker:
    """Checks trees, with a program that stays as long as that goes well."""

    def __init__(self, setup: Setup, memory: memoryview) -> None:
        self._empty, self._keep = setup["empty"], setup["keep"]
        self._check = setup["check"]
        self._checks = setup["checks"]
        self._folder = setup["folder"]
        self._environment = setup["environment"]
        self._memory = memory
        self._stays: Checks | None = None

    def answer(self, request: dict[str, float]) -> dict[str, object]:
        """The answer to a request."""
        size, deadline = int(request["size"]), time.monotonic() + request["timeout"]
        try:
            self._fresh(size)
        except OSError as error:
            # Memory that takes no extended attributes (Linux before 6.6): not the same tree.
            return {"status": None, "lines": "", "said": str(error)}
        checked = self._by_one_that_stays(deadline)
        said = ""
        if checked is None or checked[0] != 0:
            self._fresh(size)
            checked, said = self._once(deadline)
        return {"status": checked[0], "lines": checked[1].decode("latin-1"), "said": said}

    def _fresh(self, size: int) -> None:
        for folder in (ROOT, QUEUES, *self._empty):
            clear(folder, self._keep)
        forget_shared()
        unpack(self._memory[FIRST : FIRST + size], ROOT)

    def _by_one_that_stays(self, deadline: float) -> Answer | None:
        if self._stays is None and self._checks:
            stays = Checks(self._checks, self._folder, self._environment)
            if stays.is_ready(deadline):
                self._stays = stays
            else:
                self._checks = []  # it has no such verb
        if self._stays is None:
            end_others()
            return None
        answer = self._stays.check(deadline)
        if answer is None or answer[0] != 0:
            self._stays = None
            end_others()
        else:
            end_others(self._stays.process.pid)
        return answer

    def _once(self, deadline: float) -> tuple[Answer, str]:
        with tempfile.TemporaryFile() as said, ThreadPoolExecutor(1) as pool:
            # No file: who opens it anew by its name in /proc would begin at its beginning.
            process = subprocess.Popen(
                ["/bin/sh", "-c", 'exec "$@" 3>&1 1>&2', "sh", *self._check],
                cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=said,
            )  # fmt: skip
            assert process.stdout is not None
            lines = pool.submit(process.stdout.read, LINES_MAX + 1)
            try:
                status = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = None
            end_others()
            told = lines.result()
            said.seek(max(0, said.seek(0, os.SEEK_END) - SAID_MAX))
            text = said.read().decode(errors="replace")
            if len(told) > LINES_MAX:  # what is missing would look lost
                return (_TOO_MUCH, b""), f"it says more than {LINES_MAX >> 20} MiB"
            return (status, told), text


def main() -> None:
    """Serves until standard input ends."""
    descriptor = int(sys.argv[1])
    setup = json.loads(sys.stdin.readline())
    memory = memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
    os.close(descriptor)
    checker = Checker(setup, memory)
    for line in sys.stdin:
        answer = checker.answer(json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
