# SPDX-License-Identifier: Apache-2.0
"""Which failure is held against the disk, errno by errno; and the docs say the same."""

import errno

import pytest

from powercut.model.failure import (
    AMBIGUOUS,
    DAMAGED,
    Failure,
    GuestFault,
    Side,
    failure_of_mount,
    failure_of_reader,
    failure_of_slot,
    failure_of_step,
)
from powercut.model.observation import Extent, Observation
from powercut.paths import ROOT
from powercut.wal.layout import SlotState

FINDING, TROUBLE = Side.FINDING, Side.TROUBLE


@pytest.mark.parametrize(
    ("error", "side", "unproved", "dead_disk"),
    [
        (errno.EUCLEAN, FINDING, FINDING, FINDING),
        (errno.EBADMSG, FINDING, FINDING, FINDING),
        (errno.EINVAL, FINDING, TROUBLE, TROUBLE),
        (errno.EIO, FINDING, TROUBLE, TROUBLE),
        (errno.ENOENT, FINDING, TROUBLE, TROUBLE),
        (errno.EEXIST, FINDING, TROUBLE, TROUBLE),
        (errno.ENOSPC, FINDING, TROUBLE, TROUBLE),
        (errno.ENOMEM, TROUBLE, TROUBLE, TROUBLE),
        (errno.ENODEV, TROUBLE, TROUBLE, TROUBLE),
        (errno.ENXIO, TROUBLE, TROUBLE, TROUBLE),
        (errno.ENOTBLK, TROUBLE, TROUBLE, TROUBLE),
        (errno.EBUSY, TROUBLE, TROUBLE, TROUBLE),
        (errno.EINTR, TROUBLE, TROUBLE, TROUBLE),
        (errno.EPERM, TROUBLE, TROUBLE, TROUBLE),
        (errno.EACCES, TROUBLE, TROUBLE, TROUBLE),
        (errno.EROFS, TROUBLE, TROUBLE, TROUBLE),
        (errno.ETIMEDOUT, TROUBLE, TROUBLE, TROUBLE),
        (errno.ENODATA, TROUBLE, TROUBLE, TROUBLE),
        (errno.EILSEQ, TROUBLE, TROUBLE, TROUBLE),
        (0, TROUBLE, TROUBLE, TROUBLE),
        (9999, TROUBLE, TROUBLE, TROUBLE),
    ],
)
def test_a_refused_mount(error, side, unproved, dead_disk):
    assert failure_of_mount(error, proved=True).side is side
    assert failure_of_mount(error, proved=False).side is unproved
    assert failure_of_mount(error, proved=True, disk_reads=False).side is dead_disk


def test_only_what_is_named_convicts_at_the_mount():
    convicting = {n for n in range(4096) if failure_of_mount(n, proved=True).is_finding}
    assert convicting == DAMAGED | AMBIGUOUS
    assert {n for n in range(4096) if failure_of_mount(n, proved=False).is_finding} == DAMAGED


@pytest.mark.parametrize(
    ("fault", "error", "expected"),
    [
        (GuestFault.CALL, errno.EUCLEAN, Failure.LOG_DAMAGED),
        (GuestFault.CALL, errno.EBADMSG, Failure.LOG_DAMAGED),
        (GuestFault.CALL, errno.ENOMEM, Failure.READER_NO_MEMORY),
        (GuestFault.CALL, errno.EIO, Failure.READER_FAILED),
        (GuestFault.CALL, 0, Failure.READER_FAILED),
        (GuestFault.START, errno.EUCLEAN, Failure.READER_NOT_STARTED),
        (GuestFault.SIGNAL, errno.EUCLEAN, Failure.READER_KILLED),
    ],
)
def test_a_reader_that_failed(fault, error, expected):
    assert failure_of_reader(fault, error) is expected


@pytest.mark.parametrize(
    ("error", "side"),
    [
        (errno.EIO, FINDING),
        (errno.EUCLEAN, FINDING),
        (errno.EBADMSG, FINDING),
        (errno.EISDIR, FINDING),
        (errno.ENOMEM, TROUBLE),
        (errno.EINTR, TROUBLE),
        (errno.EMFILE, TROUBLE),
        (errno.ETIMEDOUT, TROUBLE),
        (0, TROUBLE),
    ],
)
def test_a_slot_that_was_not_read(error, side):
    assert failure_of_slot(error).side is side


def test_what_fails_before_the_mount_is_trouble():
    assert failure_of_step(GuestFault.DEVICE) is Failure.DEVICE_MISSING
    assert failure_of_step(GuestFault.MODULE) is Failure.MODULE_FAILED
    for fault in GuestFault:
        assert not failure_of_step(fault).is_finding


def test_a_finding_is_a_system_that_did_not_recover_and_trouble_is_not():
    extents = (Extent(0, 1, SlotState.INTACT, 1),)
    for cause in Failure:
        seen = Observation.failed(cause, "words", extents)
        assert (seen.recovered, seen.complete) == (not cause.is_finding, cause.is_finding)
        assert seen.extents == (() if cause.is_finding else extents)
        assert Failure.labelled(cause.label) is cause


def test_a_name_that_no_failure_has():
    with pytest.raises(ValueError, match="no way to fail is called 'gremlins'"):
        Failure.labelled("gremlins")


def test_the_docs_show_this_table():
    text = (ROOT / "docs/trouble.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{f.label}` | {f.side.value} | {f.reason} | {f.remedy} |" for f in Failure]
