# SPDX-License-Identifier: Apache-2.0
"""One tool, one set of files, and nothing else of the host.

A tool that formats or checks an image reads what a stranger made, with words that a stranger
chose, as root where the caller is root.  It runs in one of two sandboxes:

1. bubblewrap: namespaces of its own, with the host's programs and libraries read-only, the
   files that it was given, an empty /tmp, no device, no network, no other process, and no
   capability.  Needs user namespaces, or root that may make namespaces.
2. Landlock (Linux 5.13): the kernel refuses to open anything but those files, devices
   included; capabilities are dropped (see landlock.py).  Needs neither root nor namespaces,
   so that it serves in containers, too.

Where neither works the tool is refused, unless the caller says that neither its words nor its
files come from outside.
"""

from __future__ import annotations

import os
import re
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Final, TypeVar

from powercut.model.errors import DeadlineExceeded, HostError
from powercut.sandbox import landlock
from powercut.sandbox.users import PROGRAMS, for_all, guard_binary, lowered, open_above, topmost

_SETTINGS: Final = ("/etc/ld.so.cache", "/etc/mke2fs.conf")
"""The loader's cache, and the types that mke2fs knows: the host's, and read-only."""

_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
SETTINGS: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""What root may write in any /proc, also without a capability: the host's kernel has one each."""

_SAID_MAX: Final = 64 << 20
"""Bytes that a tool may print: each is kept in memory."""

_PROBE_TIMEOUT_S: Final = 20.0
_SIGNALLED: Final = 128  # a shell's, and bubblewrap's, exit status of what a signal ended
REMEDY: Final = (
    "apt-get install bubblewrap; where namespaces are forbidden, as in many containers, Landlock "
    "serves: Linux 5.13 or newer, with landlock in /sys/kernel/security/lsm"
)
"""How to come by a sandbox."""


@dataclass(frozen=True)
class _Grants:
    """What a tool gets of the host: files to write, paths to read, folders to fill."""

    files: list[Path]
    reads: list[Path]
    folders: list[Path]


@dataclass(frozen=True)
class ToolLimits:
    """What the kernel refuses a tool beyond: bytes of address space and of a file, seconds of
    processor time."""

    memory: int = 4 << 30
    file_size: int | None = None
    cpu_s: int | None = None

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command under these limits."""
        argv = ["prlimit", "--core=0"]
        for name, kind, wanted in (
            ("as", resource.RLIMIT_AS, self.memory),
            ("fsize", resource.RLIMIT_FSIZE, self.file_size),
            ("cpu", resource.RLIMIT_CPU, self.cpu_s),
        ):
            hard = resource.getrlimit(kind)[1]  # the caller's own, which may be lower
            if wanted is not None and (hard == resource.RLIM_INFINITY or wanted <= hard):
                argv.append(f"--{name}={wanted}")
        return [*argv, "--", *command]


@dataclass(frozen=True)
class Sandboxes:
    """What works here.  Each is empty if it does, else why it does not."""

    bubblewrap: str
    landlock: str

    @property
    def none(self) -> str:
        """Why there is no sandbox at all; empty if there is one."""
        if self.bubblewrap and self.landlock:
            return f"bubblewrap: {self.bubblewrap}; Landlock: {self.landlock}"
        return ""

    def __str__(self) -> str:
        names = (("bubblewrap", self.bubblewrap), ("Landlock", self.landlock))
        return ", else ".join(name for name, why in names if not why)


def try_sandboxes() -> Sandboxes:
    """Runs a program in each of them."""
    return Sandboxes(_try(_bubblewrap), _try(_landlock))


@cache
def sandboxes() -> Sandboxes:
    """Tries each of them, once in a process."""
    return try_sandboxes()


def no_sandbox(tool: str) -> HostError | None:
    """The error for `tool` where there is no sandbox; None if there is one."""
    if why := sandboxes().none:
        return HostError(f"there is no sandbox to run {tool} in: {why}", hint=REMEDY)
    return None


def run_confined(
    argv: Sequence[str],
    *,
    timeout_s: float,
    files: Sequence[Path] = (),
    reads: Sequence[Path] = (),
    folders: Sequence[Path] = (),
    from_outside: bool = True,
    limits: ToolLimits | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a tool that may write `files`, read `reads`, fill `folders`, and see nothing else.

    What is named must exist; a socket to connect to is one of `files`.  `from_outside` says that
    words or files come from a scenario, a recording or a guest: then the tool is not run
    without a sandbox.  A negative status is the signal that ended it.  Raises HostError if the
    tool is not there or there is no sandbox or it prints without end, DeadlineExceeded
    if it does not end within `timeout_s`.
    """
    tool = find_tool(argv[0])
    if tool is None:
        raise HostError(f"{argv[0]} is not installed")
    missing = no_sandbox(argv[0])
    if missing is not None and from_outside:
        raise missing
    command = [str(tool), *argv[1:]]
    given = _Grants(*([path.absolute() for path in group] for group in (files, reads, folders)))
    if missing is not None:
        return _run(command, timeout_s)
    limits = limits or ToolLimits()
    if not sandboxes().bubblewrap:
        return _run(limits.wrap(_bubblewrap(command, given)), timeout_s)
    with tempfile.TemporaryDirectory(prefix="powercut-tool-") as scratch:  # a /tmp of its own
        given = replace(given, folders=[*given.folders, Path(scratch)])
        return _run(limits.wrap(_landlock(command, given)), timeout_s, scratch)


