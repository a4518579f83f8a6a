# SPDX-License-Identifier: Apache-2.0
"""How long a probe kernel is waited for, and what is kept of its silence."""

from __future__ import annotations

import json

import pytest

from powercut.doctor import host as doctor
from powercut.model.machine import ImageFormat
from powercut.recover.uml import proof
from powercut.recover.uml.proof import UmlProof, uml_proof
from powercut.rig import engine_choice

BOOT_S = 100.0


@pytest.fixture
def waited(monkeypatch, tmp_path):
    """How long each probe kernel was waited for; this host boots one in `BOOT_S`."""
    asked = []

    def prove(kernel, timeout_s):
        asked.append(timeout_s)
        if timeout_s < BOOT_S:
            return UmlProof(False, "no answer", timeout_s, proof._LONGER, silent=True)
        return UmlProof(True, "a probe kernel ran", BOOT_S)

    monkeypatch.setattr(proof, "CACHE", tmp_path)
    monkeypatch.setattr(proof, "_known", {})
    monkeypatch.setattr(proof, "_prove", prove)
    monkeypatch.setattr(proof.uml_boot, "unavailable", lambda kernel: ())
    monkeypatch.setattr(proof, "_key", lambda kernel: "this host")
    return asked


def test_no_start_pays_again_for_a_kernel_that_stays_silent(waited, monkeypatch):
    assert uml_proof().silent
    monkeypatch.setattr(proof, "_known", {})  # another process
    assert uml_proof().silent
    assert waited == [60.0]


def test_silence_is_no_property_of_a_host(waited, monkeypatch, tmp_path):
    assert uml_proof().silent
    monkeypatch.setattr(proof, "_known", {})
    (kept,) = tmp_path.glob("uml-*.json")
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"until": 1.0}))
    assert uml_proof().silent
    assert waited == [60.0, 60.0]


def test_who_is_given_longer_is_asked_again_and_kept(waited):
    assert uml_proof().silent
    assert uml_proof(timeout_s=120.0).ok
    assert uml_proof().ok
    assert waited == [60.0, 120.0]


def test_a_load_lengthens_the_wait(waited, monkeypatch):
    monkeypatch.setattr(engine_choice, "patience", lambda: 2.0)
    choice = engine_choice.engine_for(ImageFormat.RAW, raw=False, name="auto")
    assert choice.name == "uml"
    assert waited == [120.0]


def test_doctor_says_what_to_do_and_gives_it_the_time(waited, monkeypatch):
    monkeypatch.setattr(doctor, "patience", lambda: 1.0)
    monkeypatch.setattr(doctor, "_said", lambda *argv: "6.1.0")
    probe = doctor.requirement("uml")
    assert not probe.ok
    assert probe.remedy == "if it is only slow: powercut doctor --patience SECONDS"
    monkeypatch.setattr(doctor, "_PROBES", {"uml": doctor._uml})
    monkeypatch.setattr(doctor, "accelerator_proof", lambda kind, timeout_s: None)
    assert doctor.examine(patience_s=400.0)[0].ok
