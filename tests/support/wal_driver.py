# SPDX-License-Identifier: Apache-2.0
"""Runs the `wal` program on the host and reads what it says.

The kernel's refusals are real ones: a seccomp filter makes chosen system calls of the
program under test return an error (seccomp(2)), no part of it is replaced.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from parts import make_part

from powercut.channel.wire import Decoder, Message, MessageType
from powercut.model.observation import Extent
from powercut.wal.layout import SlotState

RUN_ID = "00112233445566778899aabbccddeeff"
TIMEOUT_S = 120
ERRNO_EIO = 5

# x86-64 system call numbers (arch/x86/entry/syscalls/syscall_64.tbl)
PREAD64, FSYNC, FDATASYNC, GETDENTS64, PWRITEV2 = 17, 74, 75, 217, 328
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_OFFSET, _ARGUMENTS_OFFSET = 0, 16


@dataclass(frozen=True)
class Refused:
    """A system call that fails with EIO, if argument `index` is `value` (None: always)."""

    number: int
    index: int | None = None
    value: int = 0


def _program(refused: tuple[Refused, ...]) -> bytes:
    """The filter as classic BPF (linux/filter.h); low halves of arguments are compared."""

    def statement(code: int, operand: int, skip: int = 0) -> bytes:
        return struct.pack("<HBBI", code, 0, skip, operand)

    code = b""
    for rule in refused:
        if rule.index is None:
            code += statement(_LOAD, _NUMBER_OFFSET) + statement(_JUMP_EQUAL, rule.number, 1)
        else:
            code += statement(_LOAD, _NUMBER_OFFSET) + statement(_JUMP_EQUAL, rule.number, 3)
            code += statement(_LOAD, _ARGUMENTS_OFFSET + 8 * rule.index)
            code += statement(_JUMP_EQUAL, rule.value, 1)
        code += statement(_RETURN, _ERRNO | ERRNO_EIO)
    return code + statement(_RETURN, _ALLOW)


def refusing(*refused: Refused) -> Callable[[], None]:
    """For preexec_fn: makes system calls fail from here on."""
    if platform.machine() != "x86_64":
        pytest.skip("the filter knows the system call numbers of x86-64 only")
    program = _program(refused)
    code = ctypes.create_string_buffer(program, len(program))
    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(code))

    def install() -> None:
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_, code, 0):
            raise OSError(ctypes.get_errno(), "prctl PR_SET_SECCOMP")

    return install


def limited(file_bytes: int) -> Callable[[], None]:
    """For preexec_fn: no file may grow beyond `file_bytes`; EFBIG instead of a signal."""

    def install() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return install


@dataclass(frozen=True)
class Outcome:
    """What a run said and how it ended."""

    status: int
    messages: tuple[Message, ...]
    stderr: str
    packets: tuple[bytes, ...] = field(default=(), repr=False)

    def of(self, kind: MessageType) -> list[Message]:
        """The messages of one kind."""
        return [message for message in self.messages if message.type is kind]

    @property
    def acked(self) -> int:
        """The highest LSN acknowledged; 0 if none."""
        return max((message.lsn for message in self.of(MessageType.ACK)), default=0)

    @property
    def error(self) -> tuple[int, str]:
        """errno and call of the one ERROR."""
        (message,) = self.of(MessageType.ERROR)
        return message.value, message.text

    @property
    def extents(self) -> list[tuple[int, int, SlotState, int, int]]:
        """slot, count, state, lsn, detail of every extent."""
        found: list[Extent] = []
        for message in self.of(MessageType.EXTENT):
            for slot, count, lsn, state, detail in struct.iter_unpack("<QQQII", message.payload):
                found.append(Extent(slot, count, SlotState(state), lsn, detail))
        return [(e.slot, e.count, e.state, e.lsn, e.detail) for e in found]

    @property
    def facts(self) -> dict[str, str]:
        """FACTs by key."""
        pairs = (message.text.partition("=") for message in self.of(MessageType.FACT))
        return {key: value for key, _, value in pairs}


def decode(data: bytes) -> tuple[Message, ...]:
    """All complete messages in `data`."""
    return tuple(Decoder().feed(data))


class Wal:
    """The program."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def run(
        self, verb: str, *, preexec: Callable[[], None] | None = None, **keys: object
    ) -> Outcome:
        """Runs it to its end with the channel on stdout."""
        keys.setdefault("run_id", RUN_ID)
        done = subprocess.run(
            [self.binary, verb, *(f"{key}={value}" for key, value in keys.items())],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            preexec_fn=preexec,
            restore_signals=False,
        )
        return Outcome(done.returncode, decode(done.stdout), done.stderr.decode())

    def write(self, *, preexec: Callable[[], None] | None = None, **keys: object) -> Outcome:
        """`wal write`; the layout's keys are the caller's."""
        return self.run("write", preexec=preexec, **keys)

    def read(self, *, preexec: Callable[[], None] | None = None, **keys: object) -> Outcome:
        """`wal read`."""
        return self.run("read", preexec=preexec, **keys)

    def start(self, channel: int, **keys: object) -> subprocess.Popen[bytes]:
        """Starts `wal write` with an open descriptor as its channel."""
        keys.setdefault("run_id", RUN_ID)
        arguments = [f"{key}={value}" for key, value in keys.items()]
        return subprocess.Popen(
            [self.binary, "write", *arguments, f"channel=fd:{channel}"], pass_fds=[channel]
        )

    def write_packets(self, **keys: object) -> Outcome:
        """`wal write` with a channel that keeps the borders of its write() calls."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            ours.settimeout(TIMEOUT_S)
            process = self.start(theirs.fileno(), **keys)
            theirs.close()
            packets = tuple(iter(lambda: ours.recv(1 << 18), b""))
            status = process.wait(timeout=TIMEOUT_S)
        return Outcome(status, decode(b"".join(packets)), "", packets)


def build(folder: Path) -> Wal:
    """Builds the program into `folder`."""
    if not (shutil.which("make") and shutil.which("cc")):
        pytest.skip("make or a C compiler is missing (Debian: build-essential)")
    for header, package in (("libaio.h", "libaio-dev"), ("liburing.h", "liburing-dev")):
        if not Path("/usr/include", header).exists():
            pytest.skip(f"{header} is missing (Debian: {package})")
    made = make_part("workloads", folder, "CFLAGS=-O1")
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout + made.stderr == ""
    return Wal(folder / "bin" / "wal")


def probe_engine(wal: Wal, engine: str, folder: Path) -> None:
    """Skips the test if the sandbox forbids the engine."""
    probe = wal.write(path=folder / "probe", engine=engine, records=1, sync="none")
    if probe.status:
        number, call = probe.error
        pytest.skip(f"{engine} is not to be had here: {call}: {os.strerror(number)}")


def probe_direct(folder: Path) -> None:
    """Skips the test if the file system takes no O_DIRECT."""
    path = folder / "direct-probe"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"no O_DIRECT in {folder}: {error.strerror}")
