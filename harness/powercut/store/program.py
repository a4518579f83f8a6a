# SPDX-License-Identifier: Apache-2.0
"""The recording of a program, and what was found out about it.

DIR/program.json   what was run, on which disk, and what went wrong (sealed)
    base.img       the disk after `setup` (sealed)
    disk.log, .data  every request to it (sealed)
    lines.bin      what the program said, with instants (powercut.channel.lines; sealed)
    console.txt    what the guest's kernel and the program printed (sealed)
    manifest.json  the seal
    result.json    the verdict, which can be made again from the rest
    controls/lying/  the same program on a disk that ignores flushes, in the same form
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.verdict import Verdict
from powercut.store import manifest
from powercut.store.files import write_atomic

RECORD: Final = "program.json"
RESULT: Final = "result.json"
_SEALED: Final = (RECORD, "base.img", "disk.log", "disk.data", "lines.bin", "console.txt")


class ProgramRecord(BaseModel):
    """program.json.  `size` is in bytes; `cut_ns` is the instant of the cut, None without one.

    `trouble` is what went wrong while the program ran; `damage` what went wrong with the recording
    itself.
    `recording` is a name that no other recording has, 32 hex digits.  `program_sha256` is the
    digest of the files that the command names; empty if an older powercut recorded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["powercut-program/1"] = "powercut-program/1"
    powercut: str
    command: tuple[str, ...]
    folder: str
    filesystem: str
    mount_options: str = ""
    size: int
    contract: DeviceContract
    seed: int
    run_id: str
    control: Literal["", "lying"] = ""
    recording: str
    program_sha256: str = ""
    cut_ns: int | None = None
    trouble: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()

    @property
    def binding(self) -> Binding:
        """What all evidence of this recording carries: a digest of what was to be done."""
        left_out = {"cut_ns", "trouble", "damage"}
        if not self.program_sha256:  # older recordings know no such field
            left_out.add("program_sha256")
        covered = self.model_dump(mode="json", exclude=left_out)
        text = json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()
        cell = self.control or "program"
        digest = hashlib.sha256(text).digest()
        return Binding(bytes.fromhex(self.run_id), self.seed, cell, digest)


class ProgramFinding(BaseModel):
    """What a checker said of one state.

    `operations` are ranges, both ends included; `at_ms` is the cut's instant since the program
    was ready; `missing_writes` are the requests that the state lacks, of `volatile_writes`.
    `story` is what a person is told of it, a sentence each; `state` the name of the state, empty
    where it has none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    verdict: str
    message: str
    operations: tuple[tuple[int, int], ...] = ()
    policy: str = ""
    at_ms: float = 0.0
    missing_writes: int = 0
    volatile_writes: int = 0
    story: tuple[str, ...] = ()
    state: str = ""


class ProgramResult(BaseModel):
    """result.json: the verdict on one recording, with what it rests on.

    `legal_log2` is the binary logarithm of the number of legal states at the instants that were
    looked at; `state_s` is what a recovery could take.  `states_on_host` were checked on the
    host, a sample of them in the guest as well; `states_same_files` had the files of an earlier
    one, `states_pruned` its bytes; the rest was checked in the guest.  `findings` are those of the
    first state of each kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["powercut-program-result/1"] = "powercut-program-result/1"
    verdict: str
    attempted: int
    acknowledged: int
    run_s: float
    flushes: int
    writes: int
    states: int
    states_pruned: int
    states_same_files: int = 0
    states_on_host: int = 0
    lossy_states: int
    by_policy: dict[str, int]
    instants: int
    legal_log2: float
    seconds: float
    seed: int
    state_s: float
    findings: tuple[ProgramFinding, ...]
    reasons: tuple[str, ...] = ()
    controls: dict[str, str] = {}

    @property
    def outcome(self) -> Verdict:
        """The verdict as what it is."""
        return Verdict[self.verdict]


@dataclass(frozen=True)
class ProgramDir:
    """Where one recording of a program lies."""

    path: Path

    @staticmethod
    def create(path: Path) -> ProgramDir:
        """A new folder.  Raises UsageError if there is one."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise UsageError(f"{path}: exists already", hint="name a new folder") from None
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", hint="name another folder") from error
        return ProgramDir(path)

    @property
    def base(self) -> Path:
        """The disk after `setup`."""
        return self.path / "base.img"

    @property
    def disk_log(self) -> Path:
        """The disk log, without its suffixes."""
        return self.path / "disk"

    @property
    def lines(self) -> Path:
        """What the program said."""
        return self.path / "lines.bin"

    def control(self, name: str) -> ProgramDir:
        """The folder of a control of this recording."""
        return ProgramDir(self.path / "controls" / name)

    def write_record(self, record: ProgramRecord) -> None:
        """Writes program.json.  Raises HostError."""
        write_atomic(self.path / RECORD, record.model_dump_json(indent=1).encode() + b"\n")

    def write_console(self, text: str) -> None:
        """Writes console.txt.  Raises HostError."""
        write_atomic(self.path / "console.txt", text.encode())

    def seal(self) -> None:
        """Makes the evidence durable and lists it with its digests.  Raises HostError."""
        manifest.seal(self.path, _SEALED)

    def read_record(self) -> ProgramRecord:
        """program.json, of a recording that is as it was sealed.  Raises DamagedRecording."""
        manifest.check(self.path, only=_SEALED)
        try:
            return ProgramRecord.model_validate_json((self.path / RECORD).read_bytes())
        except (OSError, ValidationError) as error:
            raise DamagedRecording(f"{self.path / RECORD}: {error}") from error

    def write_result(self, result: ProgramResult) -> None:
        """Writes result.json.  Raises HostError."""
        write_atomic(self.path / RESULT, result.model_dump_json(indent=1).encode() + b"\n")

    def read_result(self) -> ProgramResult:
        """result.json.  Raises DamagedRecording if there is none that can be read."""
        try:
            return ProgramResult.model_validate_json((self.path / RESULT).read_bytes())
        except (OSError, ValidationError) as error:
            raise DamagedRecording(f"{self.path / RESULT}: {error}") from error
