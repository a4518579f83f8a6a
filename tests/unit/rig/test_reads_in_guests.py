# SPDX-License-Identifier: Apache-2.0
"""What a check has read in a guest that is played, asked before and after the check."""

import struct
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from powercut.channel.check_lines import CheckLines
from powercut.channel.port import CommandResult, GuestError
from powercut.model.failure import Failure, GuestFault
from powercut.model.reads import FileRead
from powercut.recover.plan import GuestRoot, RecoveryPlan
from powercut.rig.recovery import NotedReads, recover_in_guest

PLAN = RecoveryPlan.of("ext4", "", "/root/mnt", ("/check",), root=GuestRoot("/mnt", ("PATH=/bin",)))
LISTED = struct.pack("<QQQQIIII", 1, 9, 1, 2, 1, 0, 1, 7) + b"n"
FILES = (FileRead("n", 9, 1, 2, unread=True, crc=7),)


def done(status=0, error="", listed=b""):
    errors = (GuestError(GuestFault.CALL, 12, error),) if error else ()
    return CommandResult(status, error, {}, (), (), None, errors, listed)


class PlayedGuest:
    def __init__(self, **answers):
        self.answers = {"listed": done(listed=LISTED)} | answers
        self.asked = []

    def start(self, *, timeout_s):
        pass

    def wait_hello(self, *, timeout_s):
        pass

    def run(self, *argv, timeout_s):
        self.asked.append(argv)
        return self.answers.get(argv[0], done())


@pytest.fixture
def recovered(monkeypatch):
    @contextmanager
    def on_port(_):
        yield SimpleNamespace(wait_end=lambda _: b"= 1\n")

    monkeypatch.setattr(CheckLines, "on_port", on_port)

    def play(noted, **answers):
        guest = PlayedGuest(**answers)
        seen, _ = recover_in_guest(
            guest, guest, PLAN, timeout_s=5, folder=Path("/nowhere"), reads=noted
        )
        return seen, [one for one in guest.asked if one[0] in ("reads", "program", "listed")]

    return play


def test_a_check_is_watched_from_the_mount_to_its_end(recovered):
    reads = NotedReads(by_check=True)
    seen, asked = recovered(reads)
    assert (seen.lines, reads.files) == (b"= 1\n", FILES)
    assert [one[0] for one in asked] == ["reads", "program", "listed"]
    assert (asked[0], asked[2]) == (("reads", "/root/mnt"), ("listed", "0"))


def test_without_a_check_files_are_listed_with_what_they_hold(recovered):
    reads = NotedReads(by_check=False)
    seen, asked = recovered(reads)
    assert (seen.lines, reads.files) == (b"", FILES)
    assert asked == [("reads", "/root/mnt"), ("listed", "1")]


def test_a_check_that_nobody_watches_is_asked_nothing_else(recovered):
    seen, asked = recovered(None)
    assert seen.lines == b"= 1\n"
    assert [one[0] for one in asked] == ["program"]


@pytest.mark.parametrize("by_check", [True, False])
@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        ({"reads": done(1, "date what is read on /root/mnt")}, Failure.STEP_FAILED),
        ({"listed": done(1, "list what was read")}, Failure.STEP_FAILED),
        ({"listed": done(listed=LISTED[:-1])}, Failure.SYSTEM_LOST),
        ({"listed": done(listed=LISTED + b"x")}, Failure.SYSTEM_LOST),
    ],
)
def test_what_cannot_be_listed_is_not_known(recovered, answers, cause, by_check):
    reads = NotedReads(by_check)
    seen, _ = recovered(reads, **answers)
    assert (seen.cause, seen.complete, reads.files) == (cause, False, None)
