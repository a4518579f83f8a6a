# SPDX-License-Identifier: Apache-2.0
"""The audit of a recording: what each of its flushes and FUA writes was worth.

It follows from the recording, and `powercut audit flushes` keeps it in audit.json beside that,
outside of its seal.
"""

from __future__ import annotations

import enum
from typing import Final, Literal

from powercut.model.verdict import LsnRange
from powercut.store.files import write_atomic
from powercut.store.record import Record, find_model
from powercut.store.trial_dir import TrialDir
from powercut_extras.audit.sync_site import SyncSite

AUDIT_FORMAT: Final = "powercut-audit/1"
_NAME: Final = "audit.json"


class Worth(enum.Enum):
    """What is known of a promise, a flush or a write with FUA: the strongest of these."""

    CARRIES = "carries records"
    """Without it the bytes of an acknowledged record are exposed."""

    LEADS = "leads to records"
    """Without it a recovered state loses an acknowledged record, or does not recover."""

    IDLE = "idle"
    """It made nothing durable: the same crash states are legal without it.  This is proved."""

    UNSEEN = "no loss seen"
    """It made something durable, and no state that was looked at needs it.  This is no proof."""


class PromiseKind(enum.Enum):
    """The two requests that make writes durable."""

    FLUSH = "flush"
    FUA = "FUA write"


class Asker(enum.Enum):
    """Who asked for a promise, as far as a trace of the program's syncs says."""

    NOT_TRACED = "not traced"
    BEFORE = "before the program ran"
    """Mounting, and making its folder."""

    CALL = "a call"
    """It came and went while a sync of the program was under way."""

    NO_CALL = "no sync of the program's"
    """No call was under way that it could belong to: the kernel's own, or a write to a file that
    was opened with O_SYNC or O_DSYNC."""


class MissingWrites(Record):
    """What a state lacks of the writes that hang on a promise."""

    requests: tuple[int, ...]
    """Their numbers in the disk log."""

    torn: tuple[int, ...] = ()
    """Those of them that are there in part."""

    holds: tuple[str, ...] = ()
    """What they hold, in the words of the promise's `holds`."""


class UndecidedStates(Record):
    """States that could not be judged, for one reason."""

    why: str
    states: int


class UntilNext(Record):
    """What happened between a promise and the next one, which makes its writes durable, too."""

    acks: int
    writes: int
    """Submitted in that time: if the two are joined, no order holds between these and the
    promise's."""


class AuditedPromise(Record):
    """One flush, or one write with FUA, and the disk that ignores just this one."""

    request: int
    """Its number in the disk log, from 0."""

    kind: PromiseKind
    at_ms: float
    """When it was submitted, since the first attempt."""

    took_us: float
    """From its submission to its completion."""

    worth: Worth
    hanging: int
    """Writes that became durable by it, and without it later or never."""

    hanging_bytes: int
    holds: tuple[str, ...]
    """What those writes hold, by the file system's structures: `journal`, `inodes`, ..."""

    asker: Asker = Asker.NOT_TRACED
    sites: tuple[int, ...] = ()
    """The numbers of the call sites that asked; of several one did, or each."""

    nth: int = 0
    """Which promise of its call it is, from 1; 0 if it is not known to be of one call alone."""

    of_call: int = 0
    """How many promises that call has."""

    until_next: UntilNext | None = None
    """None if nothing hangs on it, or the next one is not in the recording."""

    lsns: tuple[LsnRange, ...] = ()
    """Records that are lost without it."""

    longest_ms: float = 0.0
    """For how long the bytes of one of them are exposed at most; 0 if recovery lost them."""

    states: int = 0
    """Crash states that only the lack of this promise makes legal, and that were recovered."""

    states_in_part: int = 0
    """Those of them that have some of the writes that hang on it."""

    states_lost: int = 0
    """Those of all that lose a record or do not recover."""

    states_undecided: int = 0
    """More states, which could not be judged."""

    message: str = ""
    """What the first state says that loses something."""

    missing: MissingWrites | None = None
    """What that state lacks, if it has some of the writes that hang on the promise."""

    @property
    def needed(self) -> bool:
        """Whether something acknowledged is lost without it."""
        return self.worth in (Worth.CARRIES, Worth.LEADS)

    @property
    def joinable(self) -> bool:
        """Whether nothing showed that the next promise would not do for both."""
        following = self.until_next
        return self.worth is Worth.UNSEEN and following is not None and not following.acks


class LatePromise(Record):
    """Records that were acknowledged before any promise covered them: a sync is missing."""

    lsns: tuple[LsnRange, ...]
    """Neighbours that the same promise made durable in the end."""

    promise: int
    """The request that did; -1 if none did."""

    longest_ms: float
    """How long the longest of them was exposed."""


class Audit(Record):
    """The outcome of one audit."""

    format: Literal["powercut-audit/1"] = AUDIT_FORMAT
    powercut: str
    scenario: str
    cell: str
    trial: int
    counted: Literal["record", "operation"] = "record"
    """What a promise may carry: a record of the log, or a program's operation."""

    acknowledged: int
    """How many of them were acknowledged."""

    run_ms: float
    """From the first attempt to the last thing that happened at the disk."""

    promises: tuple[AuditedPromise, ...]
    """In the order of submission."""

    late: tuple[LatePromise, ...]
    """What was acknowledged too early as it is, with no promise taken away."""

    sites: tuple[SyncSite, ...] = ()
    """Where the program asks for its data to be durable; empty if that was not traced."""

    unsynced: tuple[LsnRange, ...] = ()
    """Operations between whose attempt and acknowledgement no sync of the program was under
    way."""

    untraced: tuple[str, ...] = ()
    """What the tracer does not follow, so that more may have asked than it says."""

    engine: str = ""
    """What recovered states; empty if none were."""

    states_from: int = 0
    """Promises of which states were recovered."""

    states: int = 0
    """States recovered in all."""

    undecided: tuple[UndecidedStates, ...] = ()
    """States that could not be judged, beside those recovered: why, and how many."""

    seconds: float = 0.0

    @property
    def askers(self) -> dict[int, str]:
        """Each call site in words, by its number."""
        return {site.number: f"{site.what} in {site.caller}" for site in self.sites}

    def of(self, worth: Worth) -> tuple[AuditedPromise, ...]:
        return tuple(one for one in self.promises if one.worth is worth)


def write_audit(trial: TrialDir, audit: Audit) -> None:
    """Writes audit.json beside the recording.  Raises HostError."""
    write_atomic(trial.path / _NAME, audit.model_dump_json(exclude_defaults=True).encode() + b"\n")


def read_audit(trial: TrialDir) -> Audit | None:
    """Reads it; None if there is none.  Raises DamagedRecording."""
    return find_model(trial.path / _NAME, Audit)
