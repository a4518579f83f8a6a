# SPDX-License-Identifier: Apache-2.0
"""The process: its signals, its standard streams, and the exit status.

Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a mistake
on the command line or in a scenario; 3 inconclusive, or trouble with this host (also a
bug in powercut); 130 interrupted.  SIGTERM, SIGHUP (also where the terminal has gone), and SIGPIPE
(what reads the output has gone) end the process as signals do; a shell tells 143, 129 and 141.

This file imports little: until the commands are there Ctrl-C ends the process at once, without
a word.
"""

from __future__ import annotations

import codecs
import faulthandler
import io
import locale
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_UTF8 = ("-X", "utf8")
_CTRL_C = (signal.SIGINT,)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_USUAL = (signal.SIG_DFL, signal.default_int_handler)
_IMPORT = "<frozen importlib._bootstrap>"
_IMPORT_S = 0.02
"""How long a signal waits for an import before it is looked at again."""


def main() -> None:
    """Runs the command line and exits."""
    signals: list[int] = []
    try:
        with _ending_at_once():
            _speak_utf8()
            closed = _hold_streams()
            # A mapped file that another truncates, or whose disk fails, ends us (SIGBUS).
            faulthandler.enable(2)
            from powercut.cli.process import run
        with _ended_tidily(signals):
            run(closed, signals)
    except KeyboardInterrupt:  # between the two, or before the first has begun
        number = signals[-1] if signals else signal.SIGINT
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    except Exception:  # before there were commands; Python's 1 would claim that a verdict differs
        from traceback import print_exc

        try:
            print_exc()
            sys.stderr.flush()
        except OSError:  # which Python's own end would meet again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.exit(3)


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """Ctrl-C has its usual effect of a process, and no traceback.

    The launcher has blocked it: Python would have ended in a traceback before it came here.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
        yield  # ignored, as below nohup: it stays so
        return
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _ended_tidily(signals: list[int]) -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, too, unless ignored; `signals` gets each.

    While a module is imported they wait: a library that makes its classes may forget them.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if _importing(frame):
            # A thread to wait would need a lock that the interrupted code may hold.
            signal.signal(signal.SIGALRM, lambda _, later: end(number, later))
            signal.setitimer(signal.ITIMER_REAL, _IMPORT_S)
            return
        signals.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        # The next one ends the process at once; but of a closed terminal the shell and the kernel
        # send one each.
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        raise KeyboardInterrupt(number)

    usual = {one: had for one in _ENDING if (had := signal.getsignal(one)) in _USUAL}
    try:
        for number in usual:
            signal.signal(number, end)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in usual.items():
            signal.signal(number, handler)


def _importing(frame: FrameType | None) -> bool:
    """Whether what a signal has interrupted is an import that `main` has come to."""
    while frame is not None and frame.f_code is not main.__code__:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


def _speak_utf8() -> None:
    """Files and names of files are UTF-8, whatever the locale says; the terminal has the locale's.

    Python has that mode from its start only, so it is started anew.
    """
    if not sys.flags.utf8_mode and not _is_utf8(locale.getencoding(), sys.getfilesystemencoding()):
        signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)
        os.execv(sys.executable, [sys.executable, *_UTF8, *sys.orig_argv[1:]])
    if tuple(sys.orig_argv[1:3]) == _UTF8:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding=locale.getencoding(), errors="backslashreplace")


def _is_utf8(*names: str) -> bool:
    return {codecs.lookup(name).name for name in names} == {"utf-8"}


def _hold_streams() -> bool:
    """Whether stdout was closed when the process began.

    A file opened later would take the place of a stream that is closed, and get what is printed.
    """
    closed = []
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            closed.append(stream)
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if 2 in closed:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if 1 in closed:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    return 1 in closed


if __name__ == "__main__":
    main()
