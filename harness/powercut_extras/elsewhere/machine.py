# SPDX-License-Identifier: Apache-2.0
"""A machine that is there already: started, cut off, and known to have been.

Nothing shows the cut but this: the machine answers no more, or has another boot id, and after the
next boot it has another one in any case.  A cut that cannot be seen so is an error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from powercut.machine.port import Ended
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut_extras.elsewhere.power import Power
from powercut_extras.elsewhere.remote import NotLetIn, Remote, RemoteCommand, Unreachable

BOOT_ID: Final = "cat /proc/sys/kernel/random/boot_id"
"""Linux makes it anew at each boot (random(4))."""

_ID: Final = re.compile(r"[0-9a-f-]{36}")
_TRY_S: Final = 5.0
_GONE_S: Final = 60.0
_SWITCH_S: Final = 20.0  # for a command, however little time is left
_PAUSE_S: Final = 0.5
_RESTART: Final = (
    "test -w /proc/sysrq-trigger || exit 1; "
    "{ sleep 1; echo b > /proc/sysrq-trigger; } </dev/null >/dev/null 2>&1 &"
)
"""Restarts without a sync or an unmount (Documentation/admin-guide/sysrq.rst), once ssh has
answered."""


class ForeignMachine:
    """A `Machine` that can lose its power.

    `folder` outlives it: there the next machine finds the boot id of the one that was cut off.
    """

    def __init__(self, name: str, remote: Remote, power: Power, folder: Path) -> None:
        self._name = name
        self._remote = remote
        self._power = power
        self._file = folder / "boot-id"
        self._cut = False
        self._had_ended = False
        self.boot_id = ""
        self.writer: RemoteCommand | None = None
        """What works there until the cut, once the channel has started it."""

    def start(self, *, timeout_s: float) -> None:
        """Powers on where that is needed, and waits until ssh answers.

        Raises HostError if it does not, or if it has not been off since the last cut.
        """
        deadline = time.monotonic() + timeout_s
        before = self._file.read_text() if self._file.exists() else ""
        if self._wants_on(cut=bool(before)):
            self._power.on(timeout_s=max(deadline - time.monotonic(), _SWITCH_S))
        self.boot_id = self._wait_up(before, deadline)

    def lose_power(self, *, timeout_s: float) -> None:
        """By the command that the scenario has for it; returns once the machine is gone."""
        if self._cut:
            return
        self._begin_cut()
        self._power.off(timeout_s=max(timeout_s, _SWITCH_S))
        self._wait_gone(timeout_s)

    def kill(self, *, timeout_s: float) -> None:
        """The same: what the commands take is what their owner says that they take."""
        self.lose_power(timeout_s=timeout_s)

    def crash(self, *, timeout_s: float) -> None:
        """By the command, if there is one; else its kernel restarts at once."""
        if self._power.can_cut:
            self.lose_power(timeout_s=timeout_s)
            return
        self._begin_cut()
        if self._remote.run(_RESTART, timeout_s=timeout_s).status:
            raise HostError(
                f"{self._name}: this user may not restart the kernel (/proc/sysrq-trigger)",
                hint="log in as root, or say in machine.power.off what takes the power away",
            )
        self._wait_gone(timeout_s)

    @property
    def running(self) -> bool:
        return bool(self.boot_id) and not self._cut

    @property
    def ended(self) -> Ended | None:
        """BY_ITSELF if it said goodbye: a machine that shuts down ends its programs first."""
        if not self._cut:
            return None
        said = self.writer is not None and self.writer.ended_in_order
        return Ended.BY_ITSELF if said and not self._had_ended else Ended.KILLED

    @property
    def diagnosis(self) -> str:
        """The power commands and what they printed, and what the program printed there."""
        printed = self.writer.printed if self.writer is not None else ""
        lines = [f"{self._name}: boot id {self.boot_id or 'not known'}", *self._power.said]
        return "\n".join([*lines, *printed.splitlines()]) + "\n"

    def restore(self, *, timeout_s: float) -> None:
        """Gives the power back to a machine that was cut off, and waits for nothing."""
        if not self._cut:
            return
        try:
            self._power.on(timeout_s=timeout_s)
        except PowercutError as error:  # it may be on: then the command has nothing to do
            self._power.said.append(str(error))

    def _begin_cut(self) -> None:
        self._file.write_text(self.boot_id)
        self._had_ended = self.writer is not None and self.writer.ended_in_order
        self._cut = True

    def _wants_on(self, *, cut: bool) -> bool:
        """By the word of `status`; without, after a cut, or if nobody answers."""
        off = self._power.is_off(timeout_s=_SWITCH_S)
        if off is not None:
            return off
        return cut or (self._power.can_start and not self._answers())

    def _answers(self) -> bool:
        try:
            self._remote.connect(timeout_s=_TRY_S)
        except Unreachable:
            return False
        return True

    def _wait_up(self, before: str, deadline: float) -> str:
        """The boot id; not that of the machine that was cut off."""
        while True:
            try:
                self._remote.connect(timeout_s=_TRY_S)
                found = read_boot_id(self._remote, self._name)
            except (Unreachable, DeadlineExceeded) as error:
                why = f"{error}"
            except NotLetIn as error:
                if not before:
                    raise
                why = f"{error}"  # while it boots it may let nobody in
            else:
                if found != before:
                    return found
                raise HostError(
                    f"{self._name} answers, and its boot id is that of before the cut ({found}): "
                    "it did not lose its power",
                    hint="machine.power.off has to take the power away; try it by hand",
                )
            if time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_S)
        what = "did not come back" if before else "does not answer"
        raise DeadlineExceeded(
            f"{self._name} {what} before the deadline: {why}",
            hint="raise `deadline`, or look at the machine's console; machine.power.on starts it",
        )

    def _wait_gone(self, timeout_s: float) -> None:
        """Until nobody answers, or a machine that has booted since.  Raises HostError."""
        timeout_s = min(timeout_s, _GONE_S)
        wait_until(
            self._is_gone,
            timeout_s,
            HostError(
                f"{self._name} still answers {timeout_s:.0f} s after its power went, as the "
                "machine that it was: there was no cut",
                hint="machine.power.off has to take the power away; try it by hand",
            ),
        )

    def _is_gone(self) -> bool:
        off = self._power.is_off(timeout_s=_SWITCH_S)
        if off is not None:
            return off
        probe = self._remote.another()
        try:
            probe.connect(timeout_s=_TRY_S)
            return read_boot_id(probe, self._name) != self.boot_id
        except (Unreachable, NotLetIn, DeadlineExceeded):
            return True
        finally:
            probe.close()


def read_boot_id(remote: Remote, name: str) -> str:
    """What the machine's kernel says.  Raises HostError for one that has none."""
    done = remote.run(BOOT_ID, timeout_s=_TRY_S)
    if done.status or not _ID.fullmatch(done.text):
        raise HostError(
            f"{name}: it has no boot id ({BOOT_ID}), so that nothing would show a cut",
            hint="foreign machines run Linux",
        )
    return done.text


def wait_until(condition: Callable[[], bool], timeout_s: float, error: HostError) -> None:
    """Returns once `condition` holds; raises `error` if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise error
        time.sleep(_PAUSE_S)
