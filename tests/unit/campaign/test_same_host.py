# SPDX-License-Identifier: Apache-2.0
"""A run goes on under the conditions under which it began, and under no others."""

import pytest

from powercut.campaign.resume import check_same_host
from powercut.model.errors import UsageError

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
