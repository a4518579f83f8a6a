# SPDX-License-Identifier: Apache-2.0
"""The page of one recording: the verdict, its time line, the witness, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from powercut.model.errors import PowercutError
from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.difference import difference_lines
from powercut.report.page.pages import GLOSSARY, page
from powercut.report.page.sequence import loss_svg, witness_svg
from powercut.report.program_cut import FindingStory, told_of
from powercut.report.terminal.folder import facts_of as facts_of_folder
from powercut.report.terminal.folder import finding_stories
from powercut.scenario.program_text import title_of
from powercut.store.exploration import read_exploration
from powercut.store.folder import RECORD, CaptureDir
from powercut.store.trial_dir import TrialDir
from powercut.store.witness import read_witness
from powercut_extras.pages.pictures import commands_of, explored_views
from powercut_extras.pages.scripts import PICTURES, TIMELINE, policy, script
from powercut_extras.pages.timeline.data import (
    embedded,
    inside_json,
    quoted,
    timeline_json,
    window_json,
)
from powercut_extras.pages.timeline.pictures import minimised
from powercut_extras.pages.timeline.source import Source, source_at

IMPORT: Final = "import.json"
RECORDED: Final = (RECORD, "trial.json", IMPORT)
"""One of these lies in the folder of a recording."""

__all__ = [
    "RECORDED",
    "Source",
    "inside_json",
    "recording_html",
    "source_at",
    "window_json",
]


@dataclass(frozen=True)
class Look:
    """What one exploration, or the verdict, rests on."""

    title: str
    reasons: Sequence[str]
    facts: Sequence[tuple[str, str]]
    stories: Sequence[FindingStory]


def recording_html(folder: Path, *, source: Source | None = None, windows: str = "") -> str:
    """The page of the recording in `folder`, as text; `windows` is where a server has more of its
    time line.  Raises UsageError, DamagedRecording.
    """
    known = source or source_at(folder)
    made = _of_folder(CaptureDir(folder)) if (folder / RECORD).is_file() else _of_disk(folder)
    anything = len(known.lanes.of) + len(known.acks.at_ns) > 0
    data = timeline_json(known, difference_lines) if anything else None
    return page("recording.html.j2", "powercut_extras.pages").render(
        **made,
        data=Markup(embedded(data)) if data is not None else None,
        gaps=known.problems,
        imported=known.imported,
        waits=known.waits,
        node_cuts=known.node_cuts,
        waits_from=known.start_ns,
        windows=windows,
        explored=explored_views(known.explored, frozenset(shown.name for shown in known.states)),
        audit=None if known.audit is None else known.audit.view,
        minimised=minimised(known, witness.start) if (witness := made["witness"]) else [],
        commands=commands_of(
            quoted(known.path), with_flushes=not made["of_folder"] and not known.imported
        ),
        script=script(TIMELINE),
        pictures=script(PICTURES),
        policy=policy(TIMELINE, PICTURES, served=bool(windows)),
        words=words,
        glossary=GLOSSARY,
    )


def _of_folder(directory: CaptureDir) -> dict[str, Any]:
    record = directory.read_record()
    result, more = directory.find_result(), directory.find_exploration()
    witness, shown = read_witness(directory.path), result or more
    said = ""
    if shown is not None:
        states = shown.explored.coverage.distinct + shown.explored.coverage.recovery_states
        said = (
            f"{shown.acknowledged:,} operations acknowledged of {shown.attempted:,} tried; "
            f"{shown.explored.coverage.lossy:,} of {states:,} states lose data or are inconsistent."
        )
    return {
        "title": title_of(record.command),
        "place": f"on files in {record.folder}",
        "of_folder": True,
        "verdict": None if shown is None else shown.verdict,
        "said": said,
        "sequence": None,
        "witness": witness,
        "drawing": Markup(witness_svg(witness)) if witness is not None else None,
        "looks": [
            Look(
                title,
                one.reasons,
                facts_of_folder(record, one),
                finding_stories(one, directory.path),
            )
            for title, one in (("The verdict rests on", result), ("More states", more))
            if one is not None
        ],
    }


def _of_disk(folder: Path) -> dict[str, Any]:
    directory = TrialDir(folder, folder)
    witness = read_witness(directory.path)
    drawing = Markup(witness_svg(witness)) if witness is not None else None
    made: dict[str, Any] = {
        "of_folder": False,
        "sequence": None,
        "witness": witness,
        "drawing": drawing,
        "verdict": None,
        "said": "",
        "looks": [],
    }
    if (folder / IMPORT).is_file():
        made |= {"title": folder.name, "place": "an imported log of requests"}
        if (explored := read_exploration(directory)) is not None:
            lossy, states = explored.coverage.lossy, explored.coverage.distinct
            made["verdict"] = explored.verdict
            made["said"] = f"{lossy:,} of {states:,} states are not as promised."
        return made
    record = directory.read_record()
    made["title"] = f"{record.scenario}: {record.cell}, trial {record.trial.number}"
    made["place"] = f"cut {record.trial.trigger}"
    try:
        result = directory.read_verdict()
    except PowercutError:
        return made
    facts, stories = told_of(directory, result)
    look = Look("The verdict rests on", (), facts, stories)
    return {
        **made,
        "verdict": result.verdict,
        "said": _said(result.verdict, result.commits_acked, result.commits_lost),
        "sequence": Markup(loss_svg(result.loss)) if result.loss is not None else None,
        "looks": [look],
    }


def _said(verdict: Verdict, acked: int, lost: int) -> str:
    if verdict is Verdict.LOSSY and not lost:
        return (
            f"{acked:,} acknowledged; the cut lost none, other states that it could have left do."
        )
    return f"{acked:,} acknowledged; the cut lost {lost:,}."
