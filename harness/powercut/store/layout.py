# SPDX-License-Identifier: Apache-2.0
"""Where everything about a run lies on disk.

    results/<scenario>/latest -> the newest run
    results/<scenario>/<utc>-<seed>/
        scenario.yaml  environment.json  reproduce.sh  verdict.json  report.html  junit.xml
        progress.json         while it is under way: how far it is; no evidence
        cells/<cell>/<trial>/ and controls/<name>/<trial>/
            trial.json        what was to be done          (sealed)
            base.img          the disk at power-on         (sealed, never modified; shared)
            backing.img       what an overlay lies over    (sealed, never modified; shared)
            disk.log .data    the run                      (sealed)
            recovery.log .data  recovery                   (sealed; neither if live only)
            history.bin       what was acknowledged        (sealed)
            lines.bin         in its place: what a program said  (sealed)
            untouched.json    what its check found at power-on   (sealed)
            observation.json  what came back               (sealed)
            issued.json       what its check found with all that was issued  (sealed; if needed)
            ended.json        and after a run that ended without a cut       (sealed; if needed)
            console.txt  recovery-console.txt              (sealed)
            evidence.pack     the larger of these files, if they are packed (powercut.store.packed)
            manifest.json     the seal
            verdict.json      what follows from the above
            exploration.json  what its crash states say
            audit.json        what each of its flushes was worth
            states/           crash states that have a name
        measurements/<cell>/  a run without a cut (`powercut audit cost`)
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
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from powercut.brought import make_results, mark_results
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json, words_of
from powercut.paths import command, from_here, launcher
from powercut.scenario.plan import Cell
from powercut.store.files import host_errors, point_link, write_atomic
from powercut.store.record import read_model
from powercut.store.results import RunResult
from powercut.store.trial_dir import TrialDir

CONTROLS: Final = "controls"
"""The folder of a run in which its controls lie."""

_NAME_MAX: Final = 120
_SAME_SECOND_MAX: Final = 1000


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
            make_results(results, parent)
            for attempt in range(1, _SAME_SECOND_MAX):
                # Two runs may begin in the same second, say under pytest-xdist.
                path = parent / (f"{stamp}-{seed}" + (f".{attempt}" if attempt > 1 else ""))
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                mark_results(path)
                point_link(parent / "latest", path.name)
                return cls(path)
        raise HostError(f"{parent}: too many runs in one second", hint="try again")

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing folder, given directly, by a file or folder in it, or by `latest`.

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
        group = CONTROLS if control else "cells"
        return TrialDir(self.path / group / folder_name(name) / f"{number:04d}", self.path)

    def measurement(self, cell: str) -> Path:
        """The folder for what was measured of a cell, whether it is there or not."""
        return self.path / "measurements" / folder_name(cell)

    def trials(self) -> tuple[TrialDir, ...]:
        """All trials that left a folder, controls included, in order of their names."""
        records = sorted(self.path.glob("c*/*/*/trial.json"))
        return tuple(TrialDir(path.parent, self.path) for path in records)

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
        """Reads environment.json; empty if there is none, or if it is none that a run writes."""
        try:
            value = parse_json(openable(self.path / "environment.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) and _is_environment(value) else {}

    def options(self) -> list[str]:
        """The options of the run, beside its seed, that decide what it does, and where."""
        environment = self.read_environment()
        cluster = environment.get("cluster", "")
        where = ["--cluster", cluster] if cluster else []
        return [*words_of(environment.get("options", "")), *where]

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
        result = read_model(self.path / "verdict.json", RunResult)
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
    argv = ["run", str(from_here(scenario)), "--seed", str(seed), *options]
    if cell is not None:
        argv += ["--only", cell.name]
    return f"{command()} {shlex.join(argv)}"


_ENVIRONMENT: Final[Mapping[str, type]] = {
    "seed": int,
    "started": str,
    "options": str,
    "cluster": str,
    "selection": dict,
    "sessions": list,
    "host": dict,
}
"""Members that are read again, where they are there."""


def _is_environment(value: Mapping[str, Any]) -> bool:
    if any(not isinstance(value.get(name, kind()), kind) for name, kind in _ENVIRONMENT.items()):
        return False
    try:
        words_of(value.get("options", ""))
    except ValueError:
        return False
    return all(isinstance(session, dict) for session in value.get("sessions", ()))
