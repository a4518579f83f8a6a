# SPDX-License-Identifier: Apache-2.0
"""A hostile check on this host, of a program and of a captured folder: what it reaches."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from checked_folder import check_folder
from hostile_tries import PROGRAM, Bait, bait, reached

from powercut.model.machine_identity import ANY_MACHINE
from powercut.recover.native import folder as folder_checks
from powercut.recover.native.check import CheckSandbox, unavailable
from powercut.recover.native.folder import confined_command
from powercut.recover.plan import HostRoot
from powercut.sandbox import check
from powercut.sandbox.users import FIRST, as_another, for_all, users_apart

LEFT_TO_COMMAND = {
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
    ("of", "left"), [(of_folder, set()), (of_program, set()), (of_command, LEFT_TO_COMMAND)]
)
def test_it_reaches_nothing(of, left, tmp_path):
    with bait(*(["frugal"] if of is of_command else [])) as hung:
        found = reached(of(hung, tmp_path))
        assert hung.heard() == []
    assert len(found) >= 50
    assert {name for name, what in found.items() if what} <= left


SHOWN = """
import os, socket, sys
for name in os.listdir(sys.argv[1]):
    try:
        socket.socket(socket.AF_UNIX).connect(f"{sys.argv[1]}/{name}")
        os.write(3, name.encode())
    except OSError:
        os.write(3, b".")
"""


def test_what_is_shown_of_an_empty_place_holds_no_socket():
    """One that is bound by a relative path: of a name that no list has."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place, socket.socket(socket.AF_UNIX) as host:
        folder, state, shown = (Path(place, name) for name in ("folder", "state", "shown"))
        for path in (folder, state, shown):
            path.mkdir()
        with contextlib.chdir(shown):
            host.bind("socket")
        host.listen()
        command = (os.path.realpath(sys.executable), "-I", "-S", "-c", SHOWN, str(shown))
        seen = check_folder(command, state, folder, Path("/"), timeout_s=60)
    assert (seen.lines, seen.failure) == (b".", "")


UNVEILED = f"""
import sys
sys.path[:0] = {sys.path!r}
import os, socket, subprocess
from pathlib import Path
from powercut.recover.native.folder import FolderSandbox
place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
below = place / "below"
below.mkdir()
for number in "12":
    upper, work, over = (place / (name + number) for name in ("upper", "work", "over"))
    for path in (upper, work, over):
        path.mkdir()
    layers = f"lowerdir={{below}},upperdir={{upper}},workdir={{work}},userxattr"
    subprocess.run(["mount", "-t", "overlay", "none", "-o", layers, over], check=True)
    below = over
(place / "folder").mkdir()
command = (sys.executable, "-I", "-S", "-c", sys.argv[2], str(below))
listening = []
with FolderSandbox(command, place / "folder", Path("/"), 60) as sandbox:
    for state, name in (("first", "socket"), ("second", "other"), ("third", "other")):
        (below / name).unlink(missing_ok=True)
        listening.append(socket.socket(socket.AF_UNIX))
        listening[-1].bind(str(below / name))
        listening[-1].listen()
        (below / name).chmod(0o777)
        (place / "states" / state).mkdir(parents=True)
        seen = sandbox(place / "states" / state)
        print(seen.lines, seen.failure)
os.chdir("/")
"""


def test_where_no_overlay_can_be_made_the_sockets_there_are_are_covered():
    """Over an overlay of an overlay the kernel makes none.  For each state they are those of then,
    also where one has the name of another."""
    namespace = ["unshare", "--mount"]
    if os.geteuid():
        namespace += ["--user", "--map-root-user"]
    with tempfile.TemporaryDirectory(dir="/var/lib" if os.geteuid() == 0 else Path.home()) as place:
        done = subprocess.run(
            [*namespace, sys.executable, "-c", UNVEILED, place, SHOWN],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stdout) == (0, "b'.' \nb'..' \nb'..' \n"), done.stderr


BELOW = f"""
import sys
sys.path[:0] = {sys.path!r}
import os, subprocess
from pathlib import Path
from checked_folder import check_folder
place = Path(sys.argv[1])
for name in ("folder", "state", "below"):
    (place / name).mkdir()
(place / "word").write_text("here")
(place / "word").chmod(0o600)
subprocess.run(["mount", "-t", "proc", "none", place / "below"], check=True)
script = 'cat "$0/word" /proc/self/uid_map >&3; test -e "$0/below/self"'
command = ("/bin/sh", "-c", script, str(place))
seen = check_folder(command, place / "state", place / "folder", Path(sys.argv[2]), timeout_s=60)
print(*seen.lines.decode().split(), seen.failure)
"""


@pytest.mark.mounts
@pytest.mark.parametrize("where", ["/", "/tmp"])
def test_a_file_system_below_that_cannot_have_other_owners_keeps_nothing_from_being_apart(where):
    """As FUSE's cannot.  One may be mounted at any time: in the shown folder of one check another
    check's was, which ended the first with "Invalid argument".  In /tmp all of that is shown, and
    the folder once more."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        done = subprocess.run(
            ["unshare", "--mount", sys.executable, "-c", BELOW, place, where],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.stdout.split() == ["here", "0", str(FIRST), "2147483648"], done.stderr


REFUSED = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from powercut.model.errors import HostError
from powercut.recover.native import folder as folder_checks
from powercut.recover.native.check import unavailable
from checked_folder import check_folder
from powercut.recover.native.folder import confined_command
folder, state, memory = (Path(sys.argv[1], name) for name in ("folder", "state", "memory"))
for path in (folder, state, memory):
    path.mkdir()
print(bool(unavailable()))
for attempt in (
    lambda: check_folder(("/bin/true",), state, folder, Path("/"), timeout_s=60),
    lambda: confined_command(("/bin/true",), folder, Path("/"), memory),
):
    try:
        print(attempt())
    except HostError as error:
        print("bubblewrap" in str(error), "user namespaces" in error.hint)
"""


