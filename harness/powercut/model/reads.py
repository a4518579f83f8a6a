# SPDX-License-Identifier: Apache-2.0
"""Which of the files that a program wrote its check has read, where nothing was lost.

A check that reads none of them sees names and sizes: whether the values that they hold were lost
it cannot see, and its verdict is INCONCLUSIVE at best.  Of those that it leaves out the rest is
told.  One that reads a part of a file (a header, say) has read it: that is a limit of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_NAMED_MAX: Final = 4


@dataclass(frozen=True)
class FileRead:
    """A file by its path, as it was before a check: its size in bytes and its times, in nanoseconds
    since 1970; and whether the check has not read it.  A symbolic link has a `target`, and holds
    nothing.  `crc` is that of what a file holds, 0 where it was not asked for."""

    path: str
    size: int
    modified_ns: int
    changed_ns: int
    unread: bool
    target: str = ""
    crc: int = 0


@dataclass(frozen=True)
class CheckReads:
    """Of the `written` files that held something the check has not read those in `unread`."""

    written: int
    unread: tuple[str, ...] = ()

    @property
    def blind(self) -> str:
        """Why the check is no evidence; empty if it is."""
        if not self.unread or len(self.unread) < self.written:
            return ""
        return (
            f"the check has read none of the files that were written ({some_of(self.unread)}): it "
            "cannot see whether what they hold was lost"
        )

    @property
    def words(self) -> str:
        """What was not read, for a sentence; empty if all was."""
        if not self.unread:
            return ""
        return (
            f"what {len(self.unread):,} of {self.written:,} files that were written hold: the "
            f"check did not read {some_of(self.unread)}"
        )


UNKNOWN_READS: Final = "what the check reads: nothing tells which files it has read"
"""Instead of the words where it cannot be known."""


def reads_of(before: Sequence[FileRead], after: Sequence[FileRead]) -> CheckReads:
    """What a check has read of the files `after` a run that were not there `before` it as they are
    now, and that hold something."""
    known = {file.path: (file.size, file.modified_ns, file.changed_ns) for file in before}
    written = [
        file
        for file in after
        if file.size and known.get(file.path) != (file.size, file.modified_ns, file.changed_ns)
    ]
    return CheckReads(len(written), tuple(sorted(file.path for file in written if file.unread)))


def some_of(names: Sequence[str]) -> str:
    """The first few of `names`, and how many more there are."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
