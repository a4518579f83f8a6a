# SPDX-License-Identifier: Apache-2.0
"""Runs a user's check on a folder that a cut may have left, where the captured folder was.

The folder is bound over the path that was captured, so that what the command names by an absolute
path (a backing file, a socket) is the state's; and the check's namespaces of processes, memory and
network end with it.  The sandbox around them lasts from state to state (harness/guard/states.c).

A check comes after a cut: it sees another boot of the machine (powercut.sandbox.rebooted).

What a check leaves must not be there when the next state is checked: a copy of one state, in /tmp,
would vouch for another one that has lost everything.  So the host's files are read-only, and
/tmp, /run and the like are empty and in memory, but for what the command is made of.  Whoever made
the recording has chosen the command: it gets little of the host besides (powercut.sandbox.check).
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from powercut.closing import Closing
from powercut.model.errors import HostError
from powercut.model.machine_identity import ANY_MACHINE, Boot, MachineIdentity
from powercut.model.observation import Observation
from powercut.model.outside import LeftFiles
from powercut.sandbox.check import (
    EMPTY,
    capabilities,
    guarded,
    host_view,
    left_in,
    limits,
    seen_sockets,
)
from powercut.sandbox.confined import find_tool, heard, in_lasting_thread, sandboxes
from powercut.sandbox.printed import lines_of
from powercut.sandbox.rebooted import apart, booted_again, new_clocks
from powercut.sandbox.users import for_all, open_above, users_apart

LINES_MAX: Final = 64 << 20
"""Bytes that a check may say: what it said beyond would be missing, and look lost."""

_SAID_MAX: Final = 2000
_REMEDY: Final = (
    "apt-get install bubblewrap; it needs user namespaces, or root that may make namespaces: many "
    "containers forbid both (podman run --security-opt seccomp=unconfined, or another host)"
)
_DEVICES: Final = ("kvm", "fuse", "net", "vhost-net", "dri", "kfd", "nvidia*")
_ANY_BOOT: Final = ANY_MACHINE.boot_for("")
_STATES: Final = Path("/dev/.states")  # as harness/guard/states.h says
_END_S: Final = 10.0  # of all that is in a sandbox
_LASTS_S: Final = 20.0  # the machine of each state has booted a moment ago

_MAY_WRITE: Final = (
    "; a check may write in the folder, "
    + ", ".join(map(str, EMPTY))
    + ", and nowhere else: what it leaves would be there for the next state"
)


def _wrapper(folder: Path) -> str:
    """Raises HostError where bubblewrap is missing or fails, or where the folder has no place."""
    if why := sandboxes().bubblewrap:
        raise HostError(f"a check runs in bubblewrap alone, which fails here: {why}", hint=_REMEDY)
    if not folder.is_dir():
        raise HostError(
            f"{folder}: the state belongs there, and it is no folder of this host",
            hint=f"mkdir -p {shlex.quote(str(folder))}",
        )
    return str(find_tool("bwrap"))


def _over(state: Path, folder: Path, where: Path, *own: str) -> list[str]:
    return [
        *("--bind", str(state), str(folder), *own),
        *("--unshare-pid", "--die-with-parent", "--chdir", str(where), "--"),
    ]


def _boot_file(state: Path) -> Path:
    """Where the id of the boot is that the check of a state sees."""
    return state.with_name(f"{state.name}.boot-id")


def _shown(command: Sequence[str], where: Path) -> list[Path]:
    """What of the places that are empty in there the command needs, each by its topmost name."""
    named = [where, *(where / word for word in command)]
    named += map(Path, os.environ.get("PATH", "").split(":"))
    found: set[Path] = set()
    for path in named:
        for empty in EMPTY:
            if path == where == empty:
                found.add(empty)
            elif path != empty and path.is_relative_to(empty):
                found.add(empty / path.relative_to(empty).parts[0])
    return sorted(path for path in found if path.exists())  # a folder before what it holds


def shell_in_folder(state: Path, folder: Path, commands: str | None) -> int:
    """A shell in `folder`, where `state` lies; it reads `commands`, else what a person types.

    Returns its exit status.  Raises HostError if it cannot be started.
    """
    shell = "/bin/sh" if commands is not None else os.environ.get("SHELL", "/bin/sh")
    view = ("--dev-bind", "/", "/", "--proc", "/proc")
    argv = [_wrapper(folder), *view, *_over(state, folder, folder), shell]
    try:
        if commands is None:
            return subprocess.run(argv, check=False).returncode
        return subprocess.run(argv, input=commands, text=True, check=False).returncode
    except OSError as error:
        raise HostError(f"cannot start a shell: {error}") from error


@dataclass(frozen=True)
class FolderSandbox(Closing):
    """Runs a `command`, called in `where`, on states, which it finds at the captured `folder`, and
    all else of its machine anew (harness/guard/states.c).

    Two at a time have two sandboxes: in one they would see each other's locks of the host's files.
    """

    command: Sequence[str]
    folder: Path
    where: Path
    timeout_s: float
    _free: list[_Guard] = field(default_factory=list, init=False)

    def close(self) -> None:
        while self._free:
            self._free.pop().close()

    def __call__(self, state: Path, boot: Boot = _ANY_BOOT) -> Observation:
        """What it says of the folder `state`, after the `boot`.

        Raises HostError if it cannot be run.
        """
        deadline, answer = time.monotonic() + self.timeout_s, "changed"
        while answer == "changed":
            try:
                with ExitStack() as stack:
                    guard = stack.enter_context(self._guard(state, boot))
                    answer, words, text = guard.ask(state.name, boot.first_pid, deadline)
                    if answer.isdecimal() and len(text) <= LINES_MAX:
                        stack.pop_all()
                        self._free.append(guard)
            except TimeoutError:
                failure = f"it did not end within {self.timeout_s:.3g} s"
                return Observation((), complete=False, failure=failure)
            except OSError as error:
                raise HostError(f"cannot run the check: {error}") from error
        if not answer.isdecimal():
            raise HostError(f"cannot run the check: {answer}", hint=_REMEDY)
        return ended_check(int(answer), words, text)

    def _guard(self, state: Path, boot: Boot) -> _Guard:
        of = (state.parent, boot.machine, time.monotonic() // _LASTS_S)
        sockets = seen_sockets(self._shown, self.folder)
        with suppress(IndexError):
            free = self._free.pop()
            if free.of == of and free.sockets >= sockets and free.process.poll() is None:
                return free
            free.close()
        return _Guard(self._argv(state, boot), _boot_file(state), of, sockets)

    @cached_property
    def _shown(self) -> list[Path]:
        return _shown(self.command, self.where)

    def _argv(self, state: Path, boot: Boot) -> list[str]:
        again = [*booted_again(_boot_file(state)), "--setenv", "POWERCUT_FD", "3", "--as-pid-1"]
        shown, states, argv = self._shown, state.parent, _view(self._shown, self.folder)
        needed = (self.folder, self.where, *(self.where / word for word in self.command))
        if not any(path.is_relative_to(states) for path in needed):  # no state is seen at home
            argv += ["--perms", "0755", "--tmpfs", str(states), "--remount-ro", str(states)]
        argv += _over(states, _STATES, self.where, *again)
        users = _users(self.command, states, self.folder, self.where, shown)
        of_root = os.geteuid() == 0
        argv += guarded(shown, boot, of_root=of_root, kept=self.folder, apart=users, each=True)
        return [*argv, *self.command]


class _Guard(Closing):
    """One sandbox, for what it is `of`; it covers what `sockets` there were."""

    def __init__(self, argv: list[str], boot_id: Path, of: object, sockets: Set[object]) -> None:
        self.of, self.sockets, self._boot_id = of, sockets, boot_id
        said = self._said = os.memfd_create("said")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_END_S)
        with theirs:
            self.process = in_lasting_thread(
                lambda: subprocess.Popen(argv, stdin=theirs.fileno(), stdout=said, stderr=said)
            )

    def close(self) -> None:
        """It has ended, with all that it has started."""
        self._socket.shutdown(socket.SHUT_RDWR)  # whoever has inherited it
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)
        self.process.kill()
        self.process.wait()
        os.close(self._said)
        self._boot_id.unlink(missing_ok=True)

    def ask(self, state: str, first_pid: int, deadline: float) -> tuple[str, str, bytes]:
        """The guard's answer, none with more lines than LINES_MAX; the last of what the check of
        the `state` prints; its lines.  None of it fills the disk.  Raises TimeoutError, OSError."""
        booted_again(self._boot_id)
        lines, said = bytearray(), bytearray()
        with ExitStack() as stack:
            ours, theirs = zip(os.pipe(), os.pipe(), strict=True)
            readers = [stack.enter_context(os.fdopen(one, "rb", buffering=0)) for one in ours]
            for one in theirs:
                os.fchmod(one, 0o666)  # for /proc/self/fd/3, whoever the check runs as
            try:
                socket.send_fds(self._socket, [f"{first_pid} {state}".encode()], theirs)
            finally:
                for one in theirs:
                    os.close(one)
            for number, data in heard(readers, deadline):
                (lines, said)[number].extend(data)
                del said[:-_SAID_MAX]
                if len(lines) > LINES_MAX:
                    return "0", "", bytes(lines)
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # that it has read nothing
        answer = self._socket.recv(1 << 13) or os.pread(self._said, _SAID_MAX, 0) or b"it ended"
        return answer.decode(errors="replace"), said.decode(errors="replace"), bytes(lines)


def sandboxed_check(
    command: Sequence[str], state: Path, folder: Path, where: Path, *, boot: Boot = _ANY_BOOT
) -> list[str]:
    """The command line that runs a check which is itself captured on the folder `state`.

    The recorder's file system, over which it runs, knows the host's users alone.  Raises HostError
    without bubblewrap.
    """
    again = booted_again(_boot_file(state))
    shown = _shown(command, where)
    argv = [*_view(shown, folder), *_over(state, folder, where, *again, "--as-pid-1")]
    return [*argv, *guarded(shown, boot, of_root=os.geteuid() == 0, kept=folder), *command]


def _view(shown: Sequence[Path], folder: Path) -> list[str]:
    """What a check has of the host, and a place for its state, where that is in memory."""
    argv = [*new_clocks(), *limits(), _wrapper(folder), *host_view(shown)]
    argv += [*capabilities(of_root=os.geteuid() == 0), "--new-session", *_temporary(shown, folder)]
    argv += [] if any(map(folder.is_relative_to, shown)) else open_above(folder, EMPTY)
    return argv


def _users(
    command: Sequence[str], states: Path, folder: Path, where: Path, shown: Sequence[Path]
) -> list[str]:
    """The guard's words for users of its own, to whom the states and what is `shown` belong; none
    where the command lies, or is called, where only root may look."""
    named = [where, Path(shutil.which(command[0]) or "/"), folder.parent]
    named += [where / one for one in command]
    given = (*shown, *EMPTY, folder)
    if not for_all(path for path in named if not any(path.is_relative_to(one) for one in given)):
        return []
    words = users_apart((*shown, states))
    return [*words[:-1], str(_STATES)] if words else []


def confined_command(
    command: Sequence[str],
    folder: Path,
    where: Path,
    memory: Path,
    machine: MachineIdentity = ANY_MACHINE,
) -> tuple[str, ...]:
    """The command line that runs what is captured in `folder`, on the `machine` of its checks, as a
    check runs: it may write there, and in places that a check finds empty.  Those are below
    `memory`, which is empty at first, so that writes outside of every state are seen afterwards.

    It has a few devices and all system calls besides, and has ended once what it has left behind
    has, such as a daemon.  Raises HostError without bubblewrap.
    """
    shown, of_root = _shown(command, where), os.geteuid() == 0
    view = host_view(shown, lies=_emptied(memory, shown))
    for device in _devices():
        view += ["--dev-bind", str(device), str(device)]
    argv = [_wrapper(folder), *view, *capabilities(of_root=of_root), *_temporary(shown, folder)]
    boot = machine.boot(0)
    guard = guarded(shown, boot, of_root=of_root, kept=folder, unlimited=True, whole=True)
    return (*argv, *_over(folder, folder, where, "--as-pid-1", *apart()), *guard, *command)


def sharing_command(
    command: Sequence[str], folder: Path, where: Path, memory: Path
) -> tuple[str, ...]:
    """As `confined_command`, for powercut's own that shares `folder` with a guest: it makes
    namespaces and has all devices."""
    shown = _shown(command, where)
    argv = [_wrapper(folder), "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    for place, below in _emptied(memory, shown).items():
        argv += ["--bind", str(below), str(place)]
    for path in shown:
        argv += ["--ro-bind", str(path), str(path)]
    own = ("--proc", "/proc", *apart())
    return (*argv, *_temporary(shown, folder), *_over(folder, folder, where, *own), *command)


def _emptied(memory: Path, shown: Sequence[Path]) -> dict[Path, Path]:
    """Where each of the empty places lies, which are made below `memory`."""
    lies = {}
    for place in EMPTY:
        if place not in shown and place.is_dir():
            lies[place] = memory / str(place).strip("/").replace("/", "-")
            lies[place].mkdir()
            lies[place].chmod(place.stat().st_mode & 0o7777)
    return lies


def _devices() -> list[Path]:
    """Those that a virtual machine or a computation wants, and that hold no file of the host."""
    return sorted(path for name in _DEVICES for path in Path("/dev").glob(name))


def written_elsewhere(memory: Path) -> LeftFiles:
    """What a command has left in those places."""
    return left_in({place: memory / str(place).strip("/").replace("/", "-") for place in EMPTY})


def _temporary(shown: Sequence[Path], folder: Path) -> list[str]:
    """bubblewrap's words for where temporary files belong."""
    return ["--setenv", "TMPDIR", str(next((one for one in EMPTY if one not in shown), folder))]


def ended_check(status: int, words: str, lines: bytes) -> Observation:
    """What a check comes to that has ended with `status`, having printed `words`."""
    refused = frozenset(lines_of(errno.EROFS, words))
    words = " ".join(words.split()) or "nothing"
    failure = ""
    if len(lines) > LINES_MAX:
        failure, lines = f"it says more than {LINES_MAX >> 20} MiB", b""
    elif status:
        failure = f"its status is {status}, and it says: {words}"
    elif refused:  # a check that continues after that may miss what is there
        failure = f"it says: {words}"
    if refused:
        failure += _MAY_WRITE
    of_its_own = frozenset() if status or len(lines) > LINES_MAX else refused
    return Observation((), complete=not failure, failure=failure, lines=lines, refused=of_its_own)
