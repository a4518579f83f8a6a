# SPDX-License-Identifier: Apache-2.0
"""Commits per second of a program in User-Mode Linux: on the capture disk, and without capture.

Without capture means that nbdkit's own `file` plugin serves the same disk, in memory, over the
same way (NBD, qemu-storage-daemon, vhost-user): what is measured is what recording costs.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from bench.disk import serve_file
from bench.figure import Figure
from powercut.channel.line_channel import LineChannel
from powercut.channel.line_sources import PacketSource
from powercut.channel.lines import unpack
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.model.binding import Binding
from powercut.model.errors import HostError
from powercut.recover.uml.kernel import host_kernel
from powercut.rig import commands
from powercut.rig.program_guest import ProgramGuest
from powercut.rig.scratch import scratch
from powercut.scenario.settings import Parameters
from powercut.workload.port import Run
from powercut.workload.program.claims import history_of
from powercut.workload.table import workload_of

ROUNDS: Final = 3
_COMMITS: Final = 1000
_TIMEOUT_S: Final = 300.0
_MEMORY: Final = Path("/dev/shm")
_RUN: Final = Run(bytes(15) + b"\x01", seed=1)

Serve = Callable[[Path, Path], AbstractContextManager[Path]]
"""Serves a copy of an image, with a folder of its own for what it needs: the socket."""


def bench_program_commits(name: str, parameters: Parameters, base: Path) -> Iterator[Figure]:
    """Commits per second of one product, both ways in turn; `base` is its disk at power-on."""
    captured, plain = [], []
    for _ in range(ROUNDS):
        captured.append(_commits_per_second(parameters, base, _on_capture_disk))
        plain.append(_commits_per_second(parameters, base, _on_plain_file))
    value, reference = statistics.median(captured), statistics.median(plain)
    against = "same disk, no capture"
    yield Figure(f"{name}, recorded", value, reference, against, "commits/s", goal=0.5)


@contextmanager
def _on_capture_disk(base: Path, folder: Path) -> Iterator[Path]:
    with CaptureDisk(CaptureConfig(base, folder / "log")) as disk:
        yield disk.socket


@contextmanager
def _on_plain_file(base: Path, folder: Path) -> Iterator[Path]:
    image = folder / "image"
    shutil.copyfile(base, image)
    with serve_file(image) as socket:
        yield socket


def _commits_per_second(parameters: Parameters, base: Path, serve: Serve) -> float:
    """From the first ack to the last, by the stamps that they get where they are written."""
    argv = workload_of(parameters).writer(_RUN)
    plan = commands.recovery_plan(parameters, _RUN.run_id, _RUN.seed)
    source, binding = PacketSource(), Binding()
    with (
        tempfile.TemporaryDirectory(prefix="powercut-bench-", dir=_MEMORY) as memory,
        serve(base, Path(memory)) as nbd,
        scratch() as folder,
        LineChannel(source, folder / "lines", binding) as lines,
        ProgramGuest(host_kernel(), nbd, plan, folder, source.theirs) as guest,
    ):
        guest.start(timeout_s=_TIMEOUT_S)
        guest.begin(argv)
        if not lines.wait_acks(_COMMITS, timeout_s=_TIMEOUT_S):
            raise HostError(f"{argv[0]} did not reach {_COMMITS} commits: {guest.console_now}")
        guest.kill()
        lines.drain(timeout_s=_TIMEOUT_S)
        made = history_of(unpack((folder / "lines").read_bytes(), binding)).ack_ns
    return (len(made) - 1) / (int(made[-1]) - int(made[0])) * 1e9
