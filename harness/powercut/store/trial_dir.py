# SPDX-License-Identifier: Apache-2.0
"""The folder of one trial: what it was to do, its evidence, its seal and its verdict.

powercut.store.layout says which files lie in it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from powercut.model.binding import Binding, check_digest
from powercut.model.creation import Creation
from powercut.model.errors import DamagedRecording
from powercut.model.failure import Failure
from powercut.model.named_path import openable
from powercut.model.observation import Continuation, Extent, Observation, checked_extents
from powercut.model.operations import Pressed
from powercut.model.outside import Outside
from powercut.model.printable import parse_json
from powercut.model.reads import CheckReads
from powercut.model.verdict import EvidenceLevel
from powercut.model.withheld import Withheld
from powercut.scenario.plan import Trial, Trigger
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store import manifest
from powercut.store.files import host_errors, link_or_copy, remove_tree, write_atomic
from powercut.store.own import MARK
from powercut.store.record import read_model
from powercut.store.trial_result import TrialResult
from powercut.wal.layout import SlotState

# What binds the evidence of a recording to its trial.json, and to nothing else.
#
# The digest is SHA-256 over the canonical JSON (sorted keys, no spaces, ASCII) of what trial.json
# said before the run began: scenario, digest of its text, cell, control, settings, trial with
# its seeds, run id, what evidence it was to leave, and `recording`, 128 random bits, since two runs
# with one seed are still two.
# It is computed from the file as it is, not from what today's powercut makes of it: settings that
# a later version adds change nothing.

_COVERED: Final = (
    "recording",
    "scenario",
    "scenario_sha256",
    "cell",
    "control",
    "parameters",
    "trial",
    "run_id",
    "evidence_level",
)


def new_recording() -> str:
    """A name for a recording that no other has: 32 hex digits."""
    return secrets.token_hex(16)


def text_digest(text: bytes) -> str:
    """The digest by which trial.json names the scenario that it was made by."""
    return hashlib.sha256(text).hexdigest()


def binding_of(trial: Mapping[str, Any]) -> Binding:
    """The binding of the recording whose trial.json is `trial`.

    Raises KeyError, TypeError or ValueError for what is no trial.json, or names no recording.
    """
    if not trial["recording"]:
        raise ValueError("it names no recording")
    named = Binding(bytes.fromhex(trial["run_id"]), int(trial["trial"]["seed"]), str(trial["cell"]))
    covered = {key: trial[key] for key in _COVERED}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return replace(named, digest=hashlib.sha256(text.encode()).digest())


TRIAL_FORMAT: Final = "powercut-trial/1"
TRIAL_FILE: Final = "trial.json"
IMPORT_FILE: Final = "import.json"
_UNSEALED: Final = frozenset(
    {manifest.MANIFEST, MARK, "verdict.json", "exploration.json", manifest.PACK}
)
_LEFT: Final = (_UNSEALED - {manifest.PACK}) | {TRIAL_FILE, "confirmation.json"}
_sharing = threading.Lock()


class TrialRecord(BaseModel):
    """trial.json: what a trial was to do, and what was learned while it did it.

    With the files beside it, enough to judge it again anywhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = TRIAL_FORMAT
    powercut: str
    scenario: str
    cell: str
    control: ControlKind | None = None
    parameters: Parameters
    trial: Trial
    run_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    scenario_sha256: str = ""  # of the scenario's text
    recording: str = Field(default_factory=new_recording)  # what no other recording has
    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED  # what was to be left to be judged
    trouble: str = ""  # why the recording is not what it should be; empty if it is
    damage: tuple[str, ...] = ()  # what the host did to the recording: it does not convict
    cut_ns: int | None = None  # the instant of the cut; None if it never came
    versions: dict[str, str] = {}  # of QEMU and of the guest's kernel, with digests
    program_files: dict[str, str] = {}  # a word for each of a program's, that changes with it
    guest_facts: dict[str, str] = {}
    recovery_facts: dict[str, str] = {}
    timings_s: dict[str, float] = {}
    pressed: Pressed = Pressed()  # what a program's kernel was given to do beside its calls
    withheld: Withheld = Withheld()  # variables of the environment that did not reach a program
    reads: CheckReads | None = None  # what a program's check has read; None where that is unknown
    outside: Outside | None = None  # what a program wrote outside of DIR; None: unknown
    creation: Creation | None = None  # what a cut after `setup` loses of it; None: unknown
    extra: dict[str, Any] = {}

    @property
    def trigger(self) -> Trigger:
        """When the trial was to cut."""
        return self.trial.trigger


