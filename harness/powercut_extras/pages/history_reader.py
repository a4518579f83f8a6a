# SPDX-License-Identifier: Apache-2.0
"""Finds the certificates, runs and captured folders below a folder, for their history.

A certificate is examined, but for its recordings, which would take ten times as long: one that does
not verify is shown and marked.  pytest runs each cell of a scenario separately; such runs of one
session, which share its seed and come one after the other, count as one.  Captured folders with the
same command are runs of one series; their profile is `capture`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from powercut.model.errors import DamagedRecording, HostError, PowercutError, UsageError
from powercut.model.verdict import Verdict
from powercut.report.certificates import (
    CERTIFICATE,
    CellThen,
    Certificates,
    Night,
    certificates,
    versions_of,
)
from powercut.report.explained import explain
from powercut.scenario.program_text import title_of
from powercut.store.component import read_components
from powercut.store.folder import RECORD, CaptureDir
from powercut.store.layout import ResultDir
from powercut.store.results import RunResult
from powercut_extras.pages.examined import Unchanged
from powercut_extras.pages.history import Series

_VERDICT: Final = "verdict.json"
_CAPTURE: Final = "capture"

SESSION_GAP: Final = timedelta(hours=1)
"""Runs of single cells that lie further apart than this are not of one session."""


@dataclass(frozen=True)
class History:
    """Everything that was found below a folder; `damaged` says what cannot be read, and why."""

    root: Path
    series: tuple[Series, ...]
    damaged: tuple[tuple[Path, str], ...]


def read_history(
    results: Path, *, profile: str | None = None, unchanged: Unchanged[Night] | None = None
) -> History:
    """Reads every certificate, run and judged captured folder below `results`.

    The folder that holds the folders of certificates names their profile, a scenario its runs; with
    `profile` all others are left out.  Who asks again and again keeps `unchanged`, so that only
    certificates that changed are examined again.  Raises UsageError if nothing can be read.
    """
    unchanged = unchanged or Unchanged()
    damaged: list[tuple[Path, str]] = []
    certified: defaultdict[str, list[Night]] = defaultdict(list)
    for path in _certificates(results):
        name = path.parent.parent.name
        if profile in (None, name):
            try:
                night = unchanged.read(path, partial(certificates().night, path))
            except PowercutError as error:
                damaged.append((path, str(error).removeprefix(f"{path}: ")))
            else:
                certified[name].append(night)
    plain: defaultdict[str, list[_Run]] = defaultdict(list)
    for path in _files(results, _VERDICT):
        name = path.parent.parent.name
        if profile in (None, name):
            try:
                run = _read_run(path.parent)
            except PowercutError as error:
                damaged.append((path, str(error).removeprefix(f"{path}: ")))
            else:
                plain[run.night.profile].append(run)
    captured = _captured(results, damaged) if profile in (None, _CAPTURE) else {}
    series = [
        *(Series(name, _sorted(nights)) for name, nights in sorted(certified.items())),
        *(Series(name, _sessions(runs), certified=False) for name, runs in sorted(plain.items())),
        *(Series(name, _sorted(one), certified=False) for name, one in sorted(captured.items())),
    ]
    if not series:
        raise UsageError(
            f"{results}: there is no certificate, run or captured folder"
            + (f" called {profile}" if profile else "")
            + " that can be read"
            + (f"; {len(damaged)} cannot" if damaged else ""),
            hint="`powercut run` makes runs, `powercut certify` certificates",
        )
    return History(results, tuple(series), tuple(damaged))


def certificates_here() -> Certificates | None:
    """None where no extra has certificates, or it is broken."""
    try:
        return certificates()
    except (UsageError, HostError):
        return None


def _certificates(root: Path) -> Iterator[Path]:
    """Each certificate below a folder of results, of certificates, or of one profile's."""
    if certificates_here() is None:
        return
    inner = root / "certify"
    yield from _files(inner if inner.is_dir() else root, CERTIFICATE)


def _files(root: Path, name: str) -> Iterator[Path]:
    """Each file called `name` once: `latest` is a link to a folder that is found as well."""
    direct = root / name
    if direct.is_file():
        yield direct
        return
    for pattern in (f"*/{name}", f"*/*/{name}"):
        for path in sorted(root.glob(pattern)):
            if not any(part.is_symlink() for part in (path.parent, path.parent.parent)):
                yield path


def _sorted(nights: Iterable[Night]) -> tuple[Night, ...]:
    return tuple(sorted(nights, key=lambda night: (night.started, str(night.directory))))


# --- runs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """A run, and when it ended."""

    night: Night
    began: datetime
    ended: datetime


