# SPDX-License-Identifier: Apache-2.0
"""Preloaded by Dask's workers of tests: they make trials on the fake machine.

What is wrong with a worker is in its environment, WORKER: `apart` has no folder of this host's;
`processor` and `code` are others'; `silent` cannot say what it is; `bent` returns a
recording of which one byte is another.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def dask_setup(_: object) -> None:
    """Dask calls it when the worker begins."""
    from fake_machine import FAKE, FakeBackend

    from powercut.paths import CACHE
    from powercut.rig.rig import Rig
    from powercut.scenario.machines import MACHINES
    from powercut_extras.cluster import identity, worker

    MACHINES["fake"] = FAKE
    worker.ready_rig = lambda *_: Rig(CACHE, FakeBackend())
    faults = os.environ.get("WORKER", "").split()
    if "apart" in faults:
        worker.Shared.is_here = property(lambda _: False)
        digest = worker.digest_of_manifest
        worker.digest_of_manifest = lambda trial: (
            digest(trial) if trial.path.is_relative_to(CACHE) else ""
        )
    if "processor" in faults:
        identity.processor_model = lambda: "another processor"
    if "code" in faults:
        identity._code = lambda: "0" * 64
    if "silent" in faults:
        worker.ready_rig = no_rig
    if "bent" in faults:
        files_of = worker.files_of
        worker.files_of = lambda trial: bent(files_of(trial))


def no_rig(*_: object) -> None:
    """Where a trial's machine cannot be had."""
    from powercut.model.errors import HostError

    raise HostError("no QEMU")


def bent(files: dict[str, bytes]) -> dict[str, bytes]:
    """The largest of them has another byte at its end."""
    name = max(files, key=lambda name: len(files[name]))
    return {**files, name: files[name][:-1] + bytes([files[name][-1] ^ 1])}
