# SPDX-License-Identifier: Apache-2.0
"""The power of a foreign machine: somebody's commands on this host."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Final

from powercut.model.errors import DeadlineExceeded, HostError
from powercut.sandbox.printed import end_of, printed
from powercut.scenario.settings_machine import PowerSettings

IS_OFF: Final = re.compile(r"\b(power(ed)?[ -]?)?off\b", re.IGNORECASE)
"""What `status` prints of a machine that is off: ipmitool's `Chassis Power is off`, VirtualBox's
`VMState="poweroff"`, libvirt's `shut off`, a plug's `"output": "off"`."""

_SHOWN: Final = 300


class Power:
    """Switches; without settings there is nothing to switch."""

    def __init__(self, settings: PowerSettings | None) -> None:
        self._settings = settings
        self.said: list[str] = []
        """What was run, and what it printed, for a person."""

    @property
    def can_cut(self) -> bool:
        """Whether there is a command for it."""
        return self._settings is not None

    @property
    def can_start(self) -> bool:
        """Whether there is a command for it."""
        return bool(self._settings and self._settings.on)

    def problems(self) -> Iterator[str]:
        settings = self._settings
        if settings is None:
            return
        for key in ("off", "on", "status"):
            for command in getattr(settings, key):
                if shutil.which(command[0]) is None:
                    yield f"machine.power.{key}: {command[0]}: there is no such program here"

    def off(self, *, timeout_s: float) -> None:
        """Takes it away.  Raises HostError if a command fails, DeadlineExceeded."""
        if self._settings is not None:
            self._run("off", self._settings.off, timeout_s)

    def on(self, *, timeout_s: float) -> None:
        """Gives it back; as `off`."""
        if self._settings is not None:
            self._run("on", self._settings.on, timeout_s)

    def is_off(self, *, timeout_s: float) -> bool | None:
        """Whether it is off, by the word of `status`; None if nothing says so.  As `off`."""
        if self._settings is None or not self._settings.status:
            return None
        return bool(IS_OFF.search(self._run("status", self._settings.status, timeout_s)))

    def _run(self, key: str, commands: tuple[tuple[str, ...], ...], timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        texts = [self._command(key, command, deadline - time.monotonic()) for command in commands]
        return "\n".join(texts)

    def _command(self, key: str, command: tuple[str, ...], timeout_s: float) -> str:
        words = f"machine.power.{key}: `{shlex.join(command)}`"
        with tempfile.TemporaryFile() as output:
            try:
                with printed(output.fileno()) as said:
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=said,
                        start_new_session=True,
                    )
            except OSError as error:
                raise HostError(f"{words} cannot be started: {error.strerror}") from None
            try:
                status = process.wait(max(timeout_s, 0.0))
            except subprocess.TimeoutExpired:
                _end(process)
                raise DeadlineExceeded(f"{words} did not end within {timeout_s:.0f} s") from None
            except BaseException:
                _end(process)
                raise
            text = end_of(output.fileno())
        self.said.append(f"{words}: status {status}: {text[-_SHOWN:]}")
        if status:
            raise HostError(
                f"{words} ended with status {status}: {text[-_SHOWN:] or 'it printed nothing'}",
                hint="try it by hand: it has to end with status 0",
            )
        return text


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
