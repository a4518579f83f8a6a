# SPDX-License-Identifier: Apache-2.0
"""What a disk has to promise for the outcome of an exploration to hold on it."""

from __future__ import annotations

import io

from rich.console import Console

from powercut.crash.applied import Kept
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState
from powercut.explore.disks import DiskMedium
from powercut.explore.explorer import ExplorerRun
from powercut.explore.findings import FindingCollector
from powercut.explore.request import ExploreRequest
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report import words
from powercut.report.terminal.exploration import coverage_lines, print_exploration
from powercut.verdict.states import findings_of

LOST = Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, "mount: superblock", (LsnRange(1, 4),))


def printed(result):
    console = Console(file=io.StringIO(), width=300, color_system=None)
    print_exploration(console, result)
    return console.file.getvalue()


def explored(world, unit, states=()):
    """An exploration on a disk that tears at `unit`, with a loss planted in `states`."""
    made = world.disk(atomic_unit=unit)
    recorded = world.recorded(made, world.commits(made, 4))
    run = ExplorerRun(DiskMedium(recorded, ExploreRequest()), ExploreRequest())
    result = run.explore()
    for state in states:
        run.collected.add(state.policy, [LOST], lambda state=state: state)
    return result.model_copy(update={"findings": run.collected.findings(lambda _: "abc", None)})


def test_an_exploration_says_what_the_disk_has_to_promise(world):
    result = explored(world, 4096)
    assert result.atomic_unit == 4096
    line = "the disk has to promise: an aligned block of 4,096 bytes is written whole or not at all"
    assert line in coverage_lines(result)
    assert f"{line.replace('4,096', '512')}, the least that a disk with sectors promises" in (
        coverage_lines(explored(world, 512))
    )
    assert words.promise(1) == "nothing: a write may tear at any byte"
    earlier = result.model_copy(update={"atomic_unit": None})
    assert "promise" not in "".join(coverage_lines(earlier))


def state(begin, end, policy="torn"):
    return CrashState(125, (0,), (Kept(0, begin, end),), policy=policy)


def test_a_loss_by_a_finer_tear_than_disks_make_is_worded_as_a_promise(world):
    fine = [state(0, 256), state(256, 512)]  # the first record is one write of 512 bytes
    result = explored(world, 1, fine)
    (found,) = result.findings
    assert (found.verdict, found.states, found.torn_within) == (Verdict.LOSSY, 2, 2)
    assert (
        "it takes a disk that tears an aligned block of 4,096 bytes; one that promises to write "
        "such a block whole or not at all (disk.atomic_unit) cannot leave any of its states"
    ) in printed(result)
    (told,) = findings_of(result)
    assert told.message.endswith(
        "; a disk that writes an aligned block of 4,096 bytes whole or not at all cannot leave any "
        "of these states"
    )
    assert told.detail["torn_within"] == 2


def test_a_loss_that_no_promise_prevents_is_not_called_one(world):
    whole = CrashState(125, (), policy="durable-only")
    assert explored(world, 512, [whole]).findings[0].torn_within == 0
    mixed = explored(world, 1, [state(0, 256), whole])
    assert mixed.findings[0].torn_within == 1
    assert "1 of its states take a disk that tears" in printed(mixed)
    assert "cannot leave 1 of these states" in findings_of(mixed)[0].message


def test_a_disk_that_promises_as_much_as_others_is_asked_for_nothing(world):
    assert explored(world, 4096, [state(0, 256)]).findings[0].torn_within == 0
    collected = FindingCollector(lambda _: True)
    harmless = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "the engine failed")
    collected.add("torn", [harmless], lambda: state(0, 256))
    assert collected.findings(lambda _: "abc", None)[0].torn_within == 0


def test_another_unit_leaves_nothing_beside_the_recording(world):
    made = world.disk(atomic_unit=4096)
    recorded = world.recorded(made, world.commits(made, 4))
    finer = recorded.tearing_at(1)
    assert (recorded.space.unit, finer.space.unit) == (4096, 1)
    assert finer.evidence is recorded.evidence
    assert why_illegal(finer.space, state(0, 256)) == []
    (problem,) = why_illegal(recorded.space, state(0, 256))
    assert problem.startswith("write 0 tears at 4096 bytes")
