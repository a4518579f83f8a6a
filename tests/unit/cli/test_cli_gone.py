# SPDX-License-Identifier: Apache-2.0
"""What reads the output goes away while a command is at work: never status 1, and no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import require_extras
from terminal import Terminal

POWERCUT = [sys.executable, "-m", "powercut.cli.main"]
TIMEOUT_S = 120.0
PROGRAM = """#!/bin/sh
case $1 in
run)
    while n=$((n + 1)); do
        echo "? $n"
        echo "$n" >>"$2/log"
        sync "$2/log"
        echo "+ $n"
    done >&"$POWERCUT_FD"
    ;;
check) [ ! -e "$2/log" ] || sed 's/^/= /' "$2/log" >&"$POWERCUT_FD" ;;
esac
"""
UNDER_WAY = {
    "record": b"power cut",
    "capture": b"recording",
    "serve": b"Ctrl-C ends it",
    "listen": b"token: ",
}
"""Each verb that is at work for long, and what it says once it is."""


def command(verb: str, folder: Path) -> list[str]:
    require_extras([verb])
    program, files, results = folder / "program", folder / "files", folder / "results"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    files.mkdir()
    results.mkdir()
    words = {
        "record": ["--seconds", 3, "--results", results, "--", program],
        "capture": [
            *("--seconds", 1, "--budget", 8, "--results", results),
            *("--check", f"{program} check {files}", files, "--", program, "run", files),
        ],
        "serve": ["--port", 0, results],
        "listen": [folder / "heard"],
    }
    return [*POWERCUT, verb, *map(str, words[verb])]


@contextlib.contextmanager
def at_work(verb: str, folder: Path, **options) -> Iterator[Terminal]:
    terminal = Terminal(command(verb, folder), **options)
    try:
        terminal.wait_for(UNDER_WAY[verb])
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("verb", UNDER_WAY)
def test_a_terminal_that_is_closed_ends_it_as_others(tmp_path: Path, verb: str) -> None:
    with at_work(verb, tmp_path, controlling=True) as terminal:
        terminal.hang_up()
        assert terminal.process.wait(TIMEOUT_S) == -signal.SIGHUP


@pytest.mark.parametrize("verb", UNDER_WAY)
def test_so_does_one_that_does_not_say_that_it_is_closed(tmp_path: Path, verb: str) -> None:
    """What is written to it fails with EIO; stderr is a file, in which a traceback would be."""
    said = tmp_path / "said"
    with said.open("w") as file, at_work(verb, tmp_path, stderr=file) as terminal:
        terminal.hang_up()
        if verb != "capture":  # which ends, and writes, soon
            terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(TIMEOUT_S) in (-signal.SIGHUP, 130)
    assert "Traceback" not in said.read_text()


@pytest.mark.parametrize("verb", UNDER_WAY)
def test_a_pipe_without_a_reader_ends_it_as_others(tmp_path: Path, verb: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command(verb, tmp_path), stdout=write, stderr=write, timeout=TIMEOUT_S, check=False
    )
    os.close(write)
    assert done.returncode == -signal.SIGPIPE


@pytest.mark.parametrize("verb", ["serve", "listen"])
def test_what_waits_for_ctrl_c_takes_no_other_signal_for_it(tmp_path: Path, verb: str) -> None:
    with at_work(verb, tmp_path) as terminal:
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(TIMEOUT_S) == -signal.SIGTERM


def test_a_second_hangup_leaves_time_to_tidy_up(tmp_path: Path) -> None:
    """The shell in a terminal that is closed sends one, and then the kernel does."""
    code = (
        "import os, sys, tempfile, time\n"
        "from powercut.cli import main, scenarios\n"
        "def works(*_):\n"
        f"    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}):\n"
        "        try:\n"
        f"            os.kill(os.getpid(), {int(signal.SIGHUP)})\n"
        "            time.sleep(60)\n"
        "        finally:\n"
        f"            os.kill(os.getpid(), {int(signal.SIGHUP)})\n"
        "scenarios.find_scenarios = works\n"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=TIMEOUT_S, check=False)
    assert done.returncode == -signal.SIGHUP
    assert list(tmp_path.iterdir()) == []


BROKEN = {
    "while it starts": "main._speak_utf8 = {}.popitem\n",
    "in a command": "scenarios.find_scenarios = lambda *_: {}.popitem()\n",
    "by an exit of its own": "scenarios.find_scenarios = lambda *_: sys.exit(1)\n",
}


@pytest.mark.parametrize("stderr", ["read", "full"])
@pytest.mark.parametrize("place", BROKEN)
def test_no_fault_of_powercut_is_a_verdict(place: str, stderr: str) -> None:
    code = (
        "import sys\n"
        "from powercut.cli import main, scenarios\n"
        f"{BROKEN[place]}"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    )
    with Path("/dev/full").open("w") as full:
        target = full if stderr == "full" else subprocess.PIPE
        argv = [
            sys.executable,
            "-E",
            "-c",
            code,
        ]  # its output is buffered, whatever the caller's is
        done = subprocess.run(argv, stderr=target, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 3
    assert stderr == "full" or "Error" in done.stderr or "SystemExit" in done.stderr


def test_a_user_without_a_home_and_without_a_name() -> None:
    """As a container's with a number of its own, on a checkout that belongs to another."""
    code = (
        "import os, pwd, sys\n"
        "from pathlib import Path\n"
        "os.environ.pop('HOME', None)\n"
        "pwd.getpwuid = {}.__getitem__\n"
        "os.access = lambda *_, **__: False\n"
        "try:\n"
        "    sys.exit(f'it has a home: {Path.home()}')\n"
        "except RuntimeError:\n"
        "    pass\n"
        "from powercut.cli import main\n"
        "sys.argv = ['powercut', '--version']\n"
        "main.main()\n"
    )
    names = ("POWERCUT_BUILD", "XDG_CACHE_HOME")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={name: value for name, value in os.environ.items() if name not in names},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("powercut, version ")
