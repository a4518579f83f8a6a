# SPDX-License-Identifier: Apache-2.0
"""What a scenario says of it."""

from typing import Literal

from powercut.scenario.settings_base import OfWorkload, Positive


class TallySettings(OfWorkload):
    kind: Literal["tally"]
    marks: Positive = 1024
    flushes: bool = True


def refusals(parameters):
    if parameters.workload.marks * 512 > parameters.disk.size:
        yield "workload.marks", "the disk has too few sectors"
