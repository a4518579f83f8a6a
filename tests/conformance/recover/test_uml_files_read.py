# SPDX-License-Identifier: Apache-2.0
"""Which files a check has read: in every way in which one reads, whatever the mount options say."""

import os
import shutil
import subprocess

import pytest

from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.recover.uml.engine import UmlEngine, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

TOOLS = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}
READ = ("read", "mapped", "direct", "undated", "undated later", "sent", "a header")
LEFT = ("opened", "asked", "written")
MAKE = f"""
import os
for name in {READ + LEFT + ("empty",)}:
    with open("/mnt/" + name, "wb") as file:
        file.write(b"x" * 8192 * (name != "empty"))
os.sync()
"""
CHECK = """
import fcntl, mmap, os
os.chdir("/mnt")
open("read", "rb").read()
with open("mapped", "rb") as file:
    mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[5]
os.preadv(os.open("direct", os.O_RDONLY | os.O_DIRECT), [mmap.mmap(-1, 4096)], 0)
try:
    undated = os.open("undated", os.O_RDONLY | os.O_NOATIME)
except PermissionError:
    undated = os.open("undated", os.O_RDONLY)
os.read(undated, 9)
later = os.open("undated later", os.O_RDONLY)
try:
    fcntl.fcntl(later, fcntl.F_SETFL, os.O_NOATIME)
except PermissionError:
    pass
os.read(later, 9)
os.sendfile(os.open("/dev/null", os.O_WRONLY), os.open("sent", os.O_RDONLY), 0, 4096)
open("a header", "rb").read(1)
open("opened", "rb").close()
os.stat("asked")
with open("written", "r+b") as file:
    file.write(b"y")
os.write(3, b"= 1\\n")
"""
WAIT_S = 120.0


@pytest.mark.parametrize("filesystem", TOOLS)
def test_what_a_check_reads_is_known(filesystem, tmp_path):
    tool = shutil.which(TOOLS[filesystem][0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip(f"{TOOLS[filesystem][0]} is not installed")
    base = tmp_path / "base"
    with base.open("wb") as image:
        image.truncate(128 << 20)
    subprocess.run([tool, *TOOLS[filesystem][1:], base], check=True, timeout=60)
    python = ("/usr/bin/python3", "-I", "-S", "-c")
    plan = RecoveryPlan.of(
        filesystem, "noatime", "/host/mnt", (*python, CHECK),
        host=HostRoot("/", ("PATH=/usr/bin:/bin",)),
    )  # fmt: skip
    with UmlEngine(base, plan) as engine:
        engine.start(timeout_s=WAIT_S)
        engine.mount(timeout_s=WAIT_S)
        engine.execute((*python, MAKE), timeout_s=WAIT_S)
        state = engine.capture(timeout_s=WAIT_S)
        engine.unmount(timeout_s=WAIT_S)
        listed, before = engine.files_read(state, check=False, timeout_s=WAIT_S)
        seen, after = engine.files_read(state, check=True, timeout_s=WAIT_S)
        again = engine.recover(state, timeout_s=WAIT_S)
    assert (listed.lines, seen.lines, again.lines) == (b"", b"= 1\n", b"= 1\n"), seen.failure
    assert before is not None
    assert after is not None
    assert {file.path for file in before if file.unread} == {*READ, *LEFT, "empty"}
    undated = {"direct"} if filesystem == "btrfs" else set()  # it does not date direct reads
    assert {file.path for file in after if file.unread} == {*LEFT, "empty", *undated}
    assert [(file.path, file.size, file.modified_ns, file.changed_ns) for file in before] == [
        (file.path, file.size, file.modified_ns, file.changed_ns) for file in after
    ]
