# SPDX-License-Identifier: Apache-2.0
"""Real guests: booted, killed, hung, panicking, orphaned."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from stopped import stop

from powercut.channel import wire
from powercut.channel.history_file import read_history
from powercut.channel.port import GuestFailed
from powercut.channel.wire import Decoder, MessageType
from powercut.machine.port import FileDisk, NbdDisk
from powercut.machine.qemu.machine import Lifecycle, Origin
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.machine import CacheMode
from powercut.paths import WAL_BINARY
from powercut.wal.layout import SlotState

pytestmark = pytest.mark.usefixtures("nothing_is_left")

START_S = 120
RUN_ID = "00112233445566778899aabbccddeeff"
LOG = [f"run_id={RUN_ID}", "layout=raw", "record=512", "align=512", "capacity=33554432"]
WRITE = ["exec", "/bin/wal", "write", *LOG, "path=/dev/vda", "sync=fdatasync", "channel=fd:3"]
READ = ["read", *LOG]


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + START_S
    while Path(f"/proc/{pid}").exists():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def intact(image: Path, offset: int = 0) -> list[int]:
    """LSNs of the whole records in an image, read on the host by the workload's own reader."""
    command = [str(WAL_BINARY), *READ, f"path={image}", f"offset={offset}"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    lsns = []
    for message in Decoder().feed(said):
        if message.type is MessageType.EXTENT:
            for extent in wire.decode_extents(message.payload):
                if extent.state is SlotState.INTACT:
                    lsns += range(extent.lsn, extent.lsn + extent.count)
    return lsns


@pytest.mark.parametrize("kind", ["nbd", "file"])
def test_a_guest_boots_works_and_is_killed(make_machine, nbd_server, kind, runtime):
    server = nbd_server()
    disk = NbdDisk(server.socket) if kind == "nbd" else FileDisk(server.image)
    with make_machine(disk, cache=CacheMode.WRITEBACK) as (machine, channel):
        assert (machine.state, machine.running) == (Lifecycle.NEW, False)
        machine.start(timeout_s=START_S)
        assert (machine.state, machine.origin, machine.running) == (
            Lifecycle.RUNNING,
            Origin.BOOT,
            True,
        )
        hello = channel.wait_hello(timeout_s=START_S)
        assert hello["disks"] == "vda"
        assert hello["release"] == machine.spec.guest.kernel_release
        facts = channel.run("facts", "vda", timeout_s=START_S).facts
        assert facts["write_cache"] == "write back"
        assert int(facts["size"]) == (64 << 20) // 512
        channel.start(*WRITE)
        channel.wait_ready(timeout_s=START_S)
        assert channel.wait_acks(200, timeout_s=START_S)
        machine.kill(timeout_s=START_S)
        assert not machine.running
        machine.kill(timeout_s=START_S)  # idempotent
        history = channel.drain(timeout_s=START_S)
        assert machine.state is Lifecycle.ENDED
        assert "killed by signal 9" in machine.diagnosis
    assert history.acked >= 200
    assert history.attempted >= history.acked
    assert history.ack_lsn.tolist() == list(range(1, history.acked + 1))
    # A kill alone loses nothing: QEMU had handed on what it acknowledged.
    assert intact(server.image)[: history.acked] == list(range(1, history.acked + 1))
    read = read_history(runtime / "m1" / "history.bin")
    assert read.complete
    assert read.history.ack_ns.tolist() == history.ack_ns.tolist()


def test_a_crash_takes_the_guest_and_ends_qemu_in_order(make_machine, nbd_server, templates):
    server = nbd_server()
    with make_machine(NbdDisk(server.socket), templates=templates) as (machine, channel):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        channel.start(*WRITE)
        assert channel.wait_acks(50, timeout_s=START_S)
        machine.crash(timeout_s=START_S)
        assert "exit status 0" in machine.diagnosis
        history = channel.drain(timeout_s=START_S)
        assert not machine.running
        with pytest.raises(HostError, match="gone before the crash"):
            machine.crash(timeout_s=START_S)
    assert intact(server.image)[: history.acked] == list(range(1, history.acked + 1))


@pytest.mark.parametrize(
    ("mode", "cache"),
    [
        (CacheMode.NONE, "write back"),
        (CacheMode.WRITEBACK, "write back"),
        (CacheMode.UNSAFE, "write back"),
        (CacheMode.WRITETHROUGH, "write through"),
        (CacheMode.DIRECTSYNC, "write through"),
    ],
)
def test_the_guest_sees_the_cache_mode(make_machine, nbd_server, mode, cache, templates):
    disk = FileDisk(nbd_server().image)
    with make_machine(disk, cache=mode, templates=templates) as (machine, channel):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        facts = channel.run("facts", "vda", timeout_s=START_S).facts
    assert (facts["write_cache"], facts["fua"]) == (cache, "0")


def test_a_panic_leaves_its_words_and_ends_the_wait(make_machine, nbd_server):
    disk = NbdDisk(nbd_server().socket)
    with make_machine(disk, kernel_arguments=("rdinit=/nonexistent",)) as (machine, channel):
        machine.start(timeout_s=START_S)
        with pytest.raises(GuestFailed, match="connection to the guest ended"):
            channel.wait_hello(timeout_s=START_S)
        machine._hypervisor.process.wait(START_S)
        assert "Kernel panic - not syncing" in machine.diagnosis
        assert "exit status 0" in machine.diagnosis
        assert channel.drain(timeout_s=START_S).acked == 0


def test_a_guest_that_hangs_misses_its_deadline_and_can_be_killed(
    make_machine, nbd_server, templates
):
    with make_machine(NbdDisk(nbd_server().socket), templates=templates) as (machine, channel):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        channel.start(*WRITE)
        assert channel.wait_acks(10, timeout_s=START_S)
        stop(machine._hypervisor.process.pid)
        assert not channel.wait_acks(2**62, timeout_s=0.2)
        with pytest.raises(DeadlineExceeded, match="sync"):
            channel.run("sync", timeout_s=0.2)
        machine.kill(timeout_s=START_S)
        assert channel.drain(timeout_s=START_S).acked >= 10


def test_a_qemu_that_dies_ends_the_wait_at_once(make_machine, nbd_server, templates):
    with make_machine(NbdDisk(nbd_server().socket), templates=templates) as (machine, channel):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        channel.start(*WRITE)
        assert channel.wait_acks(10, timeout_s=START_S)
        os.kill(machine._hypervisor.process.pid, signal.SIGSEGV)
        with pytest.raises(GuestFailed, match="connection to the guest ended"):
            channel.wait_acks(2**62, timeout_s=3600)
        history = channel.drain(timeout_s=START_S)
        machine._hypervisor.process.wait(START_S)
        assert "killed by signal 11" in machine.diagnosis
    assert history.acked >= 10


def test_a_disk_that_dies_is_the_guests_to_see_and_stops_nothing(
    make_machine, nbd_server, children_named, templates
):
    server = nbd_server()
    with make_machine(NbdDisk(server.socket), templates=templates) as (machine, channel):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        channel.start(*WRITE)
        assert channel.wait_acks(10, timeout_s=START_S)
        for pid in children_named("nbdkit"):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(GuestFailed, match="EIO"):
            channel.wait_acks(2**62, timeout_s=3600)
        assert channel.wait_done(timeout_s=START_S).status != 0
        assert channel.run("stat", "vda", timeout_s=START_S).status == 0
        machine.kill(timeout_s=START_S)
        assert "EIO" in channel.drain(timeout_s=START_S).error


def test_a_thread_that_ends_does_not_take_its_machine_along(make_machine, nbd_server, templates):
    with make_machine(NbdDisk(nbd_server().socket), templates=templates) as (machine, channel):
        thread = threading.Thread(target=machine.start, kwargs={"timeout_s": START_S})
        thread.start()
        thread.join()
        assert channel.wait_hello(timeout_s=START_S)["disks"] == "vda"
        assert machine.running


CONTROLLER = """
import sys
from pathlib import Path
from powercut.channel.guest_channel import GuestChannel
from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.port import FileDisk
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.machine import QemuMachine
directory = Path(sys.argv[1])
spec = QemuSpec(
    ensure_guest_image(), FileDisk(directory / "disk1"), directory / "ctl", directory / "qmp"
)
channel = GuestChannel.on_unix(spec.channel)
machine = QemuMachine(spec, directory)
machine.start(timeout_s=120)
channel.wait_hello(timeout_s=120)
sys.stdout.write(f"{machine._hypervisor.process.pid}\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_sigkill_of_the_controller_leaves_no_qemu(guest_image, nbd_server, runtime):
    nbd_server()
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(runtime)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with controller:
        pid = int(controller.stdout.readline())
        assert "qemu" in Path(f"/proc/{pid}/comm").read_text()
        controller.kill()
        controller.wait()
        wait_gone(pid)


def test_a_launch_that_fails_says_why_and_leaves_nothing(make_machine, nbd_server, runtime):
    disk = FileDisk(nbd_server().image)
    with make_machine(disk, memory_mib=1 << 30) as (machine, _channel):
        with pytest.raises(HostError) as caught:
            machine.start(timeout_s=START_S)
        message = str(caught.value)
        assert "command: " in message
        assert "exit status 1" in message
        assert "cannot set up guest memory" in message or "Cannot allocate memory" in message
        assert machine.state is Lifecycle.FAILED
        assert not (runtime / "m1" / "qmp").exists()
        with pytest.raises(HostError, match="started once; this one is 'failed'"):
            machine.start(timeout_s=START_S)
