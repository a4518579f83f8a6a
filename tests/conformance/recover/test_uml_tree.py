# SPDX-License-Identifier: Apache-2.0
"""The files of a recovered disk as an archive: what a program in the guest sees, no more."""

import os
import shutil
import subprocess

import pytest

from powercut.recover.native import inside
from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.recover.uml.engine import UmlEngine, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

# Content, names and permissions; run in the guest and on the host.
LIST = (
    "find . -mindepth 1 -path ./lost+found -prune -o -printf '%p %y %m %l %T@\\n' | sort; "
    "find . -type f ! -path './lost+found/*' | sort | xargs sha256sum; "
    "find . -path ./lost+found -prune -o -type f -links +1 -printf '%p %n\\n' | sort; "
    'python3 -c \'import os; print([os.getxattr(p, k) for p in ("one", "d", "d/other") '
    'for k in sorted(os.listxattr(p)) if k.startswith("user.")])\''
)
# Tails that are no block, blocks of zeroes inside of data, holes, room that was never written,
# files on both sides of every limit in guests/uml/tree.c.
MAKE = """
random() { head -c "$1" /dev/urandom; }
at() { dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
cd /mnt
: > empty; random 1 > one; random 4096 > block; random 4097 > tail; random 65535 > short
random 65537 > direct; random 1048576 > buffer; random 3000001 > large
head -c 70001 /dev/zero > zeroes
{ random 5000; head -c 300000 /dev/zero; random 700; } > between
truncate -s 9000000 hole; printf x | at hole 4500001; printf y | at hole 8999999
fallocate -l 2000000 room; printf z | at room 1048577
mkdir -m 700 d; random 300 > d/private; chmod 400 d/private; ln -s ../one d/link
ln tail d/other; ln tail last; ln d/private private
python3 -c 'import os
for path in "one", "d", "tail":
    os.setxattr(path, "user.b", path.encode()); os.setxattr(path, "user.a", b"")'
sync
"""
TOOLS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
WAIT_S = 120.0


@pytest.mark.parametrize("filesystem", ["ext4", pytest.param("xfs", marks=pytest.mark.nightly)])
def test_an_archive_is_what_a_program_in_the_guest_sees(filesystem, tmp_path):
    tool = shutil.which(TOOLS[filesystem][0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip(f"{TOOLS[filesystem][0]} is not installed")
    base, copy = tmp_path / "base", tmp_path / "copy"
    with base.open("wb") as image:
        image.truncate(320 << 20)  # the least that mkfs.xfs makes
    subprocess.run([tool, *TOOLS[filesystem][1:], base], check=True, timeout=60)
    reader = ("/bin/sh", "-c", f"cd /mnt; {{ {LIST}; }} >&3")
    root = HostRoot("/", ("PATH=/usr/bin:/bin",))
    plan = RecoveryPlan.of(filesystem, "", "/host/mnt", reader, host=root)
    with UmlEngine(base, plan) as engine:
        engine.start(timeout_s=WAIT_S)
        engine.mount(timeout_s=WAIT_S)
        engine.execute(("/bin/sh", "-ec", MAKE), timeout_s=WAIT_S)
        state = engine.capture(timeout_s=WAIT_S)
        seen = engine.recover(state, timeout_s=WAIT_S)
        observation, archive = engine.tree(state, timeout_s=WAIT_S)
        assert archive is not None, observation
        copy.mkdir(mode=0o755)
        inside.unpack(archive, str(copy))
        sizes = [entry.stat().st_size for entry in copy.iterdir() if entry.is_file()]
        assert len(archive) < sum(sizes) - 9_000_000  # zeroes are not in it
        assert inside.PECULIAR.unpack_from(archive) == (0,)
        digests = {0}
        for change in ("chown 1:0", "chown 2:0", "chgrp 1", "chattr +d", "setfacl -m u:1:r"):
            if shutil.which(change.split()[0]) is not None:
                digests.add(peculiar(engine, change))
            else:
                digests.add(len(change))
        assert len(digests) == 6
    (copy / "lost+found").rmdir() if filesystem == "ext4" else None
    told = subprocess.run(["/bin/sh", "-c", LIST], cwd=copy, capture_output=True, check=True)
    assert seen.complete, seen.failure
    assert told.stdout == seen.lines


def peculiar(engine: UmlEngine, change: str) -> int:
    """The digest of what a copy cannot have, of a tree whose only file was changed so."""
    engine.mount(timeout_s=WAIT_S)
    engine.execute(("/bin/sh", "-ec", f"cd /mnt; : >one; {change} one; sync"), timeout_s=WAIT_S)
    seen, archive = engine.tree(engine.capture(timeout_s=WAIT_S), timeout_s=WAIT_S)
    assert archive is not None, seen
    (digest,) = inside.PECULIAR.unpack_from(archive)
    assert isinstance(digest, int)
    return digest
