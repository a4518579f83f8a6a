# SPDX-License-Identifier: Apache-2.0
"""A program under test in Python: sugar for the lines of docs/adding-a-program.md.

from powercut_program import main, Session

def setup(folder: str) -> None: ...
def run(folder: str, session: Session) -> None: ...
def check(folder: str, session: Session) -> None: ...

main(setup, run, check)

As a pytest test, without main: a class with these three as methods, below `@program(acks=200)`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

MARK = "__powercut__"
"""Attribute of a class that is a test: the options of `powercut try` that it wants."""


class Session:
    """Says what the program does; each call is one write."""

    def __init__(self) -> None:
        self._fd = int(os.environ["POWERCUT_FD"])

    def _say(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())

    def atomic(self) -> None:
        """Before all others: an operation that was tried is there whole, or not at all."""
        self._say("atomic")

    def promise(self, less: str) -> None:
        """Before all others: it keeps a "prefix" of what it acknowledges, or only "opens"."""
        self._say(f"promise {less}")

    def ready(self) -> None:
        """Work begins."""
        self._say("ready")

    def trying(self, operation: int) -> None:
        """`operation` may leave a trace from now on."""
        self._say(f"? {operation}")

    def durable(self, operation: int) -> None:
        """`operation` was promised to survive a power cut."""
        self._say(f"+ {operation}")

    def failed(self, operation: int) -> None:
        """`operation` has failed, and may or may not be there."""
        self._say(f"- {operation}")

    def present(self, first: int, last: int | None = None) -> None:
        """check: these operations are there, and right."""
        self._say(f"= {first}" if last is None else f"= {first}-{last}")

    def wrong(self, operation: int, reason: str) -> None:
        """check: the operation is there, and wrong."""
        self._say(f"x {operation} {reason}")

    def bad(self, reason: str) -> None:
        """check: the store contradicts itself."""
        self._say(f"bad {reason}")


def stay(folder: str, check: Callable[[str, Session], None]) -> None:
    """Checks in a process of its own for each byte that comes in; loading it all is done once."""
    lines = int(os.environ["POWERCUT_FD"])
    os.write(lines, b"ready\n")
    while os.read(0, 1):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                check(folder, Session())
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        os.write(lines, b"done %d\n" % os.waitstatus_to_exitcode(status))


def main(
    setup: Callable[[str], None],
    run: Callable[[str, Session], None],
    check: Callable[[str, Session], None],
) -> None:
    """Calls what the command line asks for: the last two words are verb and folder."""
    verb, folder = sys.argv[-2:]
    if verb == "setup":
        setup(folder)
    elif verb == "run":
        run(folder, Session())
    elif verb == "check":
        check(folder, Session())
    elif verb == "checks":
        stay(folder, check)
    else:
        sys.exit(f"usage: {sys.argv[0]} [SETTING...] setup|run|check DIR")


def program(**options: object) -> Callable[[_Class], _Class]:
    """Decorator of a class with the methods setup, run and check: pytest cuts its power.

    `options` are those of `powercut try`: filesystem="xfs", acks=200, portable=True,
    env={"NAME": "VALUE"}.
    """

    def marked(cls: _Class) -> _Class:
        setattr(cls, MARK, options)
        return cls

    return marked


def _loaded(file: str, name: str) -> object:
    """An instance of the class `name`, MODULE:CLASS, of a test file, loaded without pytest."""
    module_name, _, class_name = name.partition(":")
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file}: it is no Python file")
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = functools.reduce(getattr, class_name.split("."), module)
    return found()  # type: ignore[operator]


if __name__ == "__main__":
    sys.modules["powercut_program"] = sys.modules[__name__]  # what the file imports is this
    del sys.path[0]  # where this file lies is the test file's affair
    _test = _loaded(*sys.argv[1:3])
    main(*(getattr(_test, verb) for verb in ("setup", "run", "check")))
