# SPDX-License-Identifier: Apache-2.0
"""Kernels without /dev/mmapper reach the shared memory as a disk; which kernel may be asked for."""

import os
import shutil
import subprocess

import numpy as np
import pytest

from extras import extra
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import ImageFormat
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml import boot
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.rig.engine_choice import engine_for

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

LOG = (f"run_id={'0' * 32}", "layout=append", "path=/mnt/wal", "record=512")
READ = ("/bin/wal", "read", *LOG)
WRITE = ("/bin/wal", "write", *LOG, "sync=fdatasync", "channel=fd:3", "records=40")
MIB = 1 << 20


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    subprocess.run([mkfs, "-q", "-F", path], check=True, capture_output=True, timeout=60)
    return path


def seen(base):
    """Recoveries by one engine: of the base, of a state, of it with 40 MiB of noise, again."""
    noise = np.random.default_rng(1).integers(0, 256, 40 * MIB, dtype=np.uint8)
    with UmlEngine(base, RecoveryPlan.of("ext4", "", "/mnt", READ), track_reads=True) as engine:
        engine.start(timeout_s=120)
        engine.mount(timeout_s=60)
        assert engine.execute(WRITE, timeout_s=60).acked == 40
        state = engine.capture(timeout_s=60)
        engine.unmount(timeout_s=60)
        found = []
        # The noise is larger than the shared memory, and lies where no file is.
        large = (*state, ImageWrite(20 * MIB, len(noise), noise))
        for writes in ((), state, large, state):
            found.append((engine.recover(writes, timeout_s=120), engine.reads))
        log = engine.record(state, timeout_s=60)[1]
    return found, log is not None


def test_the_share_as_a_disk_is_the_share_as_memory(base, monkeypatch):
    mapped = seen(base)
    whole = boot.uml_argv
    monkeypatch.setattr(
        boot,
        "uml_argv",
        lambda *given, **named: [
            word for word in whole(*given, **named) if not word.startswith("iomem=")
        ],
    )
    as_disk = seen(base)
    assert [found for found, _ in as_disk[0]] == [found for found, _ in mapped[0]]
    assert as_disk[1] is mapped[1] is True
    assert as_disk[0][1][0].extents[0].count == 40
    assert as_disk[0][1][1], "what was read is known, too"


@pytest.mark.parametrize(
    ("image_format", "raw", "engine"),
    [
        (ImageFormat.RAW, True, "auto"),
        (ImageFormat.QCOW2, False, "auto"),
        (ImageFormat.RAW, False, "guest"),
    ],
)
def test_a_recovery_kernel_is_for_uml_alone(image_format, raw, engine):
    with pytest.raises(UsageError, match="recovery kernel sid is for engine uml"):
        engine_for(image_format, raw=raw, name=engine, kernel="sid")


def test_a_recovery_kernel_that_is_no_suite_is_refused():
    extra("suites")
    with pytest.raises(UsageError, match="no Debian suite"):
        engine_for(ImageFormat.RAW, raw=False, name="auto", kernel="potato")


def test_a_recovery_kernel_given_by_its_path_has_its_modules_beside_it(tmp_path):
    program = tmp_path / "linux"
    program.symlink_to(shutil.which("linux.uml"))
    with pytest.raises(HostError, match=r"no kernel under .*/lib/modules has all of brd\.ko"):
        engine_for(ImageFormat.RAW, raw=False, name="uml", kernel=str(program))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/modules").symlink_to("/usr/lib/uml/modules")
    chosen = engine_for(ImageFormat.RAW, raw=False, name="uml", kernel=str(program))
    assert chosen.kernel.program == program
    with pytest.raises(UsageError, match="/nowhere/linux is no program"):
        engine_for(ImageFormat.RAW, raw=False, name="uml", kernel="/nowhere/linux")
