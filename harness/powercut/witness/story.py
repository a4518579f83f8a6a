# SPDX-License-Identifier: Apache-2.0
"""Why a write could be lost, what it carried, and what happened around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from powercut.explore.file_maps import keep_file_maps
from powercut.model.machine import ImageFormat
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange, lsn_ranges
from powercut.recording.disk import DiskRecording
from powercut.recording.disk_files import naming
from powercut.recording.disk_places import UNKNOWN, NamesWrites
from powercut.store.witness import DroppedWrite, WitnessEvent, WitnessPart
from powercut.wal.record import CHUNK

_KINDS: dict[int, Literal["write", "zero", "discard"]] = {
    RequestKind.WRITE: "write",
    RequestKind.ZERO: "zero",
    RequestKind.DISCARD: "discard",
}
_SHOWN_FLUSHES = 6
_SHOWN_PARTS = 24


def dropped_writes(
    recording: DiskRecording, instant: int, drops: Sequence[tuple[int, int, int]]
) -> tuple[DroppedWrite, ...]:
    """The writes of `drops`, given as (write, begin, end), each with all that is known of it."""
    places = _places(recording, instant)
    by_write: dict[int, list[tuple[int, int]]] = {}
    for write, begin, end in drops:
        by_write.setdefault(write, []).append((begin, end))
    return tuple(
        _dropped(recording, places, instant, write, tuple(sorted(ranges)))
        for write, ranges in sorted(by_write.items())
    )


def named_writes(recording: DiskRecording, instant: int, writes: Sequence[int]) -> list[str]:
    """What each write is, with what it carries, to begin a sentence with."""
    places = _places(recording, instant)
    return [f"Write {one} ({'; '.join(_carried(recording, places, one)[:2])})" for one in writes]


def name_of(recording: DiskRecording, write: int) -> str:
    """What a request was of: records, files or structures of the file system, as far as known."""
    requests = recording.timeline.requests
    if requests.kind[write] == RequestKind.FLUSH:
        return "flush"
    places = naming(recording, int(requests.submitted_ns[write]))
    return "; ".join(_carried(recording, places, write))


def _carried(recording: DiskRecording, places: NamesWrites, write: int) -> list[str]:
    begin = int(recording.timeline.requests.offset[write])
    held = [(begin, begin + int(recording.timeline.requests.length[write]))]
    return [*dict.fromkeys(part.what for part in parts_of(recording, places, write, held))]


def _places(recording: DiskRecording, instant: int) -> NamesWrites:
    """What names the writes of a state; of a program the map of its files then is kept first."""
    if recording.image_format is ImageFormat.RAW and recording.known_promises is not None:
        keep_file_maps(recording, [instant])
    return naming(recording, instant)


def _dropped(
    recording: DiskRecording,
    places: NamesWrites,
    instant: int,
    write: int,
    ranges: tuple[tuple[int, int], ...],
) -> DroppedWrite:
    requests = recording.timeline.requests
    completed = int(recording.space.completed_ns[write])
    return DroppedWrite(
        request=write,
        kind=_KINDS[int(requests.kind[write])],
        fua=bool(requests.fua[write]),
        offset=int(requests.offset[write]),
        length=int(requests.length[write]),
        dropped=ranges,
        epoch=int(recording.space.sets.epoch[write]),
        submitted_ns=int(requests.submitted_ns[write]),
        completed_ns=None if completed == NEVER else completed,
        why=why_volatile(recording, instant, write),
        parts=tuple(parts_of(recording, places, write, ranges)),
    )


def _flushes_of(timeline: Timeline, write: int) -> npt.NDArray[np.int64]:
    requests = timeline.requests
    at, begin, length = requests.offset[write], requests.offset, requests.length
    reaches = (length == 0) | ((begin <= at) & (at < begin + length))
    return np.flatnonzero((requests.kind == RequestKind.FLUSH) & reaches)


def why_volatile(recording: DiskRecording, instant: int, write: int) -> str:
    """Why the disk was free to lose `write` in a cut at `instant`, in words."""
    timeline, space = recording.timeline, recording.space
    requests = timeline.requests
    completed = int(space.completed_ns[write])
    if completed >= instant:
        return "it was still in flight"
    reasons = []
    if requests.fua[write] and timeline.ignored(write):
        reasons.append("the disk ignored its FUA")
    flush = _flushes_of(timeline, write)
    after = flush[requests.submitted_ns[flush] > completed]
    done = after[space.completed_ns[after] < instant]
    if len(done) and timeline.ignored(int(done[0])):
        count = len(done)
        reasons.append(f"the disk ignored the {_plural(count, 'flush', 'flushes')} after it")
    elif len(done):
        reasons.append("a flush after it completed")  # then it is durable, and never asked for
    elif (requests.submitted_ns[after] < instant).any():
        reasons.append("the flush after it was still in flight")
    else:
        reasons.append("no flush had been sent after it completed")
    return "; ".join(reasons)


def parts_of(
    recording: DiskRecording, places: NamesWrites, write: int, ranges: Sequence[tuple[int, int]]
) -> list[WitnessPart]:
    """What stands in the given ranges of `write`: records where there are any, else by place."""
    timeline = recording.timeline
    if timeline.requests.kind[write] != RequestKind.WRITE:
        return [WitnessPart(begin=begin, end=end, what="zeroes") for begin, end in ranges]
    payload = timeline.payload(write).tobytes()
    start = int(timeline.requests.offset[write])
    named = places.parts(start, payload)
    parts: list[WitnessPart] = []
    for begin, end in ranges:
        for part in named:
            held = part.within(begin, end)
            if held.begin < held.end:
                parts += _with_records(recording, write, held.begin, held.end, str(held))
    if len(parts) > _SHOWN_PARTS:
        rest = parts[_SHOWN_PARTS:]
        more = f"{len(rest)} more stretches"
        parts = [
            *parts[:_SHOWN_PARTS],
            WitnessPart(begin=rest[0].begin, end=rest[-1].end, what=more),
        ]
    return parts


def _with_records(
    recording: DiskRecording, write: int, begin: int, end: int, what: str
) -> list[WitnessPart]:
    """The stretch, named by the records in it if it holds any."""
    lsns = records_in(recording, write, begin, end)
    if lsns:
        text = _plural(sum(len(span) for span in lsns), "record", "records", number=False)
        text += f" {', '.join(map(str, lsns[:4]))}" + (" and more" if len(lsns) > 4 else "")
        what = text if what in (UNKNOWN, "") else f"{text}, in the {what}"
    return [WitnessPart(begin=begin, end=end, what=what)]


def records_in(recording: DiskRecording, write: int, begin: int, end: int) -> tuple[LsnRange, ...]:
    """The records of which `write` carries bytes between `begin` and `end` on the disk."""
    if recording.layout is None:
        return ()
    runs = recording.evidence.runs
    mine = np.flatnonzero(runs.write == write)
    per_record = recording.layout.chunks
    lsns: set[int] = set()
    for index in mine.tolist():
        place, count = int(runs.place[index]), int(runs.count[index])
        low = max(place, begin // CHUNK)
        high = min(place + count, -(-end // CHUNK))
        if low < high:
            chunk = int(runs.chunk[index]) - place
            lsns.update(
                range((chunk + low) // per_record + 1, (chunk + high - 1) // per_record + 2)
            )
    return lsn_ranges(lsns)


def cause_of(
    recording: DiskRecording,
    instant: int,
    dropped: Sequence[DroppedWrite],
    moved: int,
    lsn: int | None,
    later: str = "",
) -> str:
    """The finding in a few words; `lsn` is the record that it is told of, if there is one.

    `later` says how a later step came to take it away.
    """
    record = _named(recording, lsn) if lsn is not None else "the file system"
    if not dropped and not moved:
        never = "are in no flush of the log" if recording.imported else "never reached the disk"
        return (
            f"No write has to be lost: even with everything on the disk that was issued before "
            f"the cut, {record} is lost. Its bytes, or what leads to them, {never}."
        )
    if not dropped:
        return f"{record} is lost because writes reached the medium out of order."
    bytes_lost = sum(end - begin for write in dropped for begin, end in write.dropped)
    what = "; ".join(dict.fromkeys(part.what for write in dropped for part in write.parts[:2]))
    why = "; ".join(dict.fromkeys(write.why for write in dropped))
    count = _plural(len(dropped), "write", "writes")
    verb, them = ("is", "it") if len(dropped) == 1 else ("are", "them")
    text = (
        f"{record[:1].upper()}{record[1:]} is lost if {count} ({bytes_lost:,} bytes: {what}) "
        f"{verb} lost, and all else that was issued survives. "
        f"The disk was free to lose {them}: {why}."
    )
    acked = _acked_ns(recording, lsn)
    if acked is not None and acked < instant and not recording.imported:
        text += f" It had been acknowledged {(instant - acked) / 1e6:.3f} ms before."
        late_ns = min((write.submitted_ns for write in dropped), default=acked) - acked
        if late_ns > 0 and not later:
            text += f" What is missing was sent {late_ns / 1e6:.3f} ms after that ack."
    return f"{text} {later}".strip()


def _named(recording: DiskRecording, number: int) -> str:
    return f"{recording.noun} {number}"


def _acked_ns(recording: DiskRecording, lsn: int | None) -> int | None:
    if lsn is None:
        return None
    claims = recording.promises.requirements
    if isinstance(claims, OperationHistory):
        found = claims.ack_ns[claims.acked == lsn]
        return int(found[0]) if len(found) else None
    if recording.layout is None:
        return None
    at = int(recording.evidence.claims.acked_ns(np.array([lsn]))[0])
    return None if at == NEVER else at


def events_of(
    recording: DiskRecording, instant: int, dropped: Sequence[DroppedWrite], lsn: int | None
) -> tuple[WitnessEvent, ...]:
    """What happened to the dropped writes, with flushes, the ack and the cut, in order."""
    events = [
        WitnessEvent(at_ns=instant, kind="cut", text="the power is cut", request=None),
    ]
    for write in dropped:
        what = write.parts[0].what if write.parts else write.kind
        text = f"write {write.request}: {write.length:,} bytes at {write.offset:,} ({what})"
        events.append(
            WitnessEvent(at_ns=write.submitted_ns, kind="submit", text=text, request=write.request)
        )
        if write.completed_ns is not None and write.completed_ns < instant:
            done = f"write {write.request} completes"
            events.append(
                WitnessEvent(
                    at_ns=write.completed_ns, kind="complete", text=done, request=write.request
                )
            )
    acked = _acked_ns(recording, lsn)
    if acked is not None:
        text = f"{_named(recording, lsn or 0)} is acknowledged"
        events.append(WitnessEvent(at_ns=acked, kind="ack", text=text))
    first = min((write.submitted_ns for write in dropped), default=instant)
    events += _flushes(recording, min(first, acked or first), instant)
    order = ("submit", "complete", "flush", "flushed", "ack", "cut")
    return tuple(sorted(events, key=lambda event: (event.at_ns, order.index(event.kind))))


def _flushes(recording: DiskRecording, begin: int, instant: int) -> list[WitnessEvent]:
    """The first flushes between two instants, and how many more there were."""
    requests = recording.timeline.requests
    chosen = (requests.kind == RequestKind.FLUSH) & (requests.submitted_ns < instant)
    chosen &= recording.space.completed_ns >= begin
    flushes = np.flatnonzero(chosen)
    events = []
    for number, index in enumerate(flushes[:_SHOWN_FLUSHES].tolist()):
        more = len(flushes) - _SHOWN_FLUSHES if number == _SHOWN_FLUSHES - 1 else 0
        text = "a flush is sent" + (f"; {more} more follow before the cut" if more > 0 else "")
        events.append(
            WitnessEvent(
                at_ns=int(requests.submitted_ns[index]), kind="flush", text=text, request=index
            )
        )
        done = int(recording.space.completed_ns[index])
        if done < instant:
            ignored = recording.timeline.ignored(index)
            told = "the flush is reported done" + (": the disk ignored it" if ignored else "")
            events.append(WitnessEvent(at_ns=done, kind="flushed", text=told, request=index))
    return events


def _plural(count: int, one: str, many: str, *, number: bool = True) -> str:
    word = one if count == 1 else many
    return f"{count:,} {word}" if number else word
