# SPDX-License-Identifier: Apache-2.0
"""How long a probe guest is waited for, what is kept of its silence, and what a scenario gets."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from powercut.machine.qemu import accelerator
from powercut.machine.qemu.accelerator import Accelerators, Proof, accelerator_proof
from powercut.model.errors import HostError
from powercut.model.machine import Accelerator
from powercut.scenario.settings import AcceleratorChoice

KVM, TCG = Accelerator.KVM, Accelerator.TCG


class Host:
    """Boots a probe guest in so many seconds; None: it never says anything."""

    def __init__(self, *, kvm=None, tcg=2.0, slower=1.0):
        self.boots = {KVM: kvm, TCG: tcg}
        self.slower = slower
        self.waited = []

    def prove(self, kind, image, *, timeout_s):
        self.waited.append((kind, timeout_s))
        boot_s = self.boots[kind]
        if isinstance(boot_s, str):
            return Proof(False, boot_s, 0.1)
        if boot_s is None or boot_s > timeout_s:
            return Proof(False, f"nothing within {timeout_s:.0f} s", timeout_s, silent=True)
        return Proof(True, f"hello after {boot_s:.2f} s", boot_s)


@pytest.fixture
def host(monkeypatch, tmp_path):
    def made(**properties):
        here = Host(**properties)
        monkeypatch.setattr(accelerator, "CACHE", tmp_path)
        monkeypatch.setattr(accelerator, "prove", here.prove)
        monkeypatch.setattr(accelerator, "patience", lambda: here.slower)
        monkeypatch.setattr(accelerator, "kvm_obstacle", lambda: None)
        monkeypatch.setattr(accelerator, "qemu_version", lambda: "QEMU")
        monkeypatch.setattr(
            accelerator, "ensure_guest_image", lambda: SimpleNamespace(digest="guest")
        )
        return here

    return made


def test_kvm_that_answers_is_asked_once(host):
    here = host(kvm=0.5)
    assert accelerator_proof(KVM).ok
    assert accelerator_proof(KVM).ok
    assert here.waited == [(KVM, 10.0)]


def test_kvm_of_a_slow_host_gets_as_long_as_emulation_takes_there(host):
    here = host(kvm=12.0, tcg=124.0)
    assert accelerator_proof(KVM).boot_s == 12.0
    assert here.waited == [(KVM, 10.0), (TCG, 120.0), (KVM, 120.0)]


def test_kvm_that_hangs_costs_one_deadline_where_emulation_is_quick(host):
    here = host(kvm=None)
    assert not accelerator_proof(KVM).ok
    assert not accelerator_proof(KVM).ok
    assert here.waited == [(KVM, 10.0), (TCG, 120.0)]


def test_a_load_lengthens_the_deadline(host):
    here = host(kvm=35.0, slower=4.0)
    assert accelerator_proof(KVM).ok
    assert here.waited == [(KVM, 40.0)]


@pytest.mark.parametrize(("slower", "kept"), [(1.0, True), (3.0, False)])
def test_silence_is_kept_for_long_on_a_quiet_host_alone(host, monkeypatch, slower, kept):
    here = host(kvm=None, slower=slower)
    monkeypatch.setattr(accelerator.time, "time", lambda: 1000.0)
    assert not accelerator_proof(KVM).ok
    assert not accelerator_proof(KVM).ok  # each start does not pay for it again
    assert sum(kind is KVM for kind, _ in here.waited) == 1
    here.boots[KVM], here.slower = 0.5, 1.0
    monkeypatch.setattr(accelerator.time, "time", lambda: 1000.0 + 2 * 3600)
    assert accelerator_proof(KVM).ok is not kept


def test_a_qemu_that_gives_up_is_kept_whatever_the_load(host):
    here = host(kvm="failed to set MSR 0x10a", slower=5.0)
    assert not accelerator_proof(KVM).ok
    here.boots[KVM], here.slower = 0.5, 1.0
    assert accelerator_proof(KVM).detail == "failed to set MSR 0x10a"


def test_who_knows_that_it_is_slow_says_so_once(host):
    here = host(kvm=200.0)
    assert not accelerator_proof(KVM).ok
    assert accelerator_proof(KVM, timeout_s=400.0).ok
    assert accelerator_proof(KVM).boot_s == 200.0
    assert here.waited[-1] == (KVM, 400.0)


def test_a_silence_of_the_same_length_is_not_waited_for_again(host):
    here = host(kvm=None)
    assert not accelerator_proof(KVM, timeout_s=120.0).ok
    assert not accelerator_proof(KVM, timeout_s=120.0).ok
    assert here.waited == [(KVM, 120.0)]


def test_silence_of_emulation_is_never_kept(host, tmp_path):
    here = host(tcg=None)
    assert not accelerator_proof(TCG).ok
    assert not list(tmp_path.glob("*tcg*"))
    here.boots[TCG] = 1.0
    assert accelerator_proof(TCG).ok
    assert json.loads((tmp_path / "accelerator-tcg.json").read_text())["until"] is None


def test_kvm_by_name_is_refused_before_anything_starts_where_it_does_not_work(host):
    host(kvm=None)
    with pytest.raises(HostError, match=r"machine.accelerator is kvm.*nothing within 120 s") as no:
        Accelerators().of(AcceleratorChoice.KVM)
    assert no.value.hint == "machine.accelerator: auto takes what works"


def test_kvm_by_name_is_tried_harder(host):
    host(kvm=90.0)
    assert Accelerators().of(AcceleratorChoice.KVM) is KVM


def test_emulation_by_name_boots_no_probe_and_is_what_readers_are_told(host):
    here = host(kvm=0.5)
    found = Accelerators()
    assert found.emulate(AcceleratorChoice.TCG)
    assert not found.emulate(AcceleratorChoice.AUTO)
    assert found.facts([AcceleratorChoice.TCG]) == {
        "name": "tcg",
        "reason": "TCG, as machine.accelerator says",
    }
    assert found.facts([AcceleratorChoice.TCG, AcceleratorChoice.AUTO])["name"] == "tcg, kvm"
    assert here.waited == [(KVM, 10.0)]
