# SPDX-License-Identifier: Apache-2.0
"""What a program says until the cut, wherever it runs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from powercut.channel.line_channel import LineChannel
from powercut.channel.port import Channel, EndedEarly, RunsVerbs
from powercut.machine.patience import processor_seconds
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.operations import Pressed
from powercut.rig.set_up import Deadline
from powercut.scenario.plan import Trigger
from powercut.trial.disks import CapturedDisk, TrialDisk
from powercut.trial.job import RecordingInProgress
from powercut.trial.trigger import wait_trigger
from powercut.workload.port import AcksByLines

_CATCH_UP_S: Final = 5.0  # a guest that answers nothing any more is cut all the same
SHOWN: Final = 3
"""How many lines of what a verb printed a message has."""


class ProgramLines:
    """The lines of one recording; none before `hear`."""

    def __init__(self, run: RecordingInProgress) -> None:
        self._run = run
        self._lines: LineChannel | None = None

    def hear(self, lines: LineChannel) -> None:
        self._lines = lines

    def wait_trigger(self, channel: Channel, argv: tuple[str, ...], disk: TrialDisk) -> None:
        """Returns when the power of `argv`, which works, is to be cut; raises if that moment does
        not come.  The errors of `disk` begin when the program is ready."""
        assert self._lines is not None, "the guest was not set up"
        workload = self._run.workload
        assert isinstance(workload, AcksByLines)

        lines, errors = self._lines, self._run.job.parameters.disk.errors
        lines.watch = watching(channel, argv, may_fail=bool(errors))
        with suppress(EndedEarly):  # which the trigger tells

            def wait(seconds: float) -> None:
                lines.wait_ready(timeout_s=seconds)

            wait_patiently(self._run.deadline, wait, wait, f"{' '.join(argv)} was not ready")
        if errors:
            disk.inject()
        trigger = self._run.job.trial.trigger
        for at, names in self._node_cuts(trigger):
            wait_trigger(lines, at, self._run.deadline, at_most_s=workload.at_most_s)
            self._cut_nodes(channel, disk, at, names)
        wait_trigger(lines, trigger, self._run.deadline, at_most_s=workload.at_most_s)

    def _node_cuts(self, last: Trigger) -> Iterator[tuple[Trigger, tuple[str, ...]]]:
        """Before the `last` one, and whose power goes; of a number of nodes they are drawn."""
        nodes, draw = self._run.job.parameters.nodes, random.Random(self._run.run.seed)
        cuts = getattr(self._run.job.parameters.workload, "node_cuts", ())
        many = {"minority": (len(nodes) - 1) // 2, "majority": len(nodes) // 2 + 1}
        for number, who in enumerate(cuts, 1):
            names = sorted(draw.sample(nodes, many[who])) if who in many else [who]
            at = max(1, last.value * number // (len(cuts) + 1))
            yield replace(last, value=at), tuple(names)

    def _cut_nodes(
        self, channel: Channel, disk: TrialDisk, at: Trigger, names: tuple[str, ...]
    ) -> None:
        assert isinstance(channel, RunsVerbs), "nodes run in User-Mode Linux"
        assert isinstance(disk, CapturedDisk), "of which each disk is captured"
        dark = disk.dark(names, self._run.run.seed + at.value)
        channel.cut_nodes(names, dark, timeout_s=self._run.deadline.remaining_s)

    def catch_up(self) -> None:
        """All that was said by now is heard, as far as the guest still answers."""
        if self._lines is not None:
            self._lines.catch_up(timeout_s=_CATCH_UP_S)

    @property
    def pressed(self) -> Pressed:
        return Pressed() if self._lines is None else self._lines.pressed

    def hear_the_rest(self) -> None:
        if self._lines is None:
            return
        lines, self._lines = self._lines, None
        with lines:
            self._run.drain(lines)


def watching(
    channel: Channel, argv: tuple[str, ...], *, may_fail: bool = False
) -> Callable[[], bool]:
    """Tells whether `argv`, which works, has ended; raises HostError if it has failed.

    One that `may_fail` (at an error of the disk) may end as it likes.
    """

    def ended() -> bool:
        try:
            done = channel.wait_done(timeout_s=0)
        except DeadlineExceeded:
            return False
        if (done.status or done.error) and not may_fail:
            said = " / ".join(done.texts[-SHOWN:]) or "it printed nothing"
            raise HostError(f"{' '.join(argv)} ended with status {done.status}: {said}")
        return True

    return ended


# Waits for what a busy host slows down; for what does nothing no longer than on a quiet one.

_Value = TypeVar("_Value")

_SLICE_S: Final = 5.0
_WORKS: Final = 0.005
"""Of the time of a processor: what takes less waits for nothing that this host has to do."""


def wait_patiently(
    deadline: Deadline,
    wait: Callable[[float], _Value],
    again: Callable[[float], _Value],
    what: str,
    look: Callable[[], None] = lambda: None,
) -> _Value:
    """What `wait` returns, or `again` after it, each with the seconds that it may take; `look` may
    raise in between.

    Raises DeadlineExceeded, which says that `what` did not come to be, and in what time.
    """
    while not deadline.over:
        before, slice_s = _started_seconds(), min(_SLICE_S, deadline.remaining_s)
        with suppress(DeadlineExceeded):
            return wait(slice_s)
        wait = again
        look()
        if not deadline.quiet_s and _started_seconds() - before < _WORKS * slice_s:
            break
    raise late(what, deadline)


def late(what: str, deadline: Deadline) -> DeadlineExceeded:
    """The error that says that `what` did not come to be, and in what time."""
    return DeadlineExceeded(
        f"{what} within {deadline.waited_s:.0f} s",
        hint="raise `deadline` in the scenario",
    )


def _started_seconds() -> float:
    return processor_seconds() - time.process_time()
