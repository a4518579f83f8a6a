# SPDX-License-Identifier: Apache-2.0
"""`powercut record`: real programs in User-Mode Linux, honest, lossy and misbehaving ones."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
EXAMPLES = ROOT / "workloads" / "examples"
LIMITS = ["--acks", "60", "--seconds", "300", "--budget", "40", "--seed", "7"]


def powercut(*argv, timeout=300):
    return subprocess.run(
        [sys.executable, "-m", "powercut.cli.main", *map(str, argv)],
        capture_output=True, text=True, check=False, timeout=timeout,
    )  # fmt: skip


def recorded(tmp_path: Path, *command, limits=LIMITS):
    folder = tmp_path / "recording"
    done = powercut("record", *limits, "--json", "-", "-o", folder, "--", *command)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), folder


def program(tmp_path: Path, run: str, check: str = "exit 0") -> Path:
    path = tmp_path / "program"
    path.write_text(
        '#!/bin/sh\nsay() { echo "$@" >&"$POWERCUT_FD"; }\n'
        f'case $1 in\nsetup) mkdir -p "$2" ;;\nrun) {run} ;;\ncheck) {check} ;;\nesac\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_a_script_that_syncs_is_safe_and_its_control_is_not(tmp_path, filesystem):
    limits = [*LIMITS, "--filesystem", filesystem]
    status, result, folder = recorded(tmp_path, EXAMPLES / "append.sh", limits=limits)
    assert (status, result["verdict"], result["reasons"]) == (0, "SAFE", [])
    assert result["controls"] == {"lying": "LOSSY"}
    assert result["acknowledged"] >= 60
    assert result["flushes"] >= result["acknowledged"]  # they do arrive at the disk
    assert (result["states"], result["lossy_states"]) == (40, 0)
    assert result["by_policy"]["durable-only"] >= 10
    again = powercut("verify", folder)
    assert (again.returncode, "SAFE" in again.stdout) == (0, True), again.stdout + again.stderr


def test_a_rename_without_sync_loses_every_operation_in_some_state(tmp_path):
    status, result, folder = recorded(tmp_path, EXAMPLES / "rename.py", "unsafe")
    assert (status, result["verdict"]) == (1, "LOSSY")
    lost = next(one for one in result["findings"] if one["policy"] == "cut")
    assert (lost["kind"], lost["operations"]) == ("lost", [[1, result["acknowledged"]]])
    (folder / "lines.bin").write_bytes(b"PCLINES1")
    again = powercut("verify", folder)
    assert again.returncode not in (0, 1)
    assert "lines.bin" in again.stderr


def test_a_database_with_honest_settings_and_with_none(tmp_path):
    sqlite = ROOT / "workloads" / "programs" / "sqlite"
    assert recorded(tmp_path / "full", sqlite)[1]["verdict"] == "SAFE"
    status, result, _ = recorded(tmp_path / "off", sqlite, "synchronous=off")
    assert (status, result["verdict"]) == (1, "LOSSY")
    assert result["findings"][0]["operations"] == [[1, result["acknowledged"]]]


LOG = "[ ! -e $2/log ] || sed 's/^/= /' $2/log >&$POWERCUT_FD"
APPEND = (
    'n=1; while [ $n -le 80 ]; do say "? $n"; echo $n >>$2/log; sync $2/log $2; '
    'say "+ $n"; n=$((n + 1)); done'
)
IDLE = "0 operations were acknowledged"
UNTRIED = APPEND.replace('say "? $n"; ', "")


@pytest.mark.parametrize(
    ("run", "check", "reason"),
    [
        ("say ready; sleep 300", "exit 0", IDLE),
        (f"say ready; say nonsense; {APPEND}; sleep 300", LOG, "no line of the contract"),
        (UNTRIED, LOG, "never tried"),
        (APPEND, f"{LOG}; exit 3", "ended with status 3"),
        (APPEND, "say '= 1-1000'", "on which only `setup` has run"),
        (APPEND, "exit 0", ""),
        (f"{APPEND.replace('80', '10')}; cat /dev/zero >$2/zeroes || exit 5", LOG, "status 5"),
        ("getent hosts example.org || exit 6", "exit 0", "ended with status 6"),
        (f"(setsid sh -c 'exec sleep 300' &) ; {APPEND.replace('80', '5')}", LOG, "5 operations"),
    ],
    ids=[
        "idle", "garbage", "never-tried", "check-fails", "check-lies", "check-blind", "full",
        "network", "forks-away",
    ],
)  # fmt: skip
def test_a_program_that_misbehaves_is_never_safe(tmp_path, run, check, reason):
    # Nothing but the idle one takes its time to the end; so few states are not the only reason.
    seconds = "3" if reason == IDLE else "300"
    limits = ["--acks", "20", "--seconds", seconds, "--budget", "4", "--seed", "7"]
    limits += ["--filesystem", "ext4", "--size", "32MiB"]  # one is filled
    status, result, _ = recorded(tmp_path, program(tmp_path, run, check), limits=limits)
    told = " ".join(result["reasons"])
    if "check-blind" in os.environ["PYTEST_CURRENT_TEST"]:
        # It finds nothing, ever: what was acknowledged is missing in every state.
        assert (status, result["verdict"]) == (1, "LOSSY")
        return
    assert (status, result["verdict"]) == (3, "INCONCLUSIVE")
    assert reason in told


def test_a_check_that_hangs_is_stopped(tmp_path):
    limits = ["--acks", "20", "--seconds", "300", "--budget", "2", "--state-timeout", "2"]
    hangs = program(tmp_path, APPEND, f"[ ! -e $2/log ] || sleep 300; {LOG}")
    status, result, _ = recorded(tmp_path, hangs, limits=limits)
    assert (status, result["verdict"], result["lossy_states"]) == (3, "INCONCLUSIVE", 0)


def test_killing_the_controller_leaves_nothing(tmp_path):
    # Nothing but the kill can end it: these limits take an hour to reach.
    endless = ["--acks", "1000000", "--seconds", "3600"]
    command = [sys.executable, "-m", "powercut.cli.main", "record", *endless]
    folder = tmp_path / "recording"
    with subprocess.Popen([*command, "-o", folder, "--", EXAMPLES / "append.sh"]) as controller:
        try:
            below = wait_until(lambda: program_at_work(controller, folder))
        finally:
            controller.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for pid in below))


def program_at_work(controller: subprocess.Popen, folder: Path) -> dict[int, str]:
    """What runs below the controller once the program's lines arrive; nothing before."""
    assert controller.poll() is None, "it ended before it was killed"
    below = descendants(controller.pid)
    at_work = any("linux.uml" in name for name in below.values())
    return below if at_work and (folder / "lines.bin").exists() else {}


def wait_until(condition, timeout_s=120.0):
    """What `condition` says as soon as it is true."""
    end = time.monotonic() + timeout_s
    while not (said := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
    return said


def descendants(pid: int) -> dict[int, str]:
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):  # a process that ends meanwhile has none
        for child in Path(f"/proc/{pid}/task").glob("*/children"):
            for one in map(int, child.read_text().split()):
                found |= descendants(one)
                found[one] = Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ")
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
