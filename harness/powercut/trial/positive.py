# SPDX-License-Identifier: Apache-2.0
"""Has a program's check show that it sees, where the cut has left a doubt of it
(powercut.model.positive has the rule).

If the check found every ack in what the cut left, nothing is done.  Else it is held against the
disk with everything that had been issued; and if it misses something there, too, against what a
run leaves that ended without a cut.  So an honest run costs nothing, and a program that loses
something costs one recovery, or one more run, or two.

Where it found every ack after the cut, it runs there once more while the kernel notes what it reads
(powercut.model.reads): a check that reads no value is no evidence, whatever it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from powercut.checkers.repetition import ASKED, TWICE, lose_the_same, loses
from powercut.crash.states import StateSpace
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.model.outside import LeftFiles, Link, outside_of
from powercut.model.reads import reads_of
from powercut.recording.sealed import SealedTrial
from powercut.recording.state_names import plain_state
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import DatesReads, ImageWrite, RecoveryEngine
from powercut.recover.state_image import image_write
from powercut.rig.recovery import going_on
from powercut.scenario.settings import ControlKind, ProgramSettings
from powercut.trial.job import RecordingInProgress
from powercut.workload.port import MOUNT_POINT, AcksByLines

_SLOWER: Final = 4.0
"""By how much the run that ends without a cut may be slower than the one that was cut."""

_LEAST_S: Final = 30.0
_FIRST_LEAST_S: Final = 10.0
_MORE_LEAST: Final = 16
"""The second run goes on by as many acks as count, and by so many at least: what writes each time
that it has acknowledged some more, and has done so once, does so again before that."""

Opened = Callable[[RecoveryPlan], AbstractContextManager[RecoveryEngine]]
"""An engine that is up for another plan on the same disk."""


def looked_again(
    run: RecordingInProgress, seen: Observation, look: Callable[[bool], Observation], differs: str
) -> Observation:
    """`seen`, which the check has said of what the cut left; or that it `differs`, if a further
    `look`, which is told whether it is the last, says something else.

    More often where it would convict; a control that must lose something convicts nobody.  A
    cluster has to say the same of what was acknowledged: on the rest who leads decides.
    """
    workload, nodes = run.workload, run.job.parameters.nodes
    assert isinstance(workload, AcksByLines)
    convicts = run.job.control in (None, ControlKind.HONEST)
    found = None
    if run.cut_ns is not None and (convicts or nodes):
        promises = SealedTrial(run.directory, cut_ns=run.cut_ns).promises
        found = partial(promises.check, promises.claims_received())

    def same(again: Observation) -> bool:
        if found is None or not nodes:
            return workload.same(seen, again)
        alike = lose_the_same(found(seen), found(again), nodes=nodes)
        return alike and seen.complete == again.complete

    looks = ASKED if convicts and found is not None and loses(found(seen)) else TWICE
    for number in range(2, looks + 1):
        if not same(look(number == looks)):
            return Observation.failed(Failure.NOT_REPEATED, differs)
    return seen


def look_where_nothing_was_lost(
    run: RecordingInProgress,
    engine: RecoveryEngine,
    plan: RecoveryPlan,
    other: Opened,
    left: Sequence[ImageWrite],
    *,
    timeout_s: float,
) -> None:
    """Leaves what the check finds there beside the recording, as far as it is needed.

    `observation.json` and the lines are there already; `left` is what the cut left of the disk,
    beyond what it was at power-on.  Raises PowercutError.
    """
    sealed = SealedTrial(run.directory, verify_payloads=False, cut_ns=run.cut_ns)
    if run.cut_ns is None or not sealed.needs_positive:
        return
    promises = sealed.promises

    def shown() -> bool:
        sealed.forget_seen()
        return sealed.positive is None or sealed.positive.passed

    if shown():
        if sealed.record.control is None and isinstance(engine, DatesReads):
            _note_reads(run, sealed, engine, left, timeout_s=timeout_s)
        return
    found = engine.recover(_issued(sealed, run.cut_ns), timeout_s=timeout_s)
    run.directory.write_whole(run.directory.issued, found)
    if shown():
        return
    acked = promises.acked
    took_s = (run.cut_ns - (promises.start_ns or run.cut_ns)) / 1e9
    # A program may be made to acknowledge so many operations and no more.
    more = max(_MORE_LEAST, acked)
    for acks, least_s in ((acked, _FIRST_LEAST_S), (acked + more, _LEAST_S)):
        seconds = max(least_s, _SLOWER * took_s * acks / max(1, acked))
        going = going_on(plan, run.job.parameters, run.job.run_id, acks, seconds=seconds)
        with other(going) as second:
            ended = second.recover([], timeout_s=timeout_s + seconds)
        run.directory.write_whole(run.directory.ended, ended)
        if shown() or not (found.complete or _complete(ended)):
            return  # a check that does not come to its end anywhere is asked no more


def _complete(ended: Observation) -> bool:
    return ended.later is not None and ended.later.observation.complete


def _note_reads(
    run: RecordingInProgress,
    sealed: SealedTrial,
    engine: DatesReads,
    left: Sequence[ImageWrite],
    *,
    timeout_s: float,
) -> None:
    """What the check reads of what `left` adds, if it says the same as before, and what of the
    program's files lies outside.

    A machine that does not list what it had in memory may have had anything there that a link leads
    to."""
    workload = run.workload
    assert isinstance(workload, AcksByLines)
    _, before = engine.files_read([], check=False, timeout_s=timeout_s)
    seen, after = engine.files_read(left, check=True, timeout_s=timeout_s)
    if before is None or after is None:
        return
    reads = reads_of(before, after)
    if workload.same(seen, sealed.observation):
        run.reads = reads
    settings = run.job.parameters.workload
    outside = outside_of(
        MOUNT_POINT,
        [Link(one.path, one.target) for one in after if one.target],
        run.left or LeftFiles(cut=True),
        settings.scratch if isinstance(settings, ProgramSettings) else (),
        alone=not reads.written,
    )
    if run.left is not None or outside.led_out:
        run.outside = outside


def _issued(sealed: SealedTrial, cut_ns: int) -> list[ImageWrite]:
    space = StateSpace(sealed.disk_log, sealed.promises.requirements)
    writes = space.image_writes(plain_state(space, cut_ns, everything=True))
    return [image_write(one) for one in writes]
