# SPDX-License-Identifier: Apache-2.0
"""A folder for sockets and other things that must be gone afterwards, whatever happens.

A context manager alone cannot clean up after SIGKILL.  So each scratch folder has a
janitor: a shell that waits for the end of a pipe that only this process holds.  When
the process ends, in whatever way, the kernel closes the pipe and the janitor removes
the folder.

Its name goes into command lines that have a syntax of their own: User-Mode Linux splits words at
blanks, and its options at colons and commas.  Not all of them can quote.  So where TMPDIR's name
would not pass through all of them, the folder is made elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError

_JANITOR: Final = 'cat >/dev/null; exec rm -rf -- "$0"'
_TIMEOUT_S: Final = 10.0
_PREFIX: Final = "powercut-"
_RANDOM: Final = 8  # what mkdtemp adds
_SOCKET_PATH_MAX: Final = 107  # unix(7)
_BELOW_MAX: Final = 32
"""Bytes of the longest path below a scratch folder: /recovery-again/lines, and room for more."""
_PLAIN: Final = re.compile(r"[\w/.+@~-]+")
"""A name without a character that any program's options treat as more than a part of a name."""
_ELSEWHERE: Final = ("/tmp", "/var/tmp", "/dev/shm")


def _base() -> str:
    """Where scratch folders are made: where TMPDIR says, if its name is plain.

    Raises HostError if neither that will do nor any other place.
    """
    wanted = tempfile.gettempdir()
    if _PLAIN.fullmatch(wanted):
        return wanted
    for folder in _ELSEWHERE:
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise HostError(
        f"TMPDIR has a name that cannot be handed to other programs, {wanted!r}, and none of "
        f"{', '.join(_ELSEWHERE)} can be written to",
        hint="set TMPDIR to a folder whose name has letters, digits and none but /.+@~_- besides",
    )


def require_room_for_sockets() -> None:
    """Raises HostError if the path of a scratch folder would be too long for sockets in it."""
    base = _base()
    most = _SOCKET_PATH_MAX - _BELOW_MAX - len(_PREFIX) - _RANDOM - 1
    length = len(os.fsencode(base))
    if length > most:
        raise HostError(
            f"the folder for temporary files has a path of {length} bytes, and sockets are made in "
            f"it whose paths may have {_SOCKET_PATH_MAX} at most: {base}",
            hint=f"set TMPDIR to a folder with a path of {most} bytes or fewer, such as /tmp",
        )


@contextmanager
def scratch(within: Path | None = None) -> Iterator[Path]:
    """A new folder with a short path (a unix socket's has at most 107 bytes); one `within` another
    has room for recordings, and may have a longer one."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within or _base()))
    janitor = subprocess.Popen(
        ["/bin/sh", "-c", _JANITOR, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the terminal's ^C is not for the janitor
        cwd="/",
    )
    try:
        yield folder
    finally:
        with suppress(RecursionError):  # of a program's folders: the janitor removes them
            shutil.rmtree(folder, ignore_errors=True)
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait(timeout=_TIMEOUT_S)
