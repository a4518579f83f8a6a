# SPDX-License-Identifier: Apache-2.0
"""When the claims of a program on a loop device count: by the kernel's stamps, else by receipt."""

from dataclasses import replace

import pytest

from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.model.units import NEVER
from powercut.model.verdict import FindingKind, Verdict
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import sighting_of
from powercut.workload.program.workload import ProgramWorkload

SAID = [
    Packet(10, b"? 1\n", stamped=True),
    Packet(20, b"+ 1\n", stamped=True),
    Packet(25, b"? 2\n", stamped=True),
    Packet(30, b"+ 2\n", stamped=True),
]
LATE = [*SAID[:3], Packet(90, b"+ 2\n")]  # the last of them received at 90, written at 30


def history(packets, cut=int(NEVER), *, where="loop"):
    settings = ProgramSettings(kind="program", command=("x",), folder="/", where=where)
    return (
        ProgramWorkload(Parameters(workload=settings)).promises_by_lines(packets, cut).requirements
    )


def findings(packets, instant, check):
    sighting = sighting_of(Observation((), lines=check))
    found = check_operations(history(packets), instant, sighting)
    return [(one.kind, one.verdict, [str(span) for span in one.lsns]) for one in found]


LOST_2 = [(FindingKind.LOST, Verdict.LOSSY, ["2"])]


@pytest.mark.parametrize(
    ("packets", "instant", "expected"),
    [
        (SAID, 30, []),  # the power goes at the instant of the ack: it was not made before
        (SAID, 31, LOST_2),  # planted: acknowledged, and not there
        (LATE, 31, []),  # of an ack that was only received it is not known when it was made
        (LATE, 90, []),
        (LATE, 91, LOST_2),
    ],
)
def test_an_ack_is_required_from_its_instant_on_and_not_before(packets, instant, expected):
    assert findings(packets, instant, b"= 1\n") == expected
    assert findings(packets, instant, b"= 1-2\n") == [], "its honest twin"


def test_an_early_ack_is_found_at_each_instant_until_the_operation_is_durable():
    """Planted: acknowledged at 30, on the disk from 50 on."""
    lossy = [at for at in range(20, 60) if findings(SAID, at, b"= 1-2\n" if at > 50 else b"= 1\n")]
    assert lossy == list(range(31, 51))


def test_one_packet_without_a_stamp_leaves_every_attempt_undated():
    assert findings(SAID, 22, b"= 1-2\n") == [
        (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, [])
    ]  # there, and announced at 25
    assert findings(LATE, 22, b"= 1-2\n") == []


@pytest.mark.parametrize(
    ("packets", "where", "by_receipt"),
    [
        (SAID, "loop", False),
        (LATE, "loop", True),
        ([replace(one, stamped=False) for one in SAID], "loop", True),  # of an earlier powercut
        ([], "loop", True),
        ([replace(one, stamped=False) for one in SAID], "uml", False),  # stamped in the guest
    ],
)
def test_who_dates_claims(packets, where, by_receipt):
    assert history(packets, where=where).by_receipt is by_receipt


def test_an_ack_from_before_the_cut_counts_though_it_was_received_after_it():
    assert sorted(history(SAID, 31).acked_before(10**6)) == [1, 2]
    assert sorted(history(LATE, 31).acked_before(10**6)) == [1]
