# SPDX-License-Identifier: Apache-2.0
"""Each recovery is another boot to a check: of one kernel, whoever has it, and life after it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.sandbox.rebooted import BOOT_ID

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

WAIT_S = 120.0
PLACES = ("/tmp", "/run", "/var/tmp", "/dev/shm")
LOOKS = (
    f"{{ cat {BOOT_ID}; for place in {' '.join(PLACES)}; do ls -A $place; "
    f"echo left > $place/left; done; }} >&3; ! echo mine 2>/dev/null > {BOOT_ID}"
)


def test_no_recovery_sees_the_boot_or_the_memory_of_another(tmp_path: Path) -> None:
    """A store that trusts unsynced data until the machine boots asks for the boot's id."""
    tool = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert tool is not None
    base = tmp_path / "base"
    base.touch()
    os.truncate(base, 16 << 20)
    subprocess.run([tool, "-q", str(base)], check=True, timeout=60)
    host = HostRoot("/", ("PATH=/usr/bin:/bin",))
    plan = RecoveryPlan.of("ext4", "", "/host/mnt", ("/bin/sh", "-c", LOOKS), host=host)
    boots = [Path(BOOT_ID).read_text().strip()]
    with UmlEngine(base, plan) as engine:
        engine.start(timeout_s=WAIT_S)
        for one in (plan, plan.going_on(("/bin/true",), 0), plan):
            engine.follow(one, timeout_s=WAIT_S)
            for recover in (engine.recover, engine.sample):
                seen = recover((), timeout_s=WAIT_S)
                assert (seen.complete, seen.failure) == (True, "")
                boots += seen.lines.decode().split()
                if seen.later is not None:
                    boots += seen.later.observation.lines.decode().split()
        assert engine.boots == 1
    assert len(set(boots)) == len(boots) == 1 + 2 + 4 + 2