def find_tool(name: str) -> Path | None:
    """Where the tool is; Debian keeps those of file systems out of ordinary users' PATH."""
    tool = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(tool).absolute() if tool else None


def _run(
    command: list[str], timeout_s: float, scratch: str = "/tmp"
) -> subprocess.CompletedProcess[str]:
    deadline = time.monotonic() + max(timeout_s, 1.0)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": _PATH, "LC_ALL": "C", "HOME": "/", "TMPDIR": scratch},
        )
    except OSError as error:
        raise HostError(f"cannot run {command[0]}: {error.strerror}") from error
    with process:
        try:
            out, err = (said.decode(errors="replace") for said in _listen(process, deadline))
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            raise DeadlineExceeded(f"{command[0]} did not end within {timeout_s:.0f} s") from None
        except BaseException:
            process.kill()
            raise
    status = process.returncode
    if status > _SIGNALLED:  # of what bubblewrap ran, by its word
        status = _SIGNALLED - status
    return subprocess.CompletedProcess(command, status, out, err)


def _listen(process: subprocess.Popen[bytes], deadline: float) -> list[bytes]:
    """What the process prints until it ends, on each of its streams."""
    said = (bytearray(), bytearray())
    streams = [stream for stream in (process.stdout, process.stderr) if stream]
    for number, data in heard(streams, deadline):
        said[number].extend(data)
        if sum(map(len, said)) > _SAID_MAX:
            raise HostError(f"it printed more than {_SAID_MAX >> 20} MiB")
    process.wait(max(deadline - time.monotonic(), 0))
    return [bytes(each) for each in said]


def _readable(tool: str) -> list[Path]:
    """What programs need of the host; a tool that lies elsewhere brings its folder."""
    paths = [*PROGRAMS, *map(Path, _SETTINGS)]
    if not any(Path(tool).is_relative_to(path) for path in paths):
        paths.append(Path(tool).parent)
    return [path for path in paths if path.exists()]


def _bubblewrap(command: list[str], given: _Grants) -> list[str]:
    closed = [path for path in _readable(command[0]) if not for_all([path])]
    users = lowered(topmost((*given.files, *given.reads, *given.folders, *closed)), limited=True)
    argv = [
        str(find_tool("bwrap")),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--new-session"),
        *("--dev", "/dev", *users.options),  # no device but null and its like
        *("--perms", "1777", "--tmpfs", "/tmp", "--chdir", "/"),
        # The tools ask whether the image is mounted: nothing is.
        *open_above(Path("/proc/self/mounts")),
        *("--symlink", "/dev/null", "/proc/self/mounts"),
        *("--symlink", "self/mounts", "/proc/mounts"),
    ]
    for path in _readable(command[0]):
        if path.is_symlink():  # /bin is usr/bin
            argv += ["--symlink", str(path.readlink()), str(path)]
        else:
            argv += [*open_above(path), "--ro-bind", str(path), str(path)]
    for path in given.reads:
        argv += [*open_above(path), "--ro-bind", str(path), str(path)]
    for path in (*given.files, *given.folders):
        argv += [*open_above(path), "--bind", str(path), str(path)]
    return [*argv, "--", *users.argv, *command]


