# SPDX-License-Identifier: Apache-2.0
"""A recording of a disk or of a captured folder, opened: what may be asked of either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Protocol

from powercut.campaign.folder import judge_again
from powercut.campaign.folder_states import write_folder
from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind, events
from powercut.crash.exposure import exposure
from powercut.crash.folder import FolderSpace
from powercut.crash.kinds import Names
from powercut.crash.order import ALL_POLICIES
from powercut.crash.selection import Selection
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.disks import names_of
from powercut.explore.folder import instants_of, states_at_cut
from powercut.explore.request import PER_POLICY
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import UsageError
from powercut.model.exposure import ExposureReport
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording.consent import require_consent
from powercut.recording.disk_files import naming
from powercut.recording.folder import CaptureRecording, open_capture
from powercut.recording.folder_names import FolderNames, in_file
from powercut.recording.folder_state import NamedState, promise_of
from powercut.recording.materialize import materialize, open_recording
from powercut.recording.open_recording import Recording as DiskRecording
from powercut.recording.trial_recording import TrialRecording
from powercut.store.folder import RECORD, CaptureDir
from powercut.verdict.judge import verdict_of
from powercut.verdict.states import findings_of
from powercut.witness.story import parts_of


class Opened(Protocol):
    """One recording."""

    @property
    def space(self) -> StateSpace:
        """All crash states, with the timeline and what was claimed."""

    def states(self, budget: int | None, seed: int) -> Iterator[CrashState]:
        """Crash states in the one order (powercut.crash.order), `budget` of them at most."""

    def name(self, write: int) -> str:
        """What a request was of."""

    def exposure(self) -> ExposureReport:
        """Raises UsageError where no record's bytes are known."""

    def write(self, state: CrashState, path: Path) -> Path:
        """Makes the image or the folder that `state` is.  Raises UsageError, HostError."""

    def judged(self) -> tuple[Verdict, tuple[Finding, ...]]:
        """The verdict, made again.  Raises HostError without consent to run what it names."""


def opened(path: Path) -> Opened:
    """The recording at `path`.  Raises UsageError, DamagedRecording."""
    if (path / RECORD).is_file():
        return OpenedFolder(open_capture(CaptureDir(path.resolve())))
    return OpenedDisk(open_recording(path))


def drawn(
    space: StateSpace,
    instants: I64,
    budget: int | None,
    seed: int,
    *,
    names: Names | None = None,
    first: Sequence[CrashState] = (),
) -> Iterator[CrashState]:
    """`first`, then what the one order draws at `instants`."""
    first = first[:budget]
    limit = None if budget is None else budget - len(first)
    order = Selection(ALL_POLICIES, seed=seed, per_policy=PER_POLICY, limit=limit, names=names)
    return map(space.legal, chain(first, order.of(space, instants)))


@dataclass(frozen=True)
class OpenedDisk:
    """A recorded disk."""

    recording: DiskRecording

    @property
    def space(self) -> StateSpace:
        return self.recording.space

    def states(self, budget: int | None, seed: int) -> Iterator[CrashState]:
        instants = events(self.space, tuple(InstantKind))
        return drawn(self.space, instants, budget, seed, names=names_of(self.recording))

    def name(self, write: int) -> str:
        requests = self.space.timeline.requests
        if requests.kind[write] == RequestKind.FLUSH:
            return "flush"
        begin, places = (
            int(requests.offset[write]),
            naming(self.recording, int(requests.submitted_ns[write])),
        )
        parts = parts_of(
            self.recording, places, write, [(begin, begin + int(requests.length[write]))]
        )
        return "; ".join(dict.fromkeys(part.what for part in parts))

    def exposure(self) -> ExposureReport:
        return exposure(self.recording.evidence)

    def write(self, state: CrashState, path: Path) -> Path:
        return materialize(self.recording, state, path).path

    def judged(self) -> tuple[Verdict, tuple[Finding, ...]]:
        recording = self.recording
        if not isinstance(recording, TrialRecording):
            raise UsageError("a log of another tool has no verdict here: try `powercut verify`")
        require_consent(recording.directory, recording.parameters)
        result = verdict_of(recording.sealed, RecoveredStates(again=True))
        return result.verdict, tuple(one.finding() for one in result.findings)


@dataclass(frozen=True)
class OpenedFolder:
    """A captured folder, under the promise of its verdict."""

    recording: CaptureRecording

    @cached_property
    def space(self) -> FolderSpace:
        return self.recording.space(promise_of(self.recording.directory))

    def states(self, budget: int | None, seed: int) -> Iterator[CrashState]:
        instants = instants_of(self.recording, self.space, tuple(InstantKind))
        first = states_at_cut(self.recording, self.space)
        return drawn(self.space, instants, budget, seed, first=first)

    def name(self, write: int) -> str:
        row = self.space.rows[write]
        names = FolderNames(self.space, row.request.submitted_ns + 1)
        if row.kind is RequestKind.FLUSH:
            return names.sync(row.request)
        return names.describe(row, [in_file(row.offset, row.offset + row.length)])

    def exposure(self) -> ExposureReport:
        raise UsageError("exposure is known of powercut's own log on a disk, not of a folder")

    def write(self, state: CrashState, path: Path) -> Path:
        return write_folder(self.recording, NamedState("", state, self.space.promise), path).path

    def judged(self) -> tuple[Verdict, tuple[Finding, ...]]:
        result = judge_again(self.recording.directory)
        unknown = (
            Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, why) for why in result.reasons
        )
        return result.verdict, (*findings_of(result.explored), *unknown)
