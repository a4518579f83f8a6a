# SPDX-License-Identifier: Apache-2.0
"""A program on this host's own kernel, its folder on a loop device over the capture disk: for root.

    capture disk (nbdkit)  <- NBD -  nbdfuse  <- FUSE -  /dev/loopN, DIR in a file system on it

A loop device passes a flush on as fsync(2) of its file, FUSE passes that on as FLUSH.  Nothing of
it is seen on the host, and nothing outlives the controller, even one that is killed:

- The file system is mounted in a mount namespace of its own, in which no process is but those of a
  PID namespace; all of them die with the first of them, and that with the controller.  The
  mount goes with the last process, and the loop device, which is set to go with its last user,
  with the mount.
- nbdfuse lives in another mount namespace.  In the same one it could be the last process, so that
  the kernel unmounts the file system in its exit and waits for an answer of the process that is
  exiting: for ever (seen with Linux 6.18).  Where powercut ends both, nbdfuse dies first.

A power cut takes the program and its disk at one instant.  A program that saw its disk die would be
told of I/O errors that no cut makes, and might ignore them and acknowledge all the same.  So all of
the program has SIGKILL pending, and says no more, before nbdfuse dies.

The program runs in a sandbox (bubblewrap): the host's files read-only, no other process, no network
but loopback, and it is the user nobody without any capability, to whom DIR belongs.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from powercut.closing import Closing
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.machine.fuse import NbdFuse, root_is_no_mount
from powercut.machine.process import spawn
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.operations import Pressed
from powercut.model.outside import LeftFiles
from powercut.paths import CACHE, UNSYNCED_BINARY
from powercut.recover.plan import HostRoot, Mount, RecoveryPlan
from powercut.sandbox.check import EMPTY, capabilities, guarded, host_view, left_in, limits
from powercut.sandbox.confined import find_tool
from powercut.sandbox.printed import tail
from powercut.sandbox.rebooted import apart
from powercut.workload.port import MOUNT_POINT
from powercut.workload.program.sync_trace import TOOLS, TRACER

_NOBODY: Final = 65534
_LINES: Final = 3  # the descriptor for lines, as everywhere (POWERCUT_FD)
_TOOLS: Final = ("nbdfuse", "losetup", "unshare", "nsenter", "bwrap")
_KILL_S: Final = 20.0
_TRY_S: Final = 30.0
_TRIED_BYTES: Final = 16 << 20
_POLL_S: Final = 0.005
_CONSOLE_LINES: Final = 5
_CONSOLE_MAX: Final = 1 << 20
_MOUNTER: Final = "what mounts the disk over a loop device"

# `read` is the shell's own, so that the number is that of the shell, in the host's /proc.
_FIRST: Final = """\
disk=$1 point=$2 owner=$3 type=$4 options=$5
read pid rest </proc/self/stat || exit
mount -i -t "$type" -o "loop,nosuid,nodev$options" "$disk" "$point" || exit
chown "$owner:$owner" "$point" || exit
echo "$pid $(findmnt -n -o SOURCE --mountpoint "$point")"
while read word; do
    case $word in
    stop) [ $$ = 1 ] && { kill -s KILL -- -1 2>&-; echo stopped; } ;;
    unmount) umount "$point" && echo unmounted; exit ;;
    esac
