# SPDX-License-Identifier: Apache-2.0
"""From the wheel to a verdict in three commands, in root file systems that have apt and pipx alone.

A campaign of some five minutes a distribution.  What is said goes to build/bare-roots, with the
seconds since the root was made before each line.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import bare_root
import pytest
from bare_root import BareRoot

from powercut.paths import BUILD, ROOT

pytestmark = pytest.mark.campaign

BEFORE = """
set -eux
apt-get -q update
apt-get -q -y install --no-install-recommends pipx
"""

COMMANDS = """
set -eux
mkdir /mine && cd /mine
PATH=$PATH:/root/.local/bin
pipx install /wheels/powercut-*.whl
powercut init --program --language python
powercut try --install -- ./notes.py
sed -i "/# without this line/d" notes.py
if powercut try -- ./notes.py; then exit 1; fi
"""

PYTHONS = {"debian-12": "3.11", "debian-13": "3.13", "ubuntu-24.04": "3.12"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `python -m build` makes it: from an sdist, each in an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(["git", "clone", "-q", ROOT, folder / "source"], check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
    tools = folder / "tools/bin"
    subprocess.run([tools / "pip", "install", "-q", "build", "twine"], check=True)
    made = folder / "dist"
    build = [tools / "python", "-m", "build", "-o", made, folder / "source"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([tools / "twine", "check", "--strict", *made.iterdir()], check=True)
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module", params=PYTHONS)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    if why := bare_root.absent():
        pytest.skip(why)
    path = tmp_path_factory.mktemp("bare") / request.param
    if why := bare_root.make(request.param, path):
        pytest.skip(f"{request.param} cannot be had: {why.splitlines()[-1]}")
    yield BareRoot(request.param, path, time.monotonic())
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


def test_three_commands_lead_to_a_verdict(root: BareRoot, wheel: Path) -> None:
    log = BUILD / "bare-roots" / f"{root.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    (root.path / "wheels").mkdir()
    (root.path / "wheels" / wheel.name).write_bytes(wheel.read_bytes())
    root.run(BEFORE, log)
    (python,) = root.run("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'", log)
    assert python == PYTHONS[root.name]
    said = root.run(COMMANDS, log)
    verdicts = [line.split()[1] for line in said if line.endswith("  ./notes.py")]
    assert verdicts == ["SAFE", "LOSSY"], log
