# SPDX-License-Identifier: Apache-2.0
"""Where a program asks for its data to be durable."""

from __future__ import annotations

from typing import Final

from powercut.store.record import Record

_LIBRARIES: Final = ("libc.so", "libc-", "libpthread", "ld-linux", "ld-musl")
_RUNTIMES: Final = (
    *("syscall.", "internal/", "os.(*File)", "runtime."),
    *("__syscall_cancel", "__internal_syscall_cancel"),  # glibc from 2.41 on, static programs too
)


class CalledFrom(Record):
    """One frame of a call's stack."""

    module: str
    """The file; `[memory]` for code that is in none."""

    address: int
    """As the module's symbols have it."""

    name: str
    """Function and line, as far as symbols say; else module and address."""


class SyncSite(Record):
    """A call site: system call, stack and file."""

    number: int
    """From 1, in the order in which they were first seen."""

    key: str
    """What `workload.dropped_sync` calls it."""

    call: str
    """The system call."""

    path: str
    """The file, below the program's folder where it lies there, with # for numbers; empty if the
    call has none."""

    calls: int
    """How often it was made."""

    stack: tuple[CalledFrom, ...] = ()
    """Innermost first."""

    @property
    def opens(self) -> bool:
        """Whether it opens a file with O_SYNC or O_DSYNC: not a sync."""
        return self.call.startswith("open(")

    @property
    def caller(self) -> str:
        """The innermost function that is not the C library's or the language's own."""
        return self.callers[0]

    @property
    def callers(self) -> tuple[str, ...]:
        """That function, and those that called it, innermost first; one at least."""
        own = [
            frame
            for frame in self.stack[1:]
            if not _is_library(frame) and frame.name != self.call  # below glibc's cancellation
        ]
        return tuple(frame.name for frame in own or self.stack[1:] or self.stack) or ("?",)

    @property
    def what(self) -> str:
        """The call and its file."""
        return f"{self.call} {self.path}" if self.path else self.call


def _is_library(frame: CalledFrom) -> bool:
    module = frame.module.rpartition("/")[2]
    return module.startswith(_LIBRARIES) or frame.name.startswith(_RUNTIMES)
