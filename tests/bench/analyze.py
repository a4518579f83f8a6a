# SPDX-License-Identifier: Apache-2.0
"""How fast the exposure analysis is, on made-up recordings of rising length."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Final

import numpy as np

from bench.figure import Figure
from powercut.crash.exposure import analyse
from powercut.model.contract import DeviceContract
from powercut.model.history import History
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

RUN_ID: Final = bytes(range(16))
_RECORD: Final = 4096
_DISTINCT: Final = 512  # records whose bytes exist; a longer log uses them again
_LENGTHS: Final = (10**5, 10**6, 10**7)
_ROUNDS: Final = 3


def bench_analyze() -> list[Figure]:
    """Payload bytes per second, against copying payload in memory; and requests per second.

    Half of the requests are writes of one 4 KiB record, half flushes.  The payload of a log
    of 10^7 requests would be 20 GB; a ring of records that wraps keeps it at what a ring
    holds, and every write carries its own bytes all the same.
    """
    figures = []
    for length in _LENGTHS:
        timeline, history, layout = recording(length)
        seconds, copies = [], []
        for _ in range(_ROUNDS if length < _LENGTHS[-1] else 1):
            start = time.monotonic()
            report = analyse(timeline, history, RUN_ID, layout)
            seconds.append(time.monotonic() - start)
            start = time.monotonic()
            timeline.data.copy()
            copies.append(time.monotonic() - start)
        took = statistics.median(seconds)
        scanned = report.bytes_scanned / 1e6
        peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        rate = length / took / 1e6
        name = f"exposure of {length:,} requests: {rate:.2f} million/s, peak {peak_gb:.1f} GB"
        copied = timeline.data.nbytes / 1e6 / statistics.median(copies)
        figures.append(Figure(name, scanned / took, copied, "memory copy", "MB/s"))
    return figures


def recording(length: int) -> tuple[Timeline, History, WalLayout]:
    """A log of `length` requests: write, flush, ack, again and again; nothing is exposed."""
    records = length // 2
    layout = WalLayout(LayoutKind.RAW, record=_RECORD, capacity=_DISTINCT * _RECORD)
    ring = np.frombuffer(
        b"".join(
            record_bytes(
                RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=0,
                position=(lsn - 1) * _RECORD, record_size=_RECORD,
            )
            for lsn in range(1, min(records, _DISTINCT) + 1)
        ),
        dtype=np.uint8,
    )  # fmt: skip
    writes = np.arange(length) % 2 == 0
    slot = (np.arange(length) // 2) % _DISTINCT
    submitted = np.arange(length, dtype=np.int64) * 10 + 10
    requests = Requests(
        kind=np.where(writes, RequestKind.WRITE, RequestKind.FLUSH).astype(np.uint8),
        fua=np.zeros(length, dtype=np.bool_),
        offset=np.where(writes, slot * _RECORD, 0).astype(np.int64),
        length=np.where(writes, _RECORD, 0).astype(np.int64),
        submitted_ns=submitted,
        completed_ns=submitted + 5,
        data_offset=np.where(writes, slot * _RECORD, -1).astype(np.int64),
        failed=np.zeros(length, dtype=np.bool_),
    )
    acked = np.arange(1, min(records, _DISTINCT) + 1, dtype=np.int64)
    ack_ns = acked * 20 + 6
    attempt_ns = acked * 20 - 15
    history = History(acked, attempt_ns, acked, ack_ns, attempt_ns, ack_ns)
    timeline = Timeline(_DISTINCT * _RECORD, DeviceContract(), requests, ring)
    return timeline, history, layout
