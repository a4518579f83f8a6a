# SPDX-License-Identifier: Apache-2.0
"""A real Dask scheduler on this host, and workers: processes, with the fake machine or without."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from distributed import Client
from patience import AMPLE_S

from powercut.paths import PACKAGE

PRELOAD = Path(__file__).with_name("fake_worker.py")


class DaskHere:
    """A scheduler and its workers, as `dask scheduler` and `dask worker` start them."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, *, machines: bool) -> None:
        self.file = folder / "scheduler.json"
        self._folder = folder
        self._stack = stack
        self._own = {"PYTHONPATH": str(PACKAGE.parent), "XDG_STATE_HOME": str(folder)}
        self._preload = () if machines else ("--preload", str(PRELOAD))
        argv = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = self._start(
            *argv, "--scheduler-file", str(self.file), before=("setpriv", "--pdeathsig", "KILL")
        )
        end = time.monotonic() + AMPLE_S
        while not self.file.exists() or not self.file.read_text():
            assert self.scheduler.poll() is None, "the scheduler has ended"
            assert time.monotonic() < end
            time.sleep(0.05)
        self.workers: list[subprocess.Popen[bytes]] = []

    def add(self, fault: str = "") -> None:
        """One worker more; returns when the scheduler has it.  It ends a while after that does."""
        argv = ["worker", "--scheduler-file", str(self.file), "--host", "127.0.0.1"]
        argv += [
            "--nthreads",
            "1",
            "--memory-limit",
            "0",
            "--no-dashboard",
            "--death-timeout",
            "20",
        ]
        argv += ["--no-nanny", *self._preload, "--local-directory", str(self._folder)]
        self.workers.append(self._start(*argv, WORKER=fault))
        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=AMPLE_S)

    def _start(
        self, *argv: str, before: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "dask", *argv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self._own, **environment},
            start_new_session=True,
        )
        self._stack.callback(self.kill, process)
        return process

    @staticmethod
    def kill(process: subprocess.Popen[bytes]) -> None:
        """Its process, and those that it has started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def dask_here(folder: Path, *faults: str, machines: bool = False) -> Iterator[DaskHere]:
    """A worker for each of `faults`, empty for a sound one; with `machines` they make real ones."""
    with contextlib.ExitStack() as stack:
        made = DaskHere(folder, stack, machines=machines)
        for fault in faults:
            made.add(fault)
        yield made
