# SPDX-License-Identifier: Apache-2.0
"""What works on hosts that lack something: first-light, and the tests of what they lack.

A campaign of some fifteen minutes; what the tests said goes to build/poor-hosts, and the table of
docs/troubleshooting.md is made from it.  A test that cannot work there is skipped, with its
reason; none may fail.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from poor_host import NO_FUSE, NOEXEC, READ_ONLY, PoorHost
from processors import large_registers

from powercut.paths import BUILD, ROOT

pytestmark = [pytest.mark.campaign, pytest.mark.vm]

TIMEOUT_S = 3600
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


LACKS = {
    "no-fuse": Lack(NO_FUSE),
    "no-namespaces": Lack(container=True),
    "noexec": Lack(NOEXEC),
    "read-only": Lack(READ_ONLY),
    "small": Lack(small=True),
    "amx": Lack(large_registers=True),
}


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path) -> PoorHost:
    lack = LACKS[request.param]
    environment = {"POWERCUT_BUILD": str(BUILD)}
    if lack.mounts == READ_ONLY:
        environment |= {"POWERCUT_BUILD": f"{tmp_path}/build", "HOME": str(tmp_path)}
    if lack.large_registers:
        environment["PATH"] = f"{large_registers(tmp_path)}:{os.environ['PATH']}"
        environment["POWERCUT_CACHE"] = f"{tmp_path}/cache"  # with what is known of the processor
    return PoorHost(
        tmp_path, lack.mounts, container=lack.container, small=lack.small, environment=environment
    )


@pytest.mark.parametrize(("name", "host"), [(name, name) for name in LACKS], indirect=["host"])
def test_first_light_and_the_tests(name: str, host: PoorHost) -> None:
    log = BUILD / "poor-hosts" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    results = ("--results", host.work / "results")
    run = host.run(
        *(ROOT / ".venv/bin/powercut", "run", "first-light", "--seed", "1", *results),
        timeout_s=TIMEOUT_S,
    )
    log.write_text(run.stdout + run.stderr)
    assert run.returncode == 0, run.stderr
    tests = host.run(
        *(ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *TESTS),
        cwd=ROOT,
        timeout_s=TIMEOUT_S,
    )
    log.write_text(run.stdout + run.stderr + tests.stdout + tests.stderr)
    assert tests.returncode == 0, tests.stdout[-6000:]
