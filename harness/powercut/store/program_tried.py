# SPDX-License-Identifier: Apache-2.0
"""What `powercut try` found: results of a disk and of captured files, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from powercut.model.verdict import Verdict
from powercut.store.folder import CaptureDir, CaptureResult
from powercut.store.results import RunResult


@dataclass(frozen=True)
class FilesTried:
    """What the captured files show: under each promise, and the cause of the first loss.

    `reason` says why some of it is not known.
    """

    journal: CaptureResult | None = None
    posix: CaptureResult | None = None
    directory: CaptureDir | None = None
    cause: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ProgramTried:
    """All that was seen of a program."""

    disk: RunResult
    files: FilesTried
    portable: bool

    @property
    def verdict(self) -> Verdict:
        """The worst of what counts; files that could not be tried are named and do not count."""
        return max(self._counted())

    @property
    def by_files(self) -> bool:
        """Whether the files lose something that counts, and it is known for want of what."""
        _, *files = self._counted()
        return bool(self.files.cause) and Verdict.LOSSY in files

    @property
    def cause(self) -> str:
        """A loss that counts, in a sentence: what was lost for want of which sync, as the files
        show it; else what was found on the disk.  Empty unless LOSSY.
        """
        if self.by_files:
            return self.files.cause
        findings = (
            one for cell in self.disk.cells for trial in cell.trials for one in trial.findings
        )
        return next((one.message for one in findings if one.verdict is Verdict.LOSSY), "")

    @property
    def beyond(self) -> bool:
        """Whether POSIX alone loses what the verdict does not count."""
        posix = self.files.posix
        return (
            self.verdict is not Verdict.LOSSY
            and posix is not None
            and posix.verdict is Verdict.LOSSY
        )

    @property
    def alone(self) -> Literal["", "disk", "files"]:
        """Which of the two lost something that the other one kept, under the promise of a file
        system that keeps names in order; empty if both say the same, or one of them nothing.
        """
        (cell,) = self.disk.cells
        journal = self.files.journal
        if journal is None or {cell.verdict, journal.verdict} != {Verdict.SAFE, Verdict.LOSSY}:
            return ""
        return "disk" if cell.verdict is Verdict.LOSSY else "files"

    def _counted(self) -> Iterator[Verdict]:
        (cell,) = self.disk.cells
        yield cell.verdict
        if self.files.journal is not None:
            yield self.files.journal.verdict
        if self.portable:
            yield Verdict.INCONCLUSIVE if self.files.posix is None else self.files.posix.verdict