def _read_run(folder: Path) -> _Run:
    """The run in `folder`.  Raises PowercutError if it cannot be read."""
    directory = ResultDir.open(folder)
    result = directory.read_verdict()
    environment = directory.read_environment()
    selection = environment.get("selection")
    only = isinstance(selection, dict) and bool(selection.get("only"))
    night = Night(
        directory=folder,
        profile=result.scenario,
        started=result.started,
        seconds=result.seconds,
        seed=result.seed,
        cells={
            (cell.scenario, cell.cell): CellThen(cell.verdict, cell.as_expected, explain(cell))
            for cell in result.cells
        }
        | {
            (result.scenario, name): CellThen(verdict, verdict is Verdict.SAFE, text)
            for name, verdict, text in (result.files.counted_rows if result.files else ())
        },
        costs={},
        versions=_versions_run(directory, result, environment),
        whole=not only,
    )
    try:
        began = datetime.fromisoformat(result.started).replace(tzinfo=None)
        return _Run(night, began, began + timedelta(seconds=result.seconds))
    except (ValueError, OverflowError) as error:
        raise DamagedRecording(f"{folder / _VERDICT}: started, seconds: {error}") from error


def capture_time(folder: Path) -> str:
    """When the recording in `folder` was begun, which is the folder's name, by ISO 8601."""
    try:
        return datetime.strptime(folder.name, "%Y%m%dT%H%M%S%fZ").isoformat(timespec="seconds")
    except ValueError:
        return folder.name  # a person has named it


def is_part_of_run(folder: Path) -> bool:
    """Whether the recording in `folder` is that of a run, whose page leads to it."""
    return (folder.parent / "scenario.yaml").is_file()


def _captured(results: Path, damaged: list[tuple[Path, str]]) -> Mapping[str, list[Night]]:
    """The captured folders by their command; those that cannot be read are added to `damaged`."""
    captured: defaultdict[str, list[Night]] = defaultdict(list)
    for path in _files(results, RECORD):
        if is_part_of_run(path.parent):
            continue
        try:
            capture = _read_capture(path.parent)
        except PowercutError as error:
            damaged.append((path, str(error).removeprefix(f"{path}: ")))
        else:
            if capture is not None:
                captured[capture.profile].append(capture)
    return captured


def _read_capture(folder: Path) -> Night | None:
    """The captured folder whose recording is in `folder`; None if nothing has judged it.

    Nothing was expected of it.  Raises PowercutError if it cannot be read.
    """
    directory = CaptureDir(folder)
    record, result = directory.read_record(), directory.find_result()
    if result is None:
        return None
    name = title_of(record.command)
    told = [*(found.examples[0].message for found in result.explored.findings), *result.reasons]
    return Night(
        directory=folder,
        profile=name,
        started=capture_time(folder),
        seconds=result.run_s + result.explored.seconds,
        seed=result.explored.seed,
        cells={(record.folder, result.promise): CellThen(result.verdict, True, "; ".join(told))},
        costs={},
        versions={"powercut": record.powercut, **({"share": record.share} if record.share else {})},
    )


def _versions_run(
    directory: ResultDir, result: RunResult, environment: Mapping[str, Any]
) -> dict[str, str]:
    try:
        components = read_components(directory).components
    except PowercutError:  # of a run that is older than components.json
        components = ()
    host = environment.get("host")
    return versions_of(result.powercut, components, host if isinstance(host, dict) else {})


def _sessions(runs: Iterable[_Run]) -> tuple[Night, ...]:
    """Runs in order, those of single cells in one session as one."""
    sessions: list[_Run] = []
    for run in sorted(runs, key=lambda run: (run.began, str(run.night.directory))):
        if sessions and _same_session(sessions[-1], run):
            sessions[-1] = _joined(sessions[-1], run)
        else:
            sessions.append(run)
    return tuple(session.night for session in sessions)


def _same_session(before: _Run, after: _Run) -> bool:
    one, other = before.night, after.night
    return (
        not (one.whole or other.whole)
        and one.seed == other.seed
        and one.versions == other.versions
        and not one.cells.keys() & other.cells.keys()
        and after.began - before.ended <= SESSION_GAP
    )


def _joined(before: _Run, after: _Run) -> _Run:
    """Both as one; its folder is that of the worse."""
    one, other = before.night, after.night
    worst = max((one, other), key=_worst)
    ended = max(before.ended, after.ended)
    night = replace(
        one,
        directory=worst.directory,
        cells={**one.cells, **other.cells},
        seconds=(ended - before.began).total_seconds(),
    )
    return _Run(night, before.began, ended)


def _worst(night: Night) -> Verdict:
    return max((cell.verdict for cell in night.cells.values()), default=Verdict.SAFE)
