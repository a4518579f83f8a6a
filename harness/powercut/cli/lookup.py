# SPDX-License-Identifier: Apache-2.0
"""What a path on the command line is: a result, a recording, an import, a bundle, a certificate."""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from powercut.model.errors import UsageError
from powercut.model.named_path import files_below

if TYPE_CHECKING:
    from powercut.store.layout import ResultDir
    from powercut.store.trial_dir import TrialDir


class Evidence(Enum):
    """What a path on the command line can be, to look at it and to judge it again."""

    RESULT = auto()
    """A run, a cell or a trial of one."""

    CAPTURE = auto()
    IMPORT = auto()
    BUNDLE = auto()
    CERTIFICATE = auto()


def evidence_of(path: Path) -> Evidence:
    """What lies at `path`; a result, if it is nothing else."""
    if is_capture(path):
        return Evidence.CAPTURE
    if is_import(path):
        return Evidence.IMPORT
    if is_bundle(path):
        return Evidence.BUNDLE
    if path.suffix == ".json" and path.is_file() and path.name not in _OF_RESULTS:
        return Evidence.CERTIFICATE
    if path.is_dir() and certificate_file(path).is_file():
        return Evidence.CERTIFICATE
    return Evidence.RESULT


_OF_RESULTS = ("verdict.json", "environment.json", "trial.json")


def certificate_file(path: Path) -> Path:
    """The certificate that `path` means: a file, its folder, or the folder above `latest`."""
    from powercut.report.certificates import CERTIFICATE

    if path.is_dir():
        inner = path / "latest"
        return (inner if inner.is_dir() else path) / CERTIFICATE
    return path


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
    if (path / "scenario.yaml").is_file() or (path / "latest").exists():
        run = ResultDir.open(path).path
        below = sorted(file.parent for file in run.glob("cells/*/*/trial.json"))
    else:
        files = files_below(path, "trial.json")
        below = [file.parent for file in files if file.is_file()]
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
    from powercut.campaign.bundle_file import is_bundle as begins_as_one

    return begins_as_one(path)


def find_result(directory: Path) -> ResultDir:
    """The run in `directory`, or in the `latest` of a scenario's folder."""
    from powercut.store.layout import ResultDir

    return ResultDir.open(directory)
