# SPDX-License-Identifier: Apache-2.0
"""How fast the capture disk is, against nbdkit's own `file` plugin.

Both serve a new sparse image in the same folder to `qemu-img bench`, in turn, several
times; medians are compared.  On a disk-backed folder the file plugin's flushes wait for
the host's disk and the capture disk's need not, so the default folder is in memory,
where neither waits.  Each load writes every block of its image once: a capture disk
keeps all that was ever written, so it takes new memory where a file that is written a
second time does not.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.model.errors import HostError

ROUNDS: Final = 5
_MEMORY: Final = Path("/dev/shm")
_TIMEOUT_S: Final = 120.0
_ELAPSED: Final = re.compile(r"Run completed in ([\d.]+) seconds")


@dataclass(frozen=True)
class DiskLoad:
    """What is written: `count` requests of `size` bytes, `depth` in flight.

    After every `flush_interval` requests comes a flush (0: none).  `unit` is that of the
    rate: writes or MB a second.
    """

    name: str
    size: int
    count: int
    depth: int
    flush_interval: int
    unit: str = "writes/s"

    def rate(self, elapsed_s: float) -> float:
        """The rate of a run that took so many seconds, in `unit`."""
        each = self.size / 1e6 if self.unit == "MB/s" else 1
        return self.count * each / elapsed_s


LOADS: Final = (
    DiskLoad("4 KiB writes, each flushed", 4096, 8000, 1, 1),
    DiskLoad("4 KiB writes, 16 in flight, 1 flush in 64", 4096, 40000, 16, 64),
    DiskLoad("1 MiB writes, 4 in flight, 1 flush in 16", 1 << 20, 512, 4, 16, "MB/s"),
)


@dataclass(frozen=True)
class DiskRates:
    """The rates of one load in `unit`: medians of the rounds.

    `reference` is that of nbdkit's file plugin.
    """

    name: str
    capture: float
    reference: float
    unit: str

    @property
    def ratio(self) -> float:
        """The capture disk's rate over the file plugin's."""
        return self.capture / self.reference


def measure(
    loads: tuple[DiskLoad, ...] = LOADS, *, folder: Path = _MEMORY, rounds: int = ROUNDS
) -> tuple[DiskRates, ...]:
    """Rates of both disks for each load, in `folder`.

    Raises HostError if a server or `qemu-img` fails.
    """
    return tuple(_measure(load, folder, rounds) for load in loads)


def _measure(load: DiskLoad, folder: Path, rounds: int) -> DiskRates:
    capture, file = [], []
    for _ in range(rounds):
        capture.append(_rate(load, folder, _capture_server))
        file.append(_rate(load, folder, _file_server))
    return DiskRates(load.name, statistics.median(capture), statistics.median(file), load.unit)


def _rate(
    load: DiskLoad, folder: Path, server: Callable[[Path], AbstractContextManager[Path]]
) -> float:
    """The rate on a new image; whatever the server writes is removed."""
    with tempfile.TemporaryDirectory(prefix="powercut-bench-", dir=folder) as name:
        image = Path(name) / "image"
        with image.open("wb") as file:
            file.truncate(load.count * load.size)
        with server(Path(name)) as socket:
            return load.rate(_elapsed_s(load, socket))


@contextmanager
def _capture_server(folder: Path) -> Iterator[Path]:
    with CaptureDisk(CaptureConfig(folder / "image", folder / "log")) as disk:
        yield disk.socket


@contextmanager
def serve_file(image: Path) -> Iterator[Path]:
    """Serves an image with nbdkit's own plugin; yields its socket.  Raises HostError."""
    with tempfile.TemporaryDirectory(prefix="pcfile-") as short:
        socket = Path(short) / "nbd"
        argv = ["nbdkit", "--foreground", "--exit-with-parent", "--unix", str(socket)]
        process = subprocess.Popen([*argv, "file", str(image)])
        try:
            deadline = time.monotonic() + _TIMEOUT_S
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise HostError("nbdkit's file plugin does not start")
                time.sleep(0.001)
            yield socket
        finally:
            process.kill()
            process.wait()


def _file_server(folder: Path) -> AbstractContextManager[Path]:
    return serve_file(folder / "image")


def _elapsed_s(load: DiskLoad, socket: Path) -> float:
    argv = ["qemu-img", "bench", "-w", "-f", "raw", "-t", "none", "-c", str(load.count)]
    argv += ["-s", str(load.size), "-d", str(load.depth)]
    if load.flush_interval:
        argv += ["--flush-interval", str(load.flush_interval), "--no-drain"]
    argv.append(f"nbd+unix:///?socket={socket}")
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise HostError("qemu-img is not installed", hint="apt-get install qemu-utils") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"qemu-img bench did not end within {_TIMEOUT_S:.0f} s") from None
    elapsed = _ELAPSED.search(done.stdout)
    if done.returncode or elapsed is None:
        raise HostError(f"qemu-img bench failed: {done.stderr.strip()}")
    return float(elapsed.group(1))
