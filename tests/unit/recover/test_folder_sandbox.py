# SPDX-License-Identifier: Apache-2.0
"""Checks of many states of a captured folder in a sandbox that lasts: none sees another's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ordinary_user
import pytest
from patience import AMPLE_S

from powercut.model.errors import HostError
from powercut.model.machine_identity import MachineIdentity
from powercut.model.observation import Observation
from powercut.recover.native import folder as native
from powercut.recover.native.folder import FolderSandbox
from powercut.sandbox import check

LEAVING = Path(__file__).parents[2] / "support" / "leaving_check.py"
PYTHON = (os.path.realpath(sys.executable), "-I", "-S")
ALL = [
    *("/tmp", "/run", "/var/tmp", "/dev/shm", "shared memory", "semaphore", "queue"),
    *("AF_UNIX", "AF_INET", "process", "lock"),
]
MACHINE = MachineIdentity(7)
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Place:
    """A captured folder, and where its states are made; the `marker` is in each command line."""

    folder: Path
    states: Path
    marker: str

    def state(self, name: str) -> Path:
        made = self.states / name
        made.mkdir()
        (made / f"{self.marker}-{name}").write_text(name)
        return made

    def sandbox(self, *command: str, timeout_s: float = TIMEOUT_S) -> FolderSandbox:
        return FolderSandbox((*command, self.marker), self.folder, Path("/"), timeout_s)

    def shell(self, script: str, timeout_s: float = TIMEOUT_S) -> FolderSandbox:
        return self.sandbox("/bin/sh", "-c", script, str(self.folder), timeout_s=timeout_s)

    def processes(self) -> list[int]:
        """Those of the host whose command line has the marker, but for this one."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if self.marker.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:
                pass
        return [pid for pid in found if pid != os.getpid()]


@contextmanager
def place_in(base: str | None) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=base) as name:
        place = Path(name)
        place.chmod(0o755)
        for below in ("folder", "states"):
            (place / below).mkdir()
        yield Place(place / "folder", place / "states", f"marker-{uuid.uuid4()}")


@pytest.fixture
def place() -> Iterator[Place]:
    with place_in("/tmp") as made:
        yield made


def seen_now() -> str:
    """A folder of which a check sees the host's, where others may look, too."""
    return "/var/lib" if os.geteuid() == 0 else str(Path.home())


def said(observation: Observation) -> Any:
    assert observation.failure == ""
    return json.loads(observation.lines)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + AMPLE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(params=[True, False], ids=["users-apart", "users-of-the-host"])
