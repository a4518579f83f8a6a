# SPDX-License-Identifier: Apache-2.0
"""What works on odd hosts: first-light, `try`, `capture`, and the tests that a host can change.

A campaign: tests/odd-hosts runs it, or some of its hosts.  What was said goes to build/odd-hosts,
and the table of docs/troubleshooting.md is made from it.  A test that cannot work there is
skipped, with its reason; none may fail.  A verdict is what it is elsewhere, or INCONCLUSIVE.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from poor_host import NO_FUSE, NOEXEC, READ_ONLY, PoorHost
from processors import large_registers

from powercut.paths import BUILD, ROOT

pytestmark = [pytest.mark.campaign, pytest.mark.vm, pytest.mark.mounts]

TIMEOUT_S = 1800
USER_PATH = "/usr/local/bin:/usr/bin:/bin"
TESTS = ("tests/unit/sandbox", "tests/unit/store/test_own_recordings.py", "tests/unit/doctor")
"""What a host can change, of the unit tests."""

NO_BUBBLEWRAP = """
mount --bind /dev/null "$(command -v bwrap)"
lacks bwrap --ro-bind / / true
"""
ANOTHER_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
LONG_AGO = ("faketime", "-m", "-f", "-1000d")
"""The clock of a board without a battery; Debian's faketime."""

PROGRAM = "workloads/examples/append.sh"
LOSES_NOTHING, UNKNOWN = 0, 3


@dataclass(frozen=True)
class Oddity:
    """What is odd about a host.

    `place` is where a clone lies, `temporary` TMPDIR's name; `before` stands before each command.
    """

    mounts: str = ""
    container: bool = False
    small: bool = False
    large_registers: bool = False
    user: bool = False
    home: bool = True
    place: str = ""
    temporary: str = ""
    before: tuple[str, ...] = ()


ODDITIES = {
    "below-0700": Oddity(place="closed/checkout"),
    "path-with-blank": Oddity(place="with blank/checkout"),
    "another-users-checkout": Oddity(user=True),
    "tmpdir-with-blank": Oddity(temporary="with blank"),
    "tmpdir-with-colon": Oddity(temporary="with:colon"),
    "no-home": Oddity(user=True, home=False),
    "pid-namespace": Oddity(before=ANOTHER_PID_NAMESPACE),
    "one-processor": Oddity(small=True),
    "no-bubblewrap": Oddity(NO_BUBBLEWRAP),
    "no-fuse": Oddity(NO_FUSE),
    "wrong-clock": Oddity(before=LONG_AGO),
    "no-namespaces": Oddity(container=True),
    "noexec": Oddity(NOEXEC),
    "read-only": Oddity(READ_ONLY),
    "amx": Oddity(large_registers=True),
    "user-no-namespaces": Oddity(user=True, container=True),
}

USERS = (12345, 12346)
"""Ordinary users without an entry in passwd, neither of whom owns the checkout."""


