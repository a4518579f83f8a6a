# SPDX-License-Identifier: Apache-2.0
"""The last word on what was found: the recorded kernel's, or a program's check a second time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from powercut.checkers.judge import confirms
from powercut.crash.states import CrashState
from powercut.explore.state_judge import Judgement, StateJudge, judge_in_guest
from powercut.model.errors import HostError
from powercut.model.verdict import Confirmed, Finding
from powercut.recording.trial_recording import TrialRecording
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.engines import boots_recorded_kernel, reader_alone
from powercut.scenario.place import Files, place_of

Confirmation = Callable[[CrashState, Finding], tuple[Confirmed, str]]
"""Whether a record of the finding is lost in that state, too, and what was said of it."""


def confirmation(
    recorded: TrialRecording, choice: EngineChoice, *, after: int
) -> Confirmation | None:
    """Who has the last word on what engine `choice` finds; None if that is the engine itself.

    Where the recorded kernel has recovered a state already, whether it does so again.
    """
    files = place_of(recorded.parameters).files
    if files is not Files.IMAGE and (
        reader_alone(choice.name) or boots_recorded_kernel(choice.name)
    ):
        return None

    def confirm(state: CrashState, found: Finding) -> tuple[Confirmed, str]:
        try:
            if files in (Files.HOST, Files.UNPACKED):
                guest = replace(choice, name="uml")  # all of it, nothing on the host
                with StateJudge(recorded, guest) as states:
                    seen = states.judge(state, received=False)
            else:
                seen = judge_in_guest(recorded, state, after=after, received=False)
        except HostError as error:
            return "not tried", str(error)
        return confirms(seen.findings, [found]), _said(seen)

    return confirm


def _said(seen: Judgement) -> str:
    return "; ".join(finding.message for finding in seen.findings) or "nothing is missing"
