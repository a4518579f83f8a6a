# SPDX-License-Identifier: Apache-2.0
"""What tests with real guests share: the guest image, NBD servers, short-lived directories."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from powercut.channel.guest_channel import GuestChannel
from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.port import FileDisk, GuestImage, NbdDisk
from powercut.machine.qemu.machine import QemuMachine
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.template import TemplateStore
from powercut.scenario.choices import FLUSH_LATENCY_NS, DiskModel

START_S = 120
"""Deadline for what normally takes a second; only a failure or a very busy host gets there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def guest_image() -> GuestImage:
    for program in ("qemu-system-x86_64", "nbdkit"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; `powercut doctor` says how to get it")
    return ensure_guest_image()


@pytest.fixture(scope="module", autouse=True)
def flushes_take_longer_than_a_busy_host() -> Iterator[None]:
    """Disks take 10 ms for a flush, where the scenario says nothing, instead of 1 ms.

    The instant of an ack was known to within 6 ms where seven processes wanted two processors.
    A verdict then rests on syncs that take longer; else it is INCONCLUSIVE, as it must be.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FLUSH_LATENCY_NS, DiskModel.TYPICAL, 10_000_000)
        yield


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory whose path is short enough for sockets, empty again at the end."""
    directory = Path(tempfile.mkdtemp(prefix="pc-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> TemplateStore:
    """A store of this session's own, all of its processes': the first machine of a kind makes its
    template."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each has a folder below the session's
        folder = folder.parent
    (store := folder / "templates").mkdir(exist_ok=True)
    return TemplateStore(store, GuestChannel.on_unix)


def children(*names: str) -> list[int]:
    """Processes that this one started and that still run a program of one of `names`."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            state, parent = rest.split()[:2]
            if int(parent) == os.getpid() and state != "Z" and name.startswith(names):
                found.append(int(entry.name))
    return found


@pytest.fixture
def children_named() -> Callable[..., list[int]]:
    """Processes that this one started and that run a program whose name begins so."""
    return children


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """Fails the test if a process that it started is still there after it."""
    yield
    assert children("qemu-system", "nbdkit", "setpriv") == []


@dataclass
class NbdServer:
    """A running nbdkit over an image file."""

    socket: Path
    image: Path
    log: Path


@pytest.fixture
def nbd_server(runtime: Path) -> Iterator[Callable[..., NbdServer]]:
    """Starts nbdkit over a new image file; `filters` as on its command line."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start(size: int = 64 << 20, *, plugin: list[str] | None = None) -> NbdServer:
            nonlocal count
            count += 1
            image, socket = runtime / f"disk{count}", runtime / f"nbd{count}"
            log = runtime / f"nbd{count}.log"
            image.touch()
            os.truncate(image, size)
            words = plugin or ["--filter=log", "file", "@IMAGE@", "logfile=@LOG@"]
            words = [w.replace("@IMAGE@", str(image)).replace("@LOG@", str(log)) for w in words]
            ready = runtime / f"nbd{count}.pid"  # written once it listens
            command = ["nbdkit", "-f", "-P", str(ready), "-U", str(socket), *words]
            process = subprocess.Popen(command)
            stack.callback(process.wait)
            stack.callback(process.terminate)  # the eval plugin removes its scripts then
            deadline = time.monotonic() + START_S
            while not ready.exists():
                assert process.poll() is None, "nbdkit did not start"
                assert time.monotonic() < deadline
                time.sleep(0.005)
            return NbdServer(socket, image, log)

        yield start


MakeMachine = Callable[..., AbstractContextManager[tuple[QemuMachine, GuestChannel]]]


@pytest.fixture
def make_machine(guest_image: GuestImage, runtime: Path) -> MakeMachine:
    """Makes a machine that is off, with its channel; both are gone when the context is left."""
    count = 0

    @contextlib.contextmanager
    def make(
        disk: NbdDisk | FileDisk, *, templates: TemplateStore | None = None, **fields: object
    ) -> Iterator[tuple[QemuMachine, GuestChannel]]:
        nonlocal count
        count += 1
        directory = runtime / f"m{count}"
        directory.mkdir()
        spec = QemuSpec(guest_image, disk, directory / "ctl", directory / "qmp", **fields)  # type: ignore[arg-type]
        with (
            GuestChannel.on_unix(spec.channel, history_file=directory / "history.bin") as channel,
            QemuMachine(spec, directory, templates=templates) as machine,
        ):
            yield machine, channel

    return make
