# SPDX-License-Identifier: Apache-2.0
"""`powercut WORDS`, in this process: what it imports, most of a short command's time, is there."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from powercut.cli.main import main


def powercut(*words: object) -> subprocess.CompletedProcess[str]:
    """Its exit status, and what it has said.  Not for signals, terminals or another environment."""
    argv = ["powercut", *map(str, words)]
    # Files, as those of a process are: a command may write bytes.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with mock.patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    for stream in (out, err):
        stream.seek(0)
    assert isinstance(status, int)
    return subprocess.CompletedProcess(argv, status, out.read(), err.read())
