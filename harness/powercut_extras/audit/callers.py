# SPDX-License-Identifier: Apache-2.0
"""Who asked for each flush: the syncs of a program, on the clock of the disk's log.

The tracer says when a call begins, before it is made, and when it has returned, before the program
goes on.  So a flush that a call waits for is submitted and completed between the two, and:

1. A flush that fits into one call is that call's.  A journal that a thread of the kernel commits
   for the call is counted so, too.
2. A flush that fits into calls of several threads is one of theirs, or all of theirs: they are
   named together.
3. A flush that fits into none is the kernel's own (its timers, writeback).  Opening a file with
   O_SYNC or O_DSYNC asks for nothing; each write to it is a call.  In older recordings the tracer
   saw the opening alone, and the flushes of such writes fit into no call, either.
4. What was submitted before the tracer began comes from mounting and making the folder.

In a virtual machine a call lasts as long as the guest's clock leaves possible: a flush shortly
before or after one may be taken for its own, by that clock's window.

An operation is *unsynced* if no call was under way at any time between its attempt and its
acknowledgement: then nothing can have made it durable by request.  Of a recording that has opens
with O_SYNC or O_DSYNC and not their writes, that cannot be said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.model.operations import AckBasis, OperationHistory, Packet
from powercut.model.timeline import Timeline
from powercut.model.verdict import LsnRange, lsn_ranges
from powercut.recording.sealed import TrialRecording
from powercut.scenario.settings import ProgramSettings
from powercut.workload.program.lines import lines_of_run
from powercut.workload.program.sync_trace import SyncCall, SyncTrace, read_trace, trace_of
from powercut.workload.program.workload import bounded
from powercut_extras.audit.stored import Asker, AuditedPromise
from powercut_extras.audit.sync_site import SyncSite
from powercut_extras.audit.sync_sites import named_sites

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Callers:
    """Who asked in one recording; empty if its syncs were not traced."""

    sites: tuple[SyncSite, ...] = ()
    unsynced: tuple[LsnRange, ...] = ()
    beyond: tuple[str, ...] = ()
    trace: SyncTrace | None = None

    def asked(self, timeline: Timeline, audited: Sequence[AuditedPromise]) -> list[AuditedPromise]:
        """The promises, each with who asked for it."""
        if self.trace is None:
            return list(audited)
        requests = timeline.requests
        windows = _Windows(self.trace)
        calls = [
            windows.calls(
                int(requests.submitted_ns[one.request]), int(requests.completed_ns[one.request])
            )
            for one in audited
        ]
        alone = [found[0] if found and len(found) == 1 else None for found in calls]
        of_call, nth = Counter(alone), Counter[SyncCall | None]()
        named = []
        for one, found, call in zip(audited, calls, alone, strict=True):
            update = _asker(found)
            if call is not None:
                nth[call] += 1
                update |= {"nth": nth[call], "of_call": of_call[call]}
            named.append(one.model_copy(update=update))
        return named


def callers_of(recorded: TrialRecording) -> Callers:
    """What the trace of a recording says."""
    settings = recorded.parameters.workload
    if not isinstance(settings, ProgramSettings) or settings.syncs != "traced":
        return Callers()
    trace, why = timed_trace(recorded.sealed.lines)
    sites = named_sites(trace, recorded.parameters)
    if why:
        return Callers(sites, beyond=(*trace.beyond, why))
    history = recorded.promises.requirements
    assert isinstance(history, OperationHistory)
    return Callers(sites, unsynced(trace, history), trace.beyond, trace)


def timed_trace(packets: Sequence[Packet]) -> tuple[SyncTrace, str]:
    """The trace, and why its instants say nothing; empty if they do.

    In a virtual machine they are the guest's clock: then a call lasts from the earliest instant at
    which it can have begun to the latest at which it can have ended.
    """
    if not any(packet.guest_ns for packet in packets):
        return read_trace(packets), ""
    earliest, latest, proof = bounded(packets)
    trace = trace_of(lines_of_run(latest).lines, lines_of_run(earliest).lines)
    if proof.basis is AckBasis.CLOCK:
        return trace, ""
    return trace, f"the guest's clock cannot be told from the disk's: {proof.reason}"


def unsynced(trace: SyncTrace, history: OperationHistory) -> tuple[LsnRange, ...]:
    """The operations that were acknowledged without any sync, by the module's words."""
    if trace.beyond or (any(site.opens for site in trace.sites) and not trace.writes):
        return ()
    windows = _Windows(trace)
    attempt_ns = dict(zip(history.attempted.tolist(), history.attempt_ns.tolist(), strict=True))
    return lsn_ranges(
        operation
        for operation, ack_ns in zip(history.acked.tolist(), history.ack_ns.tolist(), strict=True)
        if not windows.any_between(attempt_ns[operation], ack_ns)
    )


def _asker(calls: list[SyncCall] | None) -> dict[str, object]:
    """The fields of a promise that say who asked for it."""
    if calls is None:
        return {"asker": Asker.BEFORE}
    sites = tuple(sorted({call.site + 1 for call in calls}))
    return {"asker": Asker.CALL if sites else Asker.NO_CALL, "sites": sites}


class _Windows:
    """The calls that were made, by when they began."""

    def __init__(self, trace: SyncTrace) -> None:
        self._trace = trace
        opening = {site.number for site in trace.sites if site.opens}
        self._calls = [
            call for call in trace.calls if not call.dropped and call.site not in opening
        ]
        self._begin: I64 = np.array([call.begin_ns for call in self._calls], dtype=np.int64)
        self._end: I64 = np.array([call.end_ns for call in self._calls], dtype=np.int64)

    def calls(self, submitted_ns: int, completed_ns: int) -> list[SyncCall] | None:
        """The calls that a promise of that time fits into; None before the tracer began."""
        if submitted_ns < self._trace.begin_ns:
            return None
        within = np.flatnonzero((self._begin <= submitted_ns) & (self._end >= completed_ns))
        return [self._calls[at] for at in within.tolist()]

    def any_between(self, from_ns: int, until_ns: int) -> bool:
        return bool(np.any((self._begin <= until_ns) & (self._end >= from_ns)))