def users(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of root's check, also where no others are to be had than the host's."""
    if not request.param:
        monkeypatch.setattr(native, "users_apart", lambda own: [])


@pytest.mark.usefixtures("users")
def test_nothing_of_one_state_is_there_for_the_next(place: Place) -> None:
    command = (*PYTHON, str(LEAVING), str(place.folder))
    with FolderSandbox(command, place.folder, Path("/"), TIMEOUT_S) as sandbox:
        boots = [MACHINE.boot_for(name) for name in "abc"]
        looks = [
            said(sandbox(place.state(name), boot)) for name, boot in zip("abc", boots, strict=True)
        ]
    for name, boot, look in zip("abc", boots, looks, strict=True):
        assert (look["first"], look["left"]) == ([], ALL)
        assert look["pid"] == boot.first_pid
        assert look["here"] == [f"{place.marker}-{name}"]
        assert (look["descriptors"], look["states"]) == (["0", "1", "2", "3"], [])
    assert len({look["boot"] for look in looks}) == 3
    assert [one.name for one in place.states.iterdir() if one.is_file()] == []


@pytest.mark.usefixtures("users")
def test_a_check_may_open_its_descriptors_by_name_as_java_must(place: Place) -> None:
    by_name = 'for n in 7 8; do echo "= $n" >/proc/self/fd/3; echo x >/proc/self/fd/2; done'
    with place.shell(by_name) as sandbox:
        seen = sandbox(place.state("a"), MACHINE.boot_for("a"))
    assert (seen.complete, seen.failure, seen.lines) == (True, "", b"= 7\n= 8\n")


def test_two_states_at_a_time_do_not_see_one_another(place: Place) -> None:
    """The second looks while all that the first has left is there, and so for their locks."""
    times = {"a": ("0", "2"), "b": ("1", "0")}
    for name, words in times.items():
        (place.state(name) / "times").write_text(" ".join(words))
    folder = str(place.folder)
    command = ("/bin/sh", "-c", 'exec "$@" $(cat "$0/times")', folder)
    command += (*PYTHON, str(LEAVING), folder)
    with (
        FolderSandbox(command, place.folder, Path("/"), TIMEOUT_S) as sandbox,
        ThreadPoolExecutor(2) as pool,
    ):
        answers = list(pool.map(sandbox, [place.states / name for name in times]))
    assert [(said(one)["first"], said(one)["left"]) for one in answers] == [([], ALL)] * 2


LOOKS_EVERYWHERE = """
import os, sys
marker, own = sys.argv[2], sys.argv[1]
found = []
for top, folders, files in os.walk("/"):
    if top.count("/") > 4 or top in ("/proc", "/sys"):
        folders.clear()
    found += [f"{top}/{one}" for one in (*folders, *files) if one.startswith(marker)]
with open("/proc/self/mountinfo") as mounts:
    found += [line for line in mounts if "/dev/.states" in line]
os.write(3, "\\n".join(sorted(found)).encode())
"""


@pytest.mark.parametrize("base", ["/tmp", seen_now()], ids=["unseen", "seen"])
def test_no_other_state_is_seen(base: str) -> None:
    """Nor where the states lie in a folder of the host that is shown."""
    with place_in(base) as place:
        place.state("other")
        command = (*PYTHON, "-c", LOOKS_EVERYWHERE, str(place.folder))
        with place.sandbox(*command) as sandbox:
            for name in ("one", "two"):
                seen = sandbox(place.state(name))
                assert (seen.failure, seen.lines.decode()) == (
                    "",
                    f"{place.folder}/{place.marker}-{name}",
                )


ATTACKS = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for pid in (1, os.getppid()):
    if libc.ptrace(16, pid, 0, 0) == 0:
        os.write(3, b"traced")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGHUP):
        try:
            os.kill(pid, number)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
for number in range(4, 64):
    try:
        os.close(number)
        os.write(3, b"descriptor")
    except OSError:
        pass
try:
    with open("/tmp/full", "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
            file.flush()
    os.write(3, b"room for more")
except OSError as error:
    os.write(3, error.strerror.encode())
"""


@pytest.mark.usefixtures("users")
def test_one_that_attacks_does_not_hurt_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "MEMORY_MAX", 8 << 20)
    (place.state("bad") / "script").write_text(ATTACKS)
    (place.state("good") / "script").write_text("import os\nos.write(3, b'good')\n")
    command = (*PYTHON, "-c", "import sys; exec(open(sys.argv[1] + '/script').read())")
    with place.sandbox(*command, str(place.folder)) as sandbox:
        answers = [sandbox(place.states / name) for name in ("bad", "good", "bad", "good")]
    full = b"No space left on device"
    assert [(one.failure, one.lines) for one in answers] == [("", full), ("", b"good")] * 2


def test_one_that_does_not_end_leaves_no_process(place: Place) -> None:
    hangs, ends = place.state("hangs"), place.state("ends")
    (hangs / "hang").touch()
    script = 'test -e "$0/hang" && { sleep 600 & sleep 600; }; echo "= 1" >&3'
    with place.shell(script, timeout_s=2) as sandbox:
        assert sandbox(hangs).failure == "it did not end within 2 s"
        assert place.processes() == []
        assert sandbox(ends).lines == b"= 1\n"
        assert place.processes() != []
    assert place.processes() == []


def test_a_sandbox_that_is_killed_says_nothing_of_a_state(place: Place) -> None:
    """The state that it was asked about is not known, and the next one is, in another one."""
    script = 'echo "= 1" >&3; test ! -e "$0/hang" || sleep 600'
    hangs = place.state("hangs")
    (hangs / "hang").touch()
    with place.shell(script) as sandbox:
        assert sandbox(place.state("first")).lines == b"= 1\n"
        (guard,) = sandbox._free
        for pid in place.processes():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not place.processes())
        # Its command line is gone before it has ended: a process gives back its memory first.
        until(lambda: guard.process.poll() is not None)
        assert sandbox(place.state("second")).lines == b"= 1\n"
        before = place.processes()

        def kill() -> None:
            until(lambda: len(place.processes()) > len(before) + 1)
            # Those that there are now, the oldest first: where the host has another socket, or
            # some seconds have passed, it is another sandbox than the one before.
            for pid in sorted(place.processes()):
                with suppress(ProcessLookupError):  # it was on its way out
                    os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(HostError, match="cannot run the check"):
            sandbox(hangs)
        killer.join()
        assert sandbox(place.state("third")).lines == b"= 1\n"


