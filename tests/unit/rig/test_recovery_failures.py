# SPDX-License-Identifier: Apache-2.0
"""Recovery in a guest that is played: each way to fail, and on which side it comes out."""

import errno
from pathlib import Path

import pytest

from powercut.channel.port import CommandResult, GuestError, GuestFailed
from powercut.checkers.wal import check_log
from powercut.model.errors import DamagedRecording, DeadlineExceeded, HostError
from powercut.model.failure import Failure, GuestFault
from powercut.model.observation import Extent
from powercut.model.verdict import LsnRange, Verdict
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import NO_SUCH_SLOT
from powercut.rig.recovery import agreed, must_repeat, recover_in_guest
from powercut.wal.layout import LayoutKind, SlotState, WalLayout

LAYOUT = WalLayout(LayoutKind.APPEND, record=64)
PLAN = RecoveryPlan.of("xfs", "noatime", "/mnt", ("/bin/wal", "read"))
GOING_ON = RecoveryPlan.of("xfs", "", "/mnt", ("/bin/wal", "read")).going_on(
    ("/bin/wal", "write", "records=4"), 4
)
INTACT = (Extent(0, 10, SlotState.INTACT, 1),)
CALL, MOUNT, MODULE, DEVICE, START, SIGNAL = GuestFault


def done(status=0, *errors, extents=()):
    told = tuple(GuestError(fault, number, words) for fault, number, words in errors)
    words = "; ".join(error.text for error in told)
    return CommandResult(status, words, {}, tuple(extents), (), None, told)


def unreadable(error):
    return (
        *INTACT[:0],
        Extent(0, 8, SlotState.INTACT, 1),
        Extent(8, 2, SlotState.UNREADABLE, 0, error),
    )


class PlayedGuest:
    """A machine and its channel.  Answers go by verb; a list is used up from its front."""

    acked = 12

    def __init__(self, **answers):
        self.answers = {"exec": done(extents=INTACT)} | answers
        self.asked = []

    def start(self, *, timeout_s):
        self._play("start")

    def wait_hello(self, *, timeout_s):
        self._play("hello")
        return {}

    def run(self, *argv, timeout_s):
        self.asked.append(argv[0])
        return self._play(argv[0])

    def _play(self, verb):
        answer = self.answers.get(verb, done())
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def recovered(plan=PLAN, **answers):
    guest = PlayedGuest(**answers)
    seen, _ = recover_in_guest(guest, guest, plan, timeout_s=5, folder=Path("/nowhere"))
    return seen


def verdict(seen):
    findings = check_log(LsnRange(1, 10), 10, seen, LAYOUT)
    return max((f.verdict for f in findings), default=Verdict.SAFE)


def test_a_guest_without_trouble_is_safe():
    assert verdict(recovered()) is Verdict.SAFE
    assert verdict(recovered(exec=done(extents=INTACT[:0]))) is Verdict.LOSSY


