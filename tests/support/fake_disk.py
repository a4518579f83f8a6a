# SPDX-License-Identifier: Apache-2.0
"""A disk without a disk: NBD served by threads, a medium and a volatile cache in memory.

It takes one request after the other and completes each before the next, so that nothing is in
flight at a cut but what a stop has held.  It records nothing: marks are kept in a list, and a log
is not written.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from patience import AMPLE_S

from powercut.closing import Closing
from powercut.disk.capture import CutReport, DiskStatistics
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.units import Instant

SECTOR = 512
FLAGS = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8  # flush, FUA, trim, zeroes, multi-conn
NONE = DiskStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass
class Cached:
    order: int
    offset: int
    data: bytes


class FakeDisk(Closing):
    """`powercut.disk.capture.Disk`."""

    def __init__(self, base: Path, folder: Path, contract: DeviceContract) -> None:
        self.socket = folder / "fake-nbd"
        self.marks: list[str] = []
        self._contract = contract
        self._medium = bytearray(base.read_bytes())
        self.size = len(self._medium)
        self._durable = [-1] * (self.size // SECTOR)  # the order of what lies in each sector
        self._cache: list[Cached] = []
        self._order = 0
        self._counts = NONE
        self._stop_at: int | None = None
        self._stop_in: int | None = None
        self._changed = threading.Condition()
        self._stopped = self._closed = False
        self._generation = 0
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen(8)
        self._go(self._accept)

    # What the port promises

    def cut(
        self, policy: CutPolicy, seed: int, next_log: Path | None, *, timeout_s: float
    ) -> CutReport:
        with self._changed:
            at, cached = time.monotonic_ns(), self._cache
            kept = cached[: self._survivors(policy, seed)]
            if policy is CutPolicy.RANDOM:
                draw = random.Random(seed)
                kept = [one for one in cached if draw.random() < 0.5]
            for one in kept:
                self._to_medium(one)
            lost = len(cached) - len(kept)
            lost_bytes = sum(len(one.data) for one in cached) - sum(len(one.data) for one in kept)
            self._cache, self._counts = [], NONE
            self._stop_at = self._stop_in = None
            self._stopped = False
            self._generation += 1
            self._hang_up()
            self._changed.notify_all()
        return CutReport(Instant(at), lost, lost_bytes, len(kept))

    def stop_at_flush(self, count: int) -> None:
        with self._changed:
            self._stop_at = count

    def stop_after(self, completions: int, *, taking: bool) -> None:
        with self._changed:
            self._stop_in = completions
            if not completions:
                self._stopped = True
                self._changed.notify_all()

    def wait_stopped(self, *, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._stopped, timeout_s)

    def mark(self, name: str) -> None:
        self.marks.append(name)

    def statistics(self) -> DiskStatistics:
        with self._changed:
            volatile = sum(len(one.data) for one in self._cache)
            return replace(self._counts, volatile_writes=len(self._cache), volatile_bytes=volatile)

    def snapshot(self, path: Path) -> None:
        with self._changed:
            path.write_bytes(self._medium)

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._generation += 1
            self._listener.shutdown(socket.SHUT_RDWR)
            self._hang_up()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(AMPLE_S)
            assert not thread.is_alive()
        self._listener.close()
        self.socket.unlink(missing_ok=True)

    # What a request does; all with `_changed` held

    def _survivors(self, policy: CutPolicy, seed: int) -> int:
        if policy is CutPolicy.PREFIX:
            return random.Random(seed).randint(0, len(self._cache))
        return len(self._cache) if policy is CutPolicy.KEEP else 0

    def _to_medium(self, one: Cached) -> None:
        for at in range(0, len(one.data), SECTOR):
            sector = (one.offset + at) // SECTOR
            if self._durable[sector] < one.order:  # nothing older overwrites what is durable
                self._durable[sector] = one.order
                start = one.offset + at
                self._medium[start : start + SECTOR] = one.data[at : at + SECTOR]

    def _write(self, offset: int, data: bytes, *, fua: bool) -> None:
        one = Cached(self._order, offset, data)
        self._order += 1
        contract = self._contract
        if not contract.volatile_cache or (fua and contract.fua is Honour.HONOURED):
            self._to_medium(one)
            return
        self._cache.append(one)
        while contract.cache_size and sum(len(c.data) for c in self._cache) > contract.cache_size:
            self._to_medium(self._cache.pop(0))

    def _flush(self) -> None:
        if self._contract.flush is Honour.HONOURED:
            for one in self._cache:
                self._to_medium(one)
            self._cache = []

    def _view(self) -> bytes:
        seen, orders = bytearray(self._medium), list(self._durable)
        for one in self._cache:
            for at in range(0, len(one.data), SECTOR):
                sector = (one.offset + at) // SECTOR
                if orders[sector] < one.order:
                    orders[sector] = one.order
                    start = one.offset + at
                    seen[start : start + SECTOR] = one.data[at : at + SECTOR]
        return bytes(seen)

    def _do(self, command: int, flags: int, offset: int, length: int, data: bytes) -> bytes:
        fua = bool(flags & 1)
        if command == 0:
            return self._view()[offset : offset + length]
        if command == 3:
            self._flush()
            return b""
        self._write(offset, data or bytes(length), fua=fua)
        counts = replace(self._counts, fua_writes=self._counts.fua_writes + fua)
        if command == 1:
            written = counts.write_bytes + length
            self._counts = replace(counts, writes=counts.writes + 1, write_bytes=written)
        elif command == 4:
            self._counts = replace(counts, discards=counts.discards + 1)
        else:
            self._counts = replace(counts, zeroes=counts.zeroes + 1)
        return b""

    def _held(self, command: int, generation: int) -> bool:
        """Whether a request is never answered since the disk has stopped; waits for the cut."""
        if command == 3:
            self._counts = replace(self._counts, flushes=self._counts.flushes + 1)
            if self._counts.flushes == self._stop_at:
                self._stopped = True
                self._changed.notify_all()
        self._changed.wait_for(lambda: not self._stopped or self._generation != generation)
        return self._generation != generation

    # Connections

    def _go(self, what, *words) -> None:
        thread = threading.Thread(target=what, args=words, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _hang_up(self) -> None:
        for one in self._connections:
            with contextlib.suppress(OSError):  # its client was first
                one.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._connections.append(connection)
                generation = self._generation
            self._go(self._serve, connection, generation)

    def _serve(self, connection: socket.socket, generation: int) -> None:
        with connection, connection.makefile("rb") as said:
            try:
                self._greet(connection, said)
                while self._answer(connection, said, generation):
                    pass
            except (OSError, struct.error):
                return  # hung up

    def _greet(self, connection, said) -> None:
        connection.sendall(struct.pack(">8s8sH", b"NBDMAGIC", b"IHAVEOPT", 3))
        said.read(4)
        _, option, length = struct.unpack(">8sII", said.read(16))
        said.read(length)
        info = struct.pack(">HQH", 0, self.size, FLAGS)
        for kind, body in ((3, info), (1, b"")):
            head = struct.pack(">QIII", 0x3E889045565A9, option, kind, len(body))
            connection.sendall(head + body)

    def _answer(self, connection, said, generation: int) -> bool:
        head = struct.unpack(">IHHQQI", said.read(28))
        _, flags, command, handle, offset, length = head
        if command == 2:
            return False
        data = said.read(length) if command == 1 else b""
        with self._changed:
            if self._generation != generation or self._held(command, generation):
                return False
            read = self._do(command, flags, offset, length, data)
            if self._stop_in:
                self._stop_in -= 1
                self._stopped = not self._stop_in
                self._changed.notify_all()
        connection.sendall(struct.pack(">IIQ", 0x67446698, 0, handle) + read)
        return True
