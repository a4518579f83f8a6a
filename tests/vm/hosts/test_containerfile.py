# SPDX-License-Identifier: Apache-2.0
"""`init`'s Containerfile, built and run by buildah; its base is made from Debian's packages.

A campaign of some five minutes.  Nothing is pulled: the base has the name that the file asks for.
What is said goes to build/bare-roots/container.log.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import bare_root
import pytest

from powercut.paths import BUILD, ROOT

pytestmark = pytest.mark.campaign

BASE = "localhost/debian:bookworm"
TIMEOUT_S = 3600
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

Buildah = Callable[..., str]


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Buildah]:
    """Runs it with a store of its own; what it prints is kept, its last line returned."""
    if shutil.which("buildah") is None:
        pytest.skip("no buildah (apt-get install buildah)")
    log = BUILD / "bare-roots/container.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    place = ["--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run")]

    def run(*argv: str) -> str:
        with log.open("a") as kept:
            done = subprocess.run(
                ["buildah", *place, "--storage-driver", "vfs", *argv],
                stdout=subprocess.PIPE,
                stderr=kept,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
            kept.write(done.stdout)
        assert done.returncode == 0, log.read_text()[-4000:]
        return done.stdout

    yield run
    run("rm", "--all")
    run("rmi", "--all", "--force")


@pytest.fixture
def base(buildah: Buildah, tmp_path: Path) -> None:
    """The image that the file begins with."""
    if why := bare_root.absent():
        pytest.skip(why)
    root, tar = tmp_path / "root", tmp_path / "root.tar"
    if why := bare_root.make("debian-12", root):
        pytest.skip(f"debian-12 cannot be had: {why.splitlines()[-1]}")
    subprocess.run(["tar", "--one-file-system", "-C", root, "-cf", tar, "."], check=True)
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
    container = buildah("from", "scratch").strip()
    buildah("add", "-q", container, str(tar), "/")
    buildah("commit", "-q", container, BASE)
    tar.unlink()


def test_it_is_built_and_runs_first_light(buildah, base, wheel, tmp_path):
    """But for where pip finds powercut, as a user has it."""
    mine = tmp_path / "mine"
    mine.mkdir()
    init = [sys.executable, "-m", "powercut.cli.main", "init"]
    subprocess.run(init, cwd=mine, env={"PYTHONPATH": str(ROOT / "harness")}, check=True)
    pip = tmp_path / "pip.conf"
    pip.write_text(f"[global]\nfind-links = /wheels\ncert = {CERTIFICATES}\n")
    volumes = [f"{wheel.parent}:/wheels:ro", f"{pip}:/etc/pip.conf:ro"]
    volumes += [f"{CERTIFICATES}:{CERTIFICATES}:ro"] if Path(CERTIFICATES).exists() else []
    given = [word for volume in volumes for word in ("--volume", volume)]
    alone = ["--isolation", "chroot"]
    buildah("bud", *alone, "--pull-never", *given, "-t", "powercut", str(mine))
    container = buildah("from", "--pull-never", "powercut").strip()
    work = ["--volume", f"{mine}:/work", "--workingdir", "/work"]
    said = buildah("run", *alone, *work, container, "--", "powercut", "run", "--seed", "1")
    assert "All as expected. 3 power cuts in " in said
    assert (mine / "results/first-light/latest/report.html").exists()
