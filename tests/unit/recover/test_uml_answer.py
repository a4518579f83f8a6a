# SPDX-License-Identifier: Apache-2.0
"""What PID 1 of a User-Mode Linux answers, and on which side it comes out: no kernel needed."""

import errno

import pytest

from powercut.model.failure import Failure
from powercut.model.observation import Extent
from powercut.recover.port import NO_SUCH_SLOT
from powercut.recover.uml.answer import Trouble, observe
from powercut.recover.uml.share import EXTENT_FORMAT, STEPS, After, Answer, Share, Step
from powercut.wal.layout import SlotState

INTACT = Extent(0, 5, SlotState.INTACT, 1)


@pytest.fixture
def share():
    made = Share(1 << 16)
    raw = EXTENT_FORMAT.pack(INTACT.slot, INTACT.count, INTACT.lsn, INTACT.state, 0)
    made.put(raw * 2)
    yield made
    made.close()


def answer(step=Step.NONE, error=0, *, status=0, after=After.NOT, extents=0):
    return Answer(
        step, error, status, extents * EXTENT_FORMAT.size, 0, EXTENT_FORMAT.size, 0, 6, 9, 9, after,
        (0,) * STEPS, "mount ext4",
    )  # fmt: skip


@pytest.mark.parametrize("step", [Step.PATCH, Step.VIEW, Step.UMOUNT, Step.CHECK])
def test_steps_that_are_never_the_states_fault(share, step):
    for error in (errno.EUCLEAN, errno.EIO, errno.ENOSPC, 0):
        with pytest.raises(Trouble):
            observe(share, answer(step, error), "")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (errno.EUCLEAN, Failure.MOUNT_DAMAGED),
        (errno.EBADMSG, Failure.MOUNT_DAMAGED),
        (errno.EINVAL, Failure.MOUNT_REFUSED),
        (errno.EIO, Failure.MOUNT_REFUSED),
    ],
)
def test_a_mount_that_the_state_is_to_blame_for(share, error, cause):
    seen = observe(share, answer(Step.MOUNT, error), "EXT4-fs: no journal")
    assert (seen.recovered, seen.complete, seen.cause) == (False, True, cause)
    assert seen.failure.startswith("mount ext4: ")
    assert seen.failure.endswith("EXT4-fs: no journal")


@pytest.mark.parametrize(
    ("error", "cause", "lasting"),
    [
        (errno.ENOMEM, Failure.MOUNT_NO_MEMORY, False),
        (errno.ENODEV, Failure.MOUNT_UNSUPPORTED, True),
        (errno.EBUSY, Failure.MOUNT_BUSY, False),
        (errno.ENXIO, Failure.DEVICE_MISSING, False),
        (errno.EPERM, Failure.MOUNT_FORBIDDEN, False),
        (errno.ELIBBAD, Failure.MOUNT_UNKNOWN, False),
    ],
)
def test_a_mount_that_it_is_not_to_blame_for(share, error, cause, lasting):
    for told in (answer(Step.MOUNT, error), answer(Step.AFTER, error, after=After.MOUNT)):
        with pytest.raises(Trouble) as caught:
            observe(share, told, "")
        assert (caught.value.cause, caught.value.lasting) == (cause, lasting)


def test_a_reader_that_failed(share):
    read = answer(Step.READ, errno.EIO, status=1, extents=1)
    seen = observe(share, read, "")
    assert (seen.extents, seen.recovered, seen.complete) == ((INTACT,), True, False)
    assert seen.cause is Failure.READER_FAILED
    killed = observe(share, answer(Step.READ, errno.EUCLEAN, status=137), "")
    assert (killed.cause, killed.complete) == (Failure.READER_KILLED, False)
    damaged = observe(share, answer(Step.READ, errno.EUCLEAN, status=1), "")
    assert (damaged.cause, damaged.recovered) == (Failure.LOG_DAMAGED, False)
    with pytest.raises(Trouble) as caught:
        observe(share, answer(Step.READ, errno.ENOMEM, status=1), "")
    assert caught.value.cause is Failure.READER_NO_MEMORY


def test_what_the_reader_cannot_have_said_is_trouble(share):
    share.put(bytes([255]) * 64)
    with pytest.raises(Trouble, match="extents"):
        observe(share, answer(extents=1), "")


def test_life_after_recovery(share):
    def later(error, after, status=0, said=""):
        return observe(
            share, answer(Step.AFTER, error, after=after, status=status, extents=1), said
        )

    with pytest.raises(Trouble):
        later(errno.EIO, After.NOT)
    lost = later(errno.EUCLEAN, After.MOUNT)
    assert lost.complete
    assert lost.recovered
    assert lost.later.observation.cause is Failure.MOUNT_DAMAGED
    unread = later(errno.EIO, After.READER, 1).later.observation
    assert (unread.extents, unread.complete) == ((INTACT,), False)
    for error in (errno.ENOMEM,):
        for after in (After.MOUNT, After.READER, After.WRITER):
            with pytest.raises(Trouble):
                later(error, after)
    full, lied = later(errno.ENOSPC, After.WRITER), later(errno.ENOSPC, After.WRITER, said="EXT4")
    assert full.later.no_room
    assert not lied.later.no_room
    assert later(0, After.WRITER, NO_SUCH_SLOT).later.no_room
    failed = later(errno.EIO, After.WRITER, 1).later
    assert not failed.no_room
    assert failed.failure
    assert (failed.first_lsn, failed.acked, failed.attempted) == (6, 9, 9)
