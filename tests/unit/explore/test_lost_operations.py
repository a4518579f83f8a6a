# SPDX-License-Identifier: Apache-2.0
"""What a program lost is told by the names of its operations, which are no count."""

from __future__ import annotations

from types import SimpleNamespace

from powercut.model.operations import Packet
from powercut.model.verdict import LsnRange
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.verdict import states as explored
from powercut.workload.program.claims import history_of
from powercut.workload.table import workload_of

LOST = (LsnRange(1, 2), LsnRange(66, 66), LsnRange(500, 501))


def lost_of(parameters, acked):
    lines = "".join(f"? {n}\n+ {n}\n" for n in acked).encode()
    promises = SimpleNamespace(requirements=history_of([Packet(1, lines)]))
    opened = SimpleNamespace(promises=promises)
    sealed = SimpleNamespace(workload=workload_of(parameters), opened=opened)
    return explored._of_this_run(sealed, len(acked), LOST)


def test_an_operation_whose_number_is_above_the_count_of_acks_is_lost_all_the_same():
    program = ProgramSettings(kind="program", command=("/bin/true",), folder="/")
    lost = lost_of(Parameters(workload=program), [1, 2, 66])
    assert lost == (LsnRange(1, 2), LsnRange(66, 66))  # 500 was promised after a recovery


def test_records_are_counted_from_one():
    assert lost_of(Parameters(), [1, 2, 66]) == (LsnRange(1, 2),)
