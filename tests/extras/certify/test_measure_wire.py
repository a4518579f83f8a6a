# SPDX-License-Identifier: Apache-2.0
"""Where flushes end: real accounts, with the counts that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from powercut_extras.certify.measure.wire import Layers, flush_ends_at
from powercut_extras.certify.measurement import BioCounts, RequestCounts


def counts(writes: int, fua: int | None, flushes: int) -> RequestCounts:
    return RequestCounts(
        writes=writes, fua_writes=fua, flushes=flushes, written_bytes=4096 * writes
    )


# XFS on virtio-blk, cache=none: a hundred commits to a growing file.
HONEST = Layers(
    commits=100,
    syncs=100,
    committed_bytes=51200,
    asked=BioCounts(flushes=101, fua_writes=100),
    guest=counts(200, 0, 201),
    hypervisor=counts(200, None, 201),
    disk=counts(200, 0, 201),
    uncovered=0,
    not_durable=0,
    write_through=False,
    told=True,
)
SILENT = counts(200, 0, 0)


@pytest.mark.parametrize(
    ("changes", "name", "because"),
    [
        ({}, "", ""),
        ({"syncs": 0}, "workload", "the workload asks for durability in none of 100 commits"),
        ({"syncs": 67}, "workload", "the workload asks for durability in 67 of 100 commits"),
        (
            {"asked": BioCounts(flushes=0, fua_writes=0), "guest": SILENT, "disk": SILENT},
            "file system",
            "for 100 commits it asked for 0 flushes and 0 FUA writes",
        ),
        (
            {"guest": SILENT, "disk": SILENT, "write_through": True, "told": False},
            "guest block layer",
            "of 101 flushes and 100 FUA writes it issued 0 flushes and 0 FUA writes:"
            " it takes the disk for one without volatile cache",
        ),
        (
            {"disk": SILENT},
            "hypervisor",
            "of 201 flushes and 0 FUA writes that the guest issued,"
            " 0 flushes and 0 FUA writes reached the disk",
        ),
        (
            {"guest": counts(200, 100, 101), "disk": counts(200, 0, 101)},  # NVMe of QEMU 7.2
            "hypervisor",
            "of 101 flushes and 100 FUA writes that the guest issued,"
            " 101 flushes and 0 FUA writes reached the disk",
        ),
        (
            {"guest": SILENT, "disk": SILENT, "write_through": True},  # a restored IDE disk
            "hypervisor",
            "the guest was told that the disk writes through, and so sent 0 flushes and 0 FUA"
            " writes; with 200 writes, 0 flushes and 0 FUA writes reached the disk",
        ),
    ],
)
def test_each_layer_is_named_with_the_counts_that_show_it(changes, name, because):
    lost = {} if not changes else {"uncovered": 1, "not_durable": 1}
    assert flush_ends_at(replace(HONEST, **lost, **changes)) == (name, because)


def test_write_through_needs_no_flush():
    through = replace(HONEST, guest=SILENT, disk=counts(200, 200, 0), write_through=True)
    assert flush_ends_at(through) == ("", "")


def test_a_disk_that_ignores_what_it_is_sent_is_the_last_to_be_named():
    name, because = flush_ends_at(replace(HONEST, not_durable=200))
    assert name == "disk"
    assert because == (
        "201 flushes and 0 FUA writes reached the disk, and by its contract 200 writes were"
        " not durable all the same"
    )


def test_without_a_trace_the_hypervisor_says_what_the_guest_sent():
    untraced = replace(HONEST, asked=None, guest=None, uncovered=1, not_durable=1)
    silent = counts(200, None, 0)
    assert flush_ends_at(replace(untraced, disk=SILENT))[0] == "hypervisor"
    believes = replace(untraced, hypervisor=silent, disk=SILENT, write_through=True, told=False)
    assert flush_ends_at(believes)[0] == "guest block layer"
    assert flush_ends_at(replace(believes, write_through=False))[0] == "file system"


def test_writes_that_nobody_asked_to_be_durable_convict_nobody():
    name, because = flush_ends_at(replace(HONEST, uncovered=3, not_durable=3))
    assert name == ""
    assert because.endswith("at the end, 3 writes had no flush yet")


def test_flushes_that_are_left_out_where_nothing_was_written_convict_nobody():
    # O_DSYNC on a raw device: FUA, made a flush by the hypervisor, and the guest's own flush.
    raw = replace(HONEST, asked=None, guest=counts(100, 100, 100), disk=counts(100, 0, 100))
    assert flush_ends_at(raw) == ("", "")
