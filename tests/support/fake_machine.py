# SPDX-License-Identifier: Apache-2.0
"""A machine without a machine: a thread that speaks for the guest, and writes to a disk.

The disk is served by NBD and recorded; or it is the machine's own (`FakeLiveBackend`), and nobody
sees what it is asked.  The channel, the recorded disk and everything that records and judges are
the real ones.  So what a trial does about cuts, trouble and deadlines is tested with it in
milliseconds.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from nbd_client import NbdClient
from patience import AMPLE_S

from powercut.channel.guest_channel import GuestChannel
from powercut.channel.wire import Decoder, Message, MessageType, encode
from powercut.closing import Closing
from powercut.machine.port import Ended, MachineAndChannel, MachineSpec, NbdDisk, OwnDisk, Part
from powercut.model.binding import NOT_BOUND
from powercut.model.errors import HostError
from powercut.model.machine import Move, Restart
from powercut.model.verdict import EvidenceLevel
from powercut.paths import CACHE, WAL_BINARY
from powercut.rig.rig import Rig
from powercut.scenario.machines import MACHINES, MachineRow
from powercut.scenario.settings import AcceleratorChoice
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

HELLO = b"agent=1\nrelease=6.1-fake\n"


@dataclass
class Behaviour:
    """What the guest does, and what goes wrong with it.

    `syncs`: it flushes before each ack.  After so many acks it falls silent (`hangs_after`), its
    machine ends in order (`ends_after`) or is gone at once (`dies_after`); or nothing that it says
    any more arrives (`unheard_after`), while it goes on up to record `last`.  `lies`: a disk of its
    own flushes nothing.  After each of `moves_after` it waits until it has moved once more, or was
    restarted.  `holds_until_restart`: the machine keeps writes and flushes to itself, and loses
    them when the guest is restarted.
    """

    starts: bool = True
    says_hello: bool = True
    write_cache: str = "write back"
    syncs: bool = True
    hangs_after: int | None = None
    ends_after: int | None = None
    dies_after: int | None = None
    unheard_after: int | None = None
    last: int | None = None
    lies: bool = False
    fails: str = ""  # a command that fails
    moves_after: tuple[int, ...] = ()
    drops_flushes_after_move: bool = False
    holds_until_restart: bool = False
    begins_again: bool = False  # at record 1, when it is restarted
    arrives: bool = True  # when it moves
    disks: tuple[str, ...] = ()  # that it has before one is plugged in
    finds_plugged: bool = True


class Device(Protocol):
    """The disk as the guest of a fake machine has it."""

    def connect(self, timeout_s: float) -> None: ...
    def write(self, offset: int, data: bytes) -> None: ...
    def flush(self) -> None: ...
    def interrupt(self) -> None: ...
    def close(self, *, power_lost: bool) -> None: ...
    def read_log(self, argv: list[str]) -> bytes: ...


class ServedDevice:
    """A disk that is served by NBD, and recorded on the other side."""

    def __init__(self, disk: Path) -> None:
        self._disk, self._nbd = disk, None

    def connect(self, timeout_s: float) -> None:
        self._nbd = NbdClient(self._disk, timeout_s=timeout_s)

    def write(self, offset: int, data: bytes) -> None:
        self._nbd.write(offset, data)

    def flush(self) -> None:
        self._nbd.flush()

    def interrupt(self) -> None:
        if self._nbd is not None:
            with contextlib.suppress(OSError):
                self._nbd._socket.shutdown(socket.SHUT_RDWR)

    def close(self, *, power_lost: bool) -> None:
        if self._nbd is not None:
            self._nbd.close()

    def read_log(self, argv: list[str]) -> bytes:
        raise AssertionError("what is recorded is read on the host")


class OwnDevice:
    """A disk of the machine's own with a volatile cache: a file that outlives the machine."""

    def __init__(self, disk: OwnDisk, *, lies: bool) -> None:
        self._disk, self._lies = disk, lies
        self._medium = disk.folder / "medium"
        self._cache: list[tuple[int, bytes]] = []

    def connect(self, timeout_s: float) -> None:
        if not self._medium.exists():
            shutil.copy(self._disk.base, self._medium)
            self._medium.chmod(0o600)

    def write(self, offset: int, data: bytes) -> None:
        self._cache.append((offset, data))

    def flush(self) -> None:
        if not self._lies:
            self._write_back()

    def interrupt(self) -> None:
        """It answers at once."""

    def close(self, *, power_lost: bool) -> None:
        if not power_lost:
            self._write_back()
        self._cache.clear()

    def read_log(self, argv: list[str]) -> bytes:
        words = [word for word in argv if not word.startswith(("path=", "channel="))]
        read = [str(WAL_BINARY), *words, f"path={self._medium}", "channel=fd:1"]
        return subprocess.run(read, stdout=subprocess.PIPE, check=True).stdout

    def _write_back(self) -> None:
        if not self._cache:
            return
        with self._medium.open("r+b") as file:
            for offset, data in self._cache:
                file.seek(offset)
                file.write(data)
        self._cache.clear()


