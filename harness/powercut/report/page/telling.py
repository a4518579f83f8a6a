# SPDX-License-Identifier: Apache-2.0
"""One trial, drawn and told for a page: how a record was lost, the whole run, the witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from powercut.model.errors import PowercutError
from powercut.recording.view import view_of
from powercut.report.difference import difference_lines
from powercut.report.page.sequence import loss_svg, witness_svg
from powercut.report.page.svg import timeline_svg
from powercut.report.program_cut import FindingStory, stories_of_trial
from powercut.report.terminal.story import last_moments
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.store.witness import Witness, read_witness

_EMPTY: Final = Markup()


@dataclass(frozen=True)
class TrialStory:
    """The story of one trial as far as its recording is there and can be read."""

    directory: str
    trial: TrialResult | None = None
    sequence: Markup = _EMPTY
    timeline: Markup = _EMPTY
    moments: tuple[tuple[float, str], ...] = ()
    witness: Witness | None = None
    witness_drawing: Markup = _EMPTY
    problems: tuple[str, ...] = ()
    since: str = "the first attempt"
    """From when the times of `moments` count."""

    found: tuple[tuple[str, str], ...] = ()
    """What a program's check found after the cut, a name and a text each."""

    findings: tuple[FindingStory, ...] = ()
    """What a program lost, told."""


def tell_trial(
    trial: TrialDir, result: TrialResult, name: str, problems: Sequence[str] = ()
) -> TrialStory:
    """The story of one trial, drawn.  What cannot be read is said in its `problems`."""
    said = list(problems)
    witness = None
    try:
        witness = read_witness(trial)
    except PowercutError as error:
        said.append(str(error))
    view = view_of(trial)
    is_program = view.operations is not None
    said += [problem for problem in view.problems if problem not in said]
    # All three drawings escape what they are given; everything else in them is their own.
    return TrialStory(
        directory=trial.relative,
        trial=result,
        sequence=Markup(loss_svg(result.loss)) if result.loss is not None else _EMPTY,
        timeline=Markup(timeline_svg(view, result.lost_lsns, name)),
        moments=tuple(
            ((moment.at - view.start_ns) / 1e6, moment.text) for moment in last_moments(view)
        ),
        witness=witness,
        witness_drawing=Markup(witness_svg(witness)) if witness is not None else _EMPTY,
        problems=tuple(said),
        since="it was ready" if is_program else "the first attempt",
        found=tuple(difference_lines(view.difference)) if view.difference is not None else (),
        findings=tuple(stories_of_trial(trial, result)) if is_program else (),
    )
