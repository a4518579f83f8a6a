# SPDX-License-Identifier: Apache-2.0
"""The Vagrantfile in a fresh Debian root: vagrant accepts it, and what it provisions with works.

A campaign of some five minutes; what is said goes to build/bare-roots/vagrant.log.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import bare_root
import pytest
from bare_root import BareRoot

from powercut.paths import BUILD, ROOT

pytestmark = pytest.mark.campaign

SCRIPT = (ROOT / "Vagrantfile").read_text().partition("<<-SHELL\n")[2].partition("  SHELL\n")[0]

BOX = """
set -eux
apt-get -q update
apt-get -q -y install --no-install-recommends sudo git
useradd --create-home --shell /bin/bash vagrant
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/vagrant
echo 'Defaults env_keep += "PIP_CERT"' >> /etc/sudoers.d/vagrant
chown -R vagrant: /powercut
su vagrant -c 'sh -e /provision.sh'
"""

VALIDATE = """
set -eux
apt-get -q -y install --no-install-recommends vagrant
cd /powercut
vagrant validate --ignore-provider
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareRoot]:
    """What a Debian box has: sudo, and a user of that name who may use it."""
    if why := bare_root.absent():
        pytest.skip(why)
    path = tmp_path_factory.mktemp("box") / "root"
    if why := bare_root.make("debian-12", path):
        pytest.skip(f"debian-12 cannot be had: {why.splitlines()[-1]}")
    subprocess.run(["git", "clone", "-q", ROOT, path / "powercut"], check=True)
    (path / "provision.sh").write_text(SCRIPT)
    yield BareRoot("vagrant", path, time.monotonic())
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


@pytest.fixture(scope="module")
def log() -> Path:
    path = BUILD / "bare-roots/vagrant.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_what_it_provisions_with_ends_with_a_verdict(box: BareRoot, log: Path) -> None:
    said = box.run(BOX, log)
    assert any(line.startswith("All as expected. 3 power cuts in ") for line in said)
    assert (box.path / "powercut/results/first-light/latest").stat().st_uid != 0


def test_vagrant_accepts_it(box: BareRoot, log: Path) -> None:
    assert "Vagrantfile validated successfully." in box.run(VALIDATE, log)
