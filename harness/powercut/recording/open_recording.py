# SPDX-License-Identifier: Apache-2.0
"""A recording opened to look at its crash states.

Recordings come from a trial (trial.json, sealed) or from a foreign log
(import.json, see powercut_extras.logs.imports).  Both give the same thing: a base image, a
timeline, what was claimed, and what recovery consists of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from powercut.crash.evidence import Evidence, gather
from powercut.crash.states import StateSpace
from powercut.model.errors import UsageError
from powercut.model.history import History
from powercut.model.machine import ImageFormat
from powercut.model.named_path import files_below
from powercut.model.timeline import Timeline
from powercut.recover.plan import RecoveryPlan
from powercut.scenario.settings import Parameters
from powercut.store.trial_dir import TrialDir
from powercut.wal.layout import WalLayout
from powercut.workload.port import Promises
from powercut.workload.wal.promises import WalPromises

TRIAL_FILE = "trial.json"
IMPORT_FILE = "import.json"


@dataclass(frozen=True)
class RecordedSystem:
    """The settings of a system, and exactly what it ran on (empty if that is not known)."""

    parameters: Parameters = field(default_factory=Parameters)
    versions: Mapping[str, str] = field(default_factory=dict)
    program_files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One recording, read and checked.

    `known_promises` is what was claimed where no record names itself: of a program.
    `layout` and `plan` are None if it is unknown where the records of a log lie: then
    there are states and no judgement.
    `imported` says that the timeline was made of a foreign log, whose instants are no
    times.  `image_format` is what the captured disk holds; unless it is raw, a file system
    is somewhere inside it.  `system` is what was recorded; of an imported log it is unknown, and
    the usual one stands in its place.  `gaps` says what is missing of the evidence; of these,
    `doubts` keep even a loss from being certain.  `blind` says why nothing follows from what the
    check of a program finds in any state; empty if something does.
    """

    directory: TrialDir
    title: str
    base: Path
    filesystem: str
    timeline: Timeline
    history: History
    run_id: bytes
    layout: WalLayout | None
    plan: RecoveryPlan | None
    imported: bool = False
    image_format: ImageFormat = ImageFormat.RAW
    system: RecordedSystem = field(default_factory=RecordedSystem)
    gaps: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    blind: str = ""
    known_evidence: Evidence | None = None
    known_promises: Promises | None = None

    @property
    def layers(self) -> str:
        """What lies between the disk and the file system, by name; empty if nothing does."""
        return self.system.parameters.disk.layers_title

    @cached_property
    def evidence(self) -> Evidence:
        """The records found in the writes.  Raises UsageError without a layout."""
        if self.known_evidence is not None:
            return self.known_evidence
        if self.known_promises is not None:
            raise UsageError(
                f"{self.directory.path}: this is known of powercut's own log, not of programs",
                hint="powercut explore recovers its crash states, powercut audit flushes ranks its "
                "flushes",
            )
        if self.layout is None:
            raise UsageError(
                f"{self.directory.path}: the layout of the records in this log was not given",
                hint="import it again with --run-id, --layout and --record",
            )
        return gather(self.timeline, self.history, self.run_id, self.layout, deep=True)

    @property
    def promises(self) -> Promises:
        """What was claimed.  Raises UsageError without a layout, if it takes one to know."""
        if self.known_promises is not None:
            return self.known_promises
        return WalPromises(self.evidence)

    @cached_property
    def space(self) -> StateSpace:
        """All crash states."""
        if self.known_promises is not None:
            return StateSpace(self.timeline, self.known_promises.requirements)
        if self.layout is None:
            return StateSpace(self.timeline)
        return StateSpace(self.timeline, self.evidence.claims, self.evidence.sets)

    @property
    def start_ns(self) -> int:
        """The instant from which times are told: the first attempt, else the first request."""
        if self.known_promises is not None and self.known_promises.start_ns is not None:
            return self.known_promises.start_ns
        if len(self.history.attempt_ns) and not self.imported:
            return int(self.history.attempt_ns[0])
        requests = self.timeline.requests
        return int(requests.submitted_ns[0]) if len(requests) else int(self.timeline.start_ns)


def find_recording(path: Path) -> TrialDir:
    """The recording that `path` means: its folder, a file in it, or a run with only one.

    Raises UsageError if there is none, or more than one; the hint lists them.
    """
    try:
        path = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="see results/ for recordings") from error
    for folder in (path, *path.parents):
        if any((folder / name).is_file() for name in (TRIAL_FILE, IMPORT_FILE)):
            return TrialDir(folder, _run_of(folder))
    latest = path / "latest"
    if latest.is_dir():
        path = latest.resolve()
    recordings = [file.parent for file in files_below(path, TRIAL_FILE) if file.is_file()]
    if len(recordings) == 1:
        return TrialDir(recordings[0], _run_of(recordings[0]))
    if recordings:
        listed = ", ".join(str(each.relative_to(path)) for each in recordings[:8])
        more = f" and {len(recordings) - 8} more" if len(recordings) > 8 else ""
        raise UsageError(
            f"{path}: {len(recordings)} recordings are in this folder",
            hint=f"give one of them: {listed}{more}",
        )
    raise UsageError(
        f"{path}: there is no recording in it: neither {TRIAL_FILE} nor {IMPORT_FILE}",
        hint="give a folder such as results/<scenario>/latest/cells/<cell>/0001",
    )


def _run_of(folder: Path) -> Path:
    for parent in folder.parents:
        if (parent / "scenario.yaml").is_file():
            return parent
    return folder
