# SPDX-License-Identifier: Apache-2.0
"""Runs whose keys are alike: old records must stay old, whatever the run is called.

The key of a run and that of what was written before it agree in their low three bits
for one run id in eight.  Then eight words of either, in a row, are words in a row under
the key of the other, and only the place that they name tells the two apart.
"""

import pytest

from powercut.wal import record as wal
from powercut.wal.layout import SlotState

PREWRITTEN = 0x5A
"""What the last byte of a run id is xored with to name what was written before the run."""


def alike(run_id: bytes) -> bool:
    before = run_id[:-1] + bytes([run_id[-1] ^ PREWRITTEN])
    return (int(wal.key(run_id)) ^ int(wal.key(before))) & 7 == 0


def run_ids(wanted: bool, count: int) -> list[str]:
    found = (number.to_bytes(16, "big") for number in range(1, 1000))
    return [run_id.hex() for run_id in found if alike(run_id) == wanted][:count]


def test_one_run_id_in_eight_is_of_that_kind():
    share = sum(alike(number.to_bytes(16, "big")) for number in range(8000)) / 8000
    assert 0.11 < share < 0.14
    assert alike(bytes.fromhex("aa00a5948b4cd313dce21d7505739fec"))  # the one that showed it


@pytest.mark.parametrize("layout", ["prewritten", "recycled"])
@pytest.mark.parametrize("record", [128, 512, 4096])
@pytest.mark.parametrize("run_id", [*run_ids(True, 4), *run_ids(False, 2)])
def test_what_lies_under_the_log_is_stale(wal, tmp_path, run_id, record, layout):
    log = {
        "path": tmp_path / "log",
        "layout": layout,
        "record": record,
        "capacity": 16 * record,
        "run_id": run_id,
    }
    assert wal.write(**log, records=5).acked == 5
    read = wal.read(**log)
    assert [extent[:3] for extent in read.extents] == [
        (0, 5, SlotState.INTACT),
        (5, 11, SlotState.STALE),
    ]
