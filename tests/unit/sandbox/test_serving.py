# SPDX-License-Identifier: Apache-2.0
"""Servers of root's on the host are no users of it: attacked from within (harness/guard/serve.c).

As an ordinary user nothing stands before them, and each test shows that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from patience import AMPLE_S

from powercut.sandbox.users import FIRST, HostView, few_powers_argv, guard_binary, serving

ROOT = os.geteuid() == 0
TRIES = {
    "/etc/shadow": "cat /etc/shadow",
    "a file of a closed folder": "cat {closed}/secret",
    "a file that is only read": "echo x >>{closed}/read",
    "a file in /tmp of the host": "echo x >/tmp/powercut-serving-$$",
    "a file in /dev/shm of the host": "echo x >/dev/shm/powercut-serving-$$",
    "another's process": "kill -0 $PPID",
    "memory of another's process": "head -c 1 /proc/$PPID/environ",
    "a mount": "mount -t tmpfs none {closed}/own",
    "remount /": "mount -o remount,rw /",
    "a device": "mknod {closed}/own/device b 7 0",
    "a setuid program": "cp /bin/sh {closed}/own/sh && chmod u+s {closed}/own/sh",
    "one that is made so": "cd {closed}/own && python3 -c '"
    'import os; os.open("sh", os.O_CREAT, 0o4755)\'',
    "a user namespace": "unshare --user true",
    "another user": "setpriv --reuid=1 --clear-groups true",
}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder that only its owner may enter, with one that a server has."""
    folder = tmp_path / "closed"
    (folder / "own").mkdir(parents=True)
    for name in ("secret", "read"):
        (folder / name).write_text(name)
        (folder / name).chmod(0o600)
    folder.chmod(0o700)
    return folder


def before(closed: Path) -> list[str]:
    return serving(HostView([closed / "own"], [closed / "read"]))


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=AMPLE_S, check=False)


def test_a_user_s_has_nothing_before_it(closed: Path):
    assert bool(before(closed)) == ROOT


def test_it_does_its_work(closed: Path):
    script = f"cat '{closed}/read'; echo made >'{closed}/own/made'"
    done = run([*before(closed), "/bin/sh", "-c", script])
    assert (done.stdout, done.returncode) == ("read", 0), done.stderr
    made = closed / "own" / "made"
    assert made.read_text() == "made\n"
    assert made.stat().st_uid == os.geteuid()  # on the disk it is the caller's


def test_to_the_host_root_s_is_nobody(closed: Path):
    done = run([*before(closed), "cat", "/proc/self/uid_map", "/proc/self/status"])
    assert done.returncode == 0, done.stderr
    if ROOT:
        assert done.stdout.split()[:2] == ["0", str(FIRST)]
        told = dict(line.split(":", 1) for line in done.stdout.splitlines()[1:])
        sets = ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")
        assert {int(told[name], 16) for name in sets} == {0}
        assert told["NoNewPrivs"].strip() == "1"
        assert not told["Groups"].strip()


@pytest.mark.parametrize("name", TRIES)
def test_root_s_reaches_nothing(name: str, closed: Path):
    """Each succeeds for root, but for a user who does not exist."""
    if not ROOT:
        return
    done = run([*before(closed), "/bin/sh", "-c", TRIES[name].format(closed=closed)])
    assert done.returncode not in (0, 125), done.stdout
    assert (closed / "read").read_text() == "read"


def test_its_mounts_are_its_own(closed: Path):
    mounts = Path("/proc/self/mounts")
    here = mounts.read_text()
    argv = [*before(closed), "/bin/sh", "-c", "cat /proc/self/mounts; read line"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        assert mounts.read_text() == here
        server.communicate(b"\n", timeout=AMPLE_S)
    assert server.returncode == 0
    assert mounts.read_text() == here


def test_it_ends_with_its_parent(closed: Path):
    """Although its user changes, which makes the kernel forget to tell it."""
    guarded = ["setpriv", "--pdeathsig", "KILL", "--", *before(closed)]
    argv = [*guarded, "/bin/sh", "-c", "echo $$; exec sleep 3600"]
    with subprocess.Popen(
        ["/bin/sh", "-c", '"$@" & wait', "sh", *argv], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + AMPLE_S
    while _is_there(server) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_there(server)


def _is_there(pid: int) -> bool:
    """Not by its command line, which is empty for a moment while it becomes another program."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_where_it_cannot_be_had_few_capabilities_are_left(tmp_path: Path):
    """As in what lies on no file system that can show other owners."""
    assert serving(HostView([tmp_path / "missing"])) == few_powers_argv()
    assert serving(HostView([Path("/proc/self")])) == few_powers_argv()


def test_root_s_opens_the_device_that_it_is_given(closed: Path):
    if not ROOT:
        return
    words = ["--own", str(closed / "own"), "--device", "/dev/null"]
    script = "echo x >/dev/null; stat -c %U /dev/null"
    done = run([str(guard_binary()), "--serve", *words, "--", "/bin/sh", "-c", script])
    assert (done.returncode, done.stdout) == (0, "nobody\n"), done.stderr
    assert Path("/dev/null").stat().st_uid == 0
