# SPDX-License-Identifier: Apache-2.0
"""From PID 1's answer to what was observed of a state, or to trouble of the engine's own."""

from __future__ import annotations

import errno
import struct
from typing import Final

from powercut.model.observation import Continued, Observation
from powercut.recover.port import NO_SUCH_SLOT
from powercut.recover.uml.share import After, Answer, Share, Step

_TROUBLE: Final = frozenset({Step.PATCH, Step.VIEW, Step.UMOUNT, Step.CHECK})
"""What is never the state's fault; a file system that stays mounted would leak into the next."""


class Trouble(Exception):
    """The engine failed and the state has no part in it."""


def observe(share: Share, answer: Answer, said: str) -> Observation:
    """What `answer` to a RECOVER says of the state; `said` is what the kernel said.

    Raises Trouble if nothing may be concluded from it.
    """
    if answer.step in _TROUBLE or answer.error == errno.ENOMEM:
        raise Trouble(answer.reason)
    failure = "" if answer.step is Step.NONE else f"{answer.reason}\n{said}".strip()
    if answer.step is Step.MOUNT:  # the system's last word: recovery was tried to its end
        return Observation((), recovered=False, failure=failure)
    try:
        extents = share.extents(answer.answer)
        later = _later(share, answer, failure, said)
    except (ValueError, struct.error) as error:
        raise Trouble(f"the reader's extents: {error}") from error
    if answer.step is Step.AFTER:  # the first reading had come to its end
        failure = ""
    return Observation(
        extents, complete=answer.step in (Step.NONE, Step.AFTER), failure=failure, later=later
    )


def _later(share: Share, answer: Answer, failure: str, said: str) -> Continued | None:
    """What came of the workload going on, if it was started."""
    if answer.after is After.NOT:
        if answer.step is Step.AFTER:
            raise Trouble(answer.reason)
        return None
    claims = (answer.first_lsn, answer.attempted, answer.acked)
    if answer.after is After.MOUNT:
        return Continued(*claims, Observation((), recovered=False, failure=failure))
    extents = share.extents(answer.after_answer, at=answer.answer)
    if answer.after is After.READER:
        return Continued(*claims, Observation(extents, complete=False, failure=failure))
    # ext4 answers ENOSPC when its accounts are wrong, too, but not without a word.
    full = answer.error == errno.ENOSPC and not said
    no_room = answer.after is After.WRITER and (full or answer.status == NO_SUCH_SLOT)
    return Continued(*claims, Observation(extents), failure, no_room)
