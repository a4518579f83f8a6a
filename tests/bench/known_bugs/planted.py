# SPDX-License-Identifier: Apache-2.0
"""The faults that powercut's own tests plant: disks that lie, and logs that are synced wrongly.

A log of one block a record on the bare disk, synced by a flush or by FUA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.known_bugs.case import Case, entry, read_entry
from bench.known_bugs.disks import BLOCK, Disk
from powercut.model.contract import DeviceContract, Honour

_RECORDS: Final = 128


def log(
    *,
    contract: DeviceContract | None = None,
    fua: bool = False,
    skip: int = 0,
    ahead: int = 0,
    group: int = 1,
) -> Case:
    """`skip`: every so many commits are not synced; `ahead`: every so many are acknowledged before
    their sync; `group`: records of one commit, in flight together.
    """
    disk = Disk(_RECORDS, contract)
    for first in range(1, _RECORDS + 1, group):
        numbers = range(first, first + group)
        commit = first // group + 1
        for number in numbers:
            disk.try_(number)
        places = [(number - 1, entry(number, BLOCK)) for number in numbers]
        if group > 1:
            disk.together(places)
        else:
            disk.write(*places[0], fua=fua)
        early = ahead and commit % ahead == 0
        if early:
            disk.ack(*numbers)
        if not fua and not (skip and commit % skip == 0):
            disk.flush()
        if not early:
            disk.ack(*numbers)
    return disk.case(
        lambda blocks: {
            number for number in range(1, _RECORDS + 1) if read_entry(blocks[number - 1]) == number
        }
    )


def of_disk(
    *, flush: bool = True, fua: bool = True, by_fua: bool = False
) -> Callable[[bool], Case]:
    """An honest log on a disk that ignores flushes, FUA or both."""
    lying = DeviceContract(
        atomic_unit=BLOCK,
        flush=Honour.HONOURED if flush else Honour.IGNORED,
        fua=Honour.HONOURED if fua else Honour.IGNORED,
    )
    return lambda faulty: log(contract=lying if faulty else None, fua=by_fua)


def of_log(*, group: int = 1, skip: int = 0, ahead: int = 0) -> Callable[[bool], Case]:
    """A log that is synced wrongly, on an honest disk."""
    return lambda faulty: log(group=group, skip=skip, ahead=ahead) if faulty else log(group=group)
