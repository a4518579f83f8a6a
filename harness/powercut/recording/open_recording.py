# SPDX-License-Identifier: Apache-2.0
"""The one way to open a recording, whatever was recorded."""

from __future__ import annotations

from pathlib import Path

from powercut.crash.folder_rows import Promise
from powercut.model.errors import UsageError
from powercut.model.extras import loaded, registered
from powercut.model.named_path import files_below
from powercut.recording.disk import DiskRecording
from powercut.recording.folder import FolderRecording, open_capture
from powercut.recording.sealed import open_trial
from powercut.store.folder import RECORD, CaptureDir
from powercut.store.trial_dir import IMPORT_FILE, TRIAL_FILE, TrialDir


def open_recording(
    path: Path, *, promise: Promise | None = None, state: str | None = None
) -> DiskRecording | FolderRecording:
    """Reads the recording at `path`, as `find_recording` finds it, and checks its seal.

    One of a captured folder is opened under `promise`; without, under that of the `state` that is
    named, else of its verdict.  Raises UsageError if there is none, and DamagedRecording for
    evidence that is missing or not what it was.
    """
    if (path / RECORD).is_file():
        return open_capture(CaptureDir(path.resolve()), promise, state=state)
    if promise is not None:
        raise UsageError("--promise is for captured folders", hint="leave it out")
    return open_disk(path)


def open_disk(path: Path) -> DiskRecording:
    """The same of a disk."""
    directory = find_recording(path)
    directory.check_seal()
    if (directory.path / IMPORT_FILE).is_file():
        return _open_import(directory)
    return open_trial(directory)


def _open_import(directory: TrialDir) -> DiskRecording:
    """As the extra opens it that reads such logs: `powercut.recordings`."""
    place = registered("powercut.recordings").get(IMPORT_FILE)
    if place is None:
        raise UsageError(f"{directory.path}: is a log of another tool, and no extra reads it")
    opened: DiskRecording = loaded(place)(directory)
    return opened


def find_recording(path: Path) -> TrialDir:
    """The recording that `path` means: its folder, a file in it, or a run with only one.

    Raises UsageError if there is none, or more than one; the hint lists them.
    """
    try:
        path = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="see results/ for recordings") from error
    for folder in (path, *path.parents):
        if any((folder / name).is_file() for name in (TRIAL_FILE, IMPORT_FILE)):
            return TrialDir(folder, _run_of(folder))
    latest = path / "latest"
    if latest.is_dir():
        path = latest.resolve()
    recordings = [file.parent for file in files_below(path, TRIAL_FILE) if file.is_file()]
    if len(recordings) == 1:
        return TrialDir(recordings[0], _run_of(recordings[0]))
    if recordings:
        listed = ", ".join(str(each.relative_to(path)) for each in recordings[:8])
        more = f" and {len(recordings) - 8} more" if len(recordings) > 8 else ""
        raise UsageError(
            f"{path}: {len(recordings)} recordings are in this folder",
            hint=f"give one of them: {listed}{more}",
        )
    raise UsageError(
        f"{path}: there is no recording in it: neither {TRIAL_FILE} nor {IMPORT_FILE}",
        hint="give a folder such as results/<scenario>/latest/cells/<cell>/0001",
    )


def _run_of(folder: Path) -> Path:
    for parent in folder.parents:
        if (parent / "scenario.yaml").is_file():
            return parent
    return folder