@pytest.mark.parametrize("answer", [HostError("x"), GuestFailed("x"), DamagedRecording("x")])
@pytest.mark.parametrize("verb", ["start", "hello", "flushbufs", "facts", "mount", "exec"])
def test_a_guest_that_goes_is_trouble(verb, answer):
    seen = recovered(**{verb: answer})
    assert (seen.cause, verdict(seen)) == (Failure.SYSTEM_LOST, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("verb", ["start", "hello", "mount", "exec"])
def test_a_guest_that_is_late_is_trouble(verb):
    seen = recovered(**{verb: DeadlineExceeded("x")})
    assert (seen.cause, verdict(seen)) == (Failure.DEADLINE, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("error", "cause", "expected"),
    [
        (errno.EUCLEAN, Failure.MOUNT_DAMAGED, Verdict.LOSSY),
        (errno.EBADMSG, Failure.MOUNT_DAMAGED, Verdict.LOSSY),
        (errno.EINVAL, Failure.MOUNT_REFUSED, Verdict.LOSSY),
        (errno.EIO, Failure.MOUNT_REFUSED, Verdict.LOSSY),
        (errno.ENOMEM, Failure.MOUNT_NO_MEMORY, Verdict.INCONCLUSIVE),
        (errno.ENODEV, Failure.MOUNT_UNSUPPORTED, Verdict.INCONCLUSIVE),
        (errno.EBUSY, Failure.MOUNT_BUSY, Verdict.INCONCLUSIVE),
        (errno.ETIMEDOUT, Failure.DISK_FAILED, Verdict.INCONCLUSIVE),
    ],
)
def test_a_mount_by_its_errno(error, cause, expected):
    seen = recovered(mount=done(1, (MOUNT, error, "mount xfs /dev/vda on /mnt")))
    assert (seen.cause, verdict(seen)) == (cause, expected)
    (finding, *_) = check_log(LsnRange(1, 10), 10, seen, LAYOUT)
    assert finding.detail["cause"] == cause.label
    assert (cause.remedy in finding.message) == (expected is Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("error", [errno.EUCLEAN, errno.EINVAL, errno.EIO])
def test_a_mount_from_a_disk_that_cannot_be_read_is_trouble(error):
    seen = recovered(
        mount=done(1, (MOUNT, error, "mount")), probe=done(1, (CALL, errno.EIO, "read"))
    )
    assert (seen.cause, verdict(seen)) == (Failure.DISK_FAILED, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("verb", "fault", "error", "cause"),
    [
        ("flushbufs", DEVICE, errno.ENODEV, Failure.DEVICE_MISSING),
        ("flushbufs", CALL, errno.EIO, Failure.STEP_FAILED),
        ("mount", MODULE, errno.ENOMEM, Failure.MODULE_FAILED),
        ("mount", DEVICE, errno.ENODEV, Failure.DEVICE_MISSING),
        # The words are those of a mount that was refused; what counts is what failed.
        ("mount", CALL, errno.EUCLEAN, Failure.STEP_FAILED),
    ],
)
def test_what_fails_before_mount_is_trouble(verb, fault, error, cause):
    seen = recovered(**{verb: done(1, (fault, error, "mount xfs /dev/vda on /mnt"))})
    assert (seen.cause, verdict(seen)) == (cause, Verdict.INCONCLUSIVE)


def test_a_mount_that_fails_without_a_word_is_trouble():
    seen = recovered(mount=done(1))
    assert (seen.cause, verdict(seen)) == (Failure.STEP_FAILED, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("answer", "cause", "expected"),
    [
        (done(127, (START, errno.ENOMEM, "fork")), Failure.READER_NOT_STARTED, "INCONCLUSIVE"),
        (done(127, (START, errno.ENOENT, "execv")), Failure.READER_NOT_STARTED, "INCONCLUSIVE"),
        (done(137, (SIGNAL, errno.EINTR, "killed")), Failure.READER_KILLED, "INCONCLUSIVE"),
        (
            done(137, (CALL, errno.EUCLEAN, "open"), (SIGNAL, errno.EINTR, "killed")),
            Failure.READER_KILLED,
            "INCONCLUSIVE",
        ),
        (done(1, (CALL, errno.ENOMEM, "malloc")), Failure.READER_NO_MEMORY, "INCONCLUSIVE"),
        (done(1, (CALL, errno.EIO, "open")), Failure.READER_FAILED, "INCONCLUSIVE"),
        (done(2), Failure.READER_FAILED, "INCONCLUSIVE"),
        (done(0, (CALL, errno.EPIPE, "write")), Failure.READER_FAILED, "INCONCLUSIVE"),
        (done(1, (CALL, errno.EUCLEAN, "open /mnt/log")), Failure.LOG_DAMAGED, "LOSSY"),
    ],
)
def test_a_reader_by_what_ended_it(answer, cause, expected):
    seen = recovered(exec=answer)
    assert seen.cause is cause
    assert verdict(seen).name == expected


def test_a_reader_that_failed_is_never_complete_whatever_it_had_seen():
    """All ten records were seen whole; that nothing is missing is not known."""
    seen = recovered(exec=done(1, (CALL, errno.EIO, "readdir"), extents=INTACT))
    assert (seen.extents, seen.complete) == (INTACT, False)
    assert verdict(seen) is Verdict.INCONCLUSIVE
    part = (Extent(0, 5, SlotState.INTACT, 1),)
    findings = check_log(LsnRange(1, 10), 10, recovered(exec=done(1, extents=part)), LAYOUT)
    assert [(f.verdict, f.lsns) for f in findings] == [(Verdict.INCONCLUSIVE, (LsnRange(6, 10),))]


@pytest.mark.parametrize("error", [errno.EIO, errno.EUCLEAN, errno.EBADMSG])
def test_a_slot_that_the_file_system_cannot_read_is_lost_if_the_disk_answers(error):
    seen = recovered(exec=done(extents=unreadable(error)))
    findings = check_log(LsnRange(1, 10), 10, seen, LAYOUT)
    assert [(f.verdict, f.lsns) for f in findings] == [(Verdict.LOSSY, (LsnRange(9, 10),))]
    dead = recovered(exec=done(extents=unreadable(error)), probe=done(1, (CALL, 5, "read")))
    findings = check_log(LsnRange(1, 10), 10, dead, LAYOUT)
    assert [(f.verdict, f.lsns) for f in findings] == [(Verdict.INCONCLUSIVE, (LsnRange(9, 10),))]
    assert dead.cause is Failure.DISK_FAILED


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EINTR, errno.ETIMEDOUT])
def test_a_slot_that_was_not_read_for_want_of_memory_is_unknown(error):
    seen = recovered(exec=done(extents=unreadable(error)))
    findings = check_log(LsnRange(1, 10), 10, seen, LAYOUT)
    assert [(f.verdict, f.lsns) for f in findings] == [(Verdict.INCONCLUSIVE, (LsnRange(9, 10),))]
    assert findings[0].detail["cause"] == Failure.SLOT_UNREAD.label
    # Where no required record belongs, too: what stands there was asked for.
    findings = check_log(LsnRange(1, 5), 10, seen, LAYOUT)
    assert [f.verdict for f in findings] == [Verdict.INCONCLUSIVE]


