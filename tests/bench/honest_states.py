# SPDX-License-Identifier: Apache-2.0
"""20,000 crash states of honest programs, none of which may be LOSSY.

A log on a raw disk and on three file systems, databases on disks and in captured folders; not Redis
in a folder, which refuses a log whose size came before its contents (docs/measured/campaigns.md).
Recordings are made in turn, one of each row, until there are as many states.  `powercut bench` runs
it by name only; slices of it add up: each recording is a line of build/honest-states/trials.jsonl.
An alarm keeps its results beside that file.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.figure import Figure
from bench.kept import Kept
from powercut.model.errors import HostError
from powercut.paths import BUILD, PROGRAMS, launcher

STATES: Final = 20_000
KEPT: Final = Kept(BUILD / "honest-states")
_BUDGET: Final = 1000
_PATIENCE_S: Final = 900.0
_LOSSY: Final = 1
_VERDICTS: Final = (0, _LOSSY, 3)
_SCENARIO: Final = """\
powercut: 1
name: honest-states
filesystem: {{type: {filesystem}{mount}}}
disk: {{size: 256MiB}}
cut: {{kind: power-loss, trigger: {{acks: 300}}}}
explore: {{budget: {budget}}}
expect: safe
"""


@dataclass(frozen=True)
class Row:
    """What is recorded, and where."""

    medium: str
    filesystem: str
    program: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.medium}, {self.filesystem}, {' '.join(self.program)}"


WAL: Final = "wal"
ROWS: Final = (
    *(Row("disk", filesystem, (WAL,)) for filesystem in ("raw", "ext4", "xfs", "btrfs")),
    Row("disk", "ext4", ("sqlite",)),
    Row("disk", "xfs", ("sqlite", "journal=delete")),
    Row("disk", "ext4", ("lmdb",)),
    Row("folder", "journal", ("seldom",)),
    Row("folder", "journal", ("sqlite",)),
    Row("folder", "journal", ("seldom", "fault=name")),
    Row("disk", "btrfs", ("sqlite", "journal=truncate")),
    Row("disk", "ext4", ("redis",)),
    Row("disk", "xfs", ("seldom", "fault=contents")),
    Row("disk", "btrfs", ("redis",)),
    Row("folder", "journal", ("sqlite", "journal=persist")),
)


def bench_honest_states() -> list[Figure]:
    """Recordings until there are enough states.  Raises HostError for a LOSSY one."""
    console = Console(soft_wrap=True)
    lines = KEPT.lines()
    done = {(line["row"], line["seed"]) for line in lines}
    for row, seed in _in_turn():
        if sum(line["states"] for line in lines) >= STATES:
            break
        if (str(row), seed) not in done:
            lines.append(_recorded(row, seed))
            KEPT.add(lines[-1])
            console.print(json.dumps(lines[-1]))
    console.print("\n".join(table(lines)))
    if alarms := [line for line in lines if line["status"] == _LOSSY]:
        raise HostError(f"an honest program is LOSSY: {alarms}")
    states = sum(line["states"] for line in lines)
    return [Figure("crash states of honest programs, no alarm", states, STATES, "goal", "states")]


def _in_turn() -> Iterator[tuple[Row, int]]:
    for seed in count(1):
        for row in ROWS:
            yield row, seed


def _recorded(row: Row, seed: int) -> dict[str, Any]:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as name:
        folder = Path(name)
        command = _command(row, seed, folder)
        with (folder / "said").open("wb") as said:
            done = subprocess.run(
                command, timeout=_PATIENCE_S, check=False, cwd=folder, stdout=said, stderr=said
            )
        if done.returncode not in _VERDICTS:
            raise HostError(f"{row}: {(folder / 'said').read_text(errors='replace')[-2000:]}")
        found = _coverage(folder / "results")
        if done.returncode:
            kept = KEPT.folder / f"{'-'.join(str(row).replace(',', '').split())}-{seed}"
            shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True)
    return {
        "row": str(row),
        "seed": seed,
        "status": done.returncode,
        "seconds": round(time.monotonic() - begun, 1),
        "states": sum(one["distinct"] for one in found),
        "recovered": sum(one["recovered"] for one in found),
        "lossy": sum(one["lossy"] for one in found),
    }


def _command(row: Row, seed: int, folder: Path) -> tuple[str, ...]:
    settings: tuple[str, ...] = ("--results", str(folder / "results"), "--seed", str(seed))
    if row.program == (WAL,):
        scenario = folder / "honest-states.yaml"
        mount = ", mount: [max_inline=0]" if row.filesystem == "btrfs" else ""
        values = {"filesystem": row.filesystem, "mount": mount, "budget": _BUDGET}
        scenario.write_text(_SCENARIO.format(**values))
        return (launcher(), "run", str(scenario), *settings)
    program = (str(PROGRAMS / row.program[0]), *row.program[1:])
    settings = (*settings, "--budget", str(_BUDGET))
    if row.medium == "disk":
        return (launcher(), "record", *settings, "--filesystem", row.filesystem, "--", *program)
    store = str(folder / "store")
    told = {"POWERCUT_FD": "1", "POWERCUT_SEED": str(seed), "PATH": "/usr/bin:/bin"}
    subprocess.run((*program, "setup", store), check=True, env=told, stdout=subprocess.DEVNULL)
    check = shlex.join((*program, "check", store))
    settings = (*settings, "--acks", "500", "--check", check)
    return (launcher(), "capture", store, *settings, "--", *program, "run", store)


def _coverage(results: Path) -> list[Mapping[str, Any]]:
    """Of the recordings themselves: the states of their controls are not honest."""
    files = [
        path
        for path in (*results.rglob("exploration.json"), *results.rglob("result.json"))
        if "controls" not in path.parts and not any(one.is_symlink() for one in path.parents)
    ]
    told = [json.loads(path.read_text()) for path in files]
    return [one.get("explored", one)["coverage"] for one in told]


def table(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """States and alarms of each row."""
    made = [
        "| medium, file system, program | recordings | states | LOSSY | other |",
        "| --- | --: | --: | --: | --: |",
    ]
    for row in ROWS:
        of = [line for line in lines if line["row"] == str(row)]
        lossy = sum(line["status"] == _LOSSY for line in of)
        other = sum(line["status"] not in (0, _LOSSY) for line in of)
        states = sum(line["states"] for line in of)
        made.append(f"| {row} | {len(of)} | {states:,} | {lossy} | {other} |")
    return made
