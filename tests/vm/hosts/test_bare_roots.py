# SPDX-License-Identifier: Apache-2.0
"""powercut in root file systems that have nothing but apt: as a wheel, and as a checkout.

A campaign of some ten minutes a distribution.  What is said there goes to build/bare-roots, each
line after the seconds since its root was made.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import bare_root
import folder_program
import pytest
from bare_root import BareRoot

from powercut.paths import BUILD, ROOT

pytestmark = pytest.mark.campaign

WHEEL = """
set -eux
apt-get -q update
apt-get -q -y install --no-install-recommends pipx python3-venv
pipx install /wheels/*.whl
apt-get -q -y install --no-install-recommends $(/root/.local/bin/powercut doctor --packages)
mkdir /mine && cd /mine
/root/.local/bin/powercut init
/root/.local/bin/powercut run --seed 1
/root/.local/bin/powercut doctor
/root/.local/bin/powercut test -q
"""

PROGRAM_TRIED = """
set -eux
apt-get -q update
apt-get -q -y install --no-install-recommends pipx
python3 -c 'import sys; print("python %d.%d" % sys.version_info[:2])'
PATH=$PATH:/root/.local/bin
mkdir /mine && cd /mine
pipx install /wheels/powercut-*.whl
powercut init --program --language python
powercut try --install -- ./notes.py
sed -i "/# without this line/d" notes.py
if powercut try -- ./notes.py; then exit 1; fi
"""
"""Three commands, once there is pipx, to a verdict on a program; and its twin without its sync."""

PYTHONS = {"debian-12": "3.11", "debian-13": "3.13", "ubuntu-24.04": "3.12"}
"""Which Python those distributions have; that of others changes."""

CAPTURE = """
set -eux
cd /mine && mkdir folder
for way in append append-unsynced; do
    /root/.local/bin/powercut capture folder --budget 40 \\
        --check 'python3 /wheels/folder_check.py folder' \\
        -- python3 /wheels/folder_program.py $way folder || test $way = append-unsynced
    rm folder/log
done
"""
"""A program on the root's own files, which syncs them; and its twin, which does not."""

FIRST = """
set -eux
cd /src
./powercut run first-light --seed 1
"""

TESTS = """
set -eux
cd /src
./powercut test -q {tests}
"""

TELLING = (
    "tests/unit/test_linters.py",
    "tests/unit/test_house_rules.py",
    "tests/unit/machine",
    "tests/unit/launcher",
    "tests/unit/sandbox",
    "tests/extras/elsewhere/test_cli_listen.py",
    "tests/conformance",
    "tests/planted/explore",
    "tests/vm/hosts",
    "tests/vm/campaign/test_run_files.py",
    "tests/vm/campaign/test_run_own_kernel.py",
    "tests/vm/explore/test_recovery_kernels.py",
    "tests/vm/machine/test_foreign_guest.py",
    "tests/vm/machine/test_machine_cache_modes.py",
    "tests/vm/workload/test_sync_mutants.py",
)
"""The types, what asks this host's programs for their versions, FUSE, User-Mode Linux, QEMU; and
what has failed with one distribution's versions alone."""

PROGRAM = (
    Path(folder_program.__file__),
    Path(folder_program.__file__).with_name("folder_check.py"),
)

FIRST_ONLY = ("ubuntu-24.04",)
"""Where a checkout runs first-light, and no tests: they name versions of Debian's packages."""


@pytest.fixture(params=bare_root.DISTRIBUTIONS)
def root(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path
) -> Iterator:
    """One with nothing in it, so that the first lines of a log are those of a new user."""
    if why := bare_root.absent():
        pytest.skip(why)
    path = tmp_path_factory.mktemp("bare") / request.param
    if why := bare_root.make(request.param, path):
        pytest.skip(f"{request.param} cannot be had: {why.splitlines()[-1]}")
    yield BareRoot(request.param, path, time.monotonic())
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


@pytest.fixture
def log(root: BareRoot, request: pytest.FixtureRequest) -> Path:
    name = request.node.name
    way = "checkout" if "checkout" in name else "program" if "commands" in name else "wheel"
    path = BUILD / "bare-roots" / f"{root.name}-{way}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_the_wheel_and_what_init_writes(root, log, wheel):
    (root.path / "wheels").mkdir()
    for file in (wheel, *PROGRAM):
        (root.path / "wheels" / file.name).write_bytes(file.read_bytes())
    said = root.run(WHEEL, log)
    assert any(line.startswith("All as expected. 3 power cuts in ") for line in said)
    assert any(" 4 passed in " in f" {line}" for line in said)
    said = root.run(CAPTURE, log)
    verdicts = [line.split()[1] for line in said if line.startswith(("✓ ", "✗ ", "? "))]
    assert verdicts == ["SAFE", "LOSSY"]


def test_three_commands_lead_from_the_wheel_to_a_verdict(root, log, published):
    (root.path / "wheels").mkdir()
    (root.path / "wheels" / published.name).write_bytes(published.read_bytes())
    said = root.run(PROGRAM_TRIED, log)
    (python,) = (line.split()[1] for line in said if re.fullmatch(r"python \d+\.\d+", line))
    assert python == PYTHONS.get(root.name, python)
    verdicts = [line.split()[1] for line in said if line.endswith("  ./notes.py")]
    assert verdicts == ["SAFE", "LOSSY"], log


def test_a_checkout(root, log):
    subprocess.run(["git", "clone", "-q", ROOT, root.path / "src"], check=True)
    said = root.run(FIRST, log)
    assert any(line.startswith("All as expected. 3 power cuts in ") for line in said)
    if root.name not in FIRST_ONLY:
        said = root.run(TESTS.format(tests=" ".join(TELLING)), log)
        assert any(" passed" in line and "failed" not in line for line in said[-3:])
