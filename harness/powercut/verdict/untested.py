# SPDX-License-Identifier: Apache-2.0
"""What a verdict does not speak of, each in a few words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.creation import UNKNOWN_CREATION
from powercut.model.outside import UNKNOWN_OUTSIDE
from powercut.model.positive import PositiveControl, Whole
from powercut.model.reads import UNKNOWN_READS
from powercut.rig.commands import is_pressed
from powercut.sandbox.rebooted import new_clocks
from powercut.scenario.choices import Writeback
from powercut.scenario.machines import LOOP
from powercut.scenario.settings import ProgramSettings
from powercut.store.trial_dir import TrialRecord

BOOT_OF_THE_HOST: Final = (
    "a program that asks the kernel when the machine booted: its check sees the boot of this host, "
    "as if nothing had been cut, since no time namespace can be made here (Linux 5.6 has them)"
)
"""What a verdict says of a program that ran on the host's kernel where `new_clocks` are not had."""

_WRITEBACK: Final = (
    "an order of writes that is the page cache's to choose: {}, and in a short run a kernel writes "
    "back nothing before a sync asks for it"
)
_USUAL: Final = "workload.writeback is `usual`"
_COMMITS: Final = (
    "changes that another's sync commits before the program's own: {}, and in a short run no timer "
    "of a file system commits"
)


def untested_of(record: TrialRecord) -> Iterator[str]:
    """What no part of the recording tested."""
    if record.parameters.workload.writeback is Writeback.USUAL:
        yield _WRITEBACK.format(_USUAL)


def _unpressed(record: TrialRecord) -> str:
    """Why the kernel under a program was to be left alone; empty if it was not."""
    if record.parameters.workload.writeback is Writeback.USUAL:
        return _USUAL
    if is_pressed(record.parameters):
        return ""
    return "the kernel that it ran on is not powercut's to press"


def untested_of_program(
    record: TrialRecord, positive: PositiveControl | None = None
) -> Iterator[str]:
    """The same of a program, which has a `setup`, an environment, and may run on any machine."""
    if record.creation is None:
        yield UNKNOWN_CREATION
    elif not record.creation.doubt:  # which says the same, and more
        yield record.creation.words
    if record.reads is not None and record.reads.words:
        yield record.reads.words
    found = positive is not None and positive.passed and positive.where is Whole.CUT
    if found and record.reads is None and record.control is None:
        yield UNKNOWN_READS
    if record.outside is not None and record.outside.words and not record.outside.doubt:
        yield record.outside.words
    if found and record.outside is None and record.control is None:
        yield UNKNOWN_OUTSIDE
    if record.withheld.words:
        yield record.withheld.words
    yield from untested_of(record)
    why = _unpressed(record)
    if not record.pressed.writebacks and why != _USUAL:
        yield _WRITEBACK.format(why or "the kernel that it ran on was not told to write back")
    if not record.pressed.commits:
        yield _COMMITS.format(why or "no neighbour's sync has returned until the cut")
    workload = record.parameters.workload
    if isinstance(workload, ProgramSettings) and workload.where == LOOP:
        yield from untested_of_boots()


def untested_acks(keeps: str) -> Iterator[str]:
    """Acks of a program that promises less than to keep each (OperationHistory.keeps)."""
    if keeps == "prefix":
        yield (
            "whether its last acknowledged operations survive: the program promises a prefix, and "
            "a loss is a hole before the last operation that is there"
        )
    if keeps == "opens":
        yield (
            "whether acknowledged operations survive: the program promises that it opens, and that "
            "what is there is right"
        )


def untested_of_boots() -> Iterator[str]:
    """The same of a program that ran on this host's kernel, where its check runs as well."""
    if not new_clocks():
        yield BOOT_OF_THE_HOST