class TrialDir:
    """The folder of one trial."""

    def __init__(self, path: Path, run: Path) -> None:
        self.path = path
        self.run = run

    @property
    def relative(self) -> str:
        """The folder as verdict.json names it: below that of the run."""
        return self.path.relative_to(self.run).as_posix()

    @property
    def base_image(self) -> Path:
        """The disk at power-on; never modified."""
        return self.path / "base.img"

    @property
    def backing_image(self) -> Path:
        """What the image on that disk lies over, if it is an overlay; never modified."""
        return self.path / "backing.img"

    @property
    def disk_log(self) -> Path:
        """The disk log of the run, without its suffixes .log and .data."""
        return self.path / "disk"

    @property
    def recovery_log(self) -> Path:
        """The disk log of recovery, without its suffixes .log and .data."""
        return self.path / "recovery"

    @property
    def history(self) -> Path:
        """What the guest said, as it was received (see powercut.channel.history_file)."""
        return self.path / "history.bin"

    @property
    def lines(self) -> Path:
        """What a program said, as it was received (see powercut.channel.lines)."""
        return self.path / "lines.bin"

    @property
    def untouched(self) -> Path:
        """What a program's check found on the disk at power-on, on which only `setup` has run."""
        return self.path / "untouched.json"

    @property
    def issued(self) -> Path:
        """What that check found with everything that was issued before the cut."""
        return self.path / "issued.json"

    @property
    def ended(self) -> Path:
        """What it found after a run that ended without a cut, and what that run said."""
        return self.path / "ended.json"

    @property
    def observation(self) -> Path:
        """What recovery gave back after the cut."""
        return self.path / "observation.json"

    @property
    def console(self) -> Path:
        """What the machine printed during the run."""
        return self.path / "console.txt"

    def adopt_base(self, image: Path) -> Path:
        """Makes `image`, which must never change again, the base image of the recording.

        The recordings of a run share one file for each content, in `bases/`.
        """
        return self._adopt(image, self.base_image)

    def share_base(self, other: TrialDir) -> Path:
        """Makes the base image of `other`, of the same run, that of this recording, too."""
        with host_errors(self.base_image):
            link_or_copy(other.base_image, self.base_image)
        return self.base_image

    def adopt_backing(self, image: Path) -> Path:
        """The same for its backing image."""
        return self._adopt(image, self.backing_image)

    def _adopt(self, image: Path, place: Path) -> Path:
        shared = self.run / "bases" / f"{manifest.digest_of(image)}.img"
        with host_errors(shared), _sharing:  # trials at the same time adopt the same image
            shared.parent.mkdir(exist_ok=True)
            if not shared.exists():
                unfinished = shared.with_suffix(f".{secrets.token_hex(8)}.tmp")
                link_or_copy(image, unfinished)
                unfinished.rename(shared)
        link_or_copy(shared, place)
        return place

    def write_record(self, record: TrialRecord) -> None:
        """Writes trial.json; again and again as more is known, until the seal."""
        write_atomic(self.path / TRIAL_FILE, record.model_dump_json(indent=1).encode() + b"\n")

    def read_record(self) -> TrialRecord:
        """Reads trial.json; raises DamagedRecording."""
        return read_model(self.path / TRIAL_FILE, TrialRecord)

    def read_binding(self) -> Binding:
        """The binding that all evidence in the folder has to have; raises DamagedRecording."""
        path = self.path / TRIAL_FILE
        try:
            return binding_of(parse_json(openable(path).read_bytes()))
        except OSError as error:
            raise DamagedRecording(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedRecording(
                f"{path}: does not say whose recording it is: {error!r}"
            ) from error

    def write_observation(self, observation: Observation) -> None:
        """Writes observation.json, bound to the recording."""
        write_observation(self.observation, observation, self.read_binding())

    def write_untouched(self, observation: Observation) -> None:
        """Writes untouched.json, bound to the recording."""
        write_observation(self.untouched, observation, self.read_binding())

    def write_whole(self, path: Path, observation: Observation) -> None:
        """Writes `issued` or `ended`, bound to the recording."""
        write_observation(path, observation, self.read_binding())

    def write_text(self, name: str, text: str) -> None:
        """Writes a text that belongs to the recording, such as a console."""
        write_atomic(self.path / name, text.encode(errors="replace"))

    def seal_recording(self) -> None:
        """Makes all evidence durable and writes the manifest; again if evidence was added.

        To be called before judging.  Raises HostError.
        """
        from powercut.store.packed import packed_names  # noqa: PLC0415

        with host_errors(self.path):
            names = {entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")}
        names |= set(packed_names(self.path))
        manifest.seal(self.path, names - _UNSEALED)

    def check_seal(self) -> tuple[str, ...]:
        """The sealed files, all as they were; raises DamagedRecording naming those not."""
        return manifest.check(self.path)

    def check_record(self) -> None:
        """Of the seal what stays when evidence is dropped: trial.json.

        Raises DamagedRecording if it is not as it was.
        """
        manifest.check(self.path, only=(TRIAL_FILE,))

    def sealed_digest(self, name: str) -> str:
        """The digest that a sealed file has by the manifest; empty if it names no such file.

        Raises DamagedRecording.
        """
        return manifest.sealed_digest(self.path, name)

    def pack(self) -> None:
        """Makes the evidence small; the seal stays as it is, and what is read is the same.

        Raises HostError and DamagedRecording.
        """
        from powercut.store.packed import pack  # noqa: PLC0415

        pack(self.path, self.read_binding().run_id)

    @property
    def sealed(self) -> bool:
        """Whether the recording was complete and durable before anything else happened."""
        return (self.path / manifest.MANIFEST).is_file()

    @property
    def kept(self) -> bool:
        """Whether the evidence itself is there, and not only what is said about it."""
        return self.sealed and any(entry.name not in _LEFT for entry in self.path.iterdir())

    def drop_evidence(self) -> None:
        """Removes what was recorded; the manifest, trial.json and what was found stay.

        So the recording can still be told by its digest, and can be judged no more.
        """
        with host_errors(self.path):
            for entry in self.path.iterdir():
                if entry.name not in _LEFT:
                    remove_tree(entry) if entry.is_dir() else entry.unlink()

    def adopt_recording(self, other: TrialDir) -> None:
        """Takes over another run's recording and what was found in it; they share the files.

        Raises HostError.
        """
        new = self.path.with_name(f".{self.path.name}")
        remove_tree(new)
        with host_errors(self.path):
            new.mkdir(parents=True)
            for entry in other.path.iterdir():
                if entry.is_file():
                    link_or_copy(entry, new / entry.name)
            new.rename(self.path)
        verdict = self.read_verdict()
        self.write_verdict(verdict.model_copy(update={"result_directory": self.relative}))

    def remove(self) -> None:
        """Removes the whole folder: of a trial that is to be made again."""
        remove_tree(self.path)

    def write_verdict(self, result: TrialResult) -> None:
        """Writes the verdict on the recording beside it."""
        write_atomic(self.path / "verdict.json", result.model_dump_json(indent=1).encode() + b"\n")

    def read_verdict(self) -> TrialResult:
        """Reads the verdict; raises DamagedRecording."""
        return read_model(self.path / "verdict.json", TrialResult)


# observation.json: what recovery gave back, as a file.

FORMAT: Final = "powercut-observation/1"


def observation_to_json(observation: Observation) -> dict[str, Any]:
    """`observation` as JSON; an extent is [slot, count, state, lsn, detail].

    `lines`, what a program or its check said, is in base64: it need not be text.  `later` is there
    if a program went on.
    """
    value = {
        "format": FORMAT,
        "recovered": observation.recovered,
        "complete": observation.complete,
        "failure": observation.failure,
        "cause": observation.cause.label if observation.cause else "",
        "extents": [
            [e.slot, e.count, e.state.name.lower(), e.lsn, e.detail] for e in observation.extents
        ],
    }
    if observation.lines:
        value["lines"] = base64.b64encode(observation.lines).decode()
    if observation.later is not None:
        value["later"] = {
            "first_lsn": observation.later.first_lsn,
            "attempted": observation.later.attempted,
            "acked": observation.later.acked,
            "observation": observation_to_json(observation.later.observation),
            "failure": observation.later.failure,
            "no_room": observation.later.no_room,
            "lines": base64.b64encode(observation.later.lines).decode(),
            "outside": list(observation.later.outside),
        }
    return value


def observation_from_json(value: Any) -> Observation:
    """Undoes `observation_to_json`; raises ValueError."""
    try:
        if value["format"] != FORMAT:
            raise ValueError(f"format {value['format']!r}, and this powercut reads {FORMAT!r}")
        return Observation(
            extents=checked_extents(
                Extent(int(slot), int(count), SlotState[state.upper()], int(lsn), int(detail))
                for slot, count, state, lsn, detail in value["extents"]
            ),
            recovered=_is_bool(value["recovered"]),
            complete=_is_bool(value["complete"]),
            failure=str(value["failure"]),
            cause=Failure.labelled(value["cause"]) if value.get("cause") else None,
            lines=base64.b64decode(value.get("lines", ""), validate=True),
            later=_later(value["later"]) if "later" in value else None,
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not an observation: {error!r}") from error


def _later(value: Any) -> Continuation:
    return Continuation(
        first_lsn=int(value["first_lsn"]),
        attempted=int(value["attempted"]),
        acked=int(value["acked"]),
        observation=observation_from_json(value["observation"]),
        failure=str(value["failure"]),
        no_room=_is_bool(value["no_room"]),
        lines=base64.b64decode(value["lines"], validate=True),
        outside=tuple(map(str, value["outside"])),
    )


def _is_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"neither true nor false: {value!r}")  # noqa: TRY004
    return value


def write_observation(path: Path, observation: Observation, binding: Binding) -> None:
    """Writes `observation` of the recording `binding` to `path`; durable on return."""
    value = observation_to_json(observation)
    value |= {"binding": binding.digest.hex(), "cell": binding.cell, "seed": binding.seed}
    write_atomic(path, (json.dumps(value) + "\n").encode())


def read_observation(path: Path, binding: Binding) -> Observation:
    """Reads what `write_observation` wrote for the same recording.

    Raises DamagedRecording, also for an observation of another recording.
    """
    try:
        value = parse_json(openable(path).read_bytes())
        observation = observation_from_json(value)
        digest = bytes.fromhex(value["binding"])
        says = f"cell {value['cell']!r}, seed {value['seed']}"
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedRecording(f"{path}: {error}") from error
    check_digest(path, digest, binding, says)
    return observation
