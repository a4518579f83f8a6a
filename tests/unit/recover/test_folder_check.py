# SPDX-License-Identifier: Apache-2.0
"""What a check of one state leaves is not there for the next one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_folder import check_folder

from powercut.model.errors import HostError
from powercut.model.machine_identity import HOST_NAME, MachineIdentity
from powercut.model.observation import Observation
from powercut.recover.native import folder as native
from powercut.sandbox import check
from powercut.sandbox.confined import Sandboxes
from powercut.sandbox.rebooted import BOOT_ID, UP_S, new_clocks

# A careless check: it reads a copy, which it only makes where there is something to copy.
CARELESS = """
[ -s "$1/db" ] && cp "$1/db" "$2/copy"
echo "= $(cat "$2/copy" 2>/dev/null)" >&3
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the check may not write in, and that is not below /tmp."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        yield Path(name)


def state(folder: Path, name: str, text: str) -> Path:
    made = folder / name
    made.mkdir()
    (made / "db").write_text(text)
    return made


def checked(script: str, here: Path, folder: Path, *words: str) -> Observation:
    command = ("/bin/sh", "-c", script, "sh", str(folder), *words)
    return check_folder(command, here, folder, Path("/"), timeout_s=60)


def test_where_there_is_no_sandbox_no_check_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "sandboxes", lambda: Sandboxes("namespaces are forbidden", ""))
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    with pytest.raises(HostError, match="namespaces are forbidden") as raised:
        checked("echo '= 1' >&3", full, folder)
    assert "user namespaces" in str(raised.value.hint)


def test_one_that_prints_without_end_ends_in_time(tmp_path):
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    seen = check_folder(("/usr/bin/yes",), full, folder, Path("/"), timeout_s=1)
    assert (seen.complete, seen.failure) == (False, "it did not end within 1 s")


@pytest.mark.root
def test_what_is_mounted_beside_it_does_not_keep_a_check_from_its_state(tmp_path):
    """A mount that can have no other owners, such as a FUSE of somebody else's, comes and goes
    anywhere below what the command names.  The state's files were nobody's then, and an honest
    store could not open them for writing."""
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    beside = tmp_path / "beside"
    beside.mkdir()
    subprocess.run(["mount", "-t", "proc", "proc", str(beside)], check=True)
    try:
        script = f'set -e; cd "$1"; : {tmp_path}; echo 25 >>db; echo "= $(stat -c %u db)" >&3'
        seen = checked(script, full, folder)
    finally:
        subprocess.run(["umount", str(beside)], check=True)
    assert (seen.failure, seen.lines) == ("", b"= 0\n")
    assert (full / "db").read_text() == "2425\n"
    assert (full / "db").stat().st_uid == 0


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm", "/run"])
def test_a_copy_of_one_state_does_not_vouch_for_the_next(tmp_path, place):
    folder = state(tmp_path, "d", "")
    assert checked(CARELESS, state(tmp_path, "full", "24"), folder, place).lines == b"= 24\n"
    assert checked(CARELESS, state(tmp_path, "empty", ""), folder, place).lines == b"= \n"
    assert not Path(place, "copy").exists()


def test_a_check_that_writes_elsewhere_says_nothing(tmp_path, home):
    """Its copy cannot be made: that it then finds nothing is no loss."""
    folder = state(tmp_path, "d", "")
    seen = checked(CARELESS, state(tmp_path, "full", "24"), folder, str(home))
    assert not seen.complete
    assert "Read-only file system" in seen.failure
    assert "a check may write in the folder, /tmp, /run, /var/tmp, /dev/shm, and nowhere" in (
        seen.failure
    )
    assert list(home.iterdir()) == []


def test_it_may_write_in_the_folder_and_in_memory(tmp_path):
    script = 'echo 1 > "$1/new" && f=$(mktemp) && echo 2 > "$f" && cat "$1/new" "$f" >&3'
    full = state(tmp_path, "full", "24")
    seen = checked(script, full, state(tmp_path, "d", ""))
    assert (seen.complete, seen.lines) == (True, b"1\n2\n")
    assert (full / "new").read_text() == "1\n"


def test_what_its_command_is_made_of_is_there(tmp_path):
    """A program below /tmp, called in its folder, with what lies beside it."""
    program = tmp_path / "bin" / "check"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/beside" >&3\npwd >&3\n')
    program.chmod(0o755)
    (tmp_path / "beside").write_text("there\n")
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    seen = check_folder(("./check",), full, folder, program.parent, timeout_s=60)
    assert seen.lines.decode().splitlines() == ["there", os.fspath(program.parent)]


