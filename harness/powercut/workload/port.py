# SPDX-License-Identifier: Apache-2.0
"""The port to a workload.

A `Workload` is the workload of one cell: pure, made of the cell's settings alone.  What a run of
it claimed becomes `Promises`, against which every disk that came back is held.  What only some
can do is a protocol of its own, asked for with isinstance:

- `AcksByWire` and `AcksByLines`: how its claims come in; each workload is one of them;
- `ReadsBareDisk`: what it wrote without a file system is read on the host;
- `GoesOnAfter`: it can go on writing when its machine was restarted;
- `Continues`: it can go on writing after a recovery;
- `HasUnsyncedTwin`: it can be run without its syncs, as a control;
- `Recognised`, of promises: its bytes are known in captured writes, so that exposure analysis
  sees each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from powercut.model.observation import Continuation, Observation
from powercut.model.positive import PositiveControl, Whole
from powercut.model.verdict import Finding, LsnRange, merged_ranges
from powercut.scenario.settings import ControlKind, ProgramSettings, WalSettings

if TYPE_CHECKING:  # who plans reads no evidence, and it takes long to import
    from powercut.crash.evidence import Evidence
    from powercut.crash.states import Requirements
    from powercut.model.history import History
    from powercut.model.operations import Packet
    from powercut.model.timeline import Timeline

Settings = WalSettings | ProgramSettings
"""Those of every kind; the union of scenarios (powercut.scenario.settings_workload)."""

MOUNT_POINT: Final = "/mnt"
"""Where a workload finds its file system."""


@dataclass(frozen=True)
class Run:
    """What tells one run of a workload from all others.  `run_id` has 16 bytes."""

    run_id: bytes
    seed: int = 0


@dataclass(frozen=True)
class SuitePackages:
    """A root that is made from these packages of a Debian suite, and its essential ones."""

    suite: str
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contents:
    """The files that a workload needs where it runs (powercut.scenario.place), and what its
    programs find there.

    `programs` are powercut's own in its small guest, by their paths there, and `folders` are made
    before one works.  Anybody's program has an `environment` (NAME=VALUE each), starts in `start`
    and keeps its data in `data`.  Its root is what `root` names (a folder, a tar, an OCI image
    layout or an ext4 image; or packages), None for one that is there already.  The folder `program`
    of this host, if there is one, comes to `brought` of that root.  `tool` is a program of
    powercut's own that starts it: the folder in which it lies is there, too.  Of this host's own
    files those in `visible` are seen even where others of their kind are hidden (/tmp, /run,
    /var/tmp).  On a machine that is there already all of it lies in `folder`, powercut's alone.
    """

    programs: Mapping[str, Path] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    start: str = "/"
    data: str = ""
    root: Path | SuitePackages | None = None
    program: Path | None = None
    brought: str = ""
    tool: Path | None = None
    visible: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True)
class GoingOn:
    """The command line by which a workload continues after a recovery.

    first_lsn=N is added to it.  But what acknowledges by lines begins where it will, and is
    ended once it has acknowledged enough, or after `seconds`.  `environment` (NAME=VALUE) tells its
    reader, too, that the disk is used again.
    """

    command: tuple[str, ...]
    seconds: float = 0.0
    environment: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaterClaims:
    """What a workload claimed that went on after a recovery.

    `promised` must come back from then on.  What may be there besides: of a prefix nothing beyond
    `attempted` (0: it tried nothing), of a set what is in `tried`.
    """

    promised: tuple[LsnRange, ...] = ()
    attempted: int = 0
    tried: tuple[LsnRange, ...] = ()

    def __add__(self, other: LaterClaims) -> LaterClaims:
        return LaterClaims(
            merged_ranges((*self.promised, *other.promised)),
            max(self.attempted, other.attempted),
            merged_ranges((*self.tried, *other.tried)),
        )


NOTHING_LATER: Final = LaterClaims()
"""What a workload claimed that did not go on."""


@dataclass(frozen=True)
class StateClaims:
    """What was claimed before a cut at `instant`.

    Of a prefix `required` must come back, and nothing beyond `attempted`.  Of a set they count
    acks and attempts in their order.  `later` is what was promised after earlier recoveries of the
    same disk.
    """

    instant: int
    required: tuple[LsnRange, ...]
    attempted: int
    later: LaterClaims = NOTHING_LATER


class Promises(Protocol):
    """What one run claimed."""

    @property
    def requirements(self) -> Requirements:
        """What must come back after a cut at any instant: a prefix, or a set."""

    @property
    def acked(self) -> int:
        """Of a prefix its end; of a set how many there are: what was promised in all."""

    @property
    def attempted(self) -> int:
        """The same of what was tried."""

    @property
    def start_ns(self) -> int | None:
        """When it began to work, nanoseconds on the disk's clock; None if it never did."""

    @property
    def gaps(self) -> tuple[str, ...]:
        """What keeps the claims from being all that was claimed, in words; empty if nothing."""

    def claims_at(self, instant: int) -> StateClaims:
        """What was claimed before a cut at `instant`."""

    def claims_received(self) -> StateClaims:
        """All that was received until nothing more came: what the live cut is held against."""

    def claims_after(self, later: Continuation) -> LaterClaims:
        """What it claimed while it went on."""

    def check(self, claims: StateClaims, observation: Observation) -> tuple[Finding, ...]:
        """What came back from one disk, and from life after that, against `claims`."""


