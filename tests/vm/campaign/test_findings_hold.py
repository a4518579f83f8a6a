# SPDX-License-Identifier: Apache-2.0
"""Each script beside a page of docs/findings says what its page says, with each version of Debian.

    ./powercut test -m campaign tests/vm/campaign/test_findings_hold.py [-k vhdx]

A version that has come since fails here: the page has to name it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from findings_pages import FOLDER, Page, pages
from suite_tools import qemu_tools

from powercut.paths import BUILD, ROOT
from powercut.recover.uml.engine import unavailable
from powercut_extras.suites.unpacked import suite_qemu, suite_uml

pytestmark = pytest.mark.campaign

SCRIPTS = [page for page in pages() if page.reproduction]
QEMU_SUITES = ("host", "bookworm-backports", "trixie", "sid")
UML_SUITES = ("host", "bullseye", "trixie", "sid")
TOOLS = {"QEMU_IO": "qemu-io", "QEMU_IMG": "qemu-img", "QEMU_STORAGE_DAEMON": "qemu-storage-daemon"}
PRODUCTS = ROOT / "workloads" / "products"
TIMEOUT_S = 300
PRESENT = 1


def ran(argv: list[str | Path], **environment: str | Path) -> tuple[int, str]:
    words = {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        argv, env=dict(os.environ, **words), cwd=FOLDER, capture_output=True, text=True,
        check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def is_named(page: Page, product: str, version: str, status: int) -> bool:
    """Whether the page says of that version what the script has said."""
    names = page.seen if status == PRESENT else page.not_seen
    return any(f"{name} ".startswith(f"{product} {version} ") for name in names)


@pytest.fixture(scope="module")
def tools_of(tmp_path_factory):
    """The variables with which a script is told of a suite's tools."""
    made = {"host": {}}

    def of(suite: str) -> dict[str, Path]:
        if suite not in made:
            folder = qemu_tools(suite, tmp_path_factory.mktemp(suite) / "tools")
            made[suite] = {name: folder / tool for name, tool in TOOLS.items()}
        return made[suite]

    return of


@pytest.mark.parametrize("suite", QEMU_SUITES)
@pytest.mark.parametrize(
    "page", [p for p in SCRIPTS if p.path.name.startswith("qemu")], ids=lambda p: p.path.stem
)
def test_qemu_has_the_fault_that_its_page_names(page, suite, tools_of):
    script = FOLDER / page.reproduction
    if script.suffix == ".py":
        qemu = "qemu-system-x86_64"
        if suite != "host":
            qemu = suite_qemu(suite, deadline=time.monotonic() + TIMEOUT_S).program
        status, said = ran([sys.executable, script, qemu])
    else:
        status, said = ran(["sh", script], **tools_of(suite))
    version = re.search(r"version ([\d.]+)", said)
    assert status in (0, 1), said
    assert version, said
    assert is_named(page, "QEMU", version[1], status), said


@pytest.mark.parametrize("suite", UML_SUITES)
@pytest.mark.parametrize(
    "page", [p for p in SCRIPTS if re.match("btrfs|dm-|ext4|sqlite-|xfs", p.path.name)],
    ids=lambda p: p.path.stem,
)  # fmt: skip
def test_a_kernel_has_the_fault_that_its_page_names(page, suite):
    if why := unavailable():
        pytest.skip("; ".join(why))
    environment: dict[str, str | Path] = {"UML_PRELOAD": BUILD / "lib/uml-xstate.so"}
    if suite != "host":
        uml = suite_uml(suite, deadline=time.monotonic() + TIMEOUT_S)
        environment |= {
            "UML": uml.program, "UML_MODULES": uml.modules, "UML_LIBRARIES": uml.libraries,
        }  # fmt: skip
    status, said = ran(["sh", FOLDER / "in-uml.sh", FOLDER / page.reproduction], **environment)
    version = re.search(r"^Linux version ([\d.]+)", said, re.MULTILINE)
    assert status in (0, 1), said
    assert version, said
    assert is_named(page, "Linux", version[1], status), said


def test_fuse_of_this_kernel_has_the_fault_that_its_page_names():
    page = next(page for page in SCRIPTS if page.path.stem == "linux-fuse-aio-dsync")
    status, said = ran(["sh", FOLDER / page.reproduction])
    if status == 77:
        pytest.skip(said)
    version = re.search(r"Linux ([\d.]+)", said)
    assert version, said
    assert is_named(page, "Linux", version[1], status), said


@pytest.mark.parametrize(
    "page",
    [
        p for p in SCRIPTS
        if p.layer in ("database", "version control") and not p.path.name.startswith("sqlite-")
    ],
    ids=lambda p: p.path.stem,
)  # fmt: skip
def test_a_product_has_the_fault_that_its_page_names(page):
    """workloads/products/packages.sh names what it needs of Debian, and fetches the rest."""
    subprocess.run([PRODUCTS / "packages.sh"], check=True, timeout=TIMEOUT_S)
    runner = "sh" if page.reproduction.endswith(".sh") else "/usr/bin/python3"
    built = BUILD / "products"
    status, said = ran(
        [runner, FOLDER / page.reproduction],
        PYTHONPATH=built / "python", CARGO_TARGET_DIR=built / "rust",
    )  # fmt: skip
    assert status in (0, 1), said
    product, _, version = page.seen[0].partition(" ")
    assert re.search(rf"^{product}.* {re.escape(version)}\b", said, re.MULTILINE | re.IGNORECASE)
    assert is_named(page, product, version, status), said
