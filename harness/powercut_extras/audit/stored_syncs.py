# SPDX-License-Identifier: Apache-2.0
"""What came of a program of which one sync was dropped at a time.

`powercut audit syncs --json` writes it.
"""

from __future__ import annotations

import enum
from typing import Final, Literal

from powercut.store.record import Record, VerdictName
from powercut_extras.audit.sync_site import SyncSite

SYNC_MUTANTS_FORMAT: Final = "powercut-sync-mutants/1"

NEITHER: Final = "none"
"""No check noticed."""


class Noticed(enum.Enum):
    """Whether the lack of a sync was noticed."""

    YES = "noticed"
    NO = "not noticed"
    """No proof that the sync is needless."""

    UNKNOWN = "not known"
    """Nothing follows from what was tried, and `why` says why."""


class WithoutSync(Record):
    """What powercut, or the user's own test, said of the program without one sync."""

    noticed: Noticed
    dropped: int
    """Calls that were dropped in that run."""

    states: int = 0
    """Crash states that were recovered; 0 for a test."""

    states_lost: int = 0
    """Those that lose something acknowledged."""

    says: str = ""
    """The first of what was lost; or how the test ended."""

    why: str = ""
    """Why it is not known."""

    result: str = ""
    """The recording, below the results; empty for a test."""


class SyncMutant(Record):
    """One call site, and the program without it."""

    site: SyncSite
    powercut: WithoutSync | None = None
    """None if it was not tried."""

    test: WithoutSync | None = None
    """None without a test, or if it was not tried."""

    skipped: str = ""
    """Why it was not tried."""

    @property
    def verdict(self) -> str:
        """Which checks noticed that the sync was gone, in a word or two."""
        if self.powercut is None:
            return "not tried"
        looked = [("powercut", self.powercut)] + ([("test", self.test)] if self.test else [])
        who = [name for name, one in looked if one.noticed is Noticed.YES]
        if who:
            return " and ".join(who)
        unknown = any(one.noticed is Noticed.UNKNOWN for _, one in looked)
        return "not known" if unknown else NEITHER


class SyncMutants(Record):
    """The outcome of one `powercut audit syncs`."""

    format: Literal["powercut-sync-mutants/1"] = SYNC_MUTANTS_FORMAT
    powercut: str
    program: tuple[str, ...]
    filesystem: str
    seed: int
    verdict: VerdictName
    """Of the program with all its syncs."""

    acknowledged: int
    """Operations that it acknowledged with all its syncs."""

    states: int
    """Crash states of that run that were recovered."""

    reasons: tuple[str, ...] = ()
    """Why nothing could be tried, or what the tracer does not follow."""

    test: tuple[str, ...] = ()
    """The user's own test."""

    mutants: tuple[SyncMutant, ...] = ()
    result: str = ""
    """The recording with all syncs."""

    seconds: float = 0.0
