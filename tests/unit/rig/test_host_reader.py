# SPDX-License-Identifier: Apache-2.0
"""The reader on the host: whatever is wrong there is the host's, and never a loss."""

import errno
import subprocess

import pytest
from patience import AMPLE_S

from powercut.channel import wire
from powercut.channel.wire import Message, MessageType, encode
from powercut.checkers.wal import check_log
from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.observation import Extent
from powercut.model.verdict import LsnRange, Verdict
from powercut.paths import WAL_BINARY
from powercut.rig.host_reader import run_reader
from powercut.wal.layout import LayoutKind, SlotState, WalLayout

LAYOUT = WalLayout(LayoutKind.RAW, record=64, capacity=640)
WHOLE = Extent(0, 10, SlotState.INTACT, 1)


@pytest.fixture
def reader(tmp_path):
    """A program that says what it is given and ends as it is told."""

    def make(*extents, ending="exit 0", facts=()):
        said = b"".join(encode(Message(MessageType.FACT, payload=fact.encode())) for fact in facts)
        for extent in extents:
            packed = wire.EXTENT.pack(
                extent.slot, extent.count, extent.lsn, extent.state, extent.detail
            )
            said += encode(Message(MessageType.EXTENT, value=1, payload=packed))
        (tmp_path / "said").write_bytes(said)
        program = tmp_path / "reader"
        program.write_text(f"#!/bin/sh\ncat '{tmp_path}/said'\n{ending}\n")
        program.chmod(0o755)
        return run_reader([str(program)], timeout_s=AMPLE_S)

    return make


def verdict(seen):
    findings = check_log(LsnRange(1, 10), 10, seen, LAYOUT)
    return max((f.verdict for f in findings), default=Verdict.SAFE)


def test_a_reader_that_ends_well_is_believed(reader):
    assert verdict(reader(WHOLE)) is Verdict.SAFE
    assert verdict(reader(Extent(0, 9, SlotState.INTACT, 1))) is Verdict.LOSSY


@pytest.mark.parametrize("ending", ["exit 1", "exit 2", "exit 255", "kill -KILL $$"])
@pytest.mark.parametrize("seen", [(WHOLE,), (Extent(0, 5, SlotState.INTACT, 1),), ()])
def test_its_exit_status_counts_whatever_it_had_seen(reader, seen, ending):
    found = reader(*seen, ending=ending)
    assert (found.extents, found.complete) == (seen, False)
    assert (found.cause, verdict(found)) == (Failure.HOST_READER_FAILED, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOMEM])
def test_what_this_host_cannot_read_of_its_own_file_is_no_loss(reader, error):
    found = reader(Extent(0, 9, SlotState.INTACT, 1), Extent(9, 1, SlotState.UNREADABLE, 0, error))
    assert (found.cause, verdict(found)) == (Failure.HOST_READER_FAILED, Verdict.INCONCLUSIVE)


def test_an_image_that_is_not_there_is_no_loss(tmp_path):
    layout = ["run_id=" + "00" * 16, "layout=raw", "record=512", "align=512"]
    argv = [str(WAL_BINARY), "read", *layout, f"path={tmp_path / 'none'}", "channel=fd:1"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    found = run_reader(argv, timeout_s=AMPLE_S)
    assert (found.cause, verdict(found)) == (Failure.HOST_READER_FAILED, Verdict.INCONCLUSIVE)


def test_a_report_that_does_not_decode_and_a_reader_that_hangs(reader, tmp_path):
    found = reader(ending="printf '%040d' 7")
    assert (found.cause, verdict(found)) == (Failure.HOST_READER_FAILED, Verdict.INCONCLUSIVE)
    late = run_reader(["/bin/sleep", "20"], timeout_s=0.05)
    assert (late.cause, verdict(late)) == (Failure.DEADLINE, Verdict.INCONCLUSIVE)
    with pytest.raises(HostError, match="cannot run"):
        run_reader([str(tmp_path / "none")], timeout_s=1)
