# SPDX-License-Identifier: Apache-2.0
"""The launcher's decisions, in a small checkout of its own.

The script is the real one.  What it calls to change the system (apt-get, sudo, dpkg-query)
is replaced by recorders; make and flock are the host's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.paths import ROOT

TIMEOUT_S = 120.0
PARTS = (
    *("workloads", "harness/capture", "harness/guard", "harness/rawread"),
    *("guests/agent", "guests/uml"),
)

RECORDER = """#!/bin/sh
printf '%s\\n' "{name} $*" >>"$RECORDS/calls"
"""


class Checkout:
    """A folder that looks like a checkout to the launcher, and a PATH with recorders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a checkout"  # with a blank
        self.stubs = folder / "stubs"
        self.records = folder / "records"
        self.stubs.mkdir()
        self.records.mkdir()
        (self.folder / "harness/powercut").mkdir(parents=True)
        (self.folder / "harness/powercut/paths.py").touch()
        (self.folder / "pyproject.toml").touch()
        for program in ("powercut", "harness/make-part"):
            shutil.copy(ROOT / program, self.folder / program)
        for part in PARTS:
            (self.folder / part).mkdir(parents=True)
            (self.folder / part / "Makefile").write_text(
                f"all:\n\t@echo {part} >>'{self.records}/made'; sleep 0.1\n"
            )
        self._program(self.folder / ".venv/bin/python", RECORDER.format(name="python"))
        self._program(
            self.folder / ".venv/bin/powercut",
            'printf "%s|" ran "$PWD" "$@"\nexit ${RAN_STATUS:-0}\n',
        )
        self.stub("dpkg-query", "printf installed")
        self.stub("apt-get", RECORDER.format(name="apt-get") + "exit ${APT_STATUS:-0}")
        self.stub("sudo", RECORDER.format(name="sudo") + 'exec "$@"')

    def stub(self, name: str, script: str) -> None:
        self._program(self.stubs / name, script)

    @staticmethod
    def _program(path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, *argv: str, program: Path | None = None, **extra: str) -> subprocess.Popen[str]:
        environment = dict(os.environ, RECORDS=str(self.records), **extra)
        environment["PATH"] = f"{self.stubs}:{environment['PATH']}"
        environment.pop("POWERCUT_BUILD", None)
        return subprocess.Popen(
            [str(program or self.folder / "powercut"), *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.records,
        )

    def call(self, *argv: str, **extra: str) -> tuple[int, str, str]:
        process = self.start(*argv, **extra)
        out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err

    def lines(self, name: str) -> list[str]:
        file = self.records / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    if shutil.which("make") is None:
        pytest.skip("no make: apt-get install make")
    return Checkout(tmp_path)


def installs(checkout: Checkout) -> list[str]:
    return [
        line for line in checkout.lines("calls") if line.startswith("apt-get") and "inst" in line
    ]


def test_first_call_makes_ready_second_does_nothing(checkout: Checkout) -> None:
    status, out, err = checkout.call("run", "a b", "")
    assert (status, out) == (0, f"ran|{checkout.records}|run|a b||")
    assert checkout.lines("made") == list(PARTS)
    assert "making" in err
    assert "powercut: ready" in err
    calls = checkout.lines("calls")
    assert [line for line in calls if " pip " in line] == [
        f"python -m pip install --disable-pip-version-check -e {checkout.folder}"
    ]
    assert calls[-1] == "python -m powercut.machine.guest.image"
    assert installs(checkout) == []

    assert checkout.call("run") == (0, f"ran|{checkout.records}|run|", "")
    assert checkout.lines("made") == list(PARTS)
    assert checkout.lines("calls") == calls


def test_exit_status_is_the_commands(checkout: Checkout) -> None:
    assert checkout.call("run", RAN_STATUS="1")[0] == 1


def test_called_through_links_from_elsewhere(checkout: Checkout, tmp_path: Path) -> None:
    checkout.call()
    link, second = tmp_path / "link", tmp_path / "second"
    link.symlink_to(checkout.folder / "powercut")
    second.symlink_to(link)
    process = checkout.start("list", program=second)
    assert process.communicate(timeout=TIMEOUT_S) == (f"ran|{checkout.records}|list|", "")


@pytest.mark.parametrize(
    "changed", ["workloads/wal.c", "guests/agent/main.c", "pyproject.toml", "powercut"]
)
def test_changed_sources_are_built_again(checkout: Checkout, changed: str) -> None:
    checkout.call()
    with (checkout.folder / changed).open("a") as file:
        file.write("\n# changed\n")
    assert checkout.call()[0] == 0
    assert checkout.lines("made") == [*PARTS, *PARTS]
    # Without a network only pip's own input may make it necessary.
    pips = [line for line in checkout.lines("calls") if " pip " in line]
    assert len(pips) == (2 if changed == "pyproject.toml" else 1)


def test_changed_python_and_texts_are_not(checkout: Checkout) -> None:
    checkout.call()
    (checkout.folder / "harness/powercut/doctor.py").write_text("new")
    (checkout.folder / "guests/README.md").write_text("new")
    (checkout.folder / "workloads/__pycache__").mkdir()  # of an example that was run
    (checkout.folder / "workloads/__pycache__/program.pyc").write_bytes(b"made")
    checkout.call()
    assert checkout.lines("made") == list(PARTS)


def test_moved_checkout_is_made_again(checkout: Checkout) -> None:
    checkout.call()
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("elsewhere"))
    assert checkout.call()[0] == 0
    assert checkout.lines("made") == [*PARTS, *PARTS]


