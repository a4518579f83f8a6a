# SPDX-License-Identifier: Apache-2.0
"""A recording from elsewhere names shell commands: they run when the user says so, and not before.

The digest of the program says nothing here: it is that of /bin/sh, which every host has.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import powercut

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
APPEND = ROOT / "workloads" / "examples" / "append.sh"
SAFE, LOSSY, UNTRIED = 0, 1, 3


class Trap:
    """What the recorded check starts on this host whenever it runs, and waits for.

    Nothing that it does in its sandbox is seen outside, but that it is there: the sandbox keeps its
    processes from those of the host, and not the other way round.  It ends when it has been seen.
    """

    def __init__(self) -> None:
        self._argv = f"sleep\0{3600 + os.getpid() / 1e8:.8f}\0".encode()
        self._seen = threading.Event()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    @property
    def springs(self) -> str:
        """Words of a shell.  From User-Mode Linux, whose kernel says so, nothing is seen here."""
        sleep = self._argv.decode().replace("\0", " ")
        return f"grep -q 'User Mode' /proc/cpuinfo || {sleep}"

    @property
    def command(self) -> tuple[str, ...]:
        script = f'[ "$1" != check ] || {self.springs}; exec {shlex.quote(str(APPEND))} "$@"'
        return ("/bin/sh", "-c", script, "sh")

    def sprung(self) -> bool:
        """Whether the check has run since this was asked last."""
        seen = self._seen.is_set()
        self._seen.clear()
        return seen

    def close(self) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if (process / "cmdline").read_bytes() == self._argv:
                        self._seen.set()
                        os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    with contextlib.closing(Trap()) as made:
        yield made


class User:
    """A user of this host, told by their state alone."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def __call__(self, *argv: object) -> tuple[int, str]:
        done = powercut(*argv, XDG_STATE_HOME=str(self.state))
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(tmp_path_factory.mktemp("stranger"))


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "state")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, stranger: User, trap: Trap) -> Path:
    results = tmp_path_factory.mktemp("results")
    options = ["--acks", "40", "--seconds", "300", "--budget", "32", "--seed", "7"]
    status, said = stranger("record", *options, "--results", results, "--", *trap.command)
    assert (status, trap.sprung()) == (SAFE, True), said
    (run,) = (one for one in results.glob("*/*/verdict.json") if "latest" not in str(one))
    return run.parent


def test_whoever_recorded_it_verifies_it_as_ever(recorded: Path, stranger: User, trap: Trap):
    status, said = stranger("verify", recorded)
    assert (status, trap.sprung()) == (SAFE, True), said


@pytest.mark.parametrize("packed", [True, False])
def test_verify_runs_nothing_unless_told(recorded, stranger, user, trap, tmp_path, packed):
    given = recorded
    if packed:
        given = tmp_path / "finding.pcb"
        trial = next(recorded.glob("cells/*/0001"))
        assert stranger("export", trial, "-o", given)[0] == 0
    trap.sprung()
    status, said = user("verify", given)
    assert (status, trap.sprung()) == (UNTRIED, False), said
    assert "not repeated: what needs `/bin/sh -c " in said
    assert "--run-check" in said
    assert "DIFFERS" not in said
    if packed:
        status, said = user("verify", given, "--run-check")
        assert (status, trap.sprung()) == (SAFE, True), said


@pytest.mark.parametrize(
    "verb",
    [("explore", "--budget", "4"), ("minimize", "durable@0ms"), ("audit flushes", "--budget", "4")],
)
def test_other_verbs_run_nothing_either(recorded, user, trap, verb):
    trial = next(recorded.glob("cells/*/0001"))
    status, said = user(*verb[0].split(), trial, *verb[1:])
    assert (status, trap.sprung()) == (UNTRIED, False), said
    assert "it was not recorded here: /bin/sh -c " in said
    _, said = user(*verb[0].split(), trial, *verb[1:], "--run-check")
    # This search asks User-Mode Linux alone, from which nothing is seen.
    assert trap.sprung() or "state durable@0ms loses nothing" in said, said


def test_a_mark_does_not_outlive_a_change(recorded, stranger, trap, tmp_path):
    """The mark is of the seal; whoever changes a command and seals again has none."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", recorded, copy], check=True)
    trap.sprung()
    reseal = (
        "import sys; from pathlib import Path; from powercut.store.trial_dir import TrialDir\n"
        "for one in Path(sys.argv[1]).glob('cells/*/0001'):\n"
        "    trial = TrialDir(one, Path(sys.argv[1])); record = trial.read_record()\n"
        "    trial.write_record(record.model_copy(update={'timings_s': {'forged': 1.0}}))\n"
        "    trial.seal_recording()\n"
    )
    forger = os.environ | {"XDG_STATE_HOME": str(tmp_path / "forger")}
    subprocess.run([sys.executable, "-c", reseal, str(copy)], check=True, env=forger)
    for trial in copy.glob("cells/*/0001"):  # the forger puts the old mark back
        (trial / "made-here").write_bytes(
            (recorded / trial.relative_to(copy) / "made-here").read_bytes()
        )
    status, said = stranger("verify", copy)
    assert (status, trap.sprung()) == (UNTRIED, False), said


def test_a_check_of_a_captured_folder_is_not_run(user, stranger, trap, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    check = f'/bin/sh -c "{trap.springs}; echo = 1 >&\\$POWERCUT_FD"'
    script = 'echo "? 1" >&$POWERCUT_FD; echo 1 > "$0/a"; sync; echo "+ 1" >&$POWERCUT_FD'
    options = ["--results", tmp_path / "results", "--budget", "6", "--check", check]
    stranger("capture", folder, *options, "--", "/bin/sh", "-c", script, folder)
    assert trap.sprung()
    (capture,) = (tmp_path / "results" / "capture").iterdir()
    verdict = stranger("verify", capture)
    assert trap.sprung(), verdict
    bundle = tmp_path / "capture.pcb"
    assert stranger("export", capture, "-o", bundle)[0] == 0
    trap.sprung()
    for given in (capture, bundle):
        status, said = user("verify", given)
        assert (status, trap.sprung()) == (UNTRIED, False), said
        assert "not repeated: " in said
        assert "--run-check" in said
        assert user("verify", given, "--run-check")[0] == verdict[0]
        assert trap.sprung()
    status, said = user("explore", capture, "--budget", "4")
    assert (status, trap.sprung()) == (UNTRIED, False), said
    assert user("explore", capture, "--budget", "4", "--run-check")[0] == verdict[0]
    assert trap.sprung()