def _landlock(command: list[str], given: _Grants) -> list[str]:
    inside = [sys.executable, "-I", "-S", landlock.__file__]
    for path in (*_readable(command[0]), *given.reads):
        inside += ["--read", str(path)]
    inside += ["--read", "/proc/self/mounts", "--write", "/dev/null"]  # what all of them open
    for path in given.files:
        inside += ["--write", str(path)]
    for path in given.folders:
        inside += ["--fill", str(path)]
    talks = any(path.is_socket() for path in given.files)
    guard = [str(guard_binary()), "--alone", *(["--sockets"] if talks else [])]
    return [*inside, "--read", guard[0], "--", *guard, *command]


def _try(wrap: Callable[[list[str], _Grants], list[str]]) -> str:
    """Why a sandbox does not work here; empty if it does."""
    if wrap is _bubblewrap and find_tool("bwrap") is None:
        return "it is not installed"
    try:
        command = wrap(["/bin/true"], _Grants([], [], []))
        done = _run(ToolLimits().wrap(command), _PROBE_TIMEOUT_S)
    except (HostError, DeadlineExceeded) as error:
        return str(error)
    said = (done.stderr or done.stdout).strip().splitlines()
    return "" if not done.returncode else re.sub(r"^bwrap: ", "", said[-1] if said else "it fails")


# What a process says on pipes, taken as it comes: whoever listens says what is too much.

_CHUNK: Final = 1 << 16


def heard(streams: Sequence[IO[bytes]], deadline: float) -> Iterator[tuple[int, bytes]]:
    """The number of a stream and what it brings, until all have ended.

    Raises TimeoutError at the `deadline`, on time.monotonic's clock, even if there is always more.
    """
    with selectors.DefaultSelector() as selector:
        for number, stream in enumerate(streams):
            selector.register(stream, selectors.EVENT_READ, number)
        while selector.get_map():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            for key, _ in selector.select(left_s):
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                yield key.data, data


# The one thread that starts what is to end with this process.
#
# The kernel sends a parent-death signal (prctl(2), PR_SET_PDEATHSIG; bubblewrap's --die-with-
# parent) when the *thread* that made the child ends.  So the children that have one are made by one
# thread, which lives as long as the interpreter.

T = TypeVar("T")
_lock = threading.Lock()
_spawners: dict[int, ThreadPoolExecutor] = {}  # by process: a fork does not inherit the thread


def in_lasting_thread(start: Callable[[], T]) -> T:
    """What `start` returns, or raises, called in that thread."""
    with _lock:
        spawner = _spawners.setdefault(
            os.getpid(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
        )
    return spawner.submit(start).result()


# Libraries that a program is started with.
#
# LD_PRELOAD ends a name at a blank, and ld.so goes on without what it does not find.  So libraries
# are named there without their folders, which LD_LIBRARY_PATH gives: that splits at colons and
# semicolons alone (ld.so(8)).


def preloading(libraries: Sequence[Path], environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, in which ld.so loads `libraries` first, before what is preloaded already."""
    names = [library.name for library in libraries]
    folders = dict.fromkeys(str(library.parent) for library in libraries)
    return {
        **environment,
        "LD_PRELOAD": _joined(*names, environment.get("LD_PRELOAD", "")),
        "LD_LIBRARY_PATH": _joined(*folders, environment.get("LD_LIBRARY_PATH", "")),
    }


def _joined(*words: str) -> str:
    return ":".join(filter(None, words))