def test_tests_get_their_own_tools(checkout: Checkout) -> None:
    checkout.call("run")
    assert checkout.call("test", "-k", "x")[1] == f"ran|{checkout.records}|test|-k|x|"
    assert any(line.endswith(f"-e {checkout.folder}[dev]") for line in checkout.lines("calls"))
    before = checkout.lines("calls")
    checkout.call("test")
    checkout.call("run")
    assert checkout.lines("calls") == before


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "--cluster", "local"],
        ["explore", "results/x", "--cluster=tls://head:8786"],
        ["doctor", "hosts", "up", "hosts.yaml"],
    ],
)
def test_clusters_get_dask_and_no_tools_of_tests(checkout: Checkout, argv: list[str]) -> None:
    checkout.stub("dpkg-query", 'case "$*" in *clang) exit 1 ;; esac; printf installed')
    checkout.call("run")
    assert checkout.call(*argv)[:2] == (0, f"ran|{checkout.records}|{'|'.join(argv)}|")
    before = checkout.lines("calls")
    assert [line for line in before if " pip " in line] == [
        f"python -m pip install --disable-pip-version-check -e {checkout.folder}{extra}"
        for extra in ("", "[cluster]")
    ]
    assert installs(checkout) == []
    checkout.call(*argv)
    checkout.call("run", "first-light")
    assert checkout.lines("calls") == before


@pytest.mark.parametrize(
    "argv", [["record", "--", "server", "--cluster", "a"], ["run", "hosts"], ["test", "--cluster"]]
)
def test_words_of_others_ask_for_no_dask(checkout: Checkout, argv: list[str]) -> None:
    checkout.call(*argv)
    assert not [line for line in checkout.lines("calls") if "[cluster]" in line]


def test_what_the_tests_have_serves_a_cluster(checkout: Checkout) -> None:
    checkout.call("test")
    before = checkout.lines("calls")
    checkout.call("run", "--cluster", "local")
    assert checkout.lines("calls") == before


def test_what_is_imported_is_compiled_once(checkout: Checkout) -> None:
    checkout.call()
    checkout.call()
    compiled = [line for line in checkout.lines("calls") if "compileall" in line]
    both = " ".join(f"{checkout.folder}/harness/{one}" for one in ("powercut", "powercut_extras"))
    assert compiled == [f"python -m compileall -q {both}"]


def test_only_missing_packages_are_installed(checkout: Checkout) -> None:
    checkout.stub("dpkg-query", 'case "$*" in *nbdkit | *lz4) exit 1 ;; esac; printf installed')
    status, _, err = checkout.call()
    assert status == 0
    assert "installing Debian packages: nbdkit lz4" in err
    assert len(installs(checkout)) == 1
    assert installs(checkout)[0].endswith("install --no-install-recommends nbdkit lz4")


def test_other_users_use_sudo_for_packages_only(checkout: Checkout) -> None:
    checkout.stub("id", "echo 1000")
    checkout.stub("dpkg-query", 'case "$*" in *nbdkit) exit 1 ;; esac; printf installed')
    assert checkout.call()[0] == 0
    calls = [line for line in checkout.lines("calls") if line.startswith("sudo")]
    assert calls
    assert all(" apt-get " in line for line in calls)


def test_without_missing_packages_nobody_is_asked_for_a_password(checkout: Checkout) -> None:
    checkout.stub("id", "echo 1000")
    checkout.call()
    if any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        assert [line for line in checkout.lines("calls") if line.startswith("sudo")] == []


