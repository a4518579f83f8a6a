# SPDX-License-Identifier: Apache-2.0
"""Where everything about a run lies on disk.

    results/<scenario>/latest -> the newest run
    results/<scenario>/<utc>-<seed>/
        scenario.yaml  environment.json  reproduce.sh  verdict.json  report.html  junit.xml
        cells/<cell>/<trial>/ and controls/<name>/<trial>/
            trial.json        what was to be done          (sealed)
            base.img          the disk at power-on         (sealed, never modified; shared)
            disk.log .data    the run                      (sealed)
            recovery.log .data  recovery                   (sealed)
            history.bin       what was acknowledged        (sealed)
            lines.bin         in its place: what a program said  (sealed)
            untouched.json    what its check found at power-on   (sealed)
            observation.json  what came back               (sealed)
            console.txt  recovery-console.txt              (sealed)
            evidence.pack     the larger of these files, if they are packed (powercut.store.packed)
            manifest.json     the seal
            verdict.json      what follows from the above
            exploration.json  what its crash states say
            states/           crash states that have a name
        measurements/<cell>/  a run without a cut (`powercut cost`)
            measurement.json  what its commits sent and cost
            disk.log .data    what the disk saw, with marks around the commits that count
            history.bin       what was acknowledged
            trace-before.txt, trace-after.txt  the guest's own counts
            blockstats.json   the hypervisor's
            console.txt

Everything above the seal is written and durable before anything is judged.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.observation import Observation
from powercut.paths import command, from_here, launcher
from powercut.scenario.plan import Cell, Trial, Trigger
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store import manifest
from powercut.store.binding import binding_of
from powercut.store.files import (
    host_errors,
    link_or_copy,
    point_link,
    remove_tree,
    write_atomic,
)
from powercut.store.measurement import Measurement
from powercut.store.observation import read_observation, write_observation
from powercut.store.packed import PACK, pack, packed_names
from powercut.store.results import RunResult, TrialResult

TRIAL_FORMAT: Final = "powercut-trial/1"
_UNSEALED: Final = frozenset({manifest.MANIFEST, "verdict.json", "exploration.json", PACK})
_LEFT: Final = (_UNSEALED - {PACK}) | {"trial.json", "confirmation.json"}
_sharing = threading.Lock()
_NAME_MAX: Final = 120
_SAME_SECOND_MAX: Final = 1000

Model = TypeVar("Model", bound=BaseModel)


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
    scenario_sha256: str = ""  # of the scenario's text; empty: an earlier powercut recorded it
    recording: str = ""  # 32 hex digits that no other recording has; empty likewise
    trouble: str = ""  # why the recording is not what it should be; empty if it is
    damage: tuple[str, ...] = ()  # what the host did to the recording: it convicts nobody
    pinged: bool = False  # whether pings tied the guest's clock to the host's
    cut_ns: int | None = None  # the instant of the cut; None if it never came
    versions: dict[str, str] = {}  # of QEMU and of the guest's kernel, with digests
    guest_facts: dict[str, str] = {}
    recovery_facts: dict[str, str] = {}
    timings_s: dict[str, float] = {}
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
    def console(self) -> Path:
        """What the machine printed during the run."""
        return self.path / "console.txt"

    def adopt_base(self, image: Path) -> Path:
        """Makes `image`, which must never change again, the base image of the recording.

        The recordings of a run share one file for each content, in `bases/`.
        """
        shared = self.run / "bases" / f"{manifest.digest_of(image)}.img"
        with host_errors(shared), _sharing:  # trials at the same time adopt the same image
            shared.parent.mkdir(exist_ok=True)
            if not shared.exists():
                unfinished = shared.with_suffix(f".{os.getpid()}.tmp")
                link_or_copy(image, unfinished)
                unfinished.rename(shared)
        link_or_copy(shared, self.base_image)
        return self.base_image

    def write_record(self, record: TrialRecord) -> None:
        """Writes trial.json; again and again as more is known, until the seal."""
        write_atomic(self.path / "trial.json", record.model_dump_json(indent=1).encode() + b"\n")

    def read_record(self) -> TrialRecord:
        """Reads trial.json; raises DamagedRecording."""
        return _read_model(self.path / "trial.json", TrialRecord)

    def read_binding(self) -> Binding:
        """The binding that all evidence in the folder has to have; raises DamagedRecording."""
        path = self.path / "trial.json"
        try:
            return binding_of(json.loads(path.read_bytes()))
        except OSError as error:
            raise DamagedRecording(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedRecording(
                f"{path}: does not say whose recording it is: {error!r}"
            ) from error

    def write_observation(self, observation: Observation) -> None:
        """Writes observation.json, bound to the recording."""
        write_observation(self.path / "observation.json", observation, self.read_binding())

    def write_untouched(self, observation: Observation) -> None:
        """Writes untouched.json, bound to the recording."""
        write_observation(self.untouched, observation, self.read_binding())

    def read_untouched(self) -> Observation:
        """Reads untouched.json; raises DamagedRecording as `read_observation`."""
        return read_observation(self.untouched, self.read_binding())

    def read_observation(self) -> Observation:
        """Reads observation.json; raises DamagedRecording, also if it is of another recording."""
        return read_observation(self.path / "observation.json", self.read_binding())

    def write_text(self, name: str, text: str) -> None:
        """Writes a text that belongs to the recording, such as a console."""
        write_atomic(self.path / name, text.encode(errors="replace"))

    def seal_recording(self) -> None:
        """Makes all evidence durable and writes the manifest; again if evidence was added.

        To be called before judging.  Raises HostError.
        """
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
        manifest.check(self.path, only=("trial.json",))

    def pack(self) -> None:
        """Makes the evidence small; the seal stays as it is, and what is read is the same.

        Raises HostError and DamagedRecording.
        """
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
        return _read_model(self.path / "verdict.json", TrialResult)


class ResultDir:
    """The folder of one run of one scenario."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(
        cls, results: Path, scenario: str, seed: int, *, now: datetime | None = None
    ) -> Self:
        """A new folder below `results`, and `latest` pointing to it.  Raises HostError."""
        stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        parent = results / scenario
        with host_errors(parent):
            parent.mkdir(parents=True, exist_ok=True)
            for attempt in range(1, _SAME_SECOND_MAX):
                # Two runs may begin in the same second, say under pytest-xdist.
                path = parent / (f"{stamp}-{seed}" + (f".{attempt}" if attempt > 1 else ""))
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                point_link(parent / "latest", path.name)
                return cls(path)
        raise HostError(f"{parent}: too many runs in one second", hint="try again")

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing folder, given by itself, by a file or folder in it, or by `latest`.

        Raises UsageError if there is no run.
        """
        try:
            path = path.resolve(strict=True)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", hint="see results/ for runs") from error
        for folder in (path, *path.parents):
            if (folder / "scenario.yaml").is_file():
                return cls(folder)
        latest = path / "latest"
        if latest.is_dir():
            return cls(latest.resolve())
        raise UsageError(
            f"{path}: not a result of powercut: there is no scenario.yaml",
            hint="give a folder such as results/<scenario>/latest",
        )

    def trial(self, name: str, number: int, *, control: bool = False) -> TrialDir:
        """A new folder for trial `number` of a cell, or of a control.  Raises HostError."""
        trial = self.place_of(name, number, control=control)
        with host_errors(trial.path):
            trial.path.mkdir(parents=True)
        return trial

    def place_of(self, name: str, number: int, *, control: bool = False) -> TrialDir:
        """The folder of that trial, whether it is there or not."""
        group = "controls" if control else "cells"
        return TrialDir(self.path / group / folder_name(name) / f"{number:04d}", self.path)

    def measurement(self, cell: str) -> Path:
        """The folder for what was measured of a cell, whether it is there or not."""
        return self.path / "measurements" / folder_name(cell)

    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements, in order of the names of their folders; raises DamagedRecording."""
        found = sorted(self.path.glob("measurements/*/measurement.json"))
        return tuple(_read_model(path, Measurement) for path in found)

    def trials(self) -> tuple[TrialDir, ...]:
        """All trials that left a folder, controls included, in order of their names."""
        found = sorted(self.path.glob("c*/*/*/trial.json"))
        return tuple(TrialDir(path.parent, self.path) for path in found)

    def at(self, relative: str) -> TrialDir:
        """The trial that verdict.json names by `relative`.

        Raises DamagedRecording if that is outside of the run.
        """
        if Path(relative).is_absolute() or ".." in Path(relative).parts or "\0" in relative:
            raise DamagedRecording(f"{self.path}: names a folder outside of it: {relative!r}")
        return TrialDir(self.path / relative, self.path)

    @property
    def scenario_copy(self) -> Path:
        """The scenario that was run, as it was then."""
        return self.path / "scenario.yaml"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"

    def write_scenario(self, text: str) -> None:
        """Keeps the scenario as it is now."""
        write_atomic(self.scenario_copy, text.encode())

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Writes environment.json: versions, host, command lines."""
        text = json.dumps(environment, indent=1, sort_keys=True, default=str)
        write_atomic(self.path / "environment.json", text.encode() + b"\n")

    def read_environment(self) -> dict[str, Any]:
        """Reads environment.json; empty if there is none."""
        try:
            value = json.loads((self.path / "environment.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def options(self) -> list[str]:
        """The options of the run, beside its seed, that decide what it does."""
        return shlex.split(str(self.read_environment().get("options", "")))

    def write_reproduce(self, seed: int) -> str:
        """Writes reproduce.sh, which repeats the run, and returns the command in it.

        To be called when the environment has been written.
        """
        options = self.options()
        text = (
            "#!/bin/sh\n# Repeats this run: same scenario, same seed.\n"
            f'exec "${{POWERCUT:-{launcher()}}}" run '
            f'"$(dirname "$0")/scenario.yaml" {shlex.join(["--seed", str(seed), *options])} "$@"\n'
        )
        path = self.path / "reproduce.sh"
        write_atomic(path, text.encode())
        path.chmod(0o755)
        return reproduce_command(self.scenario_copy, seed, options=options)

    def write_verdict(self, result: RunResult) -> None:
        """Writes the verdict on the run."""
        write_atomic(self.path / "verdict.json", result.model_dump_json(indent=1).encode() + b"\n")

    def read_verdict(self) -> RunResult:
        """Reads the verdict, with `result_directory` as the folder is called now.

        Raises DamagedRecording.
        """
        result = _read_model(self.path / "verdict.json", RunResult)
        return result.model_copy(update={"result_directory": str(self.path)})

    @property
    def ended(self) -> bool:
        """Whether the run has come to its end: its verdict is the last that it writes."""
        return (self.path / "verdict.json").is_file()

    def write_file(self, name: str, data: bytes) -> Path:
        """Writes a report of some kind beside the verdict."""
        write_atomic(self.path / name, data)
        return self.path / name


def folder_name(name: str) -> str:
    """The folder of a cell called `name`: the name itself, shortened if it is very long."""
    if len(name) <= _NAME_MAX:
        return name
    return f"{name[: _NAME_MAX - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def reproduce_command(
    scenario: Path, seed: int, cell: Cell | None = None, *, options: Sequence[str] = ()
) -> str:
    """The command that repeats a run, or one cell of it, from the folder that the caller is in."""
    argv = [command(), "run", str(from_here(scenario)), "--seed", str(seed), *options]
    if cell is not None:
        argv += ["--only", cell.name]
    return shlex.join(argv)


def _read_model(path: Path, model: type[Model]) -> Model:
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DamagedRecording(f"{path}: {place or 'file'}: {first['msg']}") from error
