# SPDX-License-Identifier: Apache-2.0
"""What works on hosts that lack something: first-light, and the tests of what they lack.

A campaign of some half an hour; what the tests said goes to build/poor-hosts, and the table of
docs/troubleshooting.md is made from it.  A test that cannot work there is skipped, with its
reason; none may fail.  Only root can make such hosts.
"""

from __future__ import annotations

import os
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

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.vm,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make them"),
]

TIMEOUT_S = 3600
USER_PATH = "/usr/local/bin:/usr/bin:/bin"
TESTS = (
    "tests/unit/sandbox",
    "tests/unit/machine/test_machine_fuse.py",
    "tests/conformance/recover",
    "tests/vm/explore/test_explore_promise.py",
    "tests/vm/recording/test_recordings_real.py",
)
"""The sandbox, disks as files, User-Mode Linux, exploration, minimising."""


@dataclass(frozen=True)
class Lack:
    mounts: str = ""
    container: bool = False
    small: bool = False
    large_registers: bool = False
    user: bool = False


LACKS = {
    "no-fuse": Lack(NO_FUSE),
    "no-namespaces": Lack(container=True),
    "noexec": Lack(NOEXEC),
    "read-only": Lack(READ_ONLY),
    "small": Lack(small=True),
    "amx": Lack(large_registers=True),
    "user": Lack(user=True),
    "user-no-namespaces": Lack(user=True, container=True),
}

USERS = (12345, 12346)
"""Ordinary users, neither of whom owns the checkout."""


@pytest.fixture
def homes() -> Iterator[list[Path]]:
    """One for each of the users; pytest's own folders are closed to others."""
    with ExitStack() as made:
        found = [Path(made.enter_context(TemporaryDirectory(prefix="pc-"))) for _ in USERS]
        for home, user in zip(found, USERS, strict=True):
            os.chown(home, user, user)
        yield found


def of_user(home: Path, user: int, *, container: bool = False) -> PoorHost:
    """A host that is `user`'s: what was built is the owner's of the checkout."""
    environment = {"HOME": str(home), "PATH": USER_PATH, "POWERCUT_BUILD": "", "POWERCUT_CACHE": ""}
    environment["TMPDIR"] = str(home)
    return PoorHost(home, container=container, user=user, environment=environment)


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path, homes: list[Path]) -> PoorHost:
    lack = LACKS[request.param]
    if lack.user:
        return of_user(homes[0], USERS[0], container=lack.container)
    environment = {"POWERCUT_BUILD": str(BUILD)}
    if lack.mounts == READ_ONLY:
        environment |= {"POWERCUT_BUILD": f"{tmp_path}/build", "HOME": str(tmp_path)}
    if lack.large_registers:
        environment["PATH"] = f"{large_registers(tmp_path)}:{os.environ['PATH']}"
        environment["POWERCUT_CACHE"] = f"{tmp_path}/cache"  # with what is known of the processor
    return PoorHost(
        tmp_path, lack.mounts, container=lack.container, small=lack.small, environment=environment
    )


def first_light(host: PoorHost) -> subprocess.CompletedProcess[str]:
    results = ("--results", host.work / "results")
    return host.run(
        *(ROOT / "powercut", "run", "first-light", "--seed", "1", *results), timeout_s=TIMEOUT_S
    )


def log_of(name: str) -> Path:
    log = BUILD / "poor-hosts" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


@pytest.mark.parametrize(("name", "host"), [(name, name) for name in LACKS], indirect=["host"])
def test_first_light_and_the_tests(name: str, host: PoorHost) -> None:
    log = log_of(name)
    run = first_light(host)
    log.write_text(run.stdout + run.stderr)
    assert run.returncode == 0, run.stderr
    tests = host.run(
        *(ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *TESTS),
        cwd=ROOT,
        timeout_s=TIMEOUT_S,
    )
    log.write_text(run.stdout + run.stderr + tests.stdout + tests.stderr)
    assert tests.returncode == 0, tests.stdout[-6000:]


def test_two_users_share_a_checkout_at_the_same_time(homes: list[Path]) -> None:
    hosts = [of_user(home, user) for home, user in zip(homes, USERS, strict=True)]
    with ThreadPoolExecutor() as both:
        runs = list(both.map(first_light, hosts))
    log_of("two-users").write_text("".join(run.stdout + run.stderr for run in runs))
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