@dataclass(frozen=True)
class OddHost:
    """A host, the checkout that is used there, and what stands before each command."""

    host: PoorHost
    root: Path
    before: tuple[str, ...] = ()

    def run(self, *argv: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self.host.run(*self.before, *argv, cwd=cwd, timeout_s=TIMEOUT_S)

    def powercut(self, verb: str, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """The launcher of that checkout, from a folder of the user's."""
        results = self.host.work / "results"
        return self.run(self.root / "powercut", verb, "--results", results, *argv)


@pytest.fixture
def homes() -> Iterator[list[Path]]:
    """One for each of the users; pytest's own folders are closed to others."""
    with ExitStack() as made:
        found = [Path(made.enter_context(TemporaryDirectory(prefix="pc-"))) for _ in USERS]
        for home, user in zip(found, USERS, strict=True):
            os.chown(home, user, user)
        yield found


def of_user(work: Path, user: int, *, container: bool = False, home: bool = True) -> PoorHost:
    """A host that is `user`'s: what was built is the owner's of the checkout."""
    environment = {"PATH": USER_PATH, "POWERCUT_BUILD": "", "POWERCUT_CACHE": ""}
    environment |= {"TMPDIR": str(work), "XDG_CACHE_HOME": "" if home else str(work / "cache")}
    environment["HOME"] = str(work) if home else "/nonexistent"
    return PoorHost(work, container=container, user=user, environment=environment)


def clone(place: Path) -> Path:
    """A checkout of its own there, made ready as its user would."""
    place.parent.mkdir(mode=0o700)
    subprocess.run(["git", "clone", "-q", ROOT, place], check=True)
    environment = {key: value for key, value in os.environ.items() if key != "POWERCUT_BUILD"}
    collect = ["test", "-q", "--collect-only", "tests/unit/model"]
    subprocess.run([place / "powercut", *collect], check=True, env=environment, timeout=TIMEOUT_S)
    return place


@pytest.fixture
def odd(request: pytest.FixtureRequest, tmp_path: Path, homes: list[Path]) -> OddHost:
    oddity = ODDITIES[request.param]
    if oddity.user:
        host = of_user(homes[0], USERS[0], container=oddity.container, home=oddity.home)
        return OddHost(host, ROOT)
    if oddity.before and not shutil.which(oddity.before[0]):
        pytest.skip(f"{oddity.before[0]} is not installed")
    environment = {"POWERCUT_BUILD": str(BUILD)}
    if oddity.place:
        environment["POWERCUT_BUILD"] = ""
    if oddity.temporary:
        os.chown(homes[0], 0, 0)
        environment["TMPDIR"] = f"{homes[0]}/{oddity.temporary}"
        Path(environment["TMPDIR"]).mkdir()
    if oddity.mounts == READ_ONLY:
        environment |= {"POWERCUT_BUILD": f"{tmp_path}/build", "HOME": str(tmp_path)}
    if oddity.large_registers:
        environment["PATH"] = f"{large_registers(tmp_path)}:{os.environ['PATH']}"
        environment["POWERCUT_CACHE"] = f"{tmp_path}/cache"  # with what is known of the processor
    host = PoorHost(
        tmp_path,
        oddity.mounts,
        container=oddity.container,
        small=oddity.small,
        environment=environment,
    )
    root = clone(tmp_path / oddity.place) if oddity.place else ROOT
    return OddHost(host, root, oddity.before)


def log_of(name: str) -> Path:
    log = BUILD / "odd-hosts" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def first_light(host: OddHost) -> subprocess.CompletedProcess[str]:
    return host.powercut("run", "first-light", "--seed", "1")


def tried(host: OddHost) -> subprocess.CompletedProcess[str]:
    return host.powercut("try", "--seed", "1", "--acks", "60", "--", host.root / PROGRAM)


def captured(host: OddHost) -> subprocess.CompletedProcess[str]:
    program, folder = host.root / PROGRAM, host.host.work / "folder"
    made = host.run("sh", "-c", 'mkdir "$2" && "$1" setup "$2"', "sh", program, folder)
    assert made.returncode == 0, made.stderr
    check = shlex.join(map(str, [program, "check", folder]))
    options = ["--seed", "1", "--acks", "60", "--budget", "40", "--check", check]
    return host.powercut("capture", folder, *options, "--", program, "run", folder)


@pytest.mark.parametrize(("name", "odd"), [(name, name) for name in ODDITIES], indirect=["odd"])
def test_an_odd_host(name: str, odd: OddHost) -> None:
    log = log_of(name)
    runs = [first_light(odd), tried(odd), captured(odd)]
    said = "".join(run.stdout + run.stderr for run in runs)
    log.write_text(said)
    assert "Traceback" not in said
    assert "bug in powercut" not in said
    assert runs[0].returncode == LOSES_NOTHING, runs[0].stderr
    assert {run.returncode for run in runs[1:]} <= {LOSES_NOTHING, UNKNOWN}, said
    argv = ["-m", "pytest", "-q", "-rs", "-n", "2", "-p", "no:cacheprovider", *TESTS]
    tests = odd.run(odd.root / ".venv/bin/python", *argv, cwd=odd.root)
    log.write_text(said + tests.stdout + tests.stderr)
    assert tests.returncode == 0, tests.stdout[-6000:]


def test_two_users_share_a_checkout_at_the_same_time(homes: list[Path]) -> None:
    hosts = [OddHost(of_user(home, user), ROOT) for home, user in zip(homes, USERS, strict=True)]
    with ThreadPoolExecutor() as both:
        runs = list(both.map(first_light, hosts))
    log_of("two-users").write_text("".join(run.stdout + run.stderr for run in runs))
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