class FakeMachine(Closing):
    """A `Machine` that can lose its power."""

    def __init__(self, disk: Device, channel: GuestChannel, behaviour: Behaviour) -> None:
        self._disk, self._channel, self._behaviour = disk, channel, behaviour
        self._socket: socket.socket | None = None
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sending = threading.Lock()
        self._plugged = False
        self._moved = threading.Condition()
        self._waits_to_move = False
        self._flushes = behaviour.syncs
        self._boots = 0
        self.ended: Ended | None = None
        self.asked: list[list[str]] = []
        self.moves: list[Move | Restart] = []
        self.wrote_last = threading.Event()
        self.diagnosis = "a fake machine"

    # What the port promises

    def start(self, *, timeout_s: float) -> None:
        if self._threads or self.ended is not None:
            raise HostError("a machine is started once")
        if not self._behaviour.starts:
            raise HostError("the fake machine was told not to start")
        self._disk.connect(timeout_s)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        self._socket.connect(str(self._channel.address))
        self._go(self._listen)

    def crash(self, *, timeout_s: float) -> None:
        if not self.running:
            raise HostError("the machine was gone before the crash")
        self.kill(timeout_s=timeout_s)
        self.ended = Ended.BY_ITSELF

    def kill(self, *, timeout_s: float) -> None:
        self._end(timeout_s, power_lost=False)

    def lose_power(self, *, timeout_s: float) -> None:
        if self._behaviour.last is not None:
            assert self.wrote_last.wait(timeout_s)
        self._end(timeout_s, power_lost=True)

    def plug_disk(self, *, timeout_s: float) -> None:
        assert self.running
        self._plugged = self._behaviour.finds_plugged

    def move(self, how: Move, *, timeout_s: float) -> int:
        """Between two commits, so that it is known which are made where."""
        with self._moved:
            assert self._moved.wait_for(lambda: self._waits_to_move, timeout_s)
            self._waits_to_move = False
        with self._moved, self._sending:
            stopped_ns = self._connect_anew(timeout_s)
            self._flushes &= not self._behaviour.drops_flushes_after_move
            self.moves.append(how)
            self._go(self._listen)
            self._moved.notify_all()
        return stopped_ns

    def restart(self, how: Restart, *, timeout_s: float) -> int:
        """Between two commits, too; what the guest was about to say breaks off."""
        with self._moved:
            assert self._moved.wait_for(lambda: self._waits_to_move, timeout_s)
            self._waits_to_move = False
        with self._moved, self._sending:
            self._socket.sendall(encode(Message(MessageType.ACK, lsn=1 << 20))[:-9])
            stopped_ns = self._connect_anew(timeout_s)
            self._boots += 1
            self.moves.append(how)
            self._go(self._listen)
            self._moved.notify_all()
        return stopped_ns

    def _connect_anew(self, timeout_s: float) -> int:
        """Leaves the channel and comes back; the instant when it began to."""
        stopped_ns = time.monotonic_ns()
        before, self._socket = self._socket, socket.socket(socket.AF_UNIX)
        before.shutdown(socket.SHUT_RDWR)
        if not self._behaviour.arrives:
            raise HostError("the fake machine was told to get lost")
        self._socket.settimeout(timeout_s)
        self._socket.connect(str(self._channel.address))
        return stopped_ns

    def came_up(self, *, timeout_s: float) -> None:
        """It ends by itself when told so."""

    def _end(self, timeout_s: float, *, power_lost: bool) -> None:
        started = bool(self._threads)
        self._stopped.set()
        self._disk.interrupt()
        with self._moved:
            self._moved.notify_all()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)
                assert not thread.is_alive()
        self._disk.close(power_lost=power_lost)
        if self._socket is not None:
            self._socket.close()
        if started and self.ended is None:
            self.ended = Ended.KILLED

    @property
    def running(self) -> bool:
        return bool(self._threads) and not self._stopped.is_set()

    def close(self) -> None:
        self.kill(timeout_s=AMPLE_S)

    # The guest

    def _go(self, what, *words) -> None:
        thread = threading.Thread(target=what, args=words, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _say(self, kind: MessageType, **fields) -> None:
        assert self._socket is not None
        with self._sending:
            self._socket.sendall(encode(Message(kind, guest_ns=time.monotonic_ns(), **fields)))

    def _listen(self) -> None:
        decoder, own = Decoder(), self._socket
        assert own is not None
        with contextlib.suppress(OSError):
            while data := own.recv(65536):
                for message in decoder.feed(data):
                    if message.type is MessageType.PING:
                        self._say(MessageType.PONG, lsn=message.lsn, value=message.value)
                    else:
                        self._obey(message.lsn, message.payload.decode().split("\0")[:-1])
        if own is not self._socket:  # it has moved
            own.close()

    def _obey(self, command: int, argv: list[str]) -> None:
        self.asked.append(argv)
        if argv[0] == "hello" and not self._behaviour.says_hello:
            return
        if argv[0] == "exec" and argv[2] == "write":
            self._go(self._work, command, argv[3:])
            return
        if argv[0] == "exec" and argv[2] == "read":
            assert self._socket is not None
            with self._sending:
                self._socket.sendall(self._disk.read_log(argv[2:]))
        if argv[0] == "hello":
            disks = ",".join((*self._behaviour.disks, *(("vda",) if self._plugged else ())))
            self._say(MessageType.HELLO, payload=HELLO + f"disks={disks}\n".encode())
        if argv[0] == "facts":
            for fact in (f"write_cache={self._behaviour.write_cache}", "fua=0"):
                self._say(MessageType.FACT, payload=fact.encode())
        self._say(MessageType.DONE, lsn=command, value=int(argv[0] == self._behaviour.fails))

    def _work(self, command: int, words: list[str]) -> None:
        """What `wal write` does on a raw device, one record after the other."""
        del command
        boot = self._boots
        told = dict(word.split("=", 1) for word in words)
        record, capacity = int(told["record"]), int(told.get("capacity", 0))
        layout = WalLayout(LayoutKind(told["layout"]), record, int(told["align"]), capacity)
        run_id, lsn = bytes.fromhex(told["run_id"]), int(told.get("first_lsn", 1)) - 1
        if boot and self._behaviour.begins_again:
            lsn = 0
        with contextlib.suppress(OSError):
            self._say(MessageType.READY)
            while not self._stopped.is_set():
                if lsn == self._behaviour.hangs_after:
                    return
                if lsn in (self._behaviour.ends_after, self._behaviour.dies_after):
                    by_itself = lsn == self._behaviour.ends_after
                    self.ended = Ended.BY_ITSELF if by_itself else None
                    self.kill(timeout_s=AMPLE_S)
                    return
                if lsn == self._behaviour.last:
                    self.wrote_last.set()
                    return
                if lsn in self._behaviour.moves_after:
                    self._wait_moved(1 + self._behaviour.moves_after.index(lsn))
                    if self._boots > boot:
                        return
                lsn += 1
                with self._moved:
                    self._commit(run_id, lsn, layout, syncs=told["sync"] != "none")

    def _wait_moved(self, times: int) -> None:
        with self._moved:
            self._waits_to_move = len(self.moves) < times
            self._moved.notify_all()
            self._moved.wait_for(lambda: self._stopped.is_set() or len(self.moves) >= times)

    def _commit(self, run_id: bytes, lsn: int, layout: WalLayout, *, syncs: bool) -> None:
        unheard = self._behaviour.unheard_after
        heard = unheard is None or lsn <= unheard
        if heard:
            self._say(MessageType.ATTEMPT, lsn=lsn)
        generation = int(layout.generations_of(np.array([lsn], dtype=np.uint64))[0])
        place = layout.position_of(lsn)
        data = record_bytes(
            run_id, 0, lsn, prev_lsn=lsn - 1, generation=generation,
            position=place, record_size=layout.record,
        )  # fmt: skip
        if self._boots or not self._behaviour.holds_until_restart:
            self._disk.write(place, data.ljust(layout.stride, b"\0"))
        if self._flushes and syncs:
            self._disk.flush()
        if heard:
            self._say(MessageType.ACK, lsn=lsn)


class FakeBackend:
    """Machines of one behaviour; a `MachineBackend`."""

    def __init__(self, cache: Path | None = None, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.made: list[FakeMachine] = []
        self.machine: type[FakeMachine] = FakeMachine

    def problems(self, settings) -> tuple[str, ...]:
        return () if self.behaviour.starts else ("the fake machine was told not to start",)

    def options(self, settings) -> object:
        return None

    def describe(self, spec: MachineSpec, folder: Path) -> list[str]:
        return ["fake", str(spec.memory_mib), str(folder)]

    def identity(self, spec: MachineSpec) -> tuple[Part, ...]:
        return (Part("hypervisor", "fake", "1"),)

    def versions(self, spec: MachineSpec) -> dict[str, str]:
        return {"kernel_release": "6.1-fake"}

    def environment(self, accelerators: Iterable[AcceleratorChoice]) -> dict[str, object]:
        return {"hypervisor": "fake"}

    def emulates(self, accelerator: AcceleratorChoice) -> bool:
        return False

    def device(self, spec: MachineSpec) -> Device:
        disk = spec.attachments[0].disk
        assert isinstance(disk, NbdDisk)
        return ServedDevice(disk.socket)

    @contextlib.contextmanager
    def open(
        self,
        spec: MachineSpec,
        folder: Path,
        *,
        history: Path | None = None,
        digest: bytes = NOT_BOUND,
    ) -> Iterator[MachineAndChannel]:
        device = self.device(spec)
        with GuestChannel.on_unix(folder / "ctl", history_file=history, digest=digest) as channel:
            machine = self.machine(device, channel, self.behaviour)
            self.made.append(machine)
            with machine:
                yield MachineAndChannel(machine, channel)


class FakeLiveBackend(FakeBackend):
    """Machines with disks of their own, of which nobody sees a request."""

    lies = False

    def device(self, spec: MachineSpec) -> Device:
        disk = spec.attachments[0].disk
        assert isinstance(disk, OwnDisk)
        return OwnDevice(disk, lies=self.lies or self.behaviour.lies)


FAKE = MachineRow(f"{FakeBackend.__module__}:FakeBackend")
FAKE_LIVE = MachineRow(f"{FakeBackend.__module__}:FakeLiveBackend", EvidenceLevel.LIVE_ONLY)
"""Rows of the table of machines."""

BOTH_SIDES = """powercut: 1
name: far
machine: {backend: fake}
filesystem: {type: raw}
disk: {size: 4MiB, flush_latency: 50ms, fua_latency: 50ms}
workload: {layout: raw, record: 512, capacity: 2MiB}
explore: {budget: "off"}
cut: {trigger: {acks: 10}}
trials: 3
cells:
  - {name: honest}
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}
"""
"""A scenario for it."""


def runs_on_it(patch: pytest.MonkeyPatch) -> None:
    """`run_scenarios` has such machines."""
    patch.setitem(MACHINES, "fake", FAKE)
    patch.setattr("powercut.campaign.runner.ready_rig", lambda *_: Rig(CACHE, FakeBackend()))
