# SPDX-License-Identifier: Apache-2.0
"""Errors that speak to the user.

Whatever a user can cause or mend is a `PowercutError`: the command line prints
its message and its hint, without a traceback, and exits with its status.  Any
other exception is a bug in powercut.
"""

from __future__ import annotations

from typing import ClassVar


class PowercutError(Exception):
    """Something a user can mend.

    `hint` says what to do next.
    """

    exit_status: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(PowercutError):
    """A wrong command line or a wrong scenario."""

    exit_status = 2


class HostError(PowercutError):
    """This host lacks something, or something on it failed."""


class DamagedRecording(PowercutError):
    """A recording cannot be read any further; the message names the place."""


class DeadlineExceeded(PowercutError):
    """Something did not happen in time; the message says what and how long it waited."""
