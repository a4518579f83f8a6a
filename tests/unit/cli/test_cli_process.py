# SPDX-License-Identifier: Apache-2.0
"""The process as a shell has it: its streams, signals, locale and limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

POWERCUT = (sys.executable, "-m", "powercut.cli.main")
PLAN = (*POWERCUT, "run", "--dry-run", "all-sync-modes", "--brief")
TIMEOUT_S = 60.0


def shell(script: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", script, "bash", *argv],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=TIMEOUT_S,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("argv", [PLAN, (*POWERCUT, "--help"), (*POWERCUT, "run", "--help")])
def test_output_that_is_not_read_ends_the_process_as_others(argv):
    """click exits with 1, which says that a verdict differs."""
    done = shell('"$@" | :; echo ${PIPESTATUS[0]}', *argv)
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_errors_that_are_not_read_end_the_process_likewise():
    done = shell(
        '"$@" 2>&1 >/dev/null | :; echo ${PIPESTATUS[0]}', *POWERCUT, "run", "--dry-run", "no-such"
    )
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_a_reader_that_takes_the_first_line():
    done = shell('"$@" | head -n 1', *PLAN)
    assert done.stdout.startswith("all-sync-modes: 120 cells")
    assert done.stderr == ""


def test_a_broken_pipe_of_ours_is_no_reader_that_went_away():
    code = (
        "import sys\n"
        "from powercut.cli import main, scenarios\n"
        "def broken(*_): raise BrokenPipeError(32, 'Broken pipe')\n"
        "scenarios.find_scenarios = broken\n"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    )
    done = shell('"$@"', sys.executable, "-c", code)
    assert done.returncode == 3
    assert done.stderr.endswith("this is a bug in powercut; nothing was proved\n")


def test_a_stdout_that_is_closed_is_named():
    done = shell('"$@" >&-', *PLAN)
    assert done.returncode == 3
    assert done.stderr == ("powercut: stdout is closed\nhint: to discard the output: >/dev/null\n")


def test_a_stdout_that_is_full_is_named():
    done = shell('"$@" >/dev/full', *PLAN)
    assert done.returncode == 3
    assert done.stderr.splitlines()[0].endswith("No space left on device; nothing was proved") or (
        done.stderr == "powercut: stdout: No space left on device\n"
    )
    assert "Traceback" not in done.stderr


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path):
    code = (
        "import os, sys\n"
        "from powercut.cli import main, scenarios\n"
        "def looks(*_):\n"
        f"    file = os.open({str(tmp_path / 'image')!r}, os.O_CREAT | os.O_WRONLY)\n"
        f"    os.write(file, str(file).encode())\n"
        "    return []\n"
        "scenarios.find_scenarios = looks\n"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    )
    shell('"$@" <&- 2>&-', sys.executable, "-c", code)
    assert int((tmp_path / "image").read_text()) > 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_leaves_nothing_behind(tmp_path: Path, number: signal.Signals):
    code = (
        "import os, sys, tempfile, time\n"
        "from powercut.cli import main, scenarios\n"
        "def works(*_):\n"
        f"    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}):\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "        time.sleep(60)\n"
        "scenarios.find_scenarios = works\n"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == -number
    assert done.stderr.strip() == "ended by a signal"
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_so():
    """As below nohup."""
    done = shell("trap '' HUP INT; \"$@\"", sys.executable, "-c", (
        "import os, signal, sys\n"
        "from powercut.cli import main, scenarios\n"
        "def works(*_):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('still here', flush=True)\n"
        "    return []\n"
        "scenarios.find_scenarios = works\n"
        "sys.argv = ['powercut', 'run']\n"
        "main.main()\n"
    ))  # fmt: skip
    assert done.stdout.startswith("still here")


def test_an_interrupt_that_waits_ends_it_without_a_word():
    """The launcher has blocked it: one that came while Python began is taken by `main`."""

    def interrupted() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        os.kill(os.getpid(), signal.SIGINT)

    for locale in ("C.UTF-8", "C"):  # the latter starts Python anew
        done = subprocess.run(
            [sys.executable, "-m", "powercut.cli.main", "--version"],
            preexec_fn=interrupted,
            env={**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_an_import_that_would_forget_it(tmp_path: Path, number: signal.Signals):
    """As of a library that catches what its own code raises while its classes are made."""
    (tmp_path / "forgets.py").write_text(
        "import os, time\n"
        "try:\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    time.sleep(0.1)\n"  # the import outlasts several looks at whether it is over
        "except KeyboardInterrupt:\n"
        "    pass\n"
        "print('imported', flush=True)\n"
    )
    code = (
        "import time\n"
        "from powercut.cli import main, process\n"
        "def works(**_):\n"
        "    import forgets\n"
        "    time.sleep(60)\n"
        "process.cli.main = works\n"
        "main.main()\n"
    )
    done = shell('"$@"', sys.executable, "-c", code, PYTHONPATH=str(tmp_path))
    assert done.stdout == "imported\n"
    if number == signal.SIGINT:
        assert (done.returncode, done.stderr) == (130, "interrupted\n")
    else:
        assert (done.returncode, done.stderr) == (-number, "ended by a signal\n")


def test_what_is_called_by_an_import_can_be_interrupted(tmp_path: Path):
    """As by a module that calls `main` when it is loaded: that import is not over before us."""
    (tmp_path / "calls.py").write_text(
        "import os, signal, time\n"
        "from powercut.cli import main, process\n"
        "process.cli.main = lambda **_: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60))\n"
        "main.main()\n"
    )
    done = shell('"$@"', sys.executable, "-c", "import calls", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_an_interrupt_that_a_library_has_wrapped_is_no_traceback():
    """As pydantic does while it writes JSON."""
    code = (
        "import os, signal\n"
        "from powercut.cli import main, process\n"
        "def works(**_):\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt: raise ValueError('wrapped') from None\n"
        "process.cli.main = works\n"
        "main.main()\n"
    )
    done = shell('"$@"', sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_an_early_interrupt_is_no_traceback():
    """From the moment in which `main` has begun."""
    code = (
        "from powercut.cli import main\n"
        "begin = main._speak_utf8\n"
        "main._speak_utf8 = lambda: (print('-', flush=True), begin())\n"
        "main.main()\n"
    )
    for tenths in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", code, "run", "--dry-run", "all-sync-modes"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(tenths * 0.03)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=TIMEOUT_S)  # the plan fills a pipe
        assert "Traceback" not in said, f"after {tenths * 0.03:.2f} s"
        assert process.returncode in (-signal.SIGINT, 130, 0)


@pytest.mark.parametrize("limit", [6, 9, 16, 64])
def test_few_open_files_are_trouble_of_the_host(limit: int):
    """With 16 a run waited for an nbdkit that could open no socket, without end."""
    done = shell(f'ulimit -n {limit}; "$@" run first-light', *POWERCUT)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"powercut: only {limit} files may be open at once; powercut needs 256\n"
        "hint: ulimit -n 1024\n"
    )


def test_a_soft_limit_is_raised():
    done = shell('ulimit -S -n 16; "$@"', *PLAN)
    assert (done.returncode, done.stderr) == (0, "")


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
BODY = "powercut: 1\nname: x\ndescription: Größe — 大\n"


@pytest.mark.parametrize("verb", ["run --dry-run", "show"])
def test_a_locale_without_umlauts_reads_and_names_all_files(tmp_path: Path, verb: str):
    name = "größe-大.yaml"
    (tmp_path / name).write_bytes(BODY.encode())
    usual = shell('cd "$1"; shift; "$@"', str(tmp_path), *POWERCUT, *verb.split(), name)
    done = shell('cd "$1"; shift; "$@"', str(tmp_path), *POWERCUT, *verb.split(), name, **ASCII)
    assert done.returncode == usual.returncode
    assert "Traceback" not in done.stderr
