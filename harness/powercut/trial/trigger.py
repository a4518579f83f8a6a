# SPDX-License-Identifier: Apache-2.0
"""Waits for the moment at which the power is to be cut, with an eye on the workload."""

from __future__ import annotations

import time
from typing import Final, NoReturn

from powercut.channel.port import Acks, EndedEarly
from powercut.model.confidence import LONGER, OPERATIONS_MIN
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.rig.set_up import Deadline
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.disks import TrialDisk

_POLL_S: Final = 0.25
"""How often a wait for the disk looks after the workload."""

NEVER: Final = 2**62
"""More acks than there are: waiting for them returns early only if the workload has ended."""


def wait_trigger(
    acks: Acks, trigger: Trigger, deadline: Deadline, *, at_most_s: float | None = None
) -> None:
    """Returns when the power is to be cut: `after` a time, or at so many `acks`.

    With `at_most_s` the power goes at the latest so many seconds after the workload has begun,
    and as soon as it has done its work; up to `LONGER` times as late while it has acknowledged too
    little to prove anything.  Without, a workload that ends before the cut is trouble.  Raises
    PowercutError if the moment does not come.
    """
    try:
        acks.wait_ready(timeout_s=deadline.remaining_s)
    except EndedEarly:
        if at_most_s is None:
            raise
        return
    if trigger.kind is TriggerKind.AFTER:
        _wait_moment(acks, trigger, deadline, whole=at_most_s is None)
        return
    remaining_s = deadline.remaining_s
    most_s = remaining_s if at_most_s is None else min(at_most_s, remaining_s)
    reached = acks.wait_acks(trigger.value, timeout_s=most_s)
    least = min(OPERATIONS_MIN, trigger.value)
    if at_most_s is not None and acks.acked < least and not deadline.over:
        more_s = min(at_most_s * (LONGER - 1), deadline.remaining_s / 2)
        reached = acks.wait_acks(least, timeout_s=more_s)
    if not reached and (at_most_s is None or deadline.over):
        _raise_never_came(trigger, deadline)


def wait_flush(acks: Acks, disk: TrialDisk, trigger: Trigger, deadline: Deadline) -> None:
    """Returns when the disk has stopped at its flush."""
    while not disk.wait_stopped(timeout_s=_POLL_S):
        acks.wait_acks(NEVER, timeout_s=0)  # raises if the workload has failed
        if deadline.over:
            _raise_never_came(trigger, deadline)


def _wait_moment(acks: Acks, trigger: Trigger, deadline: Deadline, *, whole: bool) -> None:
    """Lets the time go by; the `whole` of it even if the workload has ended in order."""
    seconds = trigger.value / 1e9
    if seconds > deadline.remaining_s:
        raise HostError(f"the cut {trigger} lies beyond the deadline of the trial")
    end = time.monotonic() + seconds
    acks.wait_acks(NEVER, timeout_s=seconds)
    if whole:
        time.sleep(max(end - time.monotonic(), 0))


def _raise_never_came(trigger: Trigger, deadline: Deadline) -> NoReturn:
    if deadline.over:
        raise DeadlineExceeded(
            f"the cut {trigger} did not come before the deadline of the trial",
            hint="raise `deadline` in the scenario",
        )
    raise HostError(f"the cut {trigger} never came: the workload had ended before")
