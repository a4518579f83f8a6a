# SPDX-License-Identifier: Apache-2.0
"""The recording of a captured folder, and what was found out about it.

DIR/capture.json    what was run, where, and what went wrong (sealed)
    folder.log, .data  every request to the folder, with what it held at first (sealed)
    console.txt     what the command printed (sealed)
    manifest.json   the seal
    result.json     the verdict, which can be made again from the rest
    exploration.json  what more states came to
    states/         crash states that may be asked for again
    witness.json    the smallest set of lost writes that still loses (powercut.store.folder_witness)
    report.html     all of this, for a person
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from powercut.brought import mark_results
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.named_path import openable
from powercut.model.outside import LeftFiles, Outside
from powercut.model.positive import PositiveControl
from powercut.model.reached import Reached
from powercut.model.reads import CheckReads
from powercut.model.verdict import Finding, LsnRange, Verdict, lsn_ranges
from powercut.sandbox.printed import tail
from powercut.store import manifest
from powercut.store.exploration import ExploreResult
from powercut.store.files import write_atomic
from powercut.store.record import Record, VerdictName, find_model, read_model

RECORD: Final = "capture.json"
RESULT: Final = "result.json"
EXPLORATION: Final = "exploration.json"
REPORT: Final = "report.html"
SEALED: Final = (RECORD, "folder.log", "folder.data", "console.txt")


class CaptureRecord(BaseModel):
    """capture.json.  `cut_ns` is the instant of the cut, on the log's clock.

    `folder` is the absolute path that was captured, `where` the folder from which the command was
    called.  `share` is how a guest in which the command ran had the folder; empty if it ran on this
    host.  `check_sha256` is the digest of the files that the check's command names; empty if
    they are all in the folder.  `status` is the command's exit status; None if the cut ended it.
    `damage` is what went wrong with the recording.  `elsewhere` is what the command has left
    outside of `folder`, in places that are empty for a check; `scratch` are those of which nothing
    is to be said.  `inodes` are files in `folder` that hold the inode number of another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["powercut-capture/1"] = "powercut-capture/1"
    powercut: str
    folder: str
    where: str
    command: tuple[str, ...]
    share: str = ""
    check: tuple[str, ...] = ()
    check_sha256: str = ""
    atomic_unit: int
    seed: int
    cut_ns: int
    status: int | None = None
    damage: tuple[str, ...] = ()
    elsewhere: LeftFiles = LeftFiles()
    scratch: tuple[str, ...] = ()
    inodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FolderSeen:
    """What a verdict on a captured folder rests on (powercut.verdict.folder).

    `explored` is what its states came to; none were looked at if there are `doubts` why its check
    is not to be believed, or if it did not pass the `positive` control.  `control` is what was
    found on a host that ignores every sync; None if that was not looked at.  `reads` says which
    files the check read; None if that is not known.
    """

    explored: ExploreResult
    doubts: tuple[str, ...] = ()
    control: tuple[Finding, ...] | None = None
    positive: PositiveControl | None = None
    reads: CheckReads | None = None


class CaptureResult(Record):
    """result.json, exploration.json: the verdict under one promise, with what it rests on.

    `reasons` keep it from being SAFE.  `control` is the verdict on the same recording on a host
    that ignores every sync; empty if it was not looked at.  `changes` counts those of sizes and
    names; `start_ns` is the instant on the log's clock from which times are told.  `positive` is
    what the check found in the folder as it was at the cut, and `reads` which files it read there;
    null if that is not known; `outside` is what was written outside of DIR; `untested` has what
    else the verdict does not speak of.  `state_s` is what a check may have taken (seconds).
    The program `keeps` what it acknowledged, or less (powercut.model.operations).
    `reached` says how far the run came.  `explored` is what was asked for, and what came of it.
    """

    format: Literal["powercut-capture-result/1"] = "powercut-capture-result/1"
    verdict: VerdictName
    reasons: tuple[str, ...] = ()
    control: str = ""
    promise: Literal["posix", "journal"]
    attempted: int
    acknowledged: int
    start_ns: int
    run_s: float
    writes: int
    syncs: int
    changes: int
    state_s: float
    positive: PositiveControl | None = None
    reads: CheckReads | None = None
    outside: Outside = Outside()
    keeps: Literal["every", "prefix", "opens"] = "every"
    untested: tuple[str, ...] = ()
    reached: Reached
    explored: ExploreResult

    @property
    def lost(self) -> tuple[LsnRange, ...]:
        """The operations that some state loses."""
        lossy = [one for one in self.explored.findings if one.verdict is Verdict.LOSSY]
        return lsn_ranges(number for one in lossy for span in one.lsns for number in span)


@dataclass(frozen=True)
class CaptureDir:
    """Where one recording lies."""

    path: Path

    @staticmethod
    def create(path: Path) -> CaptureDir:
        """A new folder.  Raises UsageError if there is one."""
        try:
            path.mkdir(parents=True)
            mark_results(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", hint="name another folder") from error
        return CaptureDir(path)

    @property
    def log(self) -> Path:
        """The log, without its suffixes."""
        return self.path / "folder"

    @property
    def console(self) -> Path:
        """What the command printed."""
        return self.path / "console.txt"

    def printed_last(self, limit: int) -> str:
        """The end of what the command printed; empty if there is nothing."""
        return tail(self.console, limit)

    def write_record(self, record: CaptureRecord) -> None:
        """Writes capture.json and seals the evidence.  Raises HostError."""
        write_atomic(self.path / RECORD, record.model_dump_json(indent=1).encode() + b"\n")
        manifest.seal(self.path, SEALED)

    def read_record(self) -> CaptureRecord:
        """capture.json, of a recording that is as it was sealed.  Raises DamagedRecording."""
        manifest.check(self.path, only=SEALED)
        try:
            return CaptureRecord.model_validate_json(openable(self.path / RECORD).read_bytes())
        except (OSError, ValidationError) as error:
            raise DamagedRecording(f"{self.path / RECORD}: {error}") from error

    def write_result(self, result: CaptureResult) -> None:
        """Writes result.json.  Raises HostError."""
        write_atomic(self.path / RESULT, result.model_dump_json(indent=1).encode() + b"\n")

    def read_result(self) -> CaptureResult:
        """result.json.  Raises DamagedRecording if there is none that can be read."""
        return read_model(self.path / RESULT, CaptureResult)

    def find_result(self) -> CaptureResult | None:
        """The same; None if there is none."""
        return find_model(self.path / RESULT, CaptureResult)

    def write_exploration(self, result: CaptureResult) -> None:
        """Writes exploration.json.  Raises HostError."""
        write_atomic(self.path / EXPLORATION, result.model_dump_json(indent=1).encode() + b"\n")

    def find_exploration(self) -> CaptureResult | None:
        """exploration.json; None if there is none.  Raises DamagedRecording."""
        return find_model(self.path / EXPLORATION, CaptureResult)
