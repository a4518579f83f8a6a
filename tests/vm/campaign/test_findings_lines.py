# SPDX-License-Identifier: Apache-2.0
"""The lines that show a finding without powercut, as its page in docs/findings has them.

A kernel or a QEMU that has mended the fault fails these tests: then the page's versions end there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from suite_tools import qemu_tools

from powercut.paths import ROOT

pytestmark = pytest.mark.campaign

LIMIT_S = 300
HOST = "the host's"


def lines_of(page: str) -> str:
    """What stands indented below `See it yourself`."""
    text = (ROOT / "docs" / "findings" / page).read_text()
    part = text[text.index("**See it yourself**") :]
    part = part[: part.index("\n**", 1)]
    return "\n".join(re.findall(r"^    (.*)$", part, re.MULTILINE))


def typed(lines: str, folder: Path, path: str = "", apart: tuple[str, ...] = ()) -> str:
    """What a shell prints that was given them, in an empty folder."""
    search = f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]
    done = subprocess.run(
        [*apart, "bash", "-c", lines], cwd=folder, env={**os.environ, "PATH": search},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module", params=[HOST, "trixie", "sid"])
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the QEMU tools of a suite, for PATH; nothing for the host's own."""
    if request.param == HOST:
        return ""
    return str(qemu_tools(request.param, tmp_path_factory.mktemp(request.param)))


def stopped_before(number: int) -> str:
    """The page's lines, with qemu-io stopped elsewhere."""
    lines = lines_of("qemu-vhdx-log.md")
    earlier = " ".join(map(str, range(1, number)))
    changed = lines.replace("for n in 1 2 3 4 5;", f"for n in {earlier};")
    return changed.replace("'wait_break 6'", f"'wait_break {number}'")


def test_a_vhdx_image_whose_log_was_not_begun_takes_no_new_block(tools, tmp_path):
    said = typed(lines_of("qemu-vhdx-log.md"), tmp_path, tools)
    assert "No errors were found on the image." in said
    assert "write failed: Operation not supported" in said


@pytest.mark.parametrize("number", [4, 8])
def test_a_vhdx_image_that_was_left_earlier_or_later_does(tools, tmp_path, number):
    said = typed(stopped_before(number), tmp_path, tools)
    assert "wrote 65536/65536 bytes at offset 5242880" in said
    assert "write failed" not in said


TABLES = "qemu-block-job-tables.md"
UNKEPT = "Pattern verification failed at offset 0, 1048576 bytes"


def test_a_qemu_that_is_killed_after_a_commit_leaves_zeroes(tools, tmp_path):
    lines = lines_of(TABLES)
    assert UNKEPT in typed(lines, tmp_path, tools)
    mended = "qemu-img rebase -u -F qcow2 -b mid.qcow2 top.qcow2"
    assert mended in (ROOT / "docs" / "findings" / TABLES).read_text()
    assert UNKEPT not in typed(f"{mended}\n{lines.splitlines()[-1]}", tmp_path, tools)


def test_one_that_ends_in_order_does_not(tools, tmp_path):
    said = typed(
        lines_of(TABLES).replace("timeout -s KILL 5", "timeout -s TERM 5"), tmp_path, tools
    )
    assert '"BLOCK_JOB_COMPLETED"' in said
    assert UNKEPT not in said
    assert "read 1048576/1048576 bytes" in said


XFS = "xfs-shared-block.md"


@pytest.mark.loop
@pytest.mark.skipif(
    not (shutil.which("xfs_io") and shutil.which("mkfs.xfs")), reason="xfsprogs is missing"
)
@pytest.mark.parametrize("remedy", [False, True])
def test_xfs_gives_a_file_that_was_cut_short_its_clones_bytes_on_loop(tmp_path, remedy):
    lines = lines_of(XFS)
    if remedy:
        cut = next(line for line in lines.splitlines() if line.startswith("truncate -s 0 "))
        lines = lines.replace(cut, f"{cut}\nxfs_io -c fsync m/old")
    # A sandbox that another process begins meanwhile would keep a mount that it can see.
    said = typed(lines, tmp_path, apart=("unshare", "--mount"))
    found = re.search(r"^001000((?: [0-9a-f]{2}){16})$", said, re.MULTILINE)
    if remedy:
        assert found is None
        assert said.splitlines()[-1] == "000000"  # it is empty
    else:
        assert found is not None, said
        assert found[1] == " 43" * 16
