# SPDX-License-Identifier: Apache-2.0
"""Boots a User-Mode Linux and leaves nothing behind: no process, no file, no socket.

Everything that it is given is an anonymous file (memfd) or a socket pair, passed as
`/proc/self/fd/N`; its memory is a file that it creates without a name (O_TMPFILE) in a folder of
its own (powercut.sandbox.kernel); the folder in which it would put a pid file and a control socket
cannot exist.  `uml-guard` (guests/uml/guard.c) ends all of its processes when the controller dies.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.paths import PARTS, WAL_BINARY
from powercut.recover.plan import HostRoot
from powercut.recover.uml.kernel import MODULE_FILES, UmlKernel, host_kernel
from powercut.sandbox.confined import preloading
from powercut.sandbox.kernel import IN_MEMORY, KernelSandbox, kernel_sandbox

_ROOM_MIB: Final = 160  # what the guest uses of its memory besides the disk, generously
_VIRTIO_BLOCK: Final = 2  # the device type, as the virtio specification numbers them
_CONSOLE_TAIL: Final = 8192  # bytes
_CONSOLE_MAX: Final = 16 << 20
_TRIM_S: Final = 0.1
_KILL_TIMEOUT_S: Final = 20.0
_MEMORY_ROOM: Final = 16 << 20  # bytes that UML's memory file takes beyond the guest's memory


def init_binary() -> Path:
    """PID 1 of the guest, as guests/uml/Makefile leaves it."""
    return PARTS / "bin" / "uml-init"


def guard_binary() -> Path:
    """The host's side of the sandbox, from the same Makefile."""
    return PARTS / "bin" / "uml-guard"


def xstate_library() -> Path:
    """What lets UML run on processors with AMX (guests/uml/xstate.c), from the same Makefile."""
    return PARTS / "lib" / "uml-xstate.so"


def haste_library() -> Path:
    """What makes UML boot faster (guests/uml/haste.c), from the same Makefile."""
    return PARTS / "lib" / "uml-haste.so"


def stamp_library() -> Path:
    """What gives a program's lines the host's clock (guests/uml/stamp.c), from that Makefile."""
    return PARTS / "lib" / "uml-stamp.so"


def unavailable(kernel: UmlKernel | None = None) -> list[str]:
    """All reasons why the `uml` engine cannot work here, each with its remedy; empty if it can.

    It is asked with the host's kernel if none is given.
    """
    kernel = kernel or host_kernel()
    reasons = []
    if not kernel.program.exists():
        reasons.append(f"{kernel.program} is not installed (Debian package user-mode-linux)")
    elif kernel.module_folder is None:
        reasons.append(
            f"no kernel under {kernel.modules} has all of "
            f"{', '.join(Path(name).name for name in MODULE_FILES)} "
            "(Debian package user-mode-linux)"
        )
    reasons.extend(
        f"{binary} is not built (make -C guests/uml)"
        for binary in (init_binary(), guard_binary(), haste_library(), xstate_library())
        if not binary.exists()
    )
    if not WAL_BINARY.exists():
        reasons.append(f"{WAL_BINARY} is not built (make -C workloads/wal)")
    if memory_folder(_ROOM_MIB << 20) is None:
        reasons.append(
            f"no folder for UML's memory: {', '.join(map(str, _memory_folders()))} must be "
            f"writable, allow execution and have {_ROOM_MIB} MiB free (set TMPDIR to one that is)"
        )
    return reasons


def memory_folder(need: int) -> Path | None:
    """Where UML may keep its memory: room for `need` bytes that may be mapped executable.

    RAM before disk; None if there is none.
    """
    for folder in _memory_folders():
        try:
            free = os.statvfs(folder)
        except OSError:
            continue
        if (
            not free.f_flag & os.ST_NOEXEC
            and os.access(folder, os.W_OK | os.X_OK)
            and free.f_bavail * free.f_frsize >= need
        ):
            return folder
    return None


def _room_for(need: int) -> Path:
    folder = memory_folder(need)
    if folder is None:
        raise HostError(
            f"no folder has the {need >> 20} MiB that the guest's memory needs",
            hint="set TMPDIR to a folder with more room on a file system without noexec",
        )
    return folder


def _memory_folders() -> list[Path]:
    chosen = os.environ.get("TMPDIR")
    named = [str(IN_MEMORY), *([chosen] if chosen else []), "/tmp", "/var/tmp"]
    return [Path(name) for name in dict.fromkeys(named)]


