# SPDX-License-Identifier: Apache-2.0
"""A hostile check on this host, of a program and of a captured folder: what it reaches."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_tries import PROGRAM, Bait, bait, reached

from powercut.recover.native.check import CheckSandbox, unavailable
from powercut.recover.native.folder import check_folder, confined_command
from powercut.recover.plan import HostRoot
from powercut.sandbox import check

LEFT = {"a named pipe of the host"}
"""No view of files keeps a check from a pipe that its user may open."""

LEFT_TO_COMMAND = LEFT | {
    *("a user namespace", "a mount namespace", "a child in a user namespace", "chroot"),
    "a user namespace as a 32-bit program",
    *("the machine below a virtual one", "crypto of the kernel"),
}
"""A captured command is its user's own.  Namespaces of its own give it nothing: what it sees stays
read-only in them; its files in places of no state lie on the disk until the cut."""


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MEMORY_MAX", 64 << 20)


def of_folder(hung: Bait, tmp_path: Path) -> bytes:
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    seen = check_folder(hung.command, state, folder, Path("/"), timeout_s=120)
    assert seen.complete, seen.failure
    return seen.lines


def of_program(hung: Bait, tmp_path: Path) -> bytes:
    if why := unavailable():
        pytest.skip(why)
    environment = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "POWERCUT_FD=3")
    memory = os.memfd_create("tree")
    os.truncate(memory, 8192)
    try:
        with CheckSandbox(HostRoot("/", environment), hung.command, ()) as sandbox:
            checked = sandbox.check(memory, 0, timeout_s=120)
    finally:
        os.close(memory)
    assert checked.status == 0, checked.said
    return checked.lines


def of_command(hung: Bait, tmp_path: Path) -> bytes:
    """A command that is captured, without the recorder, which needs /dev/fuse."""
    folder, memory = tmp_path / "folder", tmp_path / "memory"
    folder.mkdir()
    memory.mkdir()
    argv = confined_command(hung.command, folder, Path("/"), memory)
    return subprocess.run(argv, check=True, capture_output=True, timeout=120).stdout


@pytest.mark.parametrize(
    ("of", "left"), [(of_folder, LEFT), (of_program, LEFT), (of_command, LEFT_TO_COMMAND)]
)
def test_it_reaches_nothing(of, left, tmp_path):
    with bait(*(["frugal"] if of is of_command else [])) as hung:
        found = reached(of(hung, tmp_path))
        assert hung.heard() == ["pipe written"]
    assert len(found) >= 50
    assert {name for name, what in found.items() if what} <= left


def test_programs_of_32_bits_run(tmp_path):
    """Their harmless calls are made (getpid), where the kernel has any."""
    script = """
import os, sys
source = open(sys.argv[1]).read().removesuffix("\\nmain()\\n")
sys.argv[1:] = ["/", "0", "0", "0", "frugal"]
exec(source)
os.write(3, call_32(20, 0).encode())
"""
    here = subprocess.run(
        [sys.executable, "-c", script.replace("os.write(3", "os.write(1"), str(PROGRAM)],
        capture_output=True,
        check=False,
    )
    if here.stdout != b"done":
        pytest.skip("this kernel runs no 32-bit program")
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    command = (os.path.realpath(sys.executable), "-c", script, str(PROGRAM))
    seen = check_folder(command, state, folder, Path("/"), timeout_s=120)
    assert (seen.lines, seen.failure) == (b"done", "")


def test_root_s_check_makes_no_processes_without_end(tmp_path):
    """Whose kernel counts them for each namespace: to root no limit of a user applies."""
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    if os.geteuid() or release < (6, 14):
        pytest.skip("an ordinary user has RLIMIT_NPROC; before Linux 6.14 root has no limit")
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    command = ("/bin/sh", "-c", "cat /proc/sys/kernel/pid_max >&3")
    seen = check_folder(command, state, folder, Path("/"), timeout_s=60)
    assert seen.lines == b"4096\n"
    assert Path("/proc/sys/kernel/pid_max").read_text() != "4096\n"
