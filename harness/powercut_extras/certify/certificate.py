# SPDX-License-Identifier: Apache-2.0
"""A certificate: what was tested, on exactly which versions, and what came out.

certificate.json holds it; certificate.schema.json is its schema (powercut.report.reference).
It follows from the results below its folder and from nothing else, so it can be made again.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from powercut.model.verdict import EvidenceLevel, LsnRange
from powercut.scenario.settings import ControlKind, Expect, Parameters
from powercut.store.component import Component, Executed
from powercut.store.host_load import HostLoad
from powercut.store.record import Record, VerdictName
from powercut.store.trial_result import AckInstants, Exposure
from powercut_extras.certify.issuer import Issuer, Line
from powercut_extras.certify.measurement import Cost, WireAccount

CERTIFICATE_FORMAT: Final = "powercut-certificate/1"


class SealedRecording(Record):
    """One sealed recording."""

    directory: str
    """Its folder, below that of the certificate."""

    sha256: str
    """Digest of its manifest, which names the digest of every file."""

    kept: bool
    """Whether the recording is still there."""


class CertifiedControl(Record):
    """A run of known outcome that vouches for a cell."""

    kind: ControlKind
    """Which control."""

    disk: str | None = None
    """The disk that lied, where the cell has several."""

    expected: Expect
    """What had to come out."""

    verdict: VerdictName
    """What came out."""

    behaved: bool
    """Whether the two are the same."""

    evidence: SealedRecording | None = None
    """Its recording; null if it could not be made."""

    @property
    def name(self) -> str:
        return self.kind.of(self.disk)


class Coverage(Record):
    """Crash states that were recovered besides the live cuts, over all trials of a cell."""

    legal_log2: float
    """How many were legal at the instants that were looked at, those of second cuts included:
    the exponent of the power of two."""

    checked: int
    """States that were recovered and judged, those of second cuts included."""

    decided: int
    """States that needed no recovery of their own, because they agree with one that was
    recovered in everything that it read."""

    lossy: int
    """States that lost something."""

    by_policy: dict[str, int] = Field(default_factory=dict)
    """How many of the states of the cuts' recordings each policy drew."""

    went_on: int = 0
    """After how many recoveries the workload went on writing."""

    not_looked_at: str = ""
    """What was left out, in words."""


class CertifiedCell(Record):
    """One cell of the matrix."""

    scenario: str
    """Name of the scenario."""

    cell: str
    """Name of the cell."""

    description: str = ""
    """What the cell shows."""

    settings: dict[str, Any]
    """The settings that differ from the defaults, by dotted key."""

    parameters: Parameters
    """Every setting."""

    components: tuple[int, ...] = ()
    """Which components it ran on: indices into those of the certificate."""

    verdict: VerdictName
    """The verdict; never safe, nor survived, unless its controls behaved."""

    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED
    """What it rests on: `recorded`, or `live-only` where nothing but the cuts was seen."""

    expected: Expect
    """What the scenario expects."""

    as_expected: bool
    """Whether the two are the same."""

    cuts: int
    """Power cuts, without controls."""

    acked: int
    """Acknowledged records, over all cuts."""

    lost: int
    """Acknowledged records that did not come back unaltered, over all cuts."""

    lost_lsns: tuple[LsnRange, ...] = ()
    """Which, in the cut that lost the most."""

    exposure: Exposure | None = None
    """Acknowledged records that were not durable yet; null if nothing could be analysed."""

    acks: AckInstants | None = None
    """How well it is known when acks were made, in the cut in which it is known least; null if
    nothing could be analysed."""

    loss_probability_upper_95: float | None = None
    """For a safe cell, and for one that survived: the chance that such a cut loses a record is
    below this, at 95 %."""

    coverage: Coverage | None = None
    """Crash states besides those of the cuts; null if none were looked at."""

    controls: tuple[CertifiedControl, ...] = ()
    """The runs of known outcome."""

    keeps: Literal["every", "prefix", "opens"] = "every"
    """What its program promised of the operations that it acknowledged."""

    confirmed: bool | None = None
    """For a lossy cell: whether live cut and analysis of the recording name the same lost
    records; null for other verdicts."""

    explanation: str = ""
    """For a cell that is not safe: which layer breaks which promise, or why it is unknown."""

    cause: str = ""
    """For a lossy cell: the part of the explanation that all cells of its cause have in common;
    empty in older certificates."""

    cause_layer: str = ""
    """For a lossy cell: the topmost layer that breaks a promise by its settings (`workload`, `file
    system`, `guest block layer`, `hypervisor`, `disk`); empty if the cause is not known."""

    wire: WireAccount | None = None
    """What went over the wire; null if not measured."""

    costs: tuple[Cost, ...] = ()
    """What a commit costs, by kind of disk; empty if not measured."""

    evidence: tuple[SealedRecording, ...] = ()
    """Its recordings."""

    reproduce: str = ""
    """The command that repeats the cell with the same seed."""