@dataclass(frozen=True)
class UbdDisk:
    """A file on the host as UML's block device `ubda`, with the flags of its `ubd0` option."""

    fd: int
    flags: str = ""


@dataclass(frozen=True)
class Terminal:
    """Descriptors that are a person's keyboard and screen: /dev/ttyS2 in the guest."""

    keyboard: int
    screen: int


@dataclass(frozen=True)
class OutsideDisks:
    """Disks that another process serves, over vhost-user, and who runs on them.

    The guest has them as /dev/vda, /dev/vdb and so on.  `lines` is a socket of packets
    (SOCK_SEQPACKET) on which a program's lines go out, each with its instant in front:
    guests/uml/stamp.c.
    """

    sockets: tuple[Path, ...]
    lines: int


def uml_argv(
    kernel: UmlKernel,
    *,
    memory_mib: int,
    initrd: int,
    share: int,
    line: int,
    disk: UbdDisk | None = None,
    outside: OutsideDisks | None = None,
    terminal: Terminal | None = None,
    host_files: bool = False,
    raid6: bool = True,
) -> list[str]:
    """The command line of UML.  Numbers are file descriptors that it inherits.

    The share is offered twice: as memory that can be mapped, and as the disk ubdb for kernels
    that come without /dev/mmapper.

    With `host_files` a guest can mount what the caller may read on the host: for programs of the
    caller's own, and for nothing that comes from a stranger.

    Without `raid6` the kernel cannot compute what RAID6 needs, and does not measure for most of its
    boot how to do that fastest.
    """
    argv = [
        str(kernel.program),
        f"mem={memory_mib}M",
        f"initrd=/proc/self/fd/{initrd}",
        f"iomem=mmapper,/proc/self/fd/{share}",
        f"ubd1=/proc/self/fd/{share}",
        f"ssl0=fd:{line}",
        "con=null",
        "con0=null,fd:1",
        "quiet",
        "panic=-1",
        "noreboot",
        "oops=panic",  # a kernel that has oopsed is not asked about the next state
        "uml_dir=/dev/null/",
        "rcupdate.rcu_expedited=1",
    ]
    if not host_files:
        argv.append("hostfs=/dev/null")  # hostfs is built into the kernel; here it finds nothing
    if not raid6:
        argv.append("initcall_blacklist=raid6_select_algo")
    if disk is not None:
        argv.append(f"ubd0{disk.flags}=/proc/self/fd/{disk.fd}")
    if outside is not None:
        argv += [f"virtio_uml.device={path}:{_VIRTIO_BLOCK}" for path in outside.sockets]
        argv.append(f"ssl1=fd:{outside.lines}")
    if terminal is not None:
        argv.append(f"ssl2=fd:{terminal.keyboard},fd:{terminal.screen}")
    return argv


class UmlProcess:
    """One running User-Mode Linux: a line to ring on, and a console."""

    def __init__(
        self,
        kernel: UmlKernel,
        archive: bytes,
        share: int,
        *,
        memory_mib: int,
        need: int,
        disk: UbdDisk | None = None,
        outside: OutsideDisks | None = None,
        terminal: Terminal | None = None,
        host: HostRoot | None = None,
        raid6: bool = True,
    ) -> None:
        """`host` is what of the host's files its programs have as their root; `raid6` as in
        `uml_argv`."""
        folder = _room_for(need)
        self._console = os.memfd_create("powercut-console")
        initrd = os.memfd_create("powercut-initrd")
        alive, self._alive = os.pipe2(os.O_CLOEXEC)
        self._line, line = socket.socketpair()
        try:
            os.write(initrd, archive)
            _set_append(self._console)
            self.argv = uml_argv(
                kernel,
                memory_mib=memory_mib,
                initrd=initrd,
                share=share,
                line=line.fileno(),
                disk=disk,
                outside=outside,
                terminal=terminal,
                host_files=host is not None,
                raid6=raid6,
            )
            shown = _shown(kernel, outside, host)
            self._sandbox = _sandbox(folder, memory_mib, shown, disk)
            self._guard = subprocess.Popen(
                [*_guard_argv(self._sandbox, kernel, outside), *self.argv],
                stdin=alive,
                stdout=self._console,
                stderr=self._console,
                pass_fds=[initrd, share, line.fileno(), *_passed(disk, terminal, outside)],
                env={"TMPDIR": str(self._sandbox.memory), **_told(outside)},
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            self._close_files()
            raise HostError(f"cannot start {guard_binary()}: {error}") from error
        finally:
            line.close()
            os.close(alive)
            os.close(initrd)

    @property
    def pid(self) -> int:
        """Process id of the guard."""
        return self._guard.pid

    def ring(self) -> None:
        """Tells PID 1 that there is a request."""
        self._line.send(b"g", socket.MSG_NOSIGNAL)

    def wait_ring(self, deadline: float) -> bool | None:
        """True once PID 1 rang; False if UML ended; None if neither by `deadline`.

        `deadline` is on the clock of time.monotonic.
        """
        ready: list[socket.socket] = []
        while not ready:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._line], [], [], min(left, _TRIM_S))
            self.clear_console(_CONSOLE_MAX)  # they may print into our memory without end
            if not ready and left <= _TRIM_S:
                return None
        try:
            return self._line.recv(1) != b""
        except ConnectionError:
            return False

    def console(self) -> str:
        """The end of what the kernel has said since `clear_console`."""
        size = os.fstat(self._console).st_size
        start = max(0, size - _CONSOLE_TAIL)
        return os.pread(self._console, size - start, start).decode(errors="replace").strip()

    def clear_console(self, beyond: int = 0) -> None:
        """Forgets what the kernel has said so far, if that is more than `beyond` bytes."""
        if os.fstat(self._console).st_size > beyond:
            os.ftruncate(self._console, 0)

    def kill(self) -> str:
        """Ends every process of it; returns the console.  Idempotent."""
        if self._alive < 0:
            return ""
        os.close(self._alive)
        self._alive = -1
        try:
            self._guard.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._guard.pid, signal.SIGKILL)  # UML has asked to die with its parent
            self._guard.wait(_KILL_TIMEOUT_S)
        self._sandbox.remove()
        said = self.console()
        self._close_files()
        return said

    def _close_files(self) -> None:
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        self._line.close()
        os.close(self._console)


