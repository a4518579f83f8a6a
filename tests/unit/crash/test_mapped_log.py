# SPDX-License-Identifier: Apache-2.0
"""A raw log inside an image format: its records lie wherever the format puts them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from handmade import Handmade, history

from powercut.checkers.agreement import check_agreement, explain_losses
from powercut.checkers.reading import reading_of
from powercut.checkers.wal import check_wal, required_after
from powercut.crash.evidence import gather
from powercut.crash.exposure import exposure
from powercut.crash.survival import survival
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import FindingKind, LsnRange
from powercut.wal import record as wal
from powercut.wal.layout import LayoutKind, SlotState, WalLayout

RUN_ID = bytes(range(16))
RAW = WalLayout(LayoutKind.RAW, record=512, capacity=4096)
MAPPED = replace(RAW, mapped=True)
ELSEWHERE = 1 << 16


def record(lsn: int) -> bytes:
    generation = int(RAW.generations_of(np.array([lsn], dtype=np.uint64))[0])
    position = RAW.position_of(lsn)
    return wal.record_bytes(
        RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=generation, position=position, record_size=512
    )


def evidence(layout: WalLayout):
    made = Handmade(1 << 17)
    made.write(ELSEWHERE, record(1) + record(2), at=1, done=2)
    made.flush(at=3, done=4)
    return gather(made.timeline(cut_at=9), history([(2, 5)]), RUN_ID, layout, deep=True)


def test_only_a_raw_log_on_the_disk_itself_is_in_place():
    assert RAW.in_place
    assert not MAPPED.in_place
    assert not WalLayout(LayoutKind.APPEND).in_place
    assert MAPPED.wraps, "what the log is does not change"
    assert MAPPED.slots == RAW.slots


@pytest.mark.parametrize(("layout", "exposed"), [(RAW, 2), (MAPPED, 0)])
def test_records_outside_their_places_count_only_if_a_map_may_lead_to_them(layout, exposed):
    assert int(exposure(evidence(layout)).exposed.sum()) == exposed
    lost = survival(evidence(layout)).lost
    assert lost == ((LsnRange(1, 2),) if exposed else ())


def test_a_record_that_is_never_durable_is_exposed_wherever_it_lies():
    made = Handmade(1 << 17)
    made.write(ELSEWHERE, record(1), at=1, done=2)
    found = gather(made.timeline(cut_at=9), history([(1, 5)]), RUN_ID, MAPPED, deep=True)
    assert exposure(found).exposed.tolist() == [True]


def test_a_record_that_the_image_no_longer_leads_to_is_lost_and_no_bug_of_powercut():
    found = evidence(MAPPED)
    observation = Observation((Extent(0, 8, SlotState.ABSENT),))
    required = required_after(found.history, MAPPED)
    reading = reading_of(required, found.history.attempted, observation, MAPPED)
    survived = survival(found)
    assert check_agreement(reading, survived, MAPPED) == []
    assert check_agreement(reading, survival(evidence(RAW)), RAW) == []  # gone, and not back
    findings = check_wal(found.history, observation, MAPPED)
    (lost,) = explain_losses(findings, survived, MAPPED)
    assert (lost.kind, lost.lsns) == (FindingKind.LOST, (LsnRange(1, 2),))
    assert lost.unreachable == (LsnRange(1, 2),)
