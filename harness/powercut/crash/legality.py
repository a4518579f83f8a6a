# SPDX-License-Identifier: Apache-2.0
"""Whether the contract permits a crash state (rules 1 to 4 of powercut.crash.states).

States that policies draw are legal by construction; those that a user names, or that come from
a file, may not be.
"""

from __future__ import annotations

import numpy as np

from powercut.crash.applied import Kept
from powercut.crash.states import CrashState, StateSpace
from powercut.model.units import NEVER


def why_illegal(space: StateSpace, state: CrashState) -> list[str]:
    """Why the contract does not permit `state`; empty if it does."""
    requests = len(space.begin)
    survivors = np.array(state.survivors, dtype=np.int64)
    there = (survivors >= 0) & (survivors < requests)
    known = np.where(there, survivors, 0) if requests else survivors[:0]
    issued, durable = there.copy(), there.copy()
    if requests:
        issued &= space.sets.is_write[known] & (space.sets.submitted_ns[known] < state.instant)
        durable &= space.sets.durable_ns[known] < state.instant
    problems = []
    for at in np.flatnonzero(~issued | durable).tolist():
        write = state.survivors[at]
        if not issued[at]:
            problems.append(f"request {write} is no write issued before {state.instant}")
        else:
            problems.append(f"write {write} is durable and needs no mention")
    surviving = set(state.survivors)
    for kept in state.torn:
        if kept.write not in surviving:
            problems.append(f"write {kept.write} is torn and does not survive")
        elif not _at_units(space, kept, space.unit) or _is_part_of_one(space, kept):
            problems.append(f"write {kept.write} tears at {space.unit} bytes, not as {kept}")
    for move in state.moves:
        if not 0 <= move.write < move.after < requests:
            problems.append(f"requests {move.write} and {move.after} are no two in order")
        elif space.precedes(move.write, move.after):
            problems.append(f"write {move.write} cannot come after write {move.after}")
    for offset, data in state.again.overlay if state.again else ():
        if offset + len(data) > space.timeline.disk_size:
            problems.append(f"{len(data)} bytes at {offset} do not lie on the disk")
    return problems or _out_of_order(space, state)


def tears_within(space: StateSpace, state: CrashState, block: int) -> bool:
    """Whether `state` tears an aligned block of `block` bytes of a write."""
    return not all(_at_units(space, kept, block) for kept in state.torn)


def _at_units(space: StateSpace, kept: Kept, unit: int) -> bool:
    begin, end = int(space.begin[kept.write]), int(space.end[kept.write])
    return (
        begin <= kept.begin < kept.end <= end
        and (kept.begin == begin or kept.begin % unit == 0)
        and (kept.end == end or kept.end % unit == 0)
    )


def _is_part_of_one(space: StateSpace, kept: Kept) -> bool:
    """Whether it is a part of what cannot tear: a change of a file's size or name, say."""
    whole = int(space.begin[kept.write]), int(space.end[kept.write])
    return space.touched_units(kept.write) == 1 and (kept.begin, kept.end) != whole


def _out_of_order(space: StateSpace, state: CrashState) -> list[str]:
    if space.timeline.contract.ordered and (problems := _disorder(space, state)):
        return problems
    needed = set(space.legal(state).survivors) - set(state.survivors)
    return [f"what survives needs {min(needed)}, which was made before"] if needed else []


def _disorder(space: StateSpace, state: CrashState) -> list[str]:
    volatile = space.volatile(state.instant)
    torn = {kept.write for kept in state.torn}
    surviving = set(state.survivors)
    missing: int | None = None
    for write in space.in_completion_order(volatile).tolist():
        if write in surviving and missing is not None:
            return [f"write {write} survives without {missing}, which completed before it"]
        if missing is None and (write not in surviving or write in torn):
            missing = write
    flying = [w for w in state.survivors if space.completed_ns[w] == NEVER]
    if flying and missing is not None:
        return [f"write {flying[0]} was in flight and survives without {missing}"]
    return []