def _passed(
    disk: UbdDisk | None, terminal: Terminal | None, outside: OutsideDisks | None
) -> list[int]:
    keyboard_and_screen = [] if terminal is None else [terminal.keyboard, terminal.screen]
    lines = [] if outside is None else [outside.lines]
    return [*([] if disk is None else [disk.fd]), *keyboard_and_screen, *lines]


def _told(outside: OutsideDisks | None) -> dict[str, str]:
    return {} if outside is None else {"POWERCUT_STAMP_FD": str(outside.lines)}


def _preloaded(outside: OutsideDisks | None) -> list[Path]:
    """Where instants are recorded, the guest's clock is the host's from its first tick on."""
    return [xstate_library(), haste_library() if outside is None else stamp_library()]


def _shown(kernel: UmlKernel, outside: OutsideDisks | None, host: HostRoot | None) -> list[Path]:
    sockets = () if outside is None else outside.sockets
    words = kernel.libraries.split(":")
    if host is not None:
        words += [host.base, host.program, host.tools, *host.visible]
    named = [Path(word) for word in words if word and Path(word).exists()]
    return [kernel.program, guard_binary(), *_preloaded(outside), *sockets, *named]


def _guard_argv(
    sandbox: KernelSandbox, kernel: UmlKernel, outside: OutsideDisks | None
) -> list[str]:
    """What starts the kernel in its sandbox, and ends it with us."""
    told = preloading(_preloaded(outside), {"LD_LIBRARY_PATH": kernel.libraries})
    argv = [*sandbox.argv, str(guard_binary()), "--preload", told["LD_PRELOAD"]]
    argv += ["--libraries", told["LD_LIBRARY_PATH"]]
    argv += ["--remove", str(sandbox.made)] if sandbox.made is not None else []
    return [*argv, "--connects"] if outside is not None else argv


def _sandbox(
    folder: Path, memory_mib: int, shown: list[Path], disk: UbdDisk | None
) -> KernelSandbox:
    return kernel_sandbox(
        folder,
        (memory_mib << 20) + _MEMORY_ROOM,
        shows=shown,
        writes=_files_of(disk),
        for_root=_is_for_owner(disk),
    )


def _is_for_owner(disk: UbdDisk | None) -> bool:
    """Whether others cannot open the disk's file once more, as UML does."""
    wanted = 0 if disk is None else stat.S_IROTH | (0 if "r" in disk.flags else stat.S_IWOTH)
    return disk is not None and os.fstat(disk.fd).st_mode & wanted != wanted


def _files_of(disk: UbdDisk | None) -> list[Path]:
    """Where the disk's file lies, if it is a file with a name: UML opens it once more."""
    if disk is None:
        return []
    path = Path(f"/proc/self/fd/{disk.fd}").readlink()
    return [path] if path.exists() else []


def _set_append(fd: int) -> None:
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
