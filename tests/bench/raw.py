# SPDX-License-Identifier: Apache-2.0
"""How fast crash states of a log on the device itself are read, beside reading images."""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Final

from bench.figure import Figure
from powercut.campaign.runner import run_scenarios
from powercut.crash.explore import Exploration, InstantKind, events
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.explore.state_images import StateImages
from powercut.recording.sealed import SealedTrial, TrialRecording, open_trial
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_open import write_image
from powercut.store.layout import ResultDir

_SCENARIO: Final = """
powercut: 1
name: bench-raw
controls: none
filesystem: {type: raw}
workload: {record: 4KiB, align: 4096, capacity: 4MiB, direct: true}
cut: {trigger: {acks: 2000}}
cells:
  - {name: 32-writes-in-flight, workload.engine: libaio, workload.depth: 32, workload.batch: 32}
  - {name: one-write-in-flight}
"""
_STATES: Final = 200_000
_ONE_BY_ONE: Final = 40
_TURNS: Final = 3
_READ_S: Final = 60.0


def bench_raw() -> list[Figure]:
    """The raw engine, one process, against an image and a reader for each state.

    Two logs, recorded for the purpose.  Few writes in flight leave few states an instant, and
    then the instants cost more than the states.
    """
    figures = []
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as name:
        folder = Path(name)
        scenario = folder / "bench-raw.yaml"
        scenario.write_text(_SCENARIO)
        (run,) = run_scenarios([scenario], seed=1, results=folder).runs
        result = ResultDir.open(Path(run.result_directory))
        for cell in run.cells:
            trial = result.at(cell.trials[0].result_directory)
            recorded = open_trial(trial)
            ours, images = [], []
            for turn in range(_TURNS):
                wanted = ExploreRequest(budget=Budget(states=_STATES), confirm=False, seed=turn)
                explored = explore(SealedTrial(trial), wanted, keep=False)
                ours.append(explored.states_per_s)
                images.append(_image_by_image(recorded, turn, folder / "state.img"))
            figures.append(
                Figure(
                    f"raw, {cell.cell.replace('-', ' ')}",
                    statistics.median(ours),
                    statistics.median(images),
                    "reader on an image each",
                    "states/s",
                )
            )
    return figures


def _image_by_image(recorded: TrialRecording, seed: int, image: Path) -> float:
    """States per second if each is written to an image, and the reader reads that."""
    space = recorded.space
    drawn = Exploration(space, events(space, tuple(InstantKind)), seed=seed)
    states = list(islice(drawn, _ONE_BY_ONE))
    images = StateImages(space)
    start = time.monotonic()
    for state in states:
        image.unlink(missing_ok=True)
        write_image(recorded.directory.base_image, images.writes(state), image)
        read_on_host(recorded.parameters, recorded.run_id, image, timeout_s=_READ_S)
    return len(states) / (time.monotonic() - start)
