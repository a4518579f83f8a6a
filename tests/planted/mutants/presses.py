# SPDX-License-Identifier: Apache-2.0
"""Planted into the presser of recorded kernels, and into what is said where a kernel is the host's."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import NEIGHBOUR, PRESSER, PROGRAMS_VERDICT, SLOW_FOLDER

presser = planter("presser", PRESSER)
neighbour = planter("neighbour", NEIGHBOUR)
slow_folder = planter("slow-folder", SLOW_FOLDER)
boot = planter("boot", PROGRAMS_VERDICT)

_PRESS = "guests/common/press.c"

MUTANTS: tuple[Mutant, ...] = (
    *presser(
        _PRESS,
        (
            "same-value",
            At("write_back", 'turn++ % 2 == 0 ? "501" : "500"'),
            'turn++ % 2 == 2 ? "501" : "500"',
            "a recorded kernel is pressed in name alone: the same value wakes no flusher",
        ),
        (
            "no-quiet-turns",
            At("go_on", "pause_for(turn_of(rhythm->turn_ns, now_ns() - begun, &state))"),
            "(void)rhythm",
            "what another's flush makes durable by luck is never seen",
        ),
        (
            "no-pressed-turns",
            At("go_on", "while (now_ns() < until)"),
            "while (until == 0)",
            "the kernel is pressed once in 20 ms",
        ),
        (
            "turns-of-one-length",
            At("turn_of", "<= passed_ns / 8"),
            "<= passed_ns / 8 && first_ns == 0",
            "a slow operation has no quiet turn for itself",
        ),
        (
            "turns-without-measure",
            At("turn_of", "passed_ns / 8"),
            "passed_ns * 8",
            "one turn takes longer than the run",
        ),
        (
            "one-seed",
            At("press_on", "press.seed"),
            "0",
            "every run is pressed at the same instants",
        ),
        (
            "half-pauses",
            At("pause_for", "errno == EINTR"),
            "errno != EINTR",
            "a signal ends a pause",
        ),
        (
            "goes-on-unheard",
            At("write_back", "return -1;"),
            "return 0;",
            "a kernel that takes no value counts as pressed",
        ),
        (
            "takes-signals",
            At("start", "sigfillset(&all);"),
            "sigemptyset(&all);",
            "signals of the first process go to a thread that does not wait for them",
        ),
        (
            "keeps-signals-blocked",
            At("start", "pthread_sigmask(SIG_SETMASK, &before, NULL);"),
            "(void)before;",
            "the first process has its signals blocked from then on",
        ),
        (
            "neighbour-missing",
            At("press_begin", "press.count > 0 && start(commit_on) != 0"),
            "press.count > POINTS_MAX && start(commit_on) != 0",
            "nobody else commits on a program's file system",
        ),
        (
            "neighbour-says-the-same",
            At("commit_one", "pwrite(file, page, sizeof page, size)"),
            "pwrite(file, page, sizeof page, 0)",
            "a neighbour changes nothing that must be committed",
        ),
        (
            "neighbour-unsynced",
            At("commit_one", " && fsync(file) == 0"),
            "",
            "a neighbour that never syncs counts as one that commits",
        ),
        (
            "neighbour-without-room",
            At("commit_one", "sizeof page, size) == PAGE"),
            "sizeof page, size) != 0",
            "a sync of a neighbour that could write nothing counts as a commit",
        ),
        (
            "neighbour-without-btrfs",
            At("commit_one", "ioctl(file, BTRFS_IOC_START_SYNC, &transaction);"),
            "(void)transaction;",
            "on Btrfs a neighbour commits its own file alone",
        ),
        (
            "neighbour-one-seed",
            At("commit_on", "press.seed ^ 1"),
            "1",
            "in every run a neighbour commits at the same instants",
        ),
    ),
    *neighbour(
        "guests/uml/init.c",
        (
            "nowhere",
            At("press_all", "disks_points(points);"),
            "disks_points(points), points[0] = NULL;",
            "in User-Mode Linux nobody else commits on a program's file system",
        ),
        (
            "uncounted",
            At("pressed_put", "page->acked = done.commits;"),
            "page->acked = 0;",
            "a recording says that nobody else has committed",
        ),
    ),
    *presser(
        _PRESS,
        (
            "by-a-sync",
            At("write_back", "if (pwrite("),
            "if (sync(), pwrite(",
            "pressure makes durable what the program never synced",
        ),
    ),
    *slow_folder(
        "harness/capture/folder_wait.c",
        (
            "none",
            At("latency_ns", "if (slow)"),
            "if (slow && !slow)",
            "no sync of a captured folder is slow: who waits for 30 ms is SAFE",
        ),
    ),
    *boot(
        "harness/powercut/rig/commands.py",
        (
            "no-slow-flush",
            At("capture_config", "parameters.disk.may_be_slow"),
            "not parameters.disk.may_be_slow",
            "no flush of a program's disk is slow: who waits for 30 ms is SAFE",
        ),
        (
            "slow-flush-of-a-log",
            At("capture_config", "isinstance(parameters.workload, ProgramSettings)"),
            "True",
            "flushes of powercut's own log are slow, and its figures with them",
        ),
    ),
    *boot(
        "harness/powercut/verdict/untested.py",
        (
            "of-the-host-unsaid",
            At("untested_of_boots", "not new_clocks()"),
            "new_clocks() is None",
            "that a check sees the boot of the host is not said",
        ),
        (
            "of-the-host-of-guests",
            At("untested_of_program", "workload.where == LOOP"),
            "workload.where != 'none'",
            "a program in a virtual machine is said to have seen the boot of the host",
        ),
    ),
    *boot(
        "harness/powercut/verdict/folder.py",
        (
            "of-the-host-of-folders-unsaid",
            At("_untested", "yield from untested_of_boots()"),
            "yield from ()",
            "that a folder's check sees the boot of the host is not said",
        ),
    ),
)
