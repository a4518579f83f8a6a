# SPDX-License-Identifier: Apache-2.0
"""From PID 1's answer to what was observed of a state, or to trouble of the engine's own."""

from __future__ import annotations

import errno
import struct
from typing import Final

from powercut.model.failure import (
    Failure,
    GuestFault,
    failure_of_layer,
    failure_of_mount,
    failure_of_reader,
)
from powercut.model.observation import Continuation, Extent, Observation
from powercut.model.printable import printable
from powercut.recover.port import NO_SUCH_SLOT
from powercut.recover.uml.share import After, Answer, Share, Step

_TROUBLE: Final = frozenset({Step.PATCH, Step.VIEW, Step.UMOUNT, Step.CHECK})
"""What is never the state's fault; a file system that stays mounted would leak into the next."""

_LASTING: Final = frozenset({Failure.MOUNT_UNSUPPORTED, Failure.MOUNT_UNPROVED})
"""What a fresh kernel would say again."""

REFUSALS: Final = frozenset({Failure.MOUNT_REFUSED, Failure.LAYER_REFUSED})
"""What is held against a state only if this kernel has mounted another one."""

_SIGNALLED: Final = 128
"""Exit statuses above this one are signals (guests/uml/recover.c)."""


class Trouble(Exception):
    """The engine failed and the state has no part in it."""

    def __init__(self, words: str, cause: Failure = Failure.STEP_FAILED) -> None:
        super().__init__(f"{words}: {cause.reason}")
        self.cause = cause

    @property
    def lasting(self) -> bool:
        """Whether there is no point in asking a fresh kernel."""
        return self.cause in _LASTING


def observe(
    share: Share, answer: Answer, said: str, *, program: bool = False, tree: bool = False
) -> Observation:
    """What `answer` to a RECOVER says of the state; `said` is what the kernel said.

    The reader of a `program` has written lines, and not extents; of a `tree` the answer is for
    whoever has asked, who takes it from where it lies.
    MOUNT_REFUSED and LAYER_REFUSED presume that this kernel mounts the plan's file system; the
    engine looks.
    Raises Trouble if nothing may be concluded from the answer.
    """
    if answer.step in _TROUBLE:
        raise Trouble(answer.reason)
    failure = "" if answer.step is Step.NONE else f"{answer.reason}\n{said}".strip()
    if answer.step in (
        Step.MOUNT,
        Step.ACTIVATE,
    ):  # the system's last word: recovery was tried to its end
        return _refused(answer, failure)
    if tree:
        return Observation((), complete=answer.step is Step.NONE, failure=failure)
    if program:
        return _of_program(share, answer, failure)
    try:
        extents = share.extents(answer.answer)
        later = _later(share, answer, failure, said)
    except (ValueError, struct.error) as error:
        raise Trouble(f"the reader's extents: {error}") from error
    if answer.step is Step.READ:
        return _unread(answer, failure, extents)
    return Observation(extents, later=later)  # the first reading had come to its end


def borne_out(first: Observation, again: Observation) -> Observation:
    """What a state is after it was refused, and asked `again`: of a layer, both have to say so."""
    if first.cause is Failure.LAYER_REFUSED and again.cause is not Failure.LAYER_REFUSED:
        words = f"the same disk was activated twice, and not with the same end: {first.failure}"
        return Observation.failed(Failure.NOT_REPEATED, words)
    return again


def _of_program(share: Share, answer: Answer, failure: str) -> Observation:
    if answer.step is Step.AFTER and answer.after is After.NOT:
        raise Trouble(answer.reason)
    lines = share.bytes(answer.answer)
    if answer.step not in (Step.NONE, Step.AFTER):
        return Observation((), complete=False, failure=failure, lines=lines)
    return Observation((), lines=lines, later=_later_of_program(share, answer, failure))


def _later_of_program(share: Share, answer: Answer, failure: str) -> Continuation | None:
    if answer.after is After.NOT:
        return None
    claims = share.bytes(answer.after_lines, at=answer.answer)
    if answer.after is After.MOUNT:
        return Continuation(0, 0, 0, _refused(answer, failure), lines=claims)
    size = answer.after_answer - answer.after_lines
    lines = share.bytes(size, at=answer.answer + answer.after_lines)
    if answer.after is After.READER:
        seen = Observation((), complete=False, failure=failure, lines=lines)
        return Continuation(0, 0, 0, seen, lines=claims)
    no_room = answer.after is After.WRITER and answer.error == errno.ENOSPC  # PID 1 has looked
    there = Observation((), lines=lines)
    left = tuple(map(printable, answer.what.splitlines())) if answer.after is After.DONE else ()
    return Continuation(0, 0, 0, there, failure, no_room, claims, left)


def _refused(answer: Answer, failure: str) -> Observation:
    if answer.step is Step.ACTIVATE or answer.error == errno.EILSEQ:
        # The disk is memory: what fails a sector's check is a layer.
        cause = failure_of_layer(answer.error)
    else:
        cause = failure_of_mount(answer.error, proved=True)
    if not cause.is_finding:
        raise Trouble(answer.reason, cause)
    return Observation.failed(cause, failure)


def _unread(answer: Answer, failure: str, extents: tuple[Extent, ...]) -> Observation:
    signalled = answer.status > _SIGNALLED
    fault = GuestFault.SIGNAL if signalled else GuestFault.CALL
    cause = failure_of_reader(fault, answer.error)
    if cause is Failure.READER_NO_MEMORY:  # a fresh kernel may have some
        raise Trouble(answer.reason, cause)
    return Observation.failed(cause, failure, extents)


def _later(share: Share, answer: Answer, failure: str, said: str) -> Continuation | None:
    if answer.after is After.NOT:
        if answer.step is Step.AFTER:
            raise Trouble(answer.reason)
        return None
    claims = (answer.first_lsn, answer.attempted, answer.acked)
    if answer.after is After.MOUNT:
        return Continuation(*claims, _refused(answer, failure))
    extents = share.extents(answer.after_answer, at=answer.answer)
    if answer.after is After.READER:
        return Continuation(*claims, _unread(answer, failure, extents))
    if answer.error == errno.ENOMEM:
        raise Trouble(answer.reason)
    # ext4 answers ENOSPC when its accounts are wrong, too, but not without a word.
    full = answer.error == errno.ENOSPC and not said
    no_room = answer.after is After.WRITER and (full or answer.status == NO_SUCH_SLOT)
    return Continuation(*claims, Observation(extents), failure, no_room)
