# SPDX-License-Identifier: Apache-2.0
"""A run goes on under the conditions under which it began, and under no others."""

from pathlib import Path

import pytest
from fake_machine import FakeBackend

from powercut.campaign import runner
from powercut.campaign.resume import check_same_host
from powercut.model.errors import UsageError
from powercut.paths import CACHE
from powercut.rig.rig import Rig
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.settings import AcceleratorChoice

HERE = {
    "powercut": "1",
    "accelerator": {"name": "kvm", "reason": "a probe guest said hello after 1.2 s"},
    "machine.libvirt": {
        "libvirt": "9.0",
        "accelerator": {"name": "kvm", "reason": "a probe guest said hello after 1.3 s"},
    },
}


def slower(backend, name="kvm"):
    proved = {"name": name, "reason": "a probe guest said hello after 7.9 s"}
    return {**backend, "accelerator": proved}


def test_how_accelerators_were_proved_may_differ_of_each_backend():
    libvirt = slower(HERE["machine.libvirt"])
    check_same_host(HERE, slower(HERE) | {"machine.libvirt": libvirt})


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (slower(HERE, "tcg"), "accelerator was 'kvm' .* is 'tcg' now"),
        ({**HERE, "machine.libvirt": slower(HERE["machine.libvirt"], "tcg")}, "machine.libvirt"),
        ({**HERE, "machine.libvirt": {**HERE["machine.libvirt"], "libvirt": "9.1"}}, "9.1"),
        ({**HERE, "machine.other": {"version": "1"}}, "machine.other was None"),
    ],
)
def test_what_they_are_may_not(now, named):
    with pytest.raises(UsageError, match=named):
        check_same_host(HERE, now)


class Emulating(FakeBackend):
    """A host without KVM."""

    def emulates(self, accelerator):
        return accelerator is not AcceleratorChoice.KVM


@pytest.mark.parametrize(("asked", "told"), [("auto", 1), ("tcg", 0), ("kvm", 0)])
def test_emulation_is_told_to_those_alone_who_did_not_ask_for_it(monkeypatch, asked, told):
    monkeypatch.setattr(runner, "Rig", lambda: Rig(CACHE, Emulating()))
    text = f"powercut: 1\nname: a\nfilesystem: {{type: raw}}\nmachine: {{accelerator: {asked}}}\n"
    notices = []
    plan = expand(parse_scenario(text, Path("a.yaml")), seed=1)
    runner.ready_rig([plan], notices.append)
    assert sum("run in emulation" in notice.text for notice in notices) == told
