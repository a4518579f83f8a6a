# SPDX-License-Identifier: Apache-2.0
"""User-Mode Linux on processors whose register state is larger than it knows (AMX).

The host of the test is made such a one: tests/support/large_registers.c is preloaded, too.
"""

import os
import shutil
import subprocess
from pathlib import Path

import processors
import pytest
from processors import SAID, be_such_a_host, large_registers, passes_all_registers

from powercut.doctor import host as doctor
from powercut.model.errors import HostError
from powercut.model.machine import ImageFormat
from powercut.model.observation import Extent
from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml import proof as uml_proof
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.rig.engine_choice import EngineChoice, engine_for
from powercut.wal.layout import SlotState

pytestmark = [
    pytest.mark.amx,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

LOG = (f"run_id={'0' * 32}", "layout=append", "path=/mnt/wal", "record=512")
READ = ("/bin/wal", "read", *LOG)
WRITE = ("/bin/wal", "write", *LOG, "sync=fdatasync", "channel=fd:3", "records=10")
REASON = f"User-Mode Linux does not work here: {SAID}"


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    """What plays such a processor, which is shown to have its effect."""
    return large_registers(tmp_path_factory.mktemp("large-registers"))


def test_a_double_without_effect_is_an_error(tmp_path, monkeypatch):
    """ld.so ignores what is no library, and the kernel boots."""
    if why := passes_all_registers():
        pytest.skip(why)
    monkeypatch.setattr(processors, "_build", Path.touch)
    with pytest.raises(AssertionError, match=r"plays no processor with AMX.*a probe kernel ran"):
        large_registers(tmp_path)


@pytest.fixture
def cured(processor, monkeypatch):
    be_such_a_host(monkeypatch, processor, cured=True)


@pytest.fixture
def without_cure(processor, monkeypatch):
    if why := passes_all_registers():
        pytest.skip(why)
    be_such_a_host(monkeypatch, processor, cured=False)


@pytest.fixture
def boots(monkeypatch):
    """A list that gets an entry for each boot."""
    seen = []
    start = UmlEngine.start

    def counted(self, *, timeout_s):
        seen.append(timeout_s)
        start(self, timeout_s=timeout_s)

    monkeypatch.setattr(UmlEngine, "start", counted)
    return seen


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    with path.open("wb") as file:
        file.truncate(16 << 20)
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    subprocess.run([mkfs, "-q", "-F", path], check=True, capture_output=True, timeout=60)
    return path


def recover(base: Path):
    with UmlEngine(base, RecoveryPlan.of("ext4", "", "/mnt", READ)) as engine:
        engine.start(timeout_s=120)
        engine.mount(timeout_s=60)
        engine.execute(WRITE, timeout_s=60)
        state = engine.capture(timeout_s=60)
        engine.unmount(timeout_s=60)
        return engine.recover(state, timeout_s=60)


def chosen(name="auto"):
    return engine_for(ImageFormat.RAW, raw=False, name=name)


def test_with_the_cure_recovery_and_programs_run(cured, base):
    seen = recover(base)
    assert (seen.recovered, seen.failure) == (True, "")
    assert seen.extents == (Extent(0, 10, SlotState.INTACT, 1, 0),)


def test_without_the_cure_such_a_processor_is_an_error_of_the_host(without_cure, base):
    with pytest.raises(HostError, match="set fp regs failed, errno = 14"):
        recover(base)


def test_with_the_cure_auto_takes_uml_and_boots_it_once(cured, boots, monkeypatch):
    assert chosen() == EngineChoice("uml")
    assert chosen("uml") == EngineChoice("uml")
    monkeypatch.setattr(uml_proof, "_known", {})  # another process
    assert chosen() == EngineChoice("uml")
    assert len(boots) == 1
    assert uml_proof.uml_proof(fresh=True).detail.startswith("a probe kernel ran a program after ")
    assert len(boots) == 2


def test_without_the_cure_auto_falls_back_and_says_why_in_one_line(without_cure, boots):
    assert chosen() == EngineChoice("guest", REASON)
    assert str(chosen()) == f"guest, since {REASON}"
    assert len(boots) == 1
    assert chosen("guest") == EngineChoice("guest"), "asked for: nothing to explain"
    with pytest.raises(HostError, match="does not work here") as refused:
        chosen("uml")
    assert "\n" not in str(refused.value)
    assert refused.value.hint.startswith("--engine guest")


def test_what_is_known_of_one_kernel_is_not_said_of_another(without_cure, processor, monkeypatch):
    assert not uml_proof.uml_proof().ok
    monkeypatch.undo()
    monkeypatch.setattr(uml_proof, "_known", {})
    monkeypatch.setattr(uml_proof, "CACHE", processor)
    assert uml_proof.uml_proof().ok, "the host's own"


def test_a_kernel_that_a_busy_host_gave_no_time_is_asked_again(cured, boots):
    first = uml_proof.uml_proof(timeout_s=0.01)
    assert (first.ok, "no answer to boot in time" in first.detail) == (False, True)
    assert uml_proof.uml_proof().ok
    assert len(boots) == 2


def test_the_doctor_says_ok_only_after_a_boot(cured):
    probe = doctor.requirement("uml")
    assert probe.ok
    assert "a probe kernel ran a program after" in probe.found


def test_the_doctor_says_why_not_and_what_to_do(without_cure):
    probe = doctor.requirement("uml")
    assert not probe.ok
    assert probe.found.endswith("does not work")
    assert probe.limit == f"{SAID}; crash states are recovered in guests, several times slower"
    assert "newer user-mode-linux" in probe.remedy
    assert doctor.can_run([probe])


def test_without_user_mode_linux_the_guest_recovers(without_cure, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chosen().name == "guest"
    assert "linux.uml is not installed" in chosen().reason
    assert uml_proof.uml_proof().remedy.startswith("apt-get install user-mode-linux")
