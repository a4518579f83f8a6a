# SPDX-License-Identifier: Apache-2.0
"""User-Mode Linux on processors whose register state is larger than it knows (AMX).

The host of the test is made such a one: `linux.uml` comes to be a script that preloads
tests/support/large_registers.c.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.model.errors import HostError
from powercut.model.observation import Extent, SlotState
from powercut.recover.port import RecoveryPlan
from powercut.recover.uml import boot as uml_boot
from powercut.recover.uml.engine import UmlEngine, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

SUPPORT = Path(__file__).parents[2] / "support"
LOG = (f"run_id={'0' * 32}", "layout=append", "path=/mnt/wal", "record=512")
READ = ("/bin/wal", "read", *LOG)
WRITE = ("/bin/wal", "write", *LOG, "sync=fdatasync", "channel=fd:3", "records=10")


@pytest.fixture(scope="module")
def large_registers(tmp_path_factory):
    """A folder for PATH with a `linux.uml` that meets such a processor."""
    folder = tmp_path_factory.mktemp("large-registers")
    library = folder / "large_registers.so"
    command = ["cc", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, "-o", library, SUPPORT / "large_registers.c"], check=True)
    script = folder / "linux.uml"
    preload = f"${{LD_PRELOAD:+$LD_PRELOAD:}}{library}"
    script.write_text(f'#!/bin/sh\nLD_PRELOAD="{preload}" exec {shutil.which("linux.uml")} "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    with path.open("wb") as file:
        file.truncate(16 << 20)
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    subprocess.run([mkfs, "-q", "-F", path], check=True, capture_output=True, timeout=60)
    return path


def recover(base: Path):
    with UmlEngine(base, RecoveryPlan("ext4", "", "/mnt", READ)) as engine:
        engine.start(timeout_s=120)
        engine.mount(timeout_s=60)
        engine.execute(WRITE, timeout_s=60)
        state = engine.capture(timeout_s=60)
        engine.unmount(timeout_s=60)
        return engine.recover(state, timeout_s=60)


def test_with_the_cure_recovery_and_programs_run(large_registers, base, monkeypatch):
    monkeypatch.setenv("PATH", f"{large_registers}:{os.environ['PATH']}")
    seen = recover(base)
    assert (seen.recovered, seen.failure) == (True, "")
    assert seen.extents == (Extent(0, 10, SlotState.INTACT, 1, 0),)


def test_without_the_cure_such_a_processor_is_an_error_of_the_host(
    large_registers, base, monkeypatch
):
    monkeypatch.setenv("PATH", f"{large_registers}:{os.environ['PATH']}")
    monkeypatch.setattr(uml_boot, "xstate_library", lambda: Path("/dev/null"))
    with pytest.raises(HostError, match="set fp regs failed, errno = 14"):
        recover(base)
