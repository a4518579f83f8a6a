# SPDX-License-Identifier: Apache-2.0
"""A program that tries to get out of where it runs, and says how far each try came.

    python3 -I -S hostile_program.py FOLDER PORT ABSTRACT CONTROLLER [endless] [frugal] [nobody]

FOLDER is one of the host that it is shown; in it lie the file `victim`, the socket `socket` and the
named pipe `pipe`.  PORT and ABSTRACT are where the host listens on TCP and on an abstract socket,
CONTROLLER is a process of the host.  The sockets `relative` and `renamed` have names of which
/proc/net/unix knows nothing, as one that is made later.  A line of JSON for each try: [name, what
was reached], the latter empty if nothing was.  `endless` adds processes without end, which takes a
minute; `frugal` fills no memory; `nobody` becomes that user first.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

FOLDER, PORT, ABSTRACT, CONTROLLER = Path(sys.argv[1]), *map(int, sys.argv[2:5])
MADE = f"/etc/powercut-made-{ABSTRACT}"
LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER = 0x20000, 0x10000000
MS_REMOUNT, MS_BIND = 32, 4096
MEMORY_TRIED = 4 << 30
PROCESSES_TRIED = 5000


def call(number: int, *arguments: object) -> None:
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> str:
    words = (source.encode(), target.encode(), kind.encode())
    if LIBC.mount(*words, flags, data.encode()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"{kind} of {source or data} mounted"


def mount_here() -> str:
    said = mount("none", str(FOLDER), "tmpfs")
    LIBC.umount2(str(FOLDER).encode(), 0)
    return said


def hostfs(path: str) -> str:
    Path("/tmp/hostfs").mkdir(exist_ok=True)
    return mount("none", "/tmp/hostfs", "hostfs", 0, path)


def write(path: str | Path, text: str = "x") -> str:
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
    return f"{path} written"


def make(path: str | Path) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return f"{path} made"


def read(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(handle, 1)
    finally:
        os.close(handle)
    return f"{path} read"


def connect(kind: int, address: object) -> str:
    with socket.socket(kind, socket.SOCK_STREAM) as peer:
        peer.settimeout(3)
        peer.connect(address)
        peer.send(b"x")
    return f"{address!r} connected"


def datagram() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(b"x", ("192.0.2.1", 9))
    return "sent"


def kernel_helper() -> str:
    """The kernel starts what core_pattern names: with which capabilities, and where is its root?"""
    helper = Path("/tmp/helper")
    helper.write_text(
        "#!/bin/sh\nfor r in '' /host; do grep CapEff /proc/self/status >$r/tmp/helped; "
        "mkdir -p /tmp/h; mount -t hostfs none /tmp/h -o /dev/shm && echo x >/tmp/h/helped; done\n"
    )
    helper.chmod(0o755)
    for root in ("", "/host"):
        write("/proc/sys/kernel/core_pattern", f"|{root}/tmp/helper")
        subprocess.run(["sh", "-c", "ulimit -c unlimited; kill -SEGV $$"], check=False)
    time.sleep(0.5)
    helped = Path("/tmp/helped")
    has = int(helped.read_text().split()[1], 16) if helped.exists() else 0
    if not has:
        raise OSError(errno.EPERM, "the helper has nothing")
    return f"helper with capabilities {has:x}"


def device(name: str, major: int, minor: int) -> str:
    """One that is made may be opened by others, where devices count, whatever mounts say here."""
    path = f"/tmp/{name}"
    os.mknod(path, 0o20666, os.makedev(major, minor))
    with suppress(OSError):
        return read(path)
    return f"{path} made"


def module() -> str:
    """A kernel that takes modules of this program finds that this is none (ENOEXEC)."""
    with suppress(OSError):
        call(175, b"x", 1, b"")
    if ctypes.get_errno() != errno.ENOEXEC:
        raise OSError(ctypes.get_errno(), "refused")
    return "looked at"


def same_setting() -> str:
    """Writes what is there: a host that lets it must not be changed by a test."""
    path = Path("/proc/sys/vm/swappiness")
    return write(path, path.read_text())


def setuid_root() -> str:
    done = subprocess.run(["su", "-c", "id -u"], capture_output=True, check=False, timeout=10)
    if done.stdout.strip() != b"0" or os.geteuid() == 0:
        raise OSError(errno.EPERM, "no")
    return "su gave root"


def signalled() -> str:
    os.kill(CONTROLLER, 0)
    return f"process {CONTROLLER} may be signalled"


def traced_init() -> str:
    call(101, 16, 1, 0, 0)  # PTRACE_ATTACH; a guest whose PID 1 stands still says nothing more
    os.waitpid(1, 0x40000000)
    call(101, 17, 1, 0, 0)
    return "attached"


def others() -> str:
    text = Path(f"/proc/{CONTROLLER}/cmdline").read_bytes()
    if b"pytest" not in text and b"powercut" not in text:
        raise OSError(errno.ESRCH, "another process has that number")
    return "the controller's command line"


def handle_of_root() -> str:
    """Opens the root of the file system below by its handle (open_by_handle_at)."""
    handle = (ctypes.c_char * 136)()
    ctypes.c_uint32.from_buffer(handle).value = 128
    mount_id = ctypes.c_int()
    call(303, -100, b"/", handle, ctypes.byref(mount_id), 0)
    root = os.open("/", os.O_RDONLY)
    call(304, root, handle, os.O_RDONLY)
    return "opened"


def call_32(number: int, first: int) -> str:
    """A system call as 32-bit programs make it: mov eax, number; mov ebx, first; int 0x80."""
    child = os.fork()
    if child == 0:  # a kernel without 32-bit programs ends it
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(
            b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", first)
            + b"\xcd\x80\x5b\xc3"
        )  # fmt: skip
        made = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        os._exit(0 if made() >= 0 else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise OSError(errno.EPERM, "no")
    return "done"


def child_in(namespaces: int) -> str:
    """A child that is made with them (clone)."""
    child = LIBC.syscall(56, namespaces | signal.SIGCHLD, 0, 0, 0, 0)
    if child < 0:
        raise OSError(ctypes.get_errno(), "")
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "made"


def processes() -> str:
    """As many as there may be at once."""
    begun = []
    try:
        for _ in range(PROCESSES_TRIED):
            child = os.fork()
            if child == 0:
                signal.pause()
            begun.append(child)
    except OSError as error:
        if len(begun) < 2500:
            raise OSError(error.errno, f"after {len(begun)}") from None
    finally:
        for child in begun:
            os.kill(child, signal.SIGKILL)
        for child in begun:
            os.waitpid(child, 0)
    return f"{len(begun)} processes at once"


def fill(folder: str) -> str:
    """Memory as files."""
    path, block, put = Path(folder, "much"), bytes(1 << 20), 0
    try:
        with path.open("wb", buffering=0) as file:
            while put < MEMORY_TRIED:
                put += file.write(block)
    except OSError as error:
        if put < MEMORY_TRIED:
            raise OSError(error.errno, f"after {put >> 20} MiB") from None
    finally:
        path.unlink(missing_ok=True)
    return f"{put >> 20} MiB in {folder}"


def tries() -> Iterator[tuple[str, Callable[[], object]]]:
    victim, shown = FOLDER / "victim", FOLDER
    for path in ("/", "/etc", "/dev/shm", str(FOLDER)):
        named = "the shown folder" if path == str(FOLDER) else path
        yield f"hostfs of {named}", lambda path=path: hostfs(path)
    yield "a mount", mount_here
    yield "remount /", lambda: mount("", "/", "", MS_REMOUNT) + make(MADE)
    yield (
        "remount / as a bind",
        lambda: mount("", "/", "", MS_REMOUNT | MS_BIND) + make(MADE),
    )
    yield "a file in /etc", lambda: make(MADE)
    yield "a file of the shown folder", lambda: write(victim)
    yield "a new file in the shown folder", lambda: make(shown / "made")
    yield "mode of a file", lambda: victim.chmod(0o777) or "changed"
    yield "a named pipe of the host", lambda: write(shown / "pipe")
    yield "a user namespace", lambda: call(272, NEWUSER) or "made"
    yield "a mount namespace", lambda: call(272, NEWNS) or "made"
    yield "a child in a user namespace", lambda: child_in(NEWUSER)
    yield "a user namespace as a 32-bit program", lambda: call_32(310, NEWUSER)
    yield "PID 1's mount namespace", lambda: call(308, os.open("/proc/1/ns/mnt", 0), 0) or "entered"
    for name, flags in (("", 0), (" as a bind", MS_BIND)):
        yield (
            f"remount /{name} in those",
            lambda flags=flags: mount("", "/", "", MS_REMOUNT | flags) + make(MADE),
        )
    yield "chroot", lambda: os.chroot("/") or "done"
    yield "a handle of the root", handle_of_root
    yield "a program of the kernel's", kernel_helper
    yield "a kernel module", module
    yield "bpf", lambda: call(321, 0, ctypes.c_char_p(bytes(128)), 128) or "done"
    yield "perf_event_open", lambda: call(298, bytes(128), -1, 0, -1, 0) or "done"
    yield "ioperm", lambda: call(173, 0x80, 1, 1) or "done"
    yield "ptrace of PID 1", traced_init
    yield "memory of PID 1", lambda: write("/proc/1/mem")
    yield "files of PID 1", lambda: [*Path("/proc/1/root/").iterdir()]
    yield "memory of the controller", lambda: write(f"/proc/{CONTROLLER}/mem")
    yield "command line of the controller", others
    yield "a signal to the controller", signalled
    for name in ("mem", "port", "kmsg", "kvm", "fuse", "loop0", "ram0", "dm-0", "mmapper", "ubdb"):
        yield f"/dev/{name}", lambda name=name: read(f"/dev/{name}")
    yield "a device made", lambda: device("memory", 1, 1)
    yield "the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 1e9) or "set"
    yield "the host's name", lambda: socket.sethostname("x") or "set"
    yield "sysrq", lambda: write("/proc/sysrq-trigger", "h")
    yield "a setting of the kernel", same_setting
    yield "a setting below /sys", lambda: write("/sys/power/state", "x")
    yield "swapon", lambda: call(167, str(victim).encode(), 0) or "done"
    yield "root by a setuid program", setuid_root
    yield "TCP to the host", lambda: connect(socket.AF_INET, ("127.0.0.1", PORT))
    yield "a unix socket of the host", lambda: connect(socket.AF_UNIX, str(shown / "socket"))
    for kind in ("relative", "renamed"):
        path = str(shown / kind)
        yield f"a {kind} socket of the host", lambda path=path: connect(socket.AF_UNIX, path)
    below = f"/proc/1/root{shown}/socket"
    yield "that socket by PID 1's root", lambda: connect(socket.AF_UNIX, below)
    abstract = f"\0powercut-{ABSTRACT}"
    yield "an abstract socket of the host", lambda: connect(socket.AF_UNIX, abstract)
    yield "a packet to the world", datagram
    yield "the machine below a virtual one", lambda: socket.socket(40, 1).close() or "AF_VSOCK"
    yield "crypto of the kernel", lambda: socket.socket(38, 5).close() or "AF_ALG"
    yield "/dev/shm of the host", lambda: Path(f"/dev/shm/powercut-{ABSTRACT}").stat() and "seen"
    yield "/tmp of the host", lambda: Path(f"/tmp/powercut-{ABSTRACT}").stat() and "seen"
    if "frugal" not in sys.argv[5:]:
        yield "memory as files in /tmp", lambda: fill("/tmp")
        yield "memory as files in /dev/shm", lambda: fill("/dev/shm")
    if "endless" in sys.argv[5:]:
        yield "processes without end", processes


def main() -> None:
    """Tries all of it; lines go to descriptor POWERCUT_FD, else to standard output."""
    out = int(os.environ.get("POWERCUT_FD", "1"))
    if "nobody" in sys.argv[5:]:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for name, attempt in tries():
        try:
            reached = str(attempt() or "")
        except (OSError, subprocess.SubprocessError, ValueError):
            reached = ""
        os.write(out, json.dumps([name, reached]).encode() + b"\n")


main()
