# SPDX-License-Identifier: Apache-2.0
"""Planted where trials share: a disk at power-on, a kernel that recovers, what of it is read."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import BOOTS, CONTROLS, DIFFERENCE, NATIVE, SAID, SHELF

_P = "harness/powercut"
begins = planter("begins-alike", CONTROLS)
shelf = planter("shelf", SHELF)
difference = planter("difference", DIFFERENCE)
said = planter("said", SAID)
boots = planter("boots", BOOTS)
native = planter("native", NATIVE)

MUTANTS: tuple[Mutant, ...] = (
    *begins(
        f"{_P}/trial/controls.py",
        (
            "whatever-the-file-system",
            At("_of_setup", "_SETUP_IGNORES"),
            "{**_SETUP_IGNORES, 'filesystem': True}",
            "a control begins with a disk that has another file system",
        ),
        (
            "whatever-the-command",
            At("_of_setup", "_SETUP_IGNORES"),
            "{**_SETUP_IGNORES, 'workload': {'command'}}",
            "a control begins with what another program's `setup` has made",
        ),
        (
            "whatever-the-variables",
            At("_of_setup", "_SETUP_IGNORES"),
            "{**_SETUP_IGNORES, 'workload': {'env'}}",
            "a control begins with what `setup` has made of other variables",
        ),
        (
            "whatever-the-machine",
            At("_of_setup", "_SETUP_IGNORES"),
            "{**_SETUP_IGNORES, 'machine': True}",
            "a control begins with a disk whose kernel was told something else",
        ),
        (
            "whatever-the-size",
            At("_of_setup", "_SETUP_IGNORES"),
            "{**_SETUP_IGNORES, 'disk': True}",
            "a control begins with a disk of another size",
        ),
        (
            "traced-or-not",
            At("_of_setup", "told['workload']['syncs'] == 'dropped'"),
            "True",
            "a control begins with what `setup` has made under a tracer",
        ),
        (
            "whatever-the-workload",
            At("begins_alike", "isinstance(each.workload, ProgramSettings)"),
            "True",
            "a disk that mkfs makes is said to be made by `setup`",
        ),
    ),
    *begins(
        f"{_P}/campaign/run.py",
        (
            "a-boot-before-the-cut",
            At("Run._first_alike", "control.expected is Verdict.SAFE"),
            "False",
            "an honest control is checked by a kernel that booted before its run",
        ),
    ),
    *shelf(
        f"{_P}/rig/engine_shelf.py",
        (
            "whatever-the-kernel",
            At("_key", "HOST if order.kernel is None else order.kernel.name"),
            "HOST",
            "states are recovered by the kernel of another suite",
        ),
        (
            "whatever-the-layers",
            At("_key", "order.plan.layers"),
            "None",
            "states are recovered through the layers of another plan",
        ),
        (
            "whatever-the-disks",
            At("_key", "order.plan.disks"),
            "()",
            "states of several disks are mounted as those of another plan",
        ),
        (
            "whatever-the-root",
            At("_key", "host is None"),
            "True",
            "a check runs on the files that another plan's had",
        ),
        (
            "whatever-the-base",
            At("_key", "_identity(order.base)"),
            "(0, 0, 0, 0)",
            "states are laid over the disk of another recording",
        ),
        (
            "lent-after-trouble",
            At("EngineShelf._lend", "engine.close()"),
            "self._put(key, engine)",
            "an engine in which something went wrong recovers for the next",
        ),
        (
            "plan-of-the-last",
            At("EngineShelf._lend", "engine.follow(order.plan, timeout_s=_START_S)"),
            "None",
            "an engine recovers by the plan of whoever had it before",
        ),
    ),
    *shelf(
        f"{_P}/recover/uml/engine.py",
        (
            "another-mount-has-worked",
            At("UmlEngine.follow", "self._mounts if same else None"),
            "self._mounts",
            "a mount that is refused for its options is held against the state",
        ),
    ),
    *difference(
        f"{_P}/rig/image_open.py",
        (
            "holes-of-the-base-skipped",
            At("changed_parts", "{*_parts_with_data(base), *_parts_with_data(image)}"),
            "{*_parts_with_data(base)}",
            "what was written where the base has a hole is not in the state",
        ),
        (
            "holes-of-the-image-skipped",
            At("changed_parts", "{*_parts_with_data(base), *_parts_with_data(image)}"),
            "{*_parts_with_data(image)}",
            "what was discarded comes back in the state",
        ),
        (
            "one-stretch-of-data",
            At("_parts_with_data", "yield from range(begin // _PART, -(-end // _PART))"),
            "yield from range(begin // _PART, -(-end // _PART))\nreturn",
            "what lies behind the first hole is not compared",
        ),
        (
            "begun-parts-skipped",
            At("_parts_with_data", "-(-end // _PART)"),
            "end // _PART",
            "data that ends within a part is not compared",
        ),
    ),
    *said(
        f"{_P}/channel/line_channel.py",
        (
            "too-much-goes-on",
            At(
                "LineChannel._keep",
                "if self._counter.too_much:\n    raise OSError(errno.EFBIG, f'it said {self._counter.too_much}')",
            ),
            "pass",
            "lines without end do not end the run",
        ),
        (
            "too-much-unnamed",
            At("LineChannel._keep", "f'it said {self._counter.too_much}'"),
            "'it said too much'",
            "a run ends, and nothing says that the program said too much",
        ),
        (
            "a-deaf-channel",
            At("LineChannel._receive", "self._hear_out()"),
            "None",
            "a guest whose lines cannot be kept stands still, and is never cut",
        ),
    ),
    *said(
        f"{_P}/channel/lines.py",
        (
            "lines-uncounted",
            At("LineCounter._count", "self._lines += lines"),
            "self._lines += 0",
            "short lines without end do not end the run",
        ),
        (
            "writes-uncounted",
            At("LineCounter._count", "self._writes += 1"),
            "self._writes += 0",
            "writes without end of a line do not end the run",
        ),
        (
            "a-line-without-end",
            At("LineCounter._count", "self._unfinished + behind"),
            "behind",
            "a line without end does not end the run",
        ),
        (
            "an-end-is-overlooked",
            At("LineCounter._count", "behind if lines else self._unfinished + behind"),
            "self._unfinished + behind",
            "an honest program that says much is INCONCLUSIVE",
        ),
    ),
    *said(
        f"{_P}/workload/program/lines.py",
        (
            "the-rest-is-silence",
            At("_read", "problems.add(f'more than {LINES_MAX:,} lines')"),
            "None",
            "a history of which the end was not read is whole",
        ),
    ),
    *said(
        f"{_P}/rig/folder_acks.py",
        (
            "a-captured-command-says-on",
            At(
                "FolderAcks.hear",
                "self._counter.too_much or 0 < self._wanted <= self._counter.acks",
            ),
            "0 < self._wanted <= self._counter.acks",
            "a captured command that says lines without end is not ended",
        ),
    ),
    *boots(
        "guests/uml/root.c",
        (
            "one-for-all",
            At("root_fresh", "if (is_set_up && boot_again() != 0)"),
            "if (false && boot_again() != 0)",
            "an honest store that trusts unsynced data until a boot loses it",
        ),
        (
            "memory-lives-on",
            At("remove_one", "return at->level == 0 || remove(path) == 0 ||"),
            "return at->level >= 0 || path == NULL ||",
            "what a check leaves in /tmp is there for the next state",
        ),
    ),
    *native(
        f"{_P}/recover/native/check.py",
        (
            "boot-of-the-host",
            At("CheckSandbox._start", "booted_by(boot)"),
            "()",
            "a program that ran on the host's kernel finds that it was never cut",
        ),
        (
            "clocks-of-the-host",
            At("_sandbox", "new_clocks()"),
            "()",
            "such a program finds by the instant of the boot that it was never cut",
        ),
    ),
)