done
"""


_TRY: Final = """\
mount -i -t ext4 -o loop,ro "$1" "$2" || exit
shift 2
exec "$@"
"""


def unavailable() -> tuple[str, ...]:
    """Why no program can run so on this host; empty if one can."""
    if os.geteuid():
        return ("`where: loop` needs root: it mounts a file system",)
    reasons = [f"{tool} is not installed" for tool in _TOOLS if find_tool(tool) is None]
    missing = [path for path in ("/dev/fuse", "/dev/loop-control") if not Path(path).exists()]
    reasons += [f"there is no {path}" for path in missing]
    if Path("/proc/self").readlink() != Path(str(os.getpid())):
        reasons.append("/proc is that of another pid namespace (unshare --pid needs --mount-proc)")
    if root_is_no_mount():
        reasons.append("a chroot into an ordinary folder could not keep the mount to itself")
    return tuple(reasons) or _tried()


@functools.cache
def _tried() -> tuple[str, ...]:
    """What keeps a mount over a loop device, and the sandbox, from working: of containers only a
    try can tell."""
    base = ensure_base_image(BaseImageSpec("ext4", _TRIED_BYTES), CACHE)
    with tempfile.TemporaryDirectory(prefix="powercut-loop-") as folder:
        argv = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork"]
        argv += ["--kill-child", "--mount-proc", "sh", "-c", _TRY, "sh", str(base), folder]
        try:
            argv += [*_sandbox(HostRoot("/", ()), Path(folder)), "true"]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_TRY_S)
        except HostError as error:
            return (str(error),)
        except subprocess.TimeoutExpired:
            return ("a mount over a loop device was not made in time",)
    if done.returncode:
        said = done.stderr.strip() or f"status {done.returncode}"
        return (f"this host mounts nothing over a loop device: {said}",)
    return ()


class LoopGuest(Closing):
    """One program on the disk that `nbd` serves.  A context manager; leaving it kills all of it."""

    def __init__(self, nbd: Path, plan: RecoveryPlan, folder: Path, lines: socket.socket) -> None:
        """`folder` is for mount points and what is printed; `lines` is the end on which the program
        says its own, and its from `begin` on.  Nothing is started yet."""
        self._nbd = nbd
        self._plan = plan
        self._folder = folder
        self._lines = lines
        self._log = folder / "program.txt"
        self._point = folder / "mnt"
        self._fuse: NbdFuse | None = None
        self._first: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pid = 0
        self.loop: LoopDevice | None = None
        self._verb: subprocess.Popen[bytes] | None = None
        self.console = ""

    def close(self) -> None:
        self.kill()

    def start(self, *, timeout_s: float) -> None:
        """Mounts the disk, on which the program may make its folder.  Raises HostError."""
        if reasons := unavailable():
            raise HostError("; ".join(reasons))
        deadline = time.monotonic() + timeout_s
        self._point.mkdir()
        self._fuse = NbdFuse(self._nbd, self._folder, timeout_s=timeout_s)
        mount = self._plan.find(Mount)
        assert mount is not None
        self._control, theirs = socket.socketpair()
        # Of the namespace with nbdfuse's file a copy is made: nbdfuse is not in that.
        alone = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork"]
        argv = ["nsenter", f"--mount=/proc/{self._fuse.pid}/ns/mnt", "--", *alone]
        argv += ["--kill-child", "sh", "-c", _FIRST, "sh"]
        argv += [str(self._fuse.inside), str(self._point), str(_NOBODY), mount.filesystem]
        argv += [_options(mount)]
        with theirs:
            control = theirs.fileno()
            self._first = spawn(_handing(control, (0, 1), argv), self._log, pass_fds=[control])
        pid, _, node = self._answer(deadline).partition(" ")
        self._pid, self.loop = int(pid), LoopDevice.of(node)

    def set_up(self, argv: tuple[str, ...]) -> None:
        """Makes DIR, the last word, and starts the verb."""
        self._start(("sh", "-c", 'mkdir -p "$0" && exec "$@"', argv[-1], *argv))

    def begin(self, argv: tuple[str, ...], *, unsynced: bool = False) -> None:
        """Starts the last verb and returns at once; `unsynced` takes its syncs away."""
        self._start(argv, unsynced=unsynced, whole=True)
        self._lines.close()  # so that its end is seen when the program ends

    def _start(self, argv: tuple[str, ...], *, unsynced: bool = False, whole: bool = False) -> None:
        host = self._plan.host
        assert host is not None
        number = self._lines.fileno()
        enter = ["nsenter", f"--mount=/proc/{self._pid}/ns/mnt", f"--pid=/proc/{self._pid}/ns/pid"]
        # Its own numbers are those of other processes in the host's /proc.
        words = [*enter, "--", "unshare", "--mount-proc", "--"]
        words += _sandbox(host, self._point, whole=whole)
        words += [_tool(UNSYNCED_BINARY)] if unsynced else []
        words += argv
        self._verb = spawn(_handing(number, (_LINES,), words), self._log, pass_fds=[number])

    def press(self, seed: int, *, timeout_s: float) -> None:
        """The host's kernel writes back as all else on the host needs it."""
        del seed, timeout_s
        raise HostError("this host's own kernel is not made to write back early")

    def pressed(self, *, timeout_s: float) -> Pressed:
        del timeout_s
        return Pressed()

    def wait_end(self, deadline: float) -> int | None:
        """The exit status of what was begun; None if it has not ended by `deadline`."""
        assert self._verb is not None
        try:
            return self._verb.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            return None

    def unmount(self, *, timeout_s: float) -> None:
        """A clean unmount: everything that was written is durable then."""
        try:
            answer = self._asked("unmount", time.monotonic() + timeout_s)
        finally:
            self._close_control()  # it answers once
        if answer != "unmounted":
            raise HostError(f"the file system could not be unmounted: {self.console_now}")

    def left(self, *, timeout_s: float) -> LeftFiles | None:
        """What is left in memory, as the verb sees it; None if that has ended."""
        del timeout_s
        if self._verb is None or (inside := _in_sandbox(self._verb.pid)) is None:
            return None
        found = left_in({place: inside / place.relative_to("/") for place in EMPTY})
        return found if _is_sandbox(inside) else None

    def kill(self) -> None:
        """Ends everything at once, and waits until the loop device is gone; idempotent.

        Raises HostError if it is still there after a while, or if the program may have seen its
        disk die.
        """
        try:
            self._stop_program()
        finally:
            self._take_away()

    def _stop_program(self) -> None:
        """SIGKILL is pending in every process of it when this returns: none makes another call."""
        if self._verb is None or self._control is None:
            return
        try:
            said = self._asked("stop", time.monotonic() + _KILL_S)
        except PowercutError as error:
            said = str(error)
        if said != "stopped":
            raise HostError(f"the program may have seen its disk die before its own end: {said}")

    def _take_away(self) -> None:
        if self._fuse is not None:
            self._fuse.kill()  # first: see above
            self._fuse = None
        for process in (self._first, self._verb):
            if process is not None:
                process.kill()
                process.wait(_KILL_S)
        self._first = self._verb = None
        self._close_control()
        if self._log.exists():
            self.console = tail(self._log, _CONSOLE_MAX)
        loop, self.loop = self.loop, None
        if loop is not None:
            loop.wait_gone(timeout_s=_KILL_S)

    def _close_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    @property
    def console_now(self) -> str:
        """The last lines that the program printed, for a message."""
        return " / ".join(tail(self._log).splitlines()[-_CONSOLE_LINES:]) or "it printed nothing"

    def _asked(self, word: str, deadline: float) -> str:
        assert self._control is not None
        try:
            self._control.sendall(f"{word}\n".encode())
        except OSError as error:
            raise HostError(f"{_MOUNTER} has ended: {error}") from None
        return self._answer(deadline)

    def _answer(self, deadline: float) -> str:
        assert self._control is not None
        answer = b""
        while not answer.endswith(b"\n"):
            self._control.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._control.recv(4096)
            except TimeoutError:
                raise DeadlineExceeded(f"{_MOUNTER} did not answer in time") from None
            except ConnectionError:  # it has ended, and something was not read
                data = b""
            if not data:
                raise HostError(f"{_MOUNTER} has ended: {self.console_now}")
            answer += data
        return answer.decode().strip()


