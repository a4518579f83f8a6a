# SPDX-License-Identifier: Apache-2.0
"""Measures powercut itself: every figure a ratio of two things done in turn in one run.

Absolute figures depend on the host and on what else it does; a ratio of neighbours
depends on neither as much.  Medians of several rounds are compared.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.table import Table

from bench.analyze import bench_analyze
from bench.cluster_states import bench_cluster_states
from bench.disk import measure as measure_disk
from bench.disk_errors import bench_disk_errors
from bench.explore import bench_explore
from bench.figure import Figure
from bench.honest_states import bench_honest_states
from bench.lengths import bench_lengths
from bench.lucky_faults import bench_lucky_faults
from bench.program_states import bench_program_states
from bench.programs import bench_programs
from bench.raw import bench_raw
from bench.recorded_faults import bench_recorded_faults
from bench.representatives import bench_representatives
from bench.same_states import bench_same_states
from bench.seldom_faults import bench_seldom_faults
from powercut.campaign.runner import run_scenarios
from powercut.console import PlainConsole
from powercut.disk.base import ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.machine.port import FileDisk, NbdDisk
from powercut.model.binding import Binding
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import CacheMode, Start
from powercut.paths import SCENARIOS
from powercut.rig import commands
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.scenario.settings import (
    FilesystemSettings,
    FilesystemType,
    Layout,
    MachineSettings,
    Parameters,
    WalSettings,
)
from powercut.store.files import write_output
from powercut.workload.port import MOUNT_POINT
from powercut.workload.wal.commands import write_arguments

ROUNDS: Final = 5
_TIMEOUT_S: Final = 120.0
_COMMITS: Final = 1500
_RUN_ID: Final = bytes(15) + b"\x01"


def main(names: Sequence[str], json_file: Path | None, against: Path | None = None) -> int:
    """Runs the benchmarks of these names and shows them; if empty, all but
    `recorded-faults`, `seldom-faults`, `lucky-faults`, `disk-errors` and `honest-states`, which
    take hours, and `same-states`.

    `against` is another checkout of powercut, which `program-states` then measures in turn, and
    with which `same-states` compares.

    Raises UsageError for a name that there is none of, or a folder that is no checkout.
    """
    if against is not None and not (against / "harness" / "powercut").is_dir():
        raise UsageError(f"{against} is no checkout of powercut")
    chosen_by = {
        "seldom-faults": bench_seldom_faults,
        "lucky-faults": bench_lucky_faults,
        "disk-errors": bench_disk_errors,
    }
    benchmarks = BENCHMARKS | {
        "program-states": partial(bench_program_states, against),
        "same-states": partial(bench_same_states, against),
        "recorded-faults": bench_recorded_faults,
        **chosen_by,
        "honest-states": bench_honest_states,
    }
    for name in names:
        kind, _, properties = name.partition(":")
        if kind in chosen_by:
            benchmarks[name] = partial(chosen_by[kind], properties)
        if name not in benchmarks:
            raise UsageError(
                f"there is no benchmark {name!r}", hint=f"choose from {', '.join(benchmarks)}"
            )
    console = PlainConsole(stderr=json_file == Path("-"))
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        with console.status(f"measuring {name} ..."):
            of_name = benchmarks[name]()
        console.print(_table(of_name))  # at once: what is cut off has said what it had
        figures += of_name
    if json_file is not None:
        told = [asdict(f) | {"ratio": f.ratio} for f in figures]
        text = json.dumps({"format": "powercut-bench/1", "figures": told}, indent=1) + "\n"
        if json_file == Path("-"):
            PlainConsole(soft_wrap=True).out(text, end="")
        else:
            write_output(json_file, text.encode())
    return 0


def bench_start() -> list[Figure]:
    """Time from start to the first verdict, against a guest's bare boot."""
    rig = Rig.find()
    boots, verdicts = [], []
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as results:
        for _ in range(ROUNDS):
            boots.append(_time_to_hello(rig, templates=False))
            start = time.monotonic()
            run_scenarios(
                [SCENARIOS / "first-light.yaml"], seed=1, results=Path(results), only=["lying"]
            )
            verdicts.append(time.monotonic() - start)
    value, reference = statistics.median(verdicts), statistics.median(boots)
    return [Figure("start to first verdict, with its control", value, reference, "cold boot", "s")]


def bench_boot() -> list[Figure]:
    """Restoring a guest against booting it, each to the agent's first answer."""
    rig = Rig.find()
    _time_to_hello(rig, templates=True)  # makes the template
    cold, warm = [], []
    for _ in range(ROUNDS):
        cold.append(_time_to_hello(rig, templates=False))
        warm.append(_time_to_hello(rig, templates=True))
    value, reference = statistics.median(warm), statistics.median(cold)
    return [Figure("guest restored, to first answer", value, reference, "cold boot", "s")]