@pytest.mark.userns
def test_where_namespaces_are_forbidden_nothing_runs_on_the_host(tmp_path):
    """To root without capabilities, or to a user (user.max_user_namespaces)."""
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    namespace = ["unshare", "--user", "--map-current-user", "--keep-caps"]
    without = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--"]
    done = subprocess.run(
        [*namespace, "sh", "-c", script, "sh", *without, sys.executable, "-c", REFUSED, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = "True\nTrue True\nTrue True\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr


@pytest.mark.bits32
def test_programs_of_32_bits_run(tmp_path):
    """Their harmless calls are made (getpid), where the kernel has any."""
    script = """
import os, sys
source = open(sys.argv[1]).read().removesuffix("\\nmain()\\n")
sys.argv[1:] = ["/", "0", "0", "0", "frugal"]
exec(source)
os.write(3, call_32(20, 0).encode())
"""
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    command = (os.path.realpath(sys.executable), "-c", script, str(PROGRAM))
    seen = check_folder(command, state, folder, Path("/"), timeout_s=120)
    assert (seen.lines, seen.failure) == (b"done", "")


WHO = """
import json, os, sys
with open(sys.argv[1] + "/kept") as kept, open(sys.argv[1] + "/new", "w") as new:
    new.write(kept.read())
os.chown(new.name, os.getuid(), os.getgid())
with open("/proc/self/uid_map") as file:
    inside, outside, _ = map(int, file.read().split())
try:
    secret = len(open("/etc/shadow").read(1))
except OSError:
    secret = 0
os.write(3, json.dumps([os.getuid() - inside + outside, secret]).encode())
"""


def is_open(folder):
    """Whether others than root may look there, or it lies where a check sees what it is given."""
    return any(folder.is_relative_to(place) for place in check.EMPTY) or for_all([folder.parent])


def test_to_the_host_root_s_check_of_a_folder_is_nobody_it_knows(tmp_path):
    """Nor may it read what root alone may, but for its state, which stays root's."""
    other = os.geteuid() == 0 and users_apart([tmp_path]) and is_open(tmp_path)
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    (state / "kept").write_text("kept")
    (state / "kept").chmod(0o600)
    command = (os.path.realpath(sys.executable), "-I", "-S", "-c", WHO, str(folder))
    seen = check_folder(command, state, folder, Path("/"), timeout_s=60)
    assert seen.failure == ""
    assert not other or json.loads(seen.lines) == [FIRST, 0]
    assert ((state / "new").read_text(), (state / "new").stat().st_uid) == ("kept", os.geteuid())


def test_nor_is_root_s_check_of_a_program():
    """Whom the sandbox is made by, if all may see what it shows."""
    memory = os.memfd_create("tree")
    os.truncate(memory, 8192)
    environment = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "POWERCUT_FD=3")
    with CheckSandbox(HostRoot("/", environment), ("/bin/cat", "/etc/shadow"), ()) as sandbox:
        checked = sandbox.check(memory, 0, timeout_s=60)
        status = Path(f"/proc/{sandbox.pid}/status").read_text()
    os.close(memory)
    other = as_another([check.guard_binary(), Path(sys.executable)])
    user = int(status.partition("Uid:")[2].split()[0])
    assert user == (FIRST if other else os.geteuid())
    assert checked.status != 0 or (os.geteuid() == 0 and not other)


BOMB = """
import os, signal, time
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            signal.pause()
        made += 1
except BlockingIOError:
    pass
os.write(3, str(made).encode())
"""


def test_a_fork_bomb_of_root_s_check_ends_by_its_own_limit(tmp_path, monkeypatch):
    """RLIMIT_NPROC alone, as before Linux 6.14: it holds for the user that root's check is."""
    monkeypatch.setattr(check, "_PROCESSES_MAX", 150)
    monkeypatch.setattr(
        folder_checks,
        "guarded",
        lambda *of, **more: drop(check.guarded(*of, **more), "--processes"),
    )
    # An ordinary user has others, too.
    counted = os.geteuid() == 0 and users_apart([tmp_path]) and is_open(tmp_path)
    with bait() as hung:
        argv = (hung.command[0], "-I", "-S", "-c", BOMB if counted else "")
        made = of_folder(dataclasses.replace(hung, command=argv), tmp_path)
    assert int(made or 0) < 150
    assert bool(made) == bool(counted)


def drop(words, option):
    """The words without an option and its value."""
    at = words.index(option) if option in words else len(words)
    return [*words[:at], *words[at + 2 :]]


@pytest.mark.process_limit
def test_root_s_check_makes_no_processes_without_end(tmp_path):
    """Whose kernel counts them for each namespace: to root no limit of a user applies."""
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    command = ("/bin/sh", "-c", "cat /proc/sys/kernel/pid_max >&3")
    seen = check_folder(command, state, folder, Path("/"), timeout_s=60)
    most = ANY_MACHINE.boot_for("").first_pid + 4096
    assert seen.lines == f"{most}\n".encode()
    assert Path("/proc/sys/kernel/pid_max").read_text() != f"{most}\n"
