# SPDX-License-Identifier: Apache-2.0
"""The checker of acks: is it proved that each of them waited for the disk?

1. A record that may have been acknowledged before its sync began: INCOMPLETE, INCONCLUSIVE.
   An ack that came too early would look the same.
2. Nothing ties the guest's clock to the host's, although the writer answers pings: INCOMPLETE,
   INCONCLUSIVE.

No finding convicts: what the latest instants prove is the exposure checker's to say.
"""

from __future__ import annotations

from typing import Final

from powercut.model.operations import AckProof
from powercut.model.verdict import Finding, LsnRange

ACK_WINDOW: Final = "ack_window_ns"
"""Detail of a finding that only says that some acks may have been made too early."""

_MARGIN: Final = 2
"""The flush latency to ask for, as a multiple of the window: another run's may be wider."""

_TYPICAL_US: Final = 1000
"""A sync on a disk of model `typical` takes this long at least."""


def check_acks(proof: AckProof) -> list[Finding]:
    """What is missing of the proof."""
    if proof.window_ns is None:
        return [_incomplete(_unknown(proof))]
    if not proof.unproved:
        return []
    window_us = proof.window_ns / 1000
    sync_us = (proof.shortest_sync_ns or 0) / 1000
    fast = sync_us < _TYPICAL_US
    first = "leave disk.model at `typical`" if fast else "run it again on a host that is less busy"
    return [
        _incomplete(
            f"records {LsnRange.text_of(proof.unproved)} may have been acknowledged before their "
            f"sync began: the instant of an ack is known to within {window_us:,.0f} µs, and the "
            f"shortest sync took {sync_us:,.0f} µs on this disk; a "
            f"disk whose syncs take longer than that proves it: {first}, "
            f"or set disk.flush_latency and disk.fua_latency to {_latency(window_us)} or more",
            proof,
        )
    ]


def _unknown(proof: AckProof) -> str:
    return (
        f"the instants of acks are known from their receipt alone, which comes later "
        f"({proof.reason}); record again, on a quieter host if need be"
    )


def _latency(window_us: float) -> str:
    """A duration as scenarios write it, well above the window."""
    return f"{max(1, -(-int(window_us * _MARGIN) // 1000))}ms"


def _incomplete(message: str, proof: AckProof | None = None) -> Finding:
    lsns = proof.unproved if proof else ()
    detail: dict[str, object] = {ACK_WINDOW: proof.window_ns} if proof else {}
    return Finding.unknown(message, lsns, detail)
