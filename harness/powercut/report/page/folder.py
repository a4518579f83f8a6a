# SPDX-License-Identifier: Apache-2.0
"""The page of a captured folder: the verdict, the run by file, what is lost, and the witness."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from powercut.crash.folder_rows import NameChange, Promise
from powercut.model.timeline import RequestKind
from powercut.recording.folder import CaptureRecording, open_capture
from powercut.recording.folder_names import ROOT, FolderNames
from powercut.report import words
from powercut.report.page.glossary import GLOSSARY
from powercut.report.page.pages import page
from powercut.report.page.sequence import witness_svg
from powercut.report.page.svg import (
    CURVE_TOP,
    LANE_GAP,
    LANE_HEIGHT,
    LEFT,
    PLOT,
    WIDTH,
    axis,
    cut_line,
    lane,
)
from powercut.report.terminal.folder import facts_of, finding_stories
from powercut.store.files import write_atomic
from powercut.store.folder import REPORT, CaptureDir
from powercut.store.folder_witness import find_folder_witness

I64 = npt.NDArray[np.int64]

FILES_MAX: Final = 12
"""Files that get a lane of their own, those with most requests."""

NAMES: Final = 80
"""Room for names of files, to the left of what other drawings begin with."""

_NAME_MAX: Final = 18


def write_folder_report(directory: CaptureDir) -> None:
    """Makes report.html from what the recording's folder holds.  Raises HostError,
    DamagedRecording.
    """
    write_atomic(directory.path / REPORT, folder_html(directory).encode())


def folder_html(directory: CaptureDir) -> str:
    """The page, as text.  Raises DamagedRecording."""
    recording = open_capture(directory)
    result, more = directory.find_result(), directory.find_exploration()
    witness = find_folder_witness(directory)
    shown = result or more
    looks = [
        (title, one, facts_of(recording.record, one), finding_stories(one, directory.path))
        for title, one in (("The verdict rests on", result), ("More states", more))
        if one is not None
    ]
    return page("folder.html.j2").render(
        record=recording.record,
        program=shlex.join(recording.record.command),
        shown=shown,
        looks=looks,
        witness=witness,
        drawing=Markup(witness_svg(witness)) if witness is not None else None,
        timeline=Markup(folder_svg(recording)),
        gaps=recording.gaps,
        words=words,
        glossary=GLOSSARY,
    )


def folder_svg(recording: CaptureRecording) -> str:
    """The run, as an <svg> element: acks, syncs, and the changes of each file, until the cut;
    empty if there is nothing to draw.
    """
    start, cut = recording.start_ns, recording.record.cut_ns
    span = cut - start
    if span <= 0:
        return ""
    lanes = list(_lanes_of(recording, start, cut))
    bottom = CURVE_TOP + len(lanes) * (LANE_HEIGHT + LANE_GAP)
    summary = f"{len(recording.history.acked):,} operations acknowledged in {span / 1e6:.0f} ms"
    parts = [
        f'<svg class="timeline" viewBox="{-NAMES} 0 {WIDTH + NAMES} {bottom + 30}" role="img" '
        f'aria-label="{escape(summary)}">',
        f"<title>{escape(summary)}</title>",
    ]
    for number, (label, whole, instants) in enumerate(lanes):
        y = CURVE_TOP + number * (LANE_HEIGHT + LANE_GAP)
        parts += [f"<g><title>{escape(whole)}</title>", *lane(label, instants, start, span, y)]
        parts.append("</g>")
    parts += [*cut_line(LEFT + PLOT, bottom), *axis(span, bottom), "</svg>"]
    return "\n".join(parts)


def _lanes_of(recording: CaptureRecording, start: int, cut: int) -> Iterator[tuple[str, str, I64]]:
    """Of each lane its name, a longer one, and the instants of its marks."""
    space = recording.space(Promise.POSIX)
    names = FolderNames(space, cut)
    changes: dict[str, list[int]] = defaultdict(list)
    syncs: list[int] = []
    for row in space.rows:
        at = row.request.submitted_ns
        if not start <= at <= cut:
            continue
        if row.kind is RequestKind.FLUSH:
            syncs.append(at)
            continue
        if isinstance(row.change, NameChange):
            changes[names.path(row.change.entries[0][0])].append(at)
        else:
            changes[names.path(row.request.object)].append(at)
    acks = recording.history.ack_ns
    yield "acks", "acknowledgements", acks[(acks >= start) & (acks <= cut)]
    yield "syncs", "fsync, fdatasync, sync", _column(syncs)
    busiest = sorted(changes, key=lambda path: (-len(changes[path]), path))
    for path in busiest[:FILES_MAX]:
        whole = "names in the folder" if path == ROOT else f"changes of {path}"
        yield _short(path), whole, _column(changes[path])
    rest = busiest[FILES_MAX:]
    if rest:
        everything = [at for path in rest for at in changes[path]]
        yield f"{len(rest)} others", "changes of all other files", _column(sorted(everything))


def _column(instants: Sequence[int]) -> I64:
    return np.array(instants, dtype=np.int64)


def _short(path: str) -> str:
    """The end of a path, which says most."""
    shown = path if len(path) <= _NAME_MAX else f"…{path[1 - _NAME_MAX :]}"
    return "".join(letter if letter.isprintable() else "?" for letter in shown)
