# SPDX-License-Identifier: Apache-2.0
"""The guest's own counts: what its kernel prints, and what it means."""

from __future__ import annotations

import pytest

from powercut.model.errors import HostError
from powercut_extras.certify.measure.trace import (
    GuestSnapshot,
    GuestTrace,
    asked_between,
    issued_between,
    parse_histogram,
)

# As Linux 6.1 prints it.
ISSUED = """# event histogram
#
# trigger info: hist:keys=rwbs:vals=hitcount,nr_sector:sort=hitcount:size=2048 [active]
#

{ rwbs: FF                        } hitcount:          2  nr_sector:          0
{ rwbs: WFS                       } hitcount:          8  nr_sector:         64

Totals:
    Hits: 10
    Entries: 2
    Dropped: 0
"""
EMPTY = "# event histogram\n\nTotals:\n    Hits: 0\n    Entries: 0\n    Dropped: 0\n"
ASKED = "{ opf: 40801 } hitcount:          1\n{ opf: 1800 } hitcount:         20\n" + EMPTY


def test_a_histogram_is_read_as_the_kernel_prints_it():
    assert parse_histogram(ISSUED) == {"FF": (2, 0), "WFS": (8, 64)}
    assert parse_histogram(ASKED) == {"40801": (1, 0), "1800": (20, 0)}
    assert parse_histogram(EMPTY) == {}


@pytest.mark.parametrize("text", ["", EMPTY.replace("Dropped: 0", "Dropped: 3")])
def test_a_histogram_that_is_not_all_is_refused(text):
    with pytest.raises(ValueError, match="did not count every request"):
        parse_histogram(text)


def test_what_was_issued_between_two_moments():
    before = GuestSnapshot(issued={"FF": (1, 0), "WS": (3, 24), "RM": (5, 40)})
    after = GuestSnapshot(
        issued={
            "FF": (4, 0),
            "WS": (3, 24),
            "RM": (9, 80),
            "WFSM": (2, 16),
            "FWS": (1, 8),  # a driver without queue: a flush with data
            "WSM": (1, 1),
            "DS": (1, 2048),
        }
    )
    counts = issued_between(before, after)
    assert counts is not None
    assert (counts.writes, counts.fua_writes, counts.flushes) == (4, 2, 3)
    assert counts.written_bytes == 25 * 512
    assert counts.kinds == {"DS": 1, "FF": 3, "FWS": 1, "WFSM": 2, "WSM": 1}


def test_what_a_file_system_asked_for():
    before = GuestSnapshot(asked={"40801": (1, 0)})
    after = GuestSnapshot(
        asked={
            "40801": (3, 0),  # an empty flush
            "69801": (5, 0),  # a journal's commit: flush, write, FUA
            "28801": (7, 0),  # a direct write with FUA
            "8801": (11, 0),
            "1800": (13, 0),  # a read
        }
    )
    asked = asked_between(before, after)
    assert asked is not None
    assert (asked.flushes, asked.fua_writes) == (7, 12)
    assert asked.kinds == {"flush": 2, "flush+fua": 5, "fua": 7, "write": 11}


def test_what_was_not_counted_is_unknown():
    assert issued_between(GuestSnapshot(), GuestSnapshot(issued={})) is None
    assert asked_between(GuestSnapshot(asked={}), GuestSnapshot()) is None


class Guest:
    """Answers as the agent does; `refused` names a file that it cannot write."""

    def __init__(self, flush: str = "40801", refused: str = "nothing") -> None:
        self.flush = flush
        self.refused = refused
        self.synced = False

    def __call__(self, *argv: str) -> tuple[str, ...]:
        if self.refused in "".join(argv):
            raise HostError(f"in the guest, `{argv[0]}` failed: ENOENT")
        if argv[0] == "fsync":
            assert argv[1] == "/dev/vda"
            self.synced = True
        if argv[0] != "read":
            return ()
        if "asked" not in argv[1]:
            return (ISSUED if "issue" in argv[1] else EMPTY,)
        return (f"{{ opf: {self.flush} }} hitcount: 1\n{EMPTY}" if self.synced else EMPTY,)


def test_the_flags_of_requests_are_tried_out():
    trace = GuestTrace(Guest(), "vda")
    trace.start()
    assert trace.unknown == []
    assert trace.snapshot().asked == {"40801": (1, 0)}
    assert trace.snapshot().issued == {"FF": (2, 0), "WFS": (8, 64)}


@pytest.mark.parametrize("flush", ["20801", "80801", "40800", "60801"])
def test_where_the_flags_mean_something_else_nothing_is_read_from_them(flush):
    trace = GuestTrace(Guest(flush), "vda")
    trace.start()
    assert trace.unknown == ["the guest's kernel keeps the flags of its requests elsewhere"]
    assert trace.snapshot().asked is None
    assert trace.snapshot().issued is not None


@pytest.mark.parametrize(
    ("refused", "issued"), [("trace", False), ("block_rq", False), ("kprobe_events", True)]
)
def test_a_kernel_that_counts_less_leaves_the_rest(refused, issued):
    trace = GuestTrace(Guest(refused=refused), "vda")
    trace.start()
    assert "failed: ENOENT" in trace.unknown[0]
    assert (trace.snapshot().issued is not None) is issued
    assert trace.snapshot().asked is None


def test_bios_are_left_alone_where_drivers_submit_some():
    guest = Guest()
    trace = GuestTrace(guest, "pmem0", bios=False)
    trace.start()
    assert trace.unknown == []
    assert not guest.synced
    assert trace.snapshot().asked is None
