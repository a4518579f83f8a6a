# SPDX-License-Identifier: Apache-2.0
"""What a path on the command line is: a recording, an import, a bundle, a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.store.layout import ResultDir
    from powercut.store.trial_dir import TrialDir


def find_trials(path: Path) -> list[TrialDir]:
    """The recordings that `path` means: one, or all cells' of a result, without controls.

    Raises UsageError if there is none.
    """
    from powercut.store.layout import ResultDir
    from powercut.store.trial_dir import TrialDir

    try:
        path = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="see results/ for recordings") from error
    for folder in (path, *path.parents):
        if (folder / "trial.json").is_file():
            return [TrialDir(folder, _run_of(folder))]
    below = sorted(file.parent for file in path.glob("**/trial.json"))
    if (path / "scenario.yaml").is_file() or (path / "latest").exists():
        run = ResultDir.open(path).path
        below = sorted(file.parent for file in run.glob("cells/*/*/trial.json"))
    if not below:
        raise UsageError(
            f"{path}: there is no recording in it",
            hint="give a folder such as results/<scenario>/latest",
        )
    return [TrialDir(folder, _run_of(folder)) for folder in below]


def _run_of(folder: Path) -> Path:
    """The folder of the run that the trial in `folder` belongs to; else that of the trial."""
    return next((up for up in folder.parents if (up / "scenario.yaml").is_file()), folder)


def is_import(path: Path) -> bool:
    """Whether `path` is the folder of an imported log."""
    return (path / "import.json").is_file()


def is_capture(path: Path) -> bool:
    """Whether `path` is the recording of a captured folder."""
    return (path / "capture.json").is_file()


def is_bundle(path: Path) -> bool:
    """Whether `path` is a bundle and not a folder."""
    if not path.is_file():
        return False
    from powercut.campaign.bundle import is_bundle as begins_as_one

    return begins_as_one(path)


def find_result(directory: Path) -> ResultDir:
    """The run in `directory`, or in the `latest` of a scenario's folder."""
    from powercut.store.layout import ResultDir

    return ResultDir.open(directory)