def later(mount, read=None, **answers):
    return recovered(
        plan=GOING_ON,
        mount=[done(), mount],
        exec=[done(extents=INTACT), done(), read or done(extents=INTACT)],
        **answers,
    ).later


def test_life_after_recovery_by_the_same_table():
    assert later(done()).observation.complete
    lost = later(done(1, (MOUNT, errno.EUCLEAN, "mount"))).observation
    assert (lost.cause, lost.recovered) == (Failure.MOUNT_DAMAGED, False)
    for error in (errno.ENOMEM, errno.EBUSY, errno.ENODEV):
        seen = later(done(1, (MOUNT, error, "mount"))).observation
        assert (seen.recovered, seen.complete) == (True, False)
    killed = later(done(), done(137, (SIGNAL, errno.EINTR, "killed"))).observation
    assert (killed.cause, killed.complete) == (Failure.READER_KILLED, False)


def test_an_unmount_that_fails_after_going_on_is_trouble():
    seen = recovered(
        plan=GOING_ON,
        exec=[done(extents=INTACT), done()],
        umount=done(1, (CALL, errno.EBUSY, "umount")),
    )
    assert (seen.cause, seen.complete) == (Failure.STEP_FAILED, False)


def test_a_writer_without_room_and_one_that_failed():
    def writer(answer):
        answers = [done(extents=INTACT), answer, done(extents=INTACT)]
        return recovered(plan=GOING_ON, exec=answers).later

    assert writer(done(NO_SUCH_SLOT)).no_room
    failed = writer(done(1, (CALL, errno.EIO, "fdatasync")))
    assert (failed.no_room, failed.failure) == (False, "fdatasync")
    assert (failed.first_lsn, failed.attempted, failed.acked) == (11, 14, 12)


def test_a_loss_that_only_one_boot_sees_is_trouble():
    refused = recovered(mount=done(1, (MOUNT, errno.EIO, "mount")))
    damaged = recovered(mount=done(1, (MOUNT, errno.EUCLEAN, "mount")))
    slots = recovered(exec=done(extents=unreadable(errno.EIO)))
    fine = recovered()
    late = recovered(mount=DeadlineExceeded("x"))
    assert [must_repeat(seen) for seen in (refused, damaged, slots, fine, late)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    for seen in (refused, damaged, slots):
        assert agreed(seen, seen) is seen
    for first, second in ((refused, fine), (refused, damaged), (slots, fine), (slots, refused)):
        seen = agreed(first, second)
        assert (seen.cause, verdict(seen)) == (Failure.NOT_REPEATED, Verdict.INCONCLUSIVE)
    assert agreed(refused, late) is late