def test_the_machine_has_booted_again(tmp_path):
    """Another boot each time, which was a moment ago, and a loopback of its own."""
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    script = (
        f"cat {BOOT_ID} >&3; cut -d. -f1 /proc/uptime >&3; sed -n 's/^btime //p' /proc/stat >&3"
    )
    seen = [checked(script, full, folder).lines.decode().split() for _ in range(2)]
    boots = [boot for boot, _, _ in seen]
    assert len({*boots, Path(BOOT_ID).read_text().strip()}) == 3
    if new_clocks():
        now = time.time()
        assert all(int(up) <= UP_S + 60 for _, up, _ in seen)
        assert all(abs(now - UP_S - int(at)) < 60 for _, _, at in seen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "full"]


NAMES = """import os, socket, uuid
name = socket.gethostname()
files = [open(path).read() for path in ("/etc/machine-id", "/etc/hostname") if os.path.exists(path)]
said = ["%012x" % uuid.getnode(), name, socket.gethostbyname(name), *map(str.strip, files)]
os.write(3, " ".join([str(os.getpid()), *said]).encode() + b"\\n")
"""


def test_it_is_the_machine_of_the_run(tmp_path):
    """Its card, names and machine-id; and its pids are of this boot."""
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    command = (sys.executable, "-I", "-S", "-c", NAMES)
    machine = MachineIdentity(77)
    for boot in (machine.boot_for("one"), machine.boot_for("other", level=2)):
        seen = check_folder(command, full, folder, Path("/"), boot, timeout_s=60)
        pid, mac, name, address, *files = seen.lines.decode().split()
        assert (mac, name, address) == (machine.mac.replace(":", ""), HOST_NAME, "127.0.1.1")
        there = [Path(path).exists() for path in ("/etc/machine-id", "/etc/hostname")]
        assert files == [
            text for text, has in zip((machine.machine_id, HOST_NAME), there, strict=True) if has
        ]
        assert int(pid) == boot.first_pid


LOOKS_FOR = """import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
shared = libc.shmget(int(sys.argv[1]), 4096, 0) >= 0
reached = []
for family, address in (
    (socket.AF_UNIX, "\\0" + sys.argv[2]), (socket.AF_INET, ("127.0.0.1", int(sys.argv[3])))
):
    try:
        socket.socket(family).connect(address)
        reached.append(family)
    except OSError:
        pass
os.write(3, b"%d %d\\n" % (shared, len(reached)))
"""


def test_nothing_in_the_memory_of_the_host_is_there(tmp_path):
    """System V shared memory, an abstract socket and loopback: what a daemon keeps is gone."""
    libc, key = ctypes.CDLL(None, use_errno=True), 0x50000000 + os.getpid()
    name = f"powercut-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        abstract.bind(f"\0{name}")
        abstract.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        words = [str(key), name, str(tcp.getsockname()[1])]
        memory = libc.shmget(key, 4096, 0o1600)
        assert memory >= 0
        try:
            here = subprocess.run(
                ["python3", "-c", LOOKS_FOR.replace("os.write(3", "os.write(1"), *words],
                capture_output=True, check=True,
            )  # fmt: skip
            assert here.stdout == b"1 2\n"
            folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
            command = ("python3", "-c", LOOKS_FOR, *words)
            seen = check_folder(command, full, folder, Path("/"), timeout_s=60)
            assert (seen.complete, seen.lines) == (True, b"0 0\n")
        finally:
            libc.shmctl(memory, 0, None)


CONNECTS = """import os, socket, sys
for path in sys.argv[1:]:
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
        os.write(3, b"reached\\n")
    except OSError:
        os.write(3, b"no\\n")
"""


def test_sockets_of_the_host_are_covered_and_those_that_have_gone_are_not(
    tmp_path, home, monkeypatch
):
    """Whatever becomes of a socket between the list of them and its cover, the check runs."""
    kept, gone, folder_gone, now_a_file, now_a_link, now_a_folder = paths = [
        home / name / "socket" for name in ("kept", "gone", "without", "file", "link", "folder")
    ]
    with contextlib.ExitStack() as stack:
        for path in paths:
            path.parent.mkdir()
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(os.fspath(path))
            listener.listen()
        listed = check.seen_sockets

        def sockets_then_they_go(shown, kept):
            found = listed(shown, kept)
            assert set(paths) <= {path for _, path in found}
            for path in paths[1:]:
                path.unlink()
            folder_gone.parent.rmdir()
            now_a_file.write_text("")
            now_a_link.symlink_to(kept)
            now_a_folder.mkdir()
            return found

        monkeypatch.setattr(check, "seen_sockets", sockets_then_they_go)
        command = ("python3", "-c", CONNECTS, os.fspath(kept), os.fspath(gone))
        folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
        seen = check_folder(command, full, folder, Path("/"), timeout_s=60)
    assert (seen.complete, seen.lines, seen.failure) == (True, b"no\nno\n", "")
