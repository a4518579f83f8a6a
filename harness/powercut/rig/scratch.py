# SPDX-License-Identifier: Apache-2.0
"""A folder for sockets and other things that must be gone afterwards, whatever happens.

A context manager alone cannot clean up after SIGKILL.  So each scratch folder has a
janitor: a shell that waits for the end of a pipe that only this process holds.  When
the process ends, in whatever way, the kernel closes the pipe and the janitor removes
the folder.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_JANITOR: Final = 'cat >/dev/null; exec rm -rf -- "$0"'
_TIMEOUT_S: Final = 10.0


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder with a short path (a unix socket's has at most 107 bytes)."""
    folder = Path(tempfile.mkdtemp(prefix="powercut-"))
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
        shutil.rmtree(folder, ignore_errors=True)
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait(timeout=_TIMEOUT_S)
