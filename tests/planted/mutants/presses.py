# SPDX-License-Identifier: Apache-2.0
"""Planted into the presser of recorded kernels, and into what is said where a kernel is the host's."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import PRESSED, PRESSED_ALONE, PRESSER, PROGRAMS_VERDICT

presser = planter("presser", PRESSER)
pressed = planter("pressed", PRESSED)
pressed_alone = planter("pressed", PRESSED_ALONE)
boot = planter("boot", PROGRAMS_VERDICT)

_PRESS = "guests/common/press.c"

MUTANTS: tuple[Mutant, ...] = (
    *presser(
        _PRESS,
        (
            "same-value",
            At("press_on", 'other ? "501" : "500"'),
            '"500"',
            "a recorded kernel is pressed in name alone: the same value wakes no flusher",
        ),
        (
            "no-quiet-turns",
            At("press_on", "pause_for(TURN_NS / 2 + draw(&state) % TURN_NS)"),
            "(void)TURN_NS",
            "what another's flush makes durable by luck is never seen",
        ),
        (
            "no-pressed-turns",
            At("press_on", "while (now_ns() < until)"),
            "while (until == 0)",
            "the kernel is pressed once in 20 ms",
        ),
        (
            "one-seed",
            At("press_on", "state = seed"),
            "state = 0 * seed",
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
            At("press_on", "_exit(1)"),
            "continue",
            "one whose kernel takes no value stays",
        ),
        (
            "keeps-descriptors",
            At("press_begin", "close(fd);"),
            "(void)fd;",
            "what waits for the end of a program's lines waits for ever",
        ),
        (
            "keeps-signals-blocked",
            At("press_begin", "sigprocmask(SIG_SETMASK, &none, NULL);"),
            "",
            "the presser has its parent's signals blocked",
        ),
        (
            "killed-for-good",
            At("press_again", "gone == presser && WIFSIGNALED(status)"),
            "gone != gone && WIFSIGNALED(status)",
            "a program that kills all others is SAFE whatever order it relies on",
        ),
    ),
    *pressed_alone(
        "guests/uml/init.c",
        (
            "alone-unheard",
            At("wait_listening", "press_again(ended, other);"),
            "",
            "the same in User-Mode Linux, where none hears of the end of the presser",
        ),
    ),
    *pressed(
        _PRESS,
        (
            "by-a-sync",
            At("press_on", 'pwrite(interval, other ? "501" : "500", 3, 0) != 3'),
            '(sync(), pwrite(interval, other ? "501" : "500", 3, 0)) != 3',
            "pressure makes durable what the program never synced",
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
