# SPDX-License-Identifier: Apache-2.0
"""Archives are read in this process: for thousands of them, and to measure what one costs."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

from powercut.sandbox import archive, archive_inside


def _here(argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
    begin = argv.index(str(Path(archive_inside.__file__))) + 1
    with redirect_stderr(io.StringIO()) as said:
        status = archive_inside.main(list(argv[begin:]))
    return subprocess.CompletedProcess(argv, status, "", said.getvalue())


@contextmanager
def archives_read_here() -> Iterator[None]:
    """The reader of archives without its sandbox, for as long."""
    with mock.patch.object(archive, "run_confined", _here):
        yield
