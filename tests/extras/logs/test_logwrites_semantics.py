# SPDX-License-Identifier: Apache-2.0
"""What an imported log claims, against the truth of the run that made it.

A small simulator runs requests with free submissions and completions, knows from the
definition what was durable at every instant, and logs as the documents of the kernel
and of QEMU say.  The reader sees only the log.
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from powercut.model.timeline import RequestKind, Timeline
from powercut_extras.logs.logs import Dialect, Reading, read_log, to_timeline

SIZE = 512
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


@dataclass
class Request:
    kind: str  # plain, fua, discard, flush
    place: int  # its own sector: which write is on the disk can be read off
    submitted: int
    completed: int | None = None


@dataclass
class Run:
    """Everything that happened, and the log that the disk's stack made of it."""

    requests: list[Request] = field(default_factory=list)
    log: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    logged_at: list[int] = field(default_factory=list)  # the true instant of each entry
    now: int = 0

    def entry(self, sector, count, flags, data=b""):
        self.log.append((sector, count, flags, data))
        self.logged_at.append(self.now)

    def write_entry(self, request, fua=FUA):
        flags = {"plain": 0, "fua": fua, "discard": DISCARD}[request.kind]
        data = b"" if request.kind == "discard" else bytes([request.place % 256]) * SIZE
        self.entry(request.place, 1, flags, data)

    def durable(self, at):
        """Places that survive a cut right after `at`, from the definition."""
        flushes = [
            r.submitted
            for r in self.requests
            if r.kind == "flush" and r.completed is not None and r.completed <= at
        ]
        last = max(flushes, default=-1)
        return {
            r.place
            for r in self.requests
            if r.kind != "flush"
            and r.completed is not None
            and ((r.kind == "fua" and r.completed <= at) or r.completed < last)
        }

    def issued(self, at):
        return {r.place for r in self.requests if r.kind != "flush" and r.submitted <= at}

    def completed(self, at):
        return {
            r.place
            for r in self.requests
            if r.kind != "flush" and r.completed is not None and r.completed <= at
        }

    def flushing(self, at):
        return any(
            r.kind == "flush" and r.submitted <= at and (r.completed is None or r.completed > at)
            for r in self.requests
        )

    def image(self, count):
        out = bytearray(SIZE)
        struct.pack_into("<QQQI", out, 0, 0x6A736677736872, 1, count, SIZE)
        for sector, sectors, flags, data in self.log:
            head = bytearray(SIZE)
            name = data if flags & MARK else b""
            struct.pack_into("<QQQQ", head, 0, sector, sectors, flags, len(name))
            head[32 : 32 + len(name)] = name
            out += head
            if not flags & MARK:
                out += data
        return bytes(out)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["plain", "plain", "fua", "discard", "flush", "mark", "done", "done", "done"]
        ),
        st.integers(0, 7),
    ),
    max_size=60,
)


def run_kernel(actions, flushes_at_once):
    """As Documentation/admin-guide/device-mapper/log-writes.rst says."""
    run, unflushed, flying, groups = Run(), [], [], {}
    removal = [("done", 0)] * len(actions)  # waits for all that is in flight
    for what, pick in actions + removal:
        run.now += 1
        flushing = [r for r in flying if r.kind == "flush"]
        if what == "mark":
            run.entry(0, 0, MARK, b"m%d" % run.now)
        elif what == "done" and flying:
            request = flying[pick % len(flying)]
            if request.kind == "flush":
                request = flushing[0]  # a device completes flushes in order
            flying.remove(request)
            request.completed = run.now
            if request.kind == "flush":
                for other in groups.pop(id(request)):
                    run.write_entry(other)
                run.entry(0, 0, FLUSH)
            elif request.kind == "fua":
                run.write_entry(request)
            else:
                unflushed.append(request)
        elif what != "done":
            if what == "flush" and len(flushing) >= flushes_at_once:
                continue
            request = Request(what, len(run.requests), run.now)
            run.requests.append(request)
            flying.append(request)
            if what == "flush":
                groups[id(request)] = unflushed
                unflushed = []
    for request in unflushed:  # the target is removed
        run.write_entry(request)
    run.now += 1
    run.entry(0, 0, MARK, b"dm-log-writes-end")
    return run


def run_qemu(actions, fua=True):
    """As block/blklogwrites.c does: everything at its completion, one flush at a time.

    The generic layer makes of FUA a write and a flush, and drops a flush when no write
    has ended since the last one began (bdrv_co_flush in block/io.c).
    """
    run, flying, counted, ended, flushed = Run(), [], 0, 0, 0
    began = {}
    for what, pick in actions:
        run.now += 1
        flushing = any(r.kind == "flush" for r in flying)
        if what == "done" and flying:
            # The flush of a FUA write waits for one that is running.
            able = [r for r in flying if not (r.kind == "fua" and flushing)]
            request = able[pick % len(able)]
            flying.remove(request)
            if request.kind == "flush":
                request.completed = run.now
                run.entry(0, 0, FLUSH)
                counted, flushed = len(run.log), began[id(request)]
                continue
            run.write_entry(request, fua=0)
            if request.kind == "fua" and ended != flushed:
                flush = Request("flush", len(run.requests), run.now + 1)
                run.requests.append(flush)
                run.now += 2
                flush.completed = run.now
                run.entry(0, 0, FLUSH)
                counted, flushed = len(run.log), ended
            request.completed = run.now
            ended += 1
        elif what in ("plain", "discard", "flush") or (what == "fua" and fua):
            if what == "flush" and (flushing or ended == flushed):
                continue
            request = Request(what, len(run.requests), run.now)
            began[id(request)] = ended
            run.requests.append(request)
            flying.append(request)
    return run, counted


