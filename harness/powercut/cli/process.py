# SPDX-License-Identifier: Apache-2.0
"""Runs a command, says what went wrong, and picks the exit status (powercut.cli.main)."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from powercut.cli.commands import BrokenPipe, cli
from powercut.cli.output import INTERRUPTED, TROUBLE, echo
from powercut.model.errors import HostError, PowercutError, UsageError
from powercut.model.named_path import shown
from powercut.paths import INSTALLED, NOT_WRITABLE

NO_ROOM = "TMPDIR=/var/tmp, --results for results"
_FILES_MIN = 256


def run(closed: bool, signals: Sequence[int]) -> NoReturn:
    """Runs what the command line says and exits.  `closed`: there is no stdout; `signals` gets
    those that ask the process to end."""
    try:
        status = _status(closed, signals)
        _say_unkept_key()
    except (Exception, SystemExit) as error:  # status 1 would claim that a verdict differs
        completed = isinstance(error, SystemExit) and "_POWERCUT_COMPLETE" in os.environ  # by click
        if not completed:
            _say_unexpected(error.__cause__ or error if isinstance(error, BrokenPipe) else error)
        status = 0 if completed else TROUBLE
    try:
        sys.stdout.flush()
    except OSError as error:
        _end_if_unread()
        _drop(1)
        with contextlib.suppress(OSError):
            echo(f"powercut: stdout: {error.strerror}", err=True)
        status = TROUBLE
    try:
        sys.stderr.flush()
    except OSError:
        _drop(2)
    sys.exit(status)


def _status(closed: bool, signals: Sequence[int]) -> int:
    try:
        if closed:
            raise HostError("stdout is closed", hint="to discard the output: >/dev/null")
        _want_open_files()
        return int(cli.main(prog_name="powercut", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say_interrupted(signals)
    except PowercutError as error:
        return _say(error)
    except Exception as error:
        if signals:  # pydantic makes an error of its own of an interrupt
            return _say_interrupted(signals)
        mistake = None if _remedy(error) else mistake_of(error, sys.argv[1:])
        if mistake is None:
            raise
        return _say(mistake)


def _say_interrupted(signals: Sequence[int]) -> int:
    """The exit status, unless the process ends by the signal that it was."""
    number = signals[-1] if signals else signal.SIGINT
    with contextlib.suppress(OSError):  # a terminal that has been closed
        echo("interrupted" if number == signal.SIGINT else "ended by a signal", err=True)
    if number != signal.SIGINT:
        _end_by(number)
    _leave_at_once()
    return INTERRUPTED


def _say_unkept_key() -> None:
    own = sys.modules.get("powercut.store.own")  # it is imported by what seals a recording
    if own is not None and (told := own.unkept()):
        echo(f"powercut: {told}", err=True)


def _say(error: PowercutError) -> int:
    """The exit status, too."""
    echo(f"powercut: {error}", err=True)
    if error.hint:
        echo(f"hint: {error.hint}", err=True)
    if INSTALLED and isinstance(error, HostError):  # in a checkout the launcher installs them
        _say_missing_packages()
    return error.exit_status


def _say_missing_packages() -> None:
    """All at once: the error names the first that was missed."""
    from powercut.doctor.packages import missing

    if names := missing():
        as_root = "" if os.geteuid() == 0 else "sudo "
        line = f"{as_root}apt-get install --no-install-recommends {' '.join(names)}"
        echo(f"hint: {line}; or `powercut try --install`, which does that", err=True)


def _want_open_files() -> None:
    """What is started gets the same limit, and waits for what it cannot open.  Raises HostError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _FILES_MIN and hard >= _FILES_MIN:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_MIN, hard))
    elif 0 <= soft < _FILES_MIN:
        raise HostError(
            f"only {soft} files may be open at once; powercut needs {_FILES_MIN}",
            hint="ulimit -n 1024",
        )


def _end_if_unread() -> None:
    """Ends the process if what reads its output is gone: a pipe's reader, or a terminal."""
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    for stream, event in poll.poll(0):
        if event & (select.POLLERR | select.POLLHUP):
            terminal = stat.S_ISCHR(os.fstat(stream).st_mode)
            _end_by(signal.SIGHUP if terminal else signal.SIGPIPE)


def _end_by(number: int) -> NoReturn:
    """Ends the process by the signal, as if it had no handler; children end with it."""
    if number != signal.SIGPIPE:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    _drop(1)
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _drop(stream: int) -> None:
    """What could not be written is forgotten: Python would try once more, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _leave_at_once() -> None:
    """Ends the process if threads are still at work, for which the interpreter would wait.

    What they were making is not sealed; their children end with this process.
    """
    if threading.active_count() > 1:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(INTERRUPTED)


_HOST_ERRORS = {
    errno.ENOSPC: f"make room there, or have scratch files elsewhere: {NO_ROOM}",
    errno.EDQUOT: f"make room there, or have scratch files elsewhere: {NO_ROOM}",
    errno.EACCES: NOT_WRITABLE,
    errno.EPERM: NOT_WRITABLE,
    errno.EROFS: NOT_WRITABLE,
    errno.EMFILE: "allow this process more open files: ulimit -n 4096",
    errno.ENFILE: "the host has too many open files: see fs.file-max in proc_sys_fs(5)",
    errno.ENOMEM: "free memory, or allow this process more: ulimit -v unlimited",
    errno.EAGAIN: "allow this user more processes: ulimit -u",
}
"""What is the host's and not a bug of ours, with its remedy."""


def _remedy(error: BaseException) -> str:
    """Empty for what is no trouble of the host's."""
    return _HOST_ERRORS.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _say_unexpected(error: BaseException) -> None:
    """Says what has ended the command, if anybody can read it.

    A host without room, rights, files or memory is trouble of its own; all else is our bug.
    """
    if isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.EIO):
        _end_if_unread()
    try:
        _say_trouble(error)
    except OSError:
        _end_if_unread()


def _say_trouble(error: BaseException) -> None:
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if isinstance(error, OSError) and (remedy := _remedy(error)):
        place = error.filename2 or error.filename
        named = f"{os.fsdecode(place)}: " if isinstance(place, str | bytes) else ""
        echo(f"powercut: {named}{error.strerror}; nothing was proved", err=True)
        echo(f"hint: {remedy}", err=True)
        return
    traceback.print_exception(error)
    echo("powercut: this is a bug in powercut; nothing was proved", err=True)


# Which errors of the operating system are about a path that the user named.

_NO_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
"""What no name of powercut's own is: the path, or a part of it, is the user's."""


def mistake_of(error: BaseException, words: Sequence[str]) -> UsageError | None:
    """The user's mistake that `error` is on a command line of these words; None if it is none.

    It is one if its path is one of them, or lies above or below one.
    """
    if not isinstance(error, OSError):
        return None
    place = error.filename2 or error.filename
    if not isinstance(place, str | bytes) or not place:
        return None
    path = Path(os.fsdecode(place)).absolute()
    named = (word.partition("=")[2] if word.startswith("--") else word for word in words)
    if error.errno not in _NO_NAMES and not any(_along(path, word) for word in named if word):
        return None
    return UsageError(
        f"{shown(os.fsdecode(place))}: {error.strerror}", hint="name another path, or mend this one"
    )


def _along(path: Path, word: str) -> bool:
    named = Path(word).absolute()
    return path.is_relative_to(named) or named.is_relative_to(path)