def test_apt_that_fails_is_tried_with_new_lists_then_explained(checkout: Checkout) -> None:
    checkout.stub("dpkg-query", 'case "$*" in *nbdkit) exit 1 ;; esac; printf installed')
    checkout.stub(
        "apt-get",
        RECORDER.format(name="apt-get")
        + 'case "$*" in *update*) exit 0 ;; esac; echo E: Unable to fetch >&2; exit 100',
    )
    status, out, err = checkout.call()
    assert (status, out) == (3, "")
    assert len(installs(checkout)) == 2
    assert any("update" in line for line in checkout.lines("calls"))
    assert "E: Unable to fetch" in err
    assert "apt-get install failed" in err
    assert "remedy: " in err
    assert checkout.lines("made") == []


def test_optional_packages_are_installed_in_one_call(checkout: Checkout) -> None:
    checkout.stub(
        "dpkg-query",
        'case "$*" in *user-mode-linux | *-progs | *clang) exit 1 ;; esac; echo installed',
    )
    assert checkout.call("test")[0] == 0
    (line,) = installs(checkout)
    assert line.endswith(" user-mode-linux btrfs-progs clang")


def test_missing_optional_package_is_no_obstacle(checkout: Checkout) -> None:
    checkout.stub(
        "dpkg-query", 'case "$*" in *user-mode-linux | *-progs) exit 1 ;; esac; printf installed'
    )
    fails = 'case "$*" in *" user-mode-linux"*) exit 100 ;; esac'
    checkout.stub("apt-get", RECORDER.format(name="apt-get") + fails)
    status, _, err = checkout.call()
    assert status == 0
    assert "no package user-mode-linux: going on without" in err
    assert installs(checkout)[-1].endswith(" btrfs-progs")


def test_python_packages_that_cannot_be_had_stop_it(checkout: Checkout) -> None:
    pip = 'case "$*" in *" install "*) echo no index >&2; exit 1 ;; esac'
    program = checkout.folder / ".venv/bin/python"
    program.write_text(RECORDER.format(name="python") + pip)
    status, out, err = checkout.call()
    assert (status, out) == (3, "")
    assert "no index" in err
    assert "remedy: the first call needs a Python package index" in err
    assert checkout.lines("calls")[-1] != "python -m powercut.machine.guest.image"


def test_build_that_fails_shows_its_end_and_is_tried_again(checkout: Checkout) -> None:
    makefile = checkout.folder / "guests/agent/Makefile"
    good = makefile.read_text()
    makefile.write_text("all:\n\t@echo main.c:7: no such thing >&2; exit 1\n")
    status, out, err = checkout.call("run")
    assert (status, out) == (3, "")
    assert "main.c:7: no such thing" in err
    assert "building guests/agent failed" in err
    # The doctor looks all the same.
    assert checkout.call("doctor")[:2] == (0, f"ran|{checkout.records}|doctor|")
    makefile.write_text(good)
    assert checkout.call("run")[0] == 0


def test_calls_at_once_make_ready_once(checkout: Checkout) -> None:
    processes = [checkout.start("run") for _ in range(4)]
    for process in processes:
        out, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
        assert out == f"ran|{checkout.records}|run|"
    assert checkout.lines("made") == list(PARTS)


def test_what_is_run_holds_no_lock(checkout: Checkout) -> None:
    program = checkout.folder / ".venv/bin/powercut"
    program.write_text("#!/bin/sh\nls -l /proc/self/fd\n")
    assert "launcher.lock" not in checkout.call()[1]


def test_shellcheck_has_nothing_to_say() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck: apt-get install shellcheck")
    done = subprocess.run(
        ["shellcheck", str(ROOT / "powercut"), str(ROOT / ".ci/run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.userns
def test_a_checkout_of_another_user_says_who_has_to_act(checkout: Checkout) -> None:
    """It serves as it is; when it has changed, only its owner can make it ready again."""
    checkout.call()
    read_only = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    alone = ["unshare", "--mount", "--map-root-user", "sh", "-c", read_only, "sh"]
    program = [str(checkout.folder / "build"), str(checkout.folder / "powercut"), "run"]
    environment = dict(os.environ, RECORDS=str(checkout.records))
    environment["PATH"] = f"{checkout.stubs}:{environment['PATH']}"
    environment.pop("POWERCUT_BUILD", None)

    def call() -> tuple[int, str]:
        done = subprocess.run(
            [*alone, *program], capture_output=True, text=True, check=False, env=environment
        )
        return done.returncode, done.stderr

    assert call() == (0, "")
    (checkout.folder / "workloads/wal.c").touch()
    status, said = call()
    assert status == 3
    assert said == (
        f"powercut: {checkout.folder} has changed since it was made ready, and "
        f"{checkout.folder}/build is not yours\n"
        "    remedy: its owner calls ./powercut once; "
        "or set POWERCUT_BUILD to a folder of your own\n"
    )
