# SPDX-License-Identifier: Apache-2.0
"""What the captured files of a program that was tried show, as a part of its run's verdict.json.

`files/` in the folder of the run holds their recording (powercut.store.folder).
"""

from __future__ import annotations

from typing import Final

from powercut.model.verdict import Verdict
from powercut.store.folder import CaptureResult
from powercut.store.record import Record

FILES: Final = "files"
"""The folder of a run in which the recording of its files lies, and the key of environment.json
that says what of them counts."""


class FilesOrder(Record):
    """What environment.json says of the files of a run, under the key FILES."""

    portable: bool = False
    """Whether a loss that POSIX alone permits counts."""

    reason: str = ""
    """Why they were not recorded; empty if they were."""


class FilesTried(Record):
    """The verdicts on the captured files of a program, under two promises of their host."""

    recording: str = ""
    """Folder of their recording, below that of the run; empty if there is none."""

    portable: bool = False
    """Whether a loss that POSIX alone permits counts."""

    journal: CaptureResult | None = None
    """What a file system that keeps names in order may leave; null if that is not known."""

    posix: CaptureResult | None = None
    """What POSIX alone permits; null if that is not known."""

    cause: str = ""
    """For want of which sync the first loss was possible, in a sentence; empty without a loss, or
    if it is not known."""

    reason: str = ""
    """Why some of this is not known; empty if all is."""

    @property
    def counted_rows(self) -> tuple[tuple[str, Verdict, str], ...]:
        """The verdicts that count for the program, each with its promise and with words for it.

        Files that could not be recorded are named and do not count, unless the answer is to be
        portable; those that were, and then could not be judged, are INCONCLUSIVE.
        """
        both = (
            (JOURNAL, self.journal, bool(self.recording) or self.journal is not None),
            (POSIX, self.posix, self.portable),
        )
        return tuple(
            (name, Verdict.INCONCLUSIVE, self.reason)
            if found is None
            else (name, found.verdict, self._why(found))
            for name, found, counts in both
            if counts
        )

    def _why(self, found: CaptureResult) -> str:
        return self.cause if found.verdict is Verdict.LOSSY else "; ".join(found.reasons)

    @property
    def counted(self) -> tuple[Verdict, ...]:
        """The verdicts of `counted_rows`."""
        return tuple(verdict for _, verdict, _ in self.counted_rows)

    @property
    def loses(self) -> bool:
        """Whether a verdict that counts is LOSSY."""
        return Verdict.LOSSY in self.counted

    @property
    def rows(self) -> tuple[tuple[str, CaptureResult, bool], ...]:
        """What is known under each promise: its name, and whether it counts."""
        both = ((JOURNAL, self.journal, True), (POSIX, self.posix, self.portable))
        return tuple((name, found, counts) for name, found, counts in both if found is not None)


JOURNAL: Final = "files, names in order"
POSIX: Final = "files, by POSIX alone"
