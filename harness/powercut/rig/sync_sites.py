# SPDX-License-Identifier: Apache-2.0
"""The call sites of a trace, with names for their stacks."""

from __future__ import annotations

from powercut.rig.code_names import name_places
from powercut.store.sync_site import CalledFrom, SyncSite
from powercut.workload.program.sync_trace import CallSite, SyncTrace


def named_sites(trace: SyncTrace) -> tuple[SyncSite, ...]:
    """All of them, in the order in which they were first seen."""
    names = name_places(
        (frame.module, frame.address) for site in trace.sites for frame in site.frames
    )
    return tuple(_named(site, trace, names) for site in trace.sites)


def _named(site: CallSite, trace: SyncTrace, names: dict[tuple[str, int], str]) -> SyncSite:
    return SyncSite(
        number=site.number + 1,
        key=site.key,
        call=site.call,
        path=site.file,
        calls=trace.count(site.number),
        stack=tuple(
            CalledFrom(
                module=frame.module,
                address=frame.address,
                name=names.get((frame.module, frame.address), frame.text),
            )
            for frame in site.frames
        ),
    )
