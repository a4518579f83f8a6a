# SPDX-License-Identifier: Apache-2.0
"""Each recovery is another boot to a check: of one kernel, whoever has it, and life after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from powercut.model.machine_identity import FIRST_PID, HOST_NAME, MachineIdentity
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


PYTHON = Path(sys.executable).resolve()
"""Not the environment's: a checkout below /tmp is not there."""

NAMES = (
    "import os, socket, uuid; name = socket.gethostname(); "
    "os.write(3, ('%012x %s %s %d' % (uuid.getnode(), name, socket.gethostbyname(name), "
    "os.getpid())).encode())"
)


def image(folder: Path) -> Path:
    tool = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert tool is not None
    base = folder / "base"
    base.touch()
    os.truncate(base, 16 << 20)
    subprocess.run([tool, "-q", str(base)], check=True, timeout=60)
    return base


def test_each_recovery_is_on_the_machine_of_the_run_and_has_other_pids(tmp_path: Path) -> None:
    """Also where one guest recovers two recordings, one after the other."""
    plans = [
        RecoveryPlan.of(
            "ext4", "", "/host/mnt", (str(PYTHON), "-I", "-S", "-c", NAMES),
            host=HostRoot("/", ("PATH=/usr/bin:/bin",), machine=MachineIdentity(seed)),
        )
        for seed in (3, 4)
    ]  # fmt: skip
    pids = []
    with UmlEngine(image(tmp_path), plans[0]) as engine:
        engine.start(timeout_s=WAIT_S)
        for plan in plans:
            assert plan.host is not None
            engine.follow(plan, timeout_s=WAIT_S)
            seen = engine.recover((), timeout_s=WAIT_S)
            mac, *names, pid = seen.lines.decode().split()
            assert mac == plan.host.machine.mac.replace(":", "")
            assert names == [HOST_NAME, "127.0.1.1"]
            pids.append(int(pid))
    first, second = pids
    assert FIRST_PID <= first < second


def test_no_recovery_sees_the_boot_or_the_memory_of_another(tmp_path: Path) -> None:
    """A store that trusts unsynced data until the machine boots asks for the boot's id."""
    host = HostRoot("/", ("PATH=/usr/bin:/bin",))
    plan = RecoveryPlan.of("ext4", "", "/host/mnt", ("/bin/sh", "-c", LOOKS), host=host)
    boots = [Path(BOOT_ID).read_text().strip()]
    with UmlEngine(image(tmp_path), plan) as engine:
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
