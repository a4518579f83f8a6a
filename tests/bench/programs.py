# SPDX-License-Identifier: Apache-2.0
"""Commits per second of databases under test, beside the same program on a disk of this host.

The same program for the same time: recorded in User-Mode Linux, in a QEMU guest and, for root, on
this host's kernel (`where: loop`); and, for root, on ext4 over a loop device over a file in memory,
where nothing is recorded.  All of them take turns, so that a busy host slows each.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figure import Figure
from powercut.campaign.runner import run_scenarios
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.machine.process import spawn
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.paths import CACHE, ROOT
from powercut.rig.loop_guest import unavailable

ROUNDS: Final = 3
_SECONDS: Final = 5
_START_S: Final = 120.0
_KILL_S: Final = 20.0
_DISK_BYTES: Final = 256 << 20
_WORKLOADS: Final = ROOT / "workloads"
_SCENARIO: Final = """\
powercut: 1
name: bench
workload: {{kind: program, command: {command}}}
cut: {{trigger: {{after: {seconds} s}}}}
disk: {{model: none}}
explore: {{budget: 1}}
controls: none
deadline: 30min
cells:
  - name: uml
  - name: host
    workload.where: loop
  - name: guest
    workload.root: debian:bookworm
    workload.packages: [python3, {packages}]
    workload.bring: {bring}
    machine.memory: 512 MiB
"""
_ON_LOOP: Final = """\
mount -o loop "$1" "$2" && mkdir "$2/data" && "$3" setup "$2/data" && exec "$3" run "$2/data"
"""


@dataclass(frozen=True)
class _Product:
    name: str
    program: str
    packages: str


_WHERE: Final = {
    "uml": "in User-Mode Linux",
    "host": "on this host's kernel",
    "guest": "in a QEMU guest",
}
_PRODUCTS: Final = (
    _Product("SQLite", "sqlite", "libsqlite3-0"),
    _Product("PostgreSQL", "postgresql", "postgresql, python3-psycopg2"),
)


def bench_programs() -> list[Figure]:
    """Recording on each kernel against a guest of QEMU's, and against a plain loop device."""
    return [figure for product in _PRODUCTS for figure in _figures(product)]


def _figures(product: _Product) -> Iterator[Figure]:
    root = not unavailable()
    recorded = ("uml", "guest", *(("host",) if root else ()))
    rates: dict[str, list[float]] = {name: [] for name in (*recorded, "plain")}
    for _ in range(ROUNDS):
        for cell in recorded:
            rates[cell].append(_recorded(product, cell))
        if root:
            rates["plain"].append(_on_loop_device(product))
    found = {name: statistics.median(of) for name, of in rates.items() if of}
    for cell, where in _WHERE.items():
        for reference, name in (("guest", "QEMU guest"), ("plain", "unrecorded, on a loop device")):
            if cell in found and reference in found and cell != reference:
                title = f"{product.name}, recorded {where}"
                yield Figure(title, found[cell], found[reference], name, "commits/s")


def _recorded(product: _Product, cell: str) -> float:
    """Commits per second of one recording."""
    with tempfile.TemporaryDirectory(prefix="powercut-bench-") as folder:
        scenario = Path(folder, "bench.yaml")
        command = os.path.relpath(_WORKLOADS / "programs" / product.program, folder)
        bring = os.path.relpath(_WORKLOADS, folder)
        scenario.write_text(
            _SCENARIO.format(
                command=command, bring=bring, packages=product.packages, seconds=_SECONDS
            )
        )
        outcome = run_scenarios([scenario], seed=1, results=Path(folder, "results"), only=[cell])
    (result,) = outcome.runs[0].cells
    if not result.commits_acked:
        said = [finding.message for trial in result.trials for finding in trial.findings]
        raise HostError(f"{product.name} acknowledged nothing in cell {cell}: {'; '.join(said)}")
    return result.commits_acked / _SECONDS


def _on_loop_device(product: _Product) -> float:
    """Commits per second on ext4 over a loop device over a file in memory.

    The mount is in a namespace of its own and all processes are in another, so that both are gone
    with the first of them, and the loop device with the mount.
    """
    base = ensure_base_image(BaseImageSpec("ext4", _DISK_BYTES, ()), CACHE)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="powercut-bench-") as folder:
        image, point = Path(folder, "disk.img"), Path(folder, "mnt")
        Path(folder).chmod(0o755)  # a server that root starts is another user
        shutil.copyfile(base, image)
        point.mkdir()
        scratch = Path(folder, "tmp")  # what the program leaves when it is killed goes with it
        scratch.mkdir()
        scratch.chmod(0o1777)
        program = _WORKLOADS / "programs" / product.program
        alone = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork"]
        argv = ["env", f"TMPDIR={scratch}", *alone, "--kill-child", "sh", "-c", _ON_LOOP, "sh"]
        return _rate([*argv, str(image), str(point), str(program)], Path(folder, "log"))


def _rate(argv: Sequence[str], log: Path) -> float:
    ours, theirs = socket.socketpair()
    os.environ["POWERCUT_FD"] = str(theirs.fileno())
    with ours:
        with theirs:
            process = spawn(argv, log, pass_fds=[theirs.fileno()])
        try:
            return _counted(ours, time.monotonic() + _START_S)
        except DeadlineExceeded as error:
            raise HostError(f"{error}; it said: {log.read_text()[-500:]}") from None
        finally:
            del os.environ["POWERCUT_FD"]
            process.kill()
            try:
                process.wait(_KILL_S)
            except subprocess.TimeoutExpired:
                raise HostError("a program on a loop device outlived SIGKILL") from None


def _counted(lines: socket.socket, deadline: float) -> float:
    """Acks per second in the time from `ready` on."""
    began, said, acks = 0.0, b"", 0
    lines.settimeout(_START_S)
    while not began or time.monotonic() < began + _SECONDS:
        data = lines.recv(1 << 20)
        if not data or time.monotonic() > deadline:
            raise DeadlineExceeded("a program on a loop device ended, or was never ready")
        whole, _, rest = (said + data).rpartition(b"\n")
        said = rest
        words = whole.splitlines()
        acks += sum(line.startswith(b"+ ") for line in words)
        if b"ready" in words:
            began = time.monotonic()
    return acks / (time.monotonic() - began)
