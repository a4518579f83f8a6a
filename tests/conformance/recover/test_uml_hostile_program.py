# SPDX-License-Identifier: Apache-2.0
"""A hostile program on the host's files in User-Mode Linux: root of its kernel, and no way out.

Two belts are tried: the guest's (what programs may do in it) with each of the host's sandboxes and
without any, and the host's alone (what the kernel's process may do), as root and as another user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_tries import bait, reached

from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.recover.uml.boot import guard_binary, unavailable
from powercut.recover.uml.engine import UmlEngine
from powercut.sandbox import kernel, landlock
from powercut.sandbox.confined import Sandboxes, sandboxes
from powercut.sandbox.kernel import IN_MEMORY, kernel_bubblewrap, kernel_sandbox

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

HARMLESS = {"sysrq": "/proc/sysrq-trigger written"}
"""Its own kernel's."""


@pytest.fixture(params=["bubblewrap", "landlock", "none"])
def belt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The sandbox around the kernel's process."""
    if request.param == "bubblewrap" and (why := kernel_bubblewrap()):
        pytest.skip(why)
    if request.param != "bubblewrap":
        monkeypatch.setattr(kernel, "kernel_bubblewrap", lambda: "forbidden")
    if request.param == "landlock" and (why := sandboxes().landlock):
        pytest.skip(why)
    if request.param == "none":
        monkeypatch.setattr(kernel, "sandboxes", lambda: Sandboxes("forbidden", "too old"))
    return str(request.param)


def _in_memory() -> set[Path]:
    """What a kernel, or the program, may leave in the host's memory."""
    left = ("powercut-memory-*", "helped*", "much*", "vm_file*")
    return {path for name in left for path in IN_MEMORY.glob(name)}


def _is_anothers(folder: Path) -> bool:
    """Whether a process of this host still has the folder's kernel: another test's does."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (process / "cmdline").read_bytes():
                return True
    return False


def tried(tmp_path: Path, *words: str) -> dict[str, str]:
    """What the program reached; nothing of the host is changed."""
    base = tmp_path / "base"
    base.touch()
    os.truncate(base, 64 << 20)
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin")
    subprocess.run([str(mkfs), "-q", str(base)], check=True)
    before = _in_memory()
    with bait(*words) as hung:
        environment = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "POWERCUT_FD=3")
        host = HostRoot("/", environment, (str(hung.folder),))
        plan = RecoveryPlan.of("ext4", "", "/host/mnt", hung.command, host=host)
        with UmlEngine(base, plan, programs={}) as engine:
            engine.start(timeout_s=180)
            seen = engine.recover((), timeout_s=400)
        assert hung.heard() == []
        assert [path for path in _in_memory() - before if not _is_anothers(path)] == []
    found = reached(seen.lines)
    assert len(found) >= 50, seen.failure
    return found


def test_it_reaches_nothing(belt: str, tmp_path: Path) -> None:
    assert {name: what for name, what in tried(tmp_path).items() if what} == HARMLESS


@pytest.mark.campaign
def test_the_table_of_what_it_reaches(tmp_path: Path) -> None:
    """Prints it (-s), processes without end included."""
    found = tried(tmp_path, "endless")
    for name, what in found.items():
        sys.stdout.write(f"| {name} | {what or 'nothing'} |\n")
    assert {name: what for name, what in found.items() if what} == HARMLESS


BREAKS_OUT = """
import ctypes, os, socket, sys
def attempt(name, what):
    try:
        what()
    except (OSError, AttributeError):
        return
    print(name)
def call(*arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
folder, memory, number = sys.argv[1], os.environ["TMPDIR"], int(sys.argv[2])
open(memory + "/memory", "w").write("x" * 4096)
attempt("victim", lambda: open(folder + "/victim", "w"))
attempt("made", lambda: open(folder + "/made", "w"))
attempt("etc", lambda: open(f"/etc/powercut-made-{number}", "w"))
attempt("shm", lambda: open(f"/dev/shm/powercut-made-{number}", "w"))
attempt("tmp", lambda: open(f"/tmp/powercut-made-{number}", "w").write("x" * 100000))
attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect(folder + "/socket"))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect(f"\\0powercut-{number}"))
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[3]))))
attempt("signal", lambda: os.kill(number, 0))
attempt("setting", lambda: open("/proc/sys/vm/swappiness", "r+"))
attempt("mount", lambda: call(165, b"none", b"/mnt", b"tmpfs", 0, 0))
attempt("user namespace", lambda: call(272, 0x10000000))
attempt("mount namespace", lambda: call(272, 0x20000))
attempt("clone", lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0))
attempt("module", lambda: call(175, b"x", 1, b""))
attempt("bpf", lambda: call(321, 0, ctypes.c_char_p(bytes(128)), 128))
attempt("chroot", lambda: os.chroot("/usr"))
attempt("kvm", lambda: open("/dev/kvm", "r+b", buffering=0))
attempt("capability", lambda: os.chown(folder + "/victim", 1, 1))
def fill():
    with open(memory + "/much", "wb", buffering=0) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
attempt("memory", fill)
print("end")
"""

USER = 4242
BELT = landlock.__file__
LEFT_WITHOUT = {
    "bubblewrap": {"shm"},  # its own
    "landlock": {"memory"},
    "none": {"victim", "made", "etc", "setting", "shm", "tmp", "kvm", "signal", "memory"},
}
"""What the process of the kernel itself may still do.  Without bubblewrap its memory has no limit;
without a sandbox at all it has its user's rights, but for capabilities and system calls."""


@pytest.fixture(params=["caller", pytest.param("another", marks=pytest.mark.root)])
def as_user(request: pytest.FixtureRequest) -> list[str]:
    """What stands before a command of the caller's, or of an ordinary user's."""
    if request.param == "caller":
        return []
    return [str(shutil.which("setpriv")), f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def test_the_kernels_process_alone(
    belt: str, as_user: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in its place is started by the guard, as that is."""
    with bait() as hung:
        # Where that user may look: this tree may lie in a folder of root's alone.
        guard, belt_file = (shutil.copy(one, hung.folder) for one in (guard_binary(), BELT))
        with monkeypatch.context() as patched:
            patched.setattr(landlock, "__file__", belt_file)
            if as_user:  # who would make it
                patched.setattr(os, "geteuid", lambda: USER)
            sandbox = kernel_sandbox(IN_MEMORY, 8 << 20)
        if as_user and sandbox.made:
            os.chown(sandbox.made, USER, USER)
        number, port = hung.command[6], hung.command[5]
        python = os.path.realpath(sys.executable)
        argv = [*as_user, *sandbox.argv, guard, python, "-I", "-S", "-c", BREAKS_OUT]
        alive, ours = os.pipe()
        try:
            done = subprocess.run(
                [*argv, str(hung.folder), number, port],
                stdin=alive,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                env={"TMPDIR": str(sandbox.memory)},
            )
        finally:
            os.close(ours)
            os.close(alive)
            sandbox.remove()
            for place in ("/dev/shm", "/tmp", "/etc"):
                Path(place, f"powercut-made-{number}").unlink(missing_ok=True)
    found = done.stdout.splitlines()
    assert found[-1:] == ["end"], done.stderr
    assert set(found[:-1]) <= LEFT_WITHOUT[belt]
