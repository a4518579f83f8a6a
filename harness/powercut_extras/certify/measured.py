# SPDX-License-Identifier: Apache-2.0
"""The measurement of one cell in the folder of a run."""

from __future__ import annotations

from typing import Final

from powercut.model.errors import DamagedRecording
from powercut.scenario.settings import Parameters
from powercut.store.files import host_errors, remove_tree
from powercut.store.layout import ResultDir
from powercut.store.record import find_model
from powercut_extras.certify.measurement import Measurement

MEASUREMENT_FILE: Final = "measurement.json"


def read_measured(run: ResultDir, cell: str, parameters: Parameters) -> Measurement | None:
    """What was measured of a cell; None if nothing was, or it was interrupted.

    Raises DamagedRecording, also if what is there was measured of another cell.
    """
    path = run.measurement(cell) / MEASUREMENT_FILE
    measurement = find_model(path, Measurement)
    if measurement is None:
        return None
    if (measurement.cell, measurement.parameters) != (cell, parameters):
        raise DamagedRecording(
            f"{path}: it was measured of {measurement.cell}, or with other settings",
            hint="remove its folder: `powercut certify --resume` measures the cell again",
        )
    return measurement


def drop_measured_evidence(run: ResultDir, cell: str) -> None:
    """Leaves of a measurement what was measured, and nothing else.  Raises HostError."""
    place = run.measurement(cell)
    with host_errors(place):
        for entry in place.iterdir():
            if entry.name != MEASUREMENT_FILE:
                remove_tree(entry) if entry.is_dir() else entry.unlink()