def _options(mount: Mount) -> str:
    """What stands behind others.  An ext4 may have been made so that an I/O error is a panic."""
    words = [option for option in mount.options.split(",") if option]
    if mount.filesystem == "ext4":
        words.append("errors=remount-ro")
    if mount.filesystem == "xfs":
        words.append("nouuid")  # all base images have the same, and another may be mounted
    return "".join(f",{word}" for word in words)


def _handing(number: int, targets: Sequence[int], argv: Sequence[str]) -> list[str]:
    """`argv` with the descriptor `number` as others: shells know none above 9."""
    become = "import os, sys; n = int(sys.argv[1])\n"
    become += "for target in sys.argv[2].split(','): os.dup2(n, int(target))\n"
    become += "os.execvp(sys.argv[3], sys.argv[3:])"
    numbers = ",".join(map(str, targets))
    return [sys.executable, "-I", "-S", "-c", become, str(number), numbers, *argv]


def _in_sandbox(pid: int) -> Path | None:
    """The root of what runs in bubblewrap below the process `pid`; None if nothing does."""
    while children := _first_line(Path(f"/proc/{pid}/task/{pid}/children")).split():
        pid = int(children[0])
        if _is_sandbox(root := Path(f"/proc/{pid}/root")):
            return root
    return None


def _is_sandbox(root: Path) -> bool:
    """bubblewrap has devices of its own."""
    try:
        return not (root / "dev").samefile("/dev")
    except OSError:  # it has ended
        return False


def _tool(path: Path) -> str:
    """Where the sandbox has a tool of powercut's: not where nobody may not look."""
    return f"{TOOLS}/{path.name}"


def _sandbox(host: HostRoot, point: Path, *, whole: bool = False) -> list[str]:
    visible = [Path(path) for path in host.visible]
    shown = [path for path in visible if any(path.is_relative_to(place) for place in EMPTY)]
    argv = [*limits(), "bwrap", "--unshare-pid", *apart()]
    argv += ["--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]
    argv += capabilities(of_root=True)
    argv += [*host_view(shown), "--bind", str(point), MOUNT_POINT]
    argv += ["--perms", "0755", "--dir", TOOLS]
    for tool in (UNSYNCED_BINARY, TRACER):
        argv += ["--ro-bind-try", str(tool), _tool(tool)]
    for pair in host.environment:
        argv += ["--setenv", *pair.split("=", 1)]
    guard = guarded(shown, host.machine.boot(0), of_root=True, become=_NOBODY, whole=whole)
    return [*argv, "--chdir", host.folder, "--", *guard]


@dataclass(frozen=True)
class LoopDevice:
    """A loop device in one of its uses, which have numbers since Linux 5.15 (diskseq)."""

    name: str
    use: str

    @classmethod
    def of(cls, node: str) -> Self:
        """The one that has the node /dev/loopN, in its use of now."""
        name = Path(node).name
        return cls(name, _first_line(Path(f"/sys/block/{name}/diskseq")))

    @property
    def there(self) -> bool:
        """Whether it still is in that use.  Nothing is asked of its file: that may be dead."""
        backed = bool(_first_line(Path(f"/sys/block/{self.name}/loop/backing_file")))
        return backed and self.use == _first_line(Path(f"/sys/block/{self.name}/diskseq"))

    def wait_gone(self, *, timeout_s: float) -> None:
        """Returns once its last user has left it.  Raises HostError."""
        deadline = time.monotonic() + timeout_s
        while self.there:
            if time.monotonic() > deadline:
                raise HostError(
                    f"/dev/{self.name} is still there, though nothing uses it",
                    hint=f"losetup --detach /dev/{self.name}",
                )
            time.sleep(_POLL_S)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
