# SPDX-License-Identifier: Apache-2.0
"""What the process of a User-Mode Linux gets of the host, tried by a shell in its place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from powercut.sandbox import kernel, landlock
from powercut.sandbox.confined import sandboxes
from powercut.sandbox.kernel import IN_MEMORY, kernel_bubblewrap, kernel_sandbox
from powercut.sandbox.users import FIRST, for_all, users_apart

SIZE = 1 << 20


@pytest.fixture(params=["bubblewrap", "landlock"])
def belt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "bubblewrap" and (why := kernel_bubblewrap()):
        pytest.skip(why)
    if request.param == "landlock":
        if why := sandboxes().landlock:
            pytest.skip(why)
        monkeypatch.setattr(kernel, "kernel_bubblewrap", lambda: "forbidden")
    return str(request.param)


def shell(memory: Path, script: str, shows: Sequence[Path] = ()) -> tuple[int, str]:
    sandbox = kernel_sandbox(memory, SIZE, shows=shows)
    argv = [*sandbox.argv, "/bin/sh", "-c", script.format(memory=sandbox.memory)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    finally:
        sandbox.remove()
    return done.returncode, done.stdout


def test_it_has_no_capability(belt: str):
    _, said = shell(IN_MEMORY, "grep CapEff /proc/self/status")
    assert int(said.split()[1], 16) == 0


def test_to_the_host_root_s_kernel_is_nobody_it_knows(belt: str):
    _, said = shell(IN_MEMORY, "id -u; cat /proc/self/uid_map; head -c 1 /etc/shadow")
    user, inside, outside, _, *secret = said.split()
    other = os.geteuid() == 0 and users_apart([IN_MEMORY]) and for_all([Path(landlock.__file__)])
    assert not other or (int(user) - int(inside) + int(outside), secret) == (FIRST, [])


def test_it_writes_no_file_and_no_setting_of_the_host(belt: str, tmp_path: Path):
    victim, name = tmp_path / "victim", f"powercut-test-{os.getpid()}"
    victim.write_text("precious")
    new = [Path("/var/lib", name), IN_MEMORY / name]  # one in no place that is empty in there
    try:
        for script in (
            f"echo x > {victim}",
            f"rm {victim}",
            f"echo x > {new[0]}",
            f"echo x > {{memory}}/../{name}",
        ):
            shell(IN_MEMORY, script)
        assert victim.read_text() == "precious"
        assert [path for path in new if path.exists()] == []
    finally:
        for path in new:
            path.unlink(missing_ok=True)
    if belt == "bubblewrap":  # access(2) of a view that is read-only
        for setting in ("/proc/sys/kernel/core_pattern", "/etc/hostname", "/usr"):
            assert shell(IN_MEMORY, f"test -w {setting}")[0] == 1


def test_what_lies_in_tmp_is_seen_if_it_is_shown(belt: str, tmp_path: Path):
    """Behind Landlock what its user may see is seen; tmp_path lies in a place that is empty for
    bubblewrap, and root's kernel is another user, if it can be."""
    program = tmp_path / "program"
    program.write_text("here")
    if not any(tmp_path.is_relative_to(place) for place in ("/tmp", "/var/tmp", "/dev/shm")):
        pytest.skip("the tests' own folder is no such place")
    status, said = shell(IN_MEMORY, f"cat '{program}'")
    other = shell(IN_MEMORY, "id -u")[1] != f"{os.geteuid()}\n"
    assert (status, said) == ((1, "") if belt == "bubblewrap" or other else (0, "here"))
    assert shell(IN_MEMORY, f"cat '{program}'", [tmp_path]) == (0, "here")


def test_its_memory_is_bounded(belt: str):
    status, _ = shell(IN_MEMORY, f"head -c {SIZE // 2} /dev/zero > {{memory}}/a")
    assert status == 0
    if belt == "bubblewrap":
        assert shell(IN_MEMORY, f"head -c {4 * SIZE} /dev/zero > {{memory}}/a")[0] != 0
        assert shell(IN_MEMORY, f"head -c {SIZE} /dev/zero > /run/a")[0] != 0


def test_it_sees_no_process_of_the_host(belt: str):
    if belt == "bubblewrap":
        assert shell(IN_MEMORY, f"test -e /proc/{os.getpid()}")[0] == 1
