# SPDX-License-Identifier: Apache-2.0
"""The last word on what was found, before it convicts: the recorded kernel's, or a program's check.

A state that convicts a program has been asked twice when it comes here, and is asked until it has
lost the same `ASKED` times (powercut.checkers.repetition): each time costs a recovery, and of each
kind of loss one state is asked so, or up to three if the first do not bear it out.  Nothing is
asked more often once one answer differs.

Then the state at the cut that lacks nothing is asked once more: a check that misses something
there, where it found every operation before, or where nothing was ever missing, is not to be
believed anywhere (powercut.model.positive).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from powercut.checkers.judge import confirms
from powercut.checkers.repetition import ASKED, NOT_ASKED, TWICE, Repeats, lose_the_same
from powercut.crash.states import CrashState
from powercut.explore.state_judge import Judgement, StateJudge, guest_judge
from powercut.model.errors import HostError
from powercut.model.positive import WHOLE_LOSES, Whole
from powercut.model.verdict import Confirmed, Finding, losses
from powercut.recording.disk import DiskRecording
from powercut.recording.sealed import TrialRecording
from powercut.recording.state_names import plain_state
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.engines import boots_recorded_kernel, reader_alone
from powercut.scenario.place import Files, place_of
from powercut.workload.table import is_recognised


@dataclass(frozen=True)
class Heard:
    """Whether a state loses what was found, what was said of it, and how often it was asked."""

    confirmed: Confirmed
    said: str
    repeats: Repeats = NOT_ASKED


class LastWord(Protocol):
    """Whoever is asked last."""

    def confirm(self, state: CrashState, found: Finding) -> Heard:
        """Whether a record of what was `found` is lost in that state each time."""

    def doubt(self) -> str:
        """Why no loss counts: what is missing where nothing was lost; empty if nothing is."""


Look = Callable[[], Judgement]


def asked_again(
    look: Look, found: Sequence[Finding], *, looks: int, other: bool = False, nodes: Any = ()
) -> Heard:
    """Has a state of which something was `found` judged so many times more.

    All that was found must be lost each time; by an `other` kernel one record of it, since that may
    lose less, and the same each time; of `nodes` (powercut.checkers.repetition) one each time.
    """
    first: Judgement | None = None
    for number in range(1, looks + 1):
        seen = look()
        told = confirms(seen.findings, found)
        same = first is None or lose_the_same(first.findings, seen.findings, nodes=nodes)
        same &= other or bool(nodes) or losses(found) <= losses(seen.findings)
        if told != "yes" or not same:
            return Heard("no" if told == "yes" else told, _said(seen), Repeats(number, 1))
        first = first or seen
    assert first is not None, "it was asked at least once"
    return Heard("yes", _said(first), Repeats(looks))


@dataclass(frozen=True)
class DiskLastWord:
    """Asks a judge that `open_judge` makes."""

    recorded: DiskRecording
    open_judge: Callable[[], AbstractContextManager[StateJudge]]
    looks: int
    other: bool
    """Whether that recovers with another kernel than has found what is asked for."""

    def confirm(self, state: CrashState, found: Finding) -> Heard:
        """As LastWord.  One that cannot be asked is not tried."""
        try:
            with self.open_judge() as states:
                if why := self.excuse(states, state, found):
                    return Heard("no", why)
                return asked_again(
                    lambda: states.judge(state, received=False),
                    [found],
                    looks=self.looks,
                    other=self.other,
                    nodes=self.recorded.parameters.nodes,
                )
        except HostError as error:
            return Heard("not tried", str(error))

    def excuse(self, *_: Any) -> str:
        """Of a judge, a state and what it loses: why that is not the disk's doing; else empty."""
        return ""

    def doubt(self) -> str:
        """As LastWord; of records whose bytes are recognised, exposure analysis speaks."""
        positive, cut = self.recorded.positive, self.recorded.timeline.cut
        if positive is None or positive.where is Whole.ENDED or cut is None:
            return ""
        whole = plain_state(self.recorded.space, int(cut.at), everything=True)
        try:
            with self.open_judge() as states:
                seen = states.judge(whole)
        except HostError as error:
            return f"whether the check still finds what is there could not be asked: {error}"
        return f"{WHOLE_LOSES}: {seen.message}" if seen.lossy else ""


def last_word(
    recorded: TrialRecording, choice: EngineChoice, *, after: int, kernels: bool
) -> LastWord | None:
    """Who has the last word on what engine `choice` finds; None if that is the engine itself.

    With `kernels` the recorded kernel is asked, if that is another; a program's check in any case.
    """
    files = place_of(recorded.parameters).files
    settled = reader_alone(choice.name) or boots_recorded_kernel(choice.name)
    own = not kernels or (files is not Files.IMAGE and settled)
    program = not is_recognised(recorded.parameters)
    if own and not program:
        return None

    unpacked = files in (Files.HOST, Files.UNPACKED)
    all_in_guest = replace(choice, name="uml")
    other = not own and not (unpacked and choice == all_in_guest)

    def opened() -> AbstractContextManager[StateJudge]:
        if own:
            return StateJudge(recorded, choice, after=after)
        if unpacked:  # nothing of it on the host
            return StateJudge(recorded, all_in_guest)
        return guest_judge(recorded, after=after)

    return DiskLastWord(recorded, opened, ASKED - TWICE if program else 1, other)


def _said(seen: Judgement) -> str:
    return "; ".join(finding.message for finding in seen.findings) or "nothing is missing"
