# SPDX-License-Identifier: Apache-2.0
"""Small logs, and by plain definition what may be lost of them; for property tests.

Exposure and survival against the definition, state by state, on small logs.

The reference knows nothing of the analysis: Python sets and loops that enumerate, at
every instant, what each unit of the disk may show after a cut.  A crash state is
durable(t) with any subset of the rest; as every write may be torn at the unit, units
choose their subsets independently.  What a unit shows is a write of its subset that
no other one of the subset had to follow.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field, replace

from handmade import Handmade, history
from hypothesis import strategies as st

from powercut.model.contract import DeviceContract, Honour
from powercut.model.timeline import RequestKind, SurvivingRange
from powercut.model.units import NEVER, Instant
from powercut.wal import record as wal
from powercut.wal.layout import LayoutKind, WalLayout

UNIT = 512
CHUNKS = UNIT // wal.CHUNK
RUN_ID = bytes(range(100, 116))
RECORD = 192
PER_RECORD = RECORD // wal.CHUNK
LOG_UNITS = 2
SLOTS = LOG_UNITS * UNIT // RECORD
LSN_MAX = 2 * SLOTS + 1
DISK_UNITS = 4
RAW = WalLayout(LayoutKind.RAW, record=RECORD, capacity=LOG_UNITS * UNIT, offset=UNIT)
FILE = WalLayout(LayoutKind.APPEND, record=RECORD)

ONE_DISK = ((), frozenset())
HALVES, FIRST_UNIT = (range(2), range(2, 4)), (range(1), range(1, 4))
SEVERAL = [ONE_DISK] * 4 + [
    (disks, frozenset(liars)) for disks in (HALVES, FIRST_UNIT) for liars in ((), (0,), (1,))
]
"""The units of each of several disks, and which of them ignore flushes and FUA by themselves."""

Tag = tuple[int, int] | None  # (LSN, chunk in the record)


@functools.cache
def chunk_bytes(tag: Tag, *, wraps: bool) -> bytes:
    if tag is None:
        return bytes(wal.CHUNK)
    lsn, part = tag
    record = wal.record_bytes(
        RUN_ID,
        lsn % 3,
        lsn,
        prev_lsn=0,
        generation=(lsn - 1) // SLOTS if wraps else 0,
        position=(RAW if wraps else FILE).position_of(lsn),
        record_size=RECORD,
    )
    return record[part * wal.CHUNK : (part + 1) * wal.CHUNK]


def log_unit(unit: int, newest: int, *, wraps: bool) -> list[Tag]:
    """What unit `unit` of the log shows once records 1 to `newest` were written."""
    tags: list[Tag] = []
    for chunk in range(unit * CHUNKS, (unit + 1) * CHUNKS):
        slot, part = divmod(chunk, PER_RECORD)
        lsn = slot + 1
        while wraps and lsn + SLOTS <= newest:
            lsn += SLOTS
        tags.append((lsn, part) if lsn <= newest and slot < SLOTS else None)
    return tags


def without(timeline, promise):
    """The timeline of a disk that ignored the durability which request `promise` asked for."""
    requests = timeline.requests
    if requests.kind[promise] == RequestKind.FLUSH:
        # A flush that fails makes nothing durable (crash/sets.py, rule 5), and has no other effect.
        failed = requests.failed.copy()
        failed[promise] = True
        return replace(timeline, requests=replace(requests, failed=failed))
    fua = requests.fua.copy()
    fua[promise] = False
    return replace(timeline, requests=replace(requests, fua=fua))


@dataclass
class Op:
    kind: str
    units: dict[int, list[Tag]]
    fua: bool
    submitted: int
    completed: int | None = None
    disk: int | None = None  # of several: whose flush it is


@dataclass
class World:
    """A run that happened, as plain Python values."""

    layout: WalLayout
    contract: DeviceContract
    ops: list[Op] = field(default_factory=list)
    acks: list[tuple[int, int]] = field(default_factory=list)
    attempts: list[tuple[int, int]] = field(default_factory=list)
    cut_at: int | None = None
    kept: list[tuple[int, int]] = field(default_factory=list)  # (op, unit) that survived
    now: int = 0
    disks: tuple[range, ...] = ()  # units of each of several disks
    liars: frozenset[int] = frozenset()  # those that ignore flushes and FUA by themselves

    def disk_of(self, op):
        """Which of several disks a request is for."""
        if not op.units:
            return op.disk
        return next((n for n, units in enumerate(self.disks) if min(op.units) in units), None)

    def lies(self, op):
        return self.disk_of(op) in self.liars and (op.kind == "flush" or op.fua)

    def covers(self, flush, op):
        return flush.disk is None or flush.disk == self.disk_of(op)

    def made(self):
        made = Handmade(DISK_UNITS * UNIT, self.contract)
        for op in self.ops:
            done = NEVER if op.completed is None else op.completed
            if op.kind == "flush":
                units = range(0) if op.disk is None else self.disks[op.disk]
                disk = (units.start * UNIT, len(units) * UNIT)
                made.flush(at=op.submitted, done=done, disk=disk, ignored=self.lies(op))
                continue
            first = min(op.units)
            if op.kind == "write":
                tags = [tag for unit in sorted(op.units) for tag in op.units[unit]]
                data = b"".join(chunk_bytes(tag, wraps=self.layout.wraps) for tag in tags)
                made.write(
                    first * UNIT,
                    data,
                    at=op.submitted,
                    done=done,
                    fua=op.fua,
                    ignored=self.lies(op),
                )
            elif op.kind == "zero":
                made.zero(first * UNIT, len(op.units) * UNIT, at=op.submitted, done=done)
            else:
                made.discard(first * UNIT, len(op.units) * UNIT, at=op.submitted, done=done)
        survived = [SurvivingRange(o, u * UNIT, UNIT, Instant(0)) for o, u in self.kept]
        return made.timeline(cut_at=self.cut_at, survived=survived)

    def history(self):
        return history(self.acks, self.attempts)

    # --- the definition ------------------------------------------------------

    def issued(self, t):
        return {i for i, op in enumerate(self.ops) if op.kind != "flush" and op.submitted < t}

    def durable(self, t):
        if self.cut_at is not None:
            t = min(t, self.cut_at)
        durable = set()
        for i, op in enumerate(self.ops):
            if op.kind == "flush" or op.completed is None or not op.completed < t:
                continue
            if not self.contract.volatile_cache:
                durable.add(i)
            if op.fua and self.contract.fua is Honour.HONOURED and not self.lies(op):
                durable.add(i)
            for flush in self.ops:
                if (
                    flush.kind == "flush"
                    and self.covers(flush, op)
                    and not self.lies(flush)
                    and self.contract.flush is Honour.HONOURED
                    and op.completed < flush.submitted
                    and flush.completed is not None
                    and flush.completed < t
                ):
                    durable.add(i)
        return durable

    def precedes(self, a, b):
        done = self.ops[a].completed
        return done is not None and done < self.ops[b].submitted

    def contents(self, unit, t):
        """Everything that `unit` may show after a legal cut at `t`."""
        covers = {i for i in self.issued(t) if unit in self.ops[i].units}
        must = covers & self.durable(t)
        shown = []
        for size in range(len(covers - must) + 1):
            for more in itertools.combinations(sorted(covers - must), size):
                kept = must | set(more)
                if not kept:
                    shown.append([None] * CHUNKS)
                for last in kept:
                    if not any(self.precedes(last, other) for other in kept):
                        shown.append(self.ops[last].units[unit])
        return shown

    def required(self, t):
        acked = [lsn for lsn, ns in self.acks if ns < t or (self.cut_at is not None)]
        if self.cut_at is not None:
            acked = [lsn for lsn, ns in self.acks if min(ns, self.cut_at - 1) < t]
        attempted = [lsn for lsn, ns in self.attempts if ns < t]
        for i in self.issued(t):
            attempted += [tag[0] for tags in self.ops[i].units.values() for tag in tags if tag]
        last, newest = max(acked, default=0), max(attempted, default=0)
        return {n for n in range(1, last + 1) if not self.layout.wraps or n + SLOTS > newest}

    def lost_in_some_state(self, t):
        """Records of which some chunk may be missing after a legal cut at `t`."""
        shows = {unit: self.contents(unit, t) for unit in range(DISK_UNITS)}
        lost = set()
        for lsn in range(1, LSN_MAX + 1):
            for part in range(PER_RECORD):
                chunk = (lsn - 1) * PER_RECORD + part
                if self.layout.wraps:
                    chunk %= SLOTS * PER_RECORD
                column = chunk % CHUNKS
                units = [1 + chunk // CHUNKS] if self.layout.wraps else range(DISK_UNITS)
                if all(any(tags[column] != (lsn, part) for tags in shows[u]) for u in units):
                    lost.add(lsn)
        return lost

    def last_instant(self):
        return self.cut_at if self.cut_at is not None else self.now + 1


@st.composite
def worlds(draw, cut=False, layouts=(RAW, FILE), astray_max=3):
    """Of a raw log's writes one in `astray_max` + 1 may be in a wrong place."""
    layout = draw(st.sampled_from(layouts))
    wraps = layout.wraps
    contract = DeviceContract(
        volatile_cache=draw(st.sampled_from([True, True, True, False])),
        flush=draw(st.sampled_from([Honour.HONOURED] * 3 + [Honour.IGNORED])),
        fua=draw(st.sampled_from([Honour.HONOURED] * 3 + [Honour.IGNORED])),
    )
    world = World(layout, contract)
    world.disks, world.liars = draw(st.sampled_from(SEVERAL))
    newest = acked = 0
    steps = draw(st.integers(6, 26))
    for _ in range(steps):
        world.now += 1
        flying = [op for op in world.ops if op.completed is None]
        step = draw(st.sampled_from("wwwwfffccccccaaazn"))
        if step == "c" and flying:
            draw(st.sampled_from(flying)).completed = world.now
        elif step == "a":
            acked = max(acked, draw(st.integers(acked, newest)))
            world.acks.append((acked, world.now))
        elif step == "n":
            newest = min(LSN_MAX, newest + draw(st.integers(1, 3)))
            world.attempts.append((newest, world.now))
        elif step in "wz" and len([op for op in world.ops if op.kind != "flush"]) < 7:
            # A write may overtake the message of its attempt, hence not "newest" only.
            newest = min(LSN_MAX, newest + draw(st.integers(0, 2)))
            first = draw(st.integers(1 if wraps else 0, DISK_UNITS - 2))
            most = 1 if any(first + 1 == disk.stop for disk in world.disks) else 2
            where = range(first, first + draw(st.sampled_from([1, 1, most])))
            units = {}
            for unit in where:
                # A file may be anywhere on the disk; a raw log's write seldom goes astray.
                astray = not wraps or draw(st.integers(0, astray_max)) == 0
                source = draw(st.integers(0, LOG_UNITS - 1)) if astray else unit - 1
                shown = draw(st.sampled_from([newest, newest, newest, max(newest - 1, 0)]))
                tags = log_unit(source, shown, wraps=wraps) if source < LOG_UNITS else [None] * 8
                if draw(st.integers(0, 7)) == 0:
                    tags[draw(st.integers(0, CHUNKS - 1))] = None
                units[unit] = [None] * CHUNKS if step == "z" else tags
            kind = draw(st.sampled_from(["zero", "discard"])) if step == "z" else "write"
            fua = kind == "write" and draw(st.integers(0, 3)) == 0
            world.ops.append(Op(kind, units, fua, world.now))
        elif step == "f":
            disk = draw(st.sampled_from(range(len(world.disks)))) if world.disks else None
            world.ops.append(Op("flush", {}, False, world.now, disk=disk))
    world.attempts.append((newest, world.now + 1))
    if cut:
        world.cut_at = world.now + 1
        volatile = world.issued(world.cut_at) - world.durable(world.cut_at)
        for i in sorted(volatile):
            for unit in world.ops[i].units:
                if draw(st.booleans()):
                    world.kept.append((i, unit))
    return world
