# SPDX-License-Identifier: Apache-2.0
"""Which cells can be measured."""

from powercut.scenario.settings import DiskSettings, Parameters
from powercut.scenario.settings_several import AlsoDisk, Holds
from powercut_extras.certify.measure.cells import is_measurable


def test_the_requests_of_several_disks_are_not_told_as_those_of_the_first():
    log = AlsoDisk(name="log", size=16 << 20, holds=Holds.XFS_LOG)
    assert is_measurable(Parameters())
    assert not is_measurable(Parameters(disk=DiskSettings(also=(log,))))
