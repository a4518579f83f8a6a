# SPDX-License-Identifier: Apache-2.0
"""When a program in a virtual machine wrote its lines.

Each packet has the guest's clock of the moment in which it was read in the guest, after it was
written.  crash/clock.py bounds what this host's clock, which is the disk's, read then: by the
receipts of packets, and by pings.  As for other acks (crash/dating.py) the latest instant counts:
the line was written then or earlier, so that what was not durable by then was not durable when it
was acknowledged.  A receipt that a busy host delayed does not count any more.

Attempts are not dated: one counts for the whole run, as one that was under way at the cut is not
known.  Where the clocks contradict each other, nothing ties them, or a packet has no clock, all
count from their receipt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.clock import ClocksDisagree, Points, bound_clock
from powercut.crash.dating import NO_ROUND_TRIPS
from powercut.model.operations import AckBasis, AckProof, Packet

NO_CLOCK: Final = "the program's lines carry no clock"

_ACK: Final = re.compile(rb"(?:^|\n)\+ ")


def dated(packets: Sequence[Packet]) -> tuple[tuple[Packet, ...], AckProof]:
    """The packets that hold lines, at their instants on the disk's clock; what that rests on."""
    _, latest, proof = bounded(packets)
    return latest, proof


def bounded(
    packets: Sequence[Packet],
) -> tuple[tuple[Packet, ...], tuple[Packet, ...], AckProof]:
    """Those packets at the earliest instants at which they can have been written, at the latest,
    and what that rests on: by receipt nothing is known of the earliest, and both are the same.
    """
    said = tuple(one for one in packets if one.sent_ns is None)
    trips = [one for one in packets if one.sent_ns is not None]
    stamps = _column(one.guest_ns for one in said)
    if not said or any(not one.guest_ns for one in said):
        return said, said, _by_receipt(NO_CLOCK)
    if not trips:
        return said, said, _by_receipt(NO_ROUND_TRIPS)
    receipts = _column(one.at_ns for one in said)
    at_trips = _column(one.guest_ns for one in trips)
    before = Points.join(
        Points(stamps, receipts), Points(at_trips, _column(one.at_ns for one in trips))
    )
    try:
        if (np.diff(stamps) < 0).any():
            raise ClocksDisagree("the guest's clock went back")
        bounds = bound_clock(before, Points(at_trips, _column(one.sent_ns for one in trips)))
    except ClocksDisagree as error:
        return said, said, _by_receipt(str(error))
    latest = np.minimum(receipts, bounds.latest(stamps))
    earliest = np.minimum(latest, bounds.earliest(stamps))
    acks = np.array([_ACK.search(one.data) is not None for one in said])
    window, gained = (latest - earliest)[acks], (receipts - latest)[acks]
    proof = AckProof(
        AckBasis.CLOCK,
        window_ns=int(window.max(initial=0)),
        usual_window_ns=int(np.median(window)) if len(window) else 0,
        gained_ns=int(gained.max(initial=0)),
        shortest_sync_ns=None,
    )
    return _at(said, earliest), _at(said, latest), proof


def _at(packets: Sequence[Packet], instants: npt.NDArray[np.int64]) -> tuple[Packet, ...]:
    return tuple(replace(one, at_ns=at) for one, at in zip(packets, instants.tolist(), strict=True))


def _by_receipt(reason: str) -> AckProof:
    return AckProof(AckBasis.RECEIPT, None, None, 0, None, reason=reason)


def _column(values: Iterable[int | None]) -> npt.NDArray[np.int64]:
    return np.fromiter((value or 0 for value in values), dtype=np.int64)
