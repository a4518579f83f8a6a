# SPDX-License-Identifier: Apache-2.0
"""From a program's lines to what it claimed, and to what its check found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from powercut.channel.lines import LINE_MAX, LINES_MAX
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory, Packet, Sighting
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange, lsn_ranges
from powercut.workload.program.lines import FirstFew, Line, LineKind, lines_of_check, lines_of_run

_SHOWN_MAX: Final = 4
_PLAIN_RUN: Final = re.compile(rb"(?:ready\n)?(?:[?+] [0-9]{1,18}\n)*+")
_PLAIN_CHECK: Final = re.compile(rb"(?:= [0-9]{1,18}\n)*+")
"""What is read in bulk: most of what programs and checks say."""


def history_of(
    packets: Sequence[Packet], cut_ns: int = int(NEVER), *, tracer: str = ""
) -> OperationHistory:
    """What the program claimed before the cut, and what it attempted at any time.

    `tracer` is the key of the tracer's notes, if one ran the program.

    Claims that cannot be are its trouble: an ack of what was never tried or has failed, a second
    ack, a second attempt of what was acknowledged, and of a program that promises a prefix an
    attempt whose number is not the highest yet.
    """
    return _in_bulk(packets, cut_ns) or _line_by_line(packets, cut_ns, tracer)


def _line_by_line(packets: Sequence[Packet], cut_ns: int, tracer: str) -> OperationHistory:
    read = lines_of_run(packets)
    attempts: dict[int, int] = {}
    acks: dict[int, int] = {}
    failed: set[int] = set()
    trouble = FirstFew(_SHOWN_MAX, "of its claims", read.problems)
    ready = None
    stated: set[str] = set()
    for line in read.lines:
        if line.at_ns >= cut_ns and line.kind is not LineKind.ATTEMPT:
            continue
        problem = _impossible(line, attempts, acks, failed)
        if attempts:
            problem = problem or _too_late(line, next(reversed(attempts)), stated)
        if problem:  # what cannot be is the program's mistake, and requires nothing
            trouble.add(problem)
            continue
        match line.kind:
            case LineKind.ATOMIC | LineKind.PROMISE:
                stated.add(line.text or line.kind.value)
            case LineKind.READY:
                ready = line.at_ns if ready is None else ready
            case LineKind.ATTEMPT:
                attempts.setdefault(line.first, line.at_ns)
                failed.discard(line.first)
            case LineKind.ACK:
                acks.setdefault(line.first, line.at_ns)
            case LineKind.FAILED:
                failed.add(line.first)
            case LineKind.NOTE if tracer and line.text.startswith(f"{tracer} "):
                pass
            case LineKind.NOTE:
                trouble.add(f"no line of the contract: {f'~ {line.text[:60]}'!r}")
            case _:
                trouble.add(f"the program says: {line.text}")
    return OperationHistory(
        *_columns(attempts),
        *_columns(acks),
        frozenset(failed),
        ready,
        trouble.told(),
        atomic="atomic" in stated,
        keeps="prefix" if "prefix" in stated else "opens" if "opens" in stated else "every",
    )


def _in_bulk(packets: Sequence[Packet], cut_ns: int) -> OperationHistory | None:
    """The same of attempts and acks alone, each once and each ack after its attempt; else None."""
    data = b"".join(packet.data for packet in packets)
    whole = data[: data.rfind(b"\n") + 1]
    count = whole.count(b"\n")
    if not 0 < count <= LINES_MAX or len(data) - len(whole) > LINE_MAX:
        return None
    late = max(packet.at_ns for packet in packets) > NEVER  # no clock says so
    if late or _PLAIN_RUN.fullmatch(whole) is None:
        return None
    ends = np.cumsum([len(packet.data) for packet in packets])
    breaks = np.flatnonzero(np.frombuffer(whole, dtype=np.uint8) == ord("\n"))
    instants = np.array([packet.at_ns for packet in packets], dtype=np.int64)
    at_ns = instants[np.searchsorted(ends, breaks, side="right")]
    words = whole.split()
    ready = None
    if words[0] == b"ready":
        ready = int(at_ns[0]) if at_ns[0] < cut_ns else None
        words, at_ns = words[1:], at_ns[1:]
    numbers = np.array([int(word) for word in words[1::2]], dtype=np.int64)
    is_ack = np.array([word == b"+" for word in words[::2]], dtype=np.bool_)
    tried, acked = np.flatnonzero(~is_ack), np.flatnonzero(is_ack & (at_ns < cut_ns))
    order = tried[np.argsort(numbers[tried], kind="stable")]
    names, acks = numbers[order], np.sort(numbers[acked])
    if (names[1:] == names[:-1]).any() or (acks[1:] == acks[:-1]).any():
        return None
    if len(acked):
        place = np.searchsorted(names, numbers[acked]).clip(max=max(0, len(names) - 1))
        if not len(names) or (names[place] != numbers[acked]).any():
            return None
        if (order[place] > acked).any():
            return None
    tried, acked = (one[np.argsort(at_ns[one], kind="stable")] for one in (tried, acked))
    return OperationHistory(
        numbers[tried], at_ns[tried], numbers[acked], at_ns[acked], ready_ns=ready
    )


def _too_late(line: Line, last: int, stated: set[str]) -> str:
    """What may not come after the first attempt, or not after that of `last`."""
    if line.kind in (LineKind.ATOMIC, LineKind.PROMISE):
        said = line.kind.value
        return f"the program says `{said}` after its first attempt: it promises it of all"
    if line.kind is LineKind.ATTEMPT and line.first <= last and "prefix" in stated:
        return (
            f"the program tries operation {line.first} after {last}: a prefix is one in the order "
            "of the numbers"
        )
    return ""


def _impossible(
    line: Line, attempts: dict[int, int], acks: dict[int, int], failed: set[int]
) -> str:
    one = line.first
    if line.kind is LineKind.ACK:
        if one in acks:
            return f"the program acknowledges operation {one} twice"
        if one in failed:
            return f"the program acknowledges operation {one}, which has failed"
        if one not in attempts:
            return f"the program acknowledges operation {one}, which it never tried"
    if line.kind is LineKind.ATTEMPT and one in acks:
        return f"the program tries operation {one} again, which is acknowledged"
    if line.kind is LineKind.FAILED and one in acks:
        return f"the program takes back operation {one}, which is acknowledged"
    return ""


def _columns(claims: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    operations = np.fromiter(claims.keys(), dtype=np.int64, count=len(claims))
    instants = np.fromiter(claims.values(), dtype=np.int64, count=len(claims))
    order = np.argsort(instants, kind="stable")
    return operations[order], instants[order]


def sighting_of(observation: Observation) -> Sighting:
    """What the program's check found in a recovered state."""
    said = observation.lines
    if observation.complete and said.count(b"\n") <= LINES_MAX and _PLAIN_CHECK.fullmatch(said):
        return Sighting(lsn_ranges(map(int, said.split()[1::2])))
    read = lines_of_check(observation.lines)
    present, wrong, bad = [], [], []
    incomplete = list(read.problems)
    if not observation.complete:
        incomplete.append(f"it did not look at everything: {observation.failure}")
    for line in read.lines:
        match line.kind:
            case LineKind.PRESENT:
                present.append(LsnRange(line.first, line.last))
            case LineKind.WRONG:
                wrong.append((line.first, line.text))
            case LineKind.BAD:
                bad.append(line.text)
            case LineKind.TROUBLE:
                incomplete.append(line.text)
            case _:
                pass
    return Sighting(tuple(present), tuple(wrong), tuple(bad), tuple(incomplete))