def claimed(timeline: Timeline, at: int):
    """Durable and issued places of a timeline for a cut right after instant `at`."""
    r = timeline.requests
    rows = range(len(r))
    flushed = max(
        (
            int(r.submitted_ns[i])
            for i in rows
            if r.kind[i] == RequestKind.FLUSH and r.completed_ns[i] <= at
        ),
        default=-1,
    )
    writes = [i for i in rows if r.kind[i] != RequestKind.FLUSH]
    durable = {
        int(r.offset[i]) // SIZE
        for i in writes
        if (r.fua[i] and r.completed_ns[i] <= at) or r.completed_ns[i] < flushed
    }
    issued = {int(r.offset[i]) // SIZE for i in writes if r.submitted_ns[i] <= at}
    return durable, issued


def entry_instants(run, timeline):
    """The instant in the timeline at which each entry of the log stands."""
    r = timeline.requests
    done = {
        int(r.offset[i]) // SIZE: int(r.completed_ns[i])
        for i in range(len(r))
        if r.kind[i] != RequestKind.FLUSH
    }
    flushes = iter(sorted(int(r.completed_ns[i]) for i in range(len(r)) if r.kind[i] == 4))
    marks = iter(sorted(int(at) for at, _ in timeline.marks))
    out = []
    for sector, _, flags, _ in run.log:
        out.append(
            next(marks) if flags & MARK else next(flushes) if flags & FLUSH else done[sector]
        )
    return out


def load(run, count, dialect, **words):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(run.image(count))
        disk_size = SIZE * (len(run.requests) + 1)
        log = read_log(path, dialect=dialect, disk_size=disk_size, **words)
        return log, {reading: to_timeline(log, reading=reading) for reading in Reading}


def check_distinct(timeline):
    r = timeline.requests
    instants = [
        *map(int, r.submitted_ns),
        *(int(c) for c in r.completed_ns if c != 2**63 - 1),
        *(int(at) for at, _ in timeline.marks),
    ]
    assert len(set(instants)) == len(instants)
    assert (r.submitted_ns < r.completed_ns).all()
    assert (r.submitted_ns[1:] > r.submitted_ns[:-1]).all()


@settings(max_examples=400, deadline=None)
@given(ACTIONS)
def test_a_kernel_log_says_exactly_what_was_durable(actions):
    run = run_kernel(actions, flushes_at_once=3)
    log, readings = load(run, len(run.log), Dialect.AUTO)
    assert log.dialect is Dialect.KERNEL
    assert log.complete
    assert log.doubts == ()
    for timeline in readings.values():
        check_distinct(timeline)
        instants = entry_instants(run, timeline)
        for (_, _, flags, _), at, true in zip(run.log, instants, run.logged_at, strict=True):
            if flags & (MARK | FLUSH | FUA):
                durable, _ = claimed(timeline, at)
                assert durable == run.durable(true)


@settings(max_examples=400, deadline=None)
@given(ACTIONS)
def test_a_kernel_logs_readings_bound_what_was_on_its_way(actions):
    run = run_kernel(actions, flushes_at_once=1)
    _, readings = load(run, len(run.log), Dialect.KERNEL)
    for reading, timeline in readings.items():
        instants = entry_instants(run, timeline)
        for (_, _, flags, _), at, true in zip(run.log, instants, run.logged_at, strict=True):
            _, issued = claimed(timeline, at)
            if reading is Reading.CERTAIN:
                assert issued <= run.issued(true)
            elif flags & (MARK | FUA) and not run.flushing(true):
                # While a flush runs, what completes belongs to the next epoch.
                assert run.completed(true) <= issued


@settings(max_examples=400, deadline=None)
@given(ACTIONS, st.booleans())
def test_a_qemu_logs_readings_bound_what_was_durable(actions, fua):
    run, counted = run_qemu(actions, fua)
    if not run.log:
        return
    log, readings = load(run, counted, Dialect.AUTO, no_fua=not fua)
    assert log.dialect is Dialect.QEMU
    assert len(log) == len(run.log)
    for reading, timeline in readings.items():
        check_distinct(timeline)
        for at, true in zip(entry_instants(run, timeline), run.logged_at, strict=True):
            durable, issued = claimed(timeline, at)
            if reading is Reading.CERTAIN:
                assert run.durable(true) <= durable
                assert issued <= run.issued(true)
            else:
                assert durable <= run.durable(true)
                assert run.completed(true) <= issued


@settings(max_examples=200, deadline=None)
@given(ACTIONS)
def test_a_qemu_log_that_was_closed_proves_its_last_flush(actions):
    run, _ = run_qemu([*actions, *[("done", 0)] * 60, ("flush", 0), ("done", 0)])
    if not run.log:
        return
    log, readings = load(run, len(run.log), Dialect.QEMU, closed=True)
    assert log.complete
    timeline = readings[Reading.CAUTIOUS]
    last = entry_instants(run, timeline)[-1]
    assert claimed(timeline, last)[0] == run.durable(run.now)