@runtime_checkable
class Recognised(Protocol):
    """Promises whose bytes are known in the captured writes."""

    @property
    def evidence(self) -> Evidence:
        """Claims and the writes that carry them."""


class Workload(Protocol):
    """The workload of one cell."""

    @property
    def settings(self) -> Settings:
        """What was asked for."""

    @property
    def recovery_s(self) -> float:
        """What one recovery with its reader may take, in seconds."""

    def problems(self) -> tuple[str, ...]:
        """Why this host cannot run it, in words; empty if it can."""

    def contents(self, run: Run) -> Contents:
        """The files that it needs."""

    def preparation(self, run: Run) -> tuple[str, ...]:
        """The command line that is run before the power comes on, and whose work is durable
        then; empty if there is none.
        """

    def writer(self, run: Run) -> tuple[str, ...]:
        """The command line that works until the cut."""

    def reader(self, run: Run) -> tuple[str, ...]:
        """The command line that says after a recovery what is there."""

    def control(self, kind: ControlKind) -> Settings:
        """Its settings in a control of `kind`, which differs from the cell in its disk alone."""


@runtime_checkable
class AcksByWire(Protocol):
    """A workload that speaks the wire format of powercut's own programs, and whose bytes are known
    in captured writes."""

    def promises_by_wire(self, run: Run, timeline: Timeline, history: History) -> Promises:
        """What it claimed, `Recognised`.  A cut swallows messages: more may have been tried than
        was heard.

        Raises UsageError for claims that do not fit into memory.
        """


@runtime_checkable
class AcksByLines(Protocol):
    """A workload that says what it does in lines of text."""

    @property
    def at_most_s(self) -> float:
        """The power goes at the latest so many seconds after it has begun."""

    @property
    def drops_syncs(self) -> bool:
        """Whether the kernel that it runs in is to drop its syncs."""

    def promises_by_lines(self, packets: Sequence[Packet], cut_ns: int) -> Promises:
        """What it claimed before `cut_ns`."""

    def check_untouched(self, observation: Observation) -> tuple[Finding, ...]:
        """What its reader says of the disk on which only the preparation has run.

        A finding means that nothing it says can be believed.
        """

    def same(self, one: Observation, other: Observation) -> bool:
        """Whether its reader said the same of a disk twice, the words aside."""

    def positive(
        self, promises: Promises, seen: Mapping[Whole, Observation]
    ) -> PositiveControl | None:
        """What its reader found where nothing was lost; None if `seen` has no such state."""


@runtime_checkable
class ReadsBareDisk(Protocol):
    """A workload whose reader runs on the host, too, on an image of a disk without a file system.

    It speaks the wire format there as it does in the guest, on its standard output.
    """

    def reader_on_host(self, reader: Sequence[str], image: Path) -> tuple[str, ...]:
        """The command line of `reader` (`Workload.reader`) for the disk in `image`."""


@runtime_checkable
class GoesOnAfter(Protocol):
    """A workload that can go on when its machine is restarted before the cut."""

    def writer_after(self, run: Run, acked: int) -> tuple[str, ...]:
        """The command line that works on until the cut, from the record after `acked`."""


@runtime_checkable
class Continues(Protocol):
    """A workload that can go on after a recovery."""

    def continuation(self, run: Run, records: int) -> GoingOn:
        """How it continues by so many records; 0 if its disk is only to be recovered once more."""


@runtime_checkable
class HasUnsyncedTwin(Protocol):
    """A workload that can be told to acknowledge what was never synced."""

    def unsynced(self) -> Settings:
        """Its settings then."""