def test_what_cannot_be_shown_is_no_answer(place: Place) -> None:
    with place.shell("echo '= 1' >&3") as sandbox:
        with pytest.raises(HostError, match="cannot show the state: No such file"):
            sandbox(place.states / "missing")
        assert sandbox(place.state("there")).lines == b"= 1\n"


def test_why_there_is_no_sandbox_is_told(place: Place) -> None:
    sandbox = FolderSandbox(("/bin/true",), place.folder, Path("/none"), TIMEOUT_S)
    with sandbox, pytest.raises(HostError, match="/none: No such file"):
        sandbox(place.state("one"))


def test_a_command_that_is_not_there_fails_as_of_a_shell(place: Place) -> None:
    with place.sandbox("/none/check") as sandbox:
        seen = sandbox(place.state("one"))
    assert seen.failure == "its status is 127, and it says: /none/check: No such file or directory"


def test_no_machine_has_booted_long_ago(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks that count from boot go on while a sandbox lasts, which is not long."""
    with place.shell("echo '= 1' >&3") as sandbox:
        sandbox(place.state("one"))
        before = place.processes()
        monkeypatch.setattr(native, "_LASTS_S", 1e-9)
        sandbox(place.state("two"))
        assert not {*before} & {*place.processes()}


HANGS = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from powercut.recover.native.folder import FolderSandbox
folder, state, marker = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
script = "sleep 600 & echo begun >$0/begun; sleep 600"
FolderSandbox(("/bin/sh", "-c", script, str(folder), marker), folder, Path("/"), 600)(state)
"""


def test_with_its_controller_all_ends(place: Place) -> None:
    state = place.state("one")
    words = [str(place.folder), str(state), place.marker]
    with subprocess.Popen([sys.executable, "-c", HANGS, *words]) as controller:
        until((state / "begun").exists)
        controller.kill()
    until(lambda: not place.processes())


ORDINARY = f"""
import sys
sys.path[:0] = {sys.path!r}
import json, os
from pathlib import Path
from powercut.model.machine_identity import MachineIdentity
from powercut.recover.native.folder import FolderSandbox
place, machine = Path(sys.argv[1]), MachineIdentity(7)
folder = place / "folder"
folder.mkdir()
with FolderSandbox((*sys.argv[2:], str(folder)), folder, Path("/"), 60) as sandbox:
    for name in "ab":
        (place / "states" / name).mkdir(parents=True)
        seen = sandbox(place / "states" / name, machine.boot_for(name))
        assert not seen.failure, seen.failure
        said = json.loads(seen.lines)
        assert said["pid"] == machine.boot_for(name).first_pid, said
        print(json.dumps([said["first"], said["left"], said["states"], said["boot"]]))
"""


@pytest.mark.public_checkout
@pytest.mark.userns
def test_so_it_is_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o777)
        argv = [*ordinary_user.as_ordinary_user(), sys.executable, "-c", ORDINARY, f"{name}/own"]
        Path(name, "own").mkdir()
        Path(name, "own").chmod(0o777)
        done = subprocess.run(
            [*argv, *PYTHON, str(LEAVING)], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first[:3], second[:3]) == ([[], ALL, []], [[], ALL, []])
    assert first[3] != second[3]


MOUNTED = f"""
import sys
sys.path[:0] = {sys.path!r}
import subprocess
from pathlib import Path
from powercut.recover.native.folder import FolderSandbox
place = Path(sys.argv[1])
for name in ("folder", "states/a", "states/b", "states/c", "new"):
    (place / name).mkdir(parents=True)
script = 'ls $0; touch $0/made 2>/dev/null && echo made'
command = ("/bin/sh", "-c", f"{{{{ {{script}}; }}}} >&3; :", str(place / "new"))
with FolderSandbox(command, place / "folder", Path("/"), 60) as sandbox:
    print(sandbox(place / "states/a"))
    subprocess.run(["mount", "-t", "tmpfs", "none", place / "new"], check=True)
    (place / "new" / "file").touch()
    print(sandbox(place / "states/b").lines)
    subprocess.run(["umount", place / "new"], check=True)
    print(sandbox(place / "states/c").lines)
"""


@pytest.mark.mounts
def test_what_the_host_mounts_meanwhile_is_read_only_as_all_of_it() -> None:
    with tempfile.TemporaryDirectory(dir="/var/lib") as name:
        Path(name).chmod(0o755)
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "shared", sys.executable, "-c", MOUNTED, name],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.stdout.splitlines()[1:] == ["b'file\\n'", "b''"], done.stdout + done.stderr