class NotTested(Record):
    """Something that a reader might expect, and that was not tested."""

    settings: dict[str, Any] = Field(default_factory=dict)
    """The combination, by dotted key; empty if it is not a matter of settings."""

    reason: str
    """Why not."""

    combinations: int = 1
    """How many combinations this stands for."""


class LeftOutOf(Record):
    """What a definition says, and what was tested does not have."""

    what: str
    """Whose, and what."""

    why: str
    """What it would change, or why it cannot be made."""


class Definition(Record):
    """The machine whose disks are certified, as far as it is another than those that ran."""

    machine: str
    """Its name."""

    disks: tuple[str, ...]
    """Its disks that were tested."""

    disks_left_out: tuple[LeftOutOf, ...] = ()
    """Its disks that were not, although something can be lost on them: nothing is said of these,
    and so not of the whole machine."""

    left_out: tuple[LeftOutOf, ...] = ()
    """Settings that were not carried over, and that may decide what is durable."""

    differs: tuple[str, ...] = ()
    """In what else the machines that ran are not this one."""


class Certificate(Record):
    """certificate.json."""

    format: Literal["powercut-certificate/1"] = CERTIFICATE_FORMAT
    """Name and version of this format."""

    powercut: str
    """Version of powercut."""

    title: str
    """Name of the profile, presets or scenarios that were certified."""

    heading: Line = ""
    """What its issuer calls it; empty: nothing else than its title."""

    issuer: Issuer | None = None
    """Who hands it over; null if that is not said."""

    seed: int
    """Seed of every random choice."""

    started: str
    """When the first run began, UTC, ISO 8601."""

    seconds: float
    """How long it took, interruptions not counted."""

    command: str
    """The command that repeats it."""

    host: dict[str, Any]
    """The machine that it ran on: kernel, system, processors, accelerator."""

    load: HostLoad | None = None
    """What else that machine had to do; null if that was not measured."""

    components: tuple[Component, ...]
    """Exactly which versions."""

    executed: tuple[Executed, ...] = ()
    """What was executed on the host that made it, whose it was, and how it was confined."""

    axes: dict[str, tuple[Any, ...]]
    """The settings that vary between the cells, and their values."""

    strategy: str
    """How combinations were chosen: `product`, `pairwise`, or `listed`."""

    verdicts: dict[str, int]
    """How many cells came out `safe`, `lossy`, `inconclusive`."""

    as_expected: bool
    """Whether every cell got the verdict that was expected, and no disk was left out."""

    definition: Definition | None = None
    """The machine that it is about; null if it is about settings."""

    cells: tuple[CertifiedCell, ...]
    """Each cell."""

    not_tested: tuple[NotTested, ...] = ()
    """What was left out, and why."""

    statement: str
    """What all this proves and what it does not, for a person."""

    @property
    def untested_disks(self) -> tuple[LeftOutOf, ...]:
        """Disks of its machine of which nothing is known."""
        return () if self.definition is None else self.definition.disks_left_out