def bench_commits() -> list[Figure]:
    """Commits per second in the guest: capture disk against a raw file in memory.

    The file lies in /dev/shm, so that neither side waits for a medium.
    """
    rig = Rig.find()
    workloads = {
        "XFS, growing file": Parameters(machine=MachineSettings(cache=CacheMode.WRITEBACK)),
        "raw device": Parameters(
            machine=MachineSettings(cache=CacheMode.WRITEBACK),
            filesystem=FilesystemSettings(type=FilesystemType.RAW),
            workload=WalSettings(layout=Layout.RAW, record=4096),
        ),
    }
    figures = []
    for name, parameters in workloads.items():
        captured, plain = [], []
        for _ in range(ROUNDS):
            captured.append(_commits_per_second(rig, parameters, _on_capture_disk))
            plain.append(_commits_per_second(rig, parameters, _on_raw_file))
        value, reference = statistics.median(captured), statistics.median(plain)
        figures.append(
            Figure(f"commits, {name}", value, reference, "raw file", "commits/s", goal=0.9)
        )
    return figures


def bench_disk() -> list[Figure]:
    """The capture disk against nbdkit's own `file` plugin, without a guest."""
    return [
        Figure(rate.name, rate.capture, rate.reference, "nbdkit file", rate.unit, goal=0.7)
        for rate in measure_disk(rounds=ROUNDS)
    ]


BENCHMARKS: Final[dict[str, Callable[[], list[Figure]]]] = {
    "start": bench_start,
    "boot": bench_boot,
    "commits": bench_commits,
    "disk": bench_disk,
    "explore": lambda: [*bench_raw(), *bench_explore()],
    "lengths": bench_lengths,
    "analyze": bench_analyze,
    "programs": bench_programs,
    "program-states": bench_program_states,
    "cluster-states": bench_cluster_states,
    "representatives": bench_representatives,
}
"""What `powercut bench` measures, by name, if it is not told what."""


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(title="powercut bench: medians, each pair measured in turn")
    for column in ("what", "measured", "against", "ratio", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for figure in figures:
        goal = "" if figure.goal is None else f">= {figure.goal:g}"
        table.add_row(
            figure.name,
            f"{figure.value:,.4g} {figure.unit}",
            f"{figure.reference:,.4g} ({figure.reference_name})",
            f"{figure.ratio:.2f}",
            goal,
        )
    return table


AttachDisk = Callable[[Rig, Parameters, Path], AbstractContextManager[NbdDisk | FileDisk]]
"""Makes a disk for a machine in a folder."""


@contextmanager
def _on_capture_disk(rig: Rig, parameters: Parameters, folder: Path) -> Iterator[NbdDisk]:
    base = ensure_base_image(commands.base_image(parameters), rig.cache)
    config = commands.capture_config(
        parameters, Binding(_RUN_ID), base=base, log=folder / "disk-log", sockets=folder
    )
    with CaptureDisk(config) as disk:
        yield NbdDisk(disk.socket)


@contextmanager
def _on_raw_file(rig: Rig, parameters: Parameters, folder: Path) -> Iterator[FileDisk]:
    del folder  # not in memory, perhaps
    base = ensure_base_image(commands.base_image(parameters), rig.cache)
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="powercut-bench-") as image:
        Path(image.name).write_bytes(base.read_bytes())
        yield FileDisk(Path(image.name))


def _commits_per_second(rig: Rig, parameters: Parameters, disk: AttachDisk) -> float:
    """From the first ack to the last of a fixed number of commits, as received."""
    with scratch() as folder, disk(rig, parameters, folder) as attached:
        spec = rig.machine_spec(parameters, attached)
        with rig.machines.open(spec, folder) as (machine, channel):
            machine.start(timeout_s=_TIMEOUT_S)
            channel.wait_hello(timeout_s=_TIMEOUT_S)
            if not commands.is_raw(parameters):
                mount = ("mount", parameters.filesystem.type.value, f"/dev/{commands.DEVICE}")
                channel.run(*mount, MOUNT_POINT, "", timeout_s=_TIMEOUT_S)
            channel.start("exec", *write_arguments(parameters, _RUN_ID))
            if not channel.wait_acks(_COMMITS, timeout_s=_TIMEOUT_S):
                raise HostError(f"the guest did not reach {_COMMITS} commits")
            machine.kill(timeout_s=_TIMEOUT_S)
            history = channel.drain(timeout_s=_TIMEOUT_S)
    seconds = (int(history.ack_ns[-1]) - int(history.ack_ns[0])) / 1e9
    return (len(history.ack_ns) - 1) / seconds


def _time_to_hello(rig: Rig, *, templates: bool) -> float:
    """Seconds from nothing to the agent's first answer, on an empty disk."""
    parameters = Parameters()
    with scratch() as folder:
        image = folder / "empty.img"
        with image.open("wb") as file:
            file.truncate(parameters.disk.size)
        start = Start.AUTO if templates else Start.BOOTED
        spec = replace(rig.machine_spec(parameters, FileDisk(image)), start=start)
        with rig.machines.open(spec, folder) as (machine, channel):
            begin = time.monotonic()
            machine.start(timeout_s=_TIMEOUT_S)
            channel.wait_hello(timeout_s=_TIMEOUT_S)
            return time.monotonic() - begin
