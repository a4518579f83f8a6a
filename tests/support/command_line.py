# SPDX-License-Identifier: Apache-2.0
"""`powercut WORDS`, in this process: what it imports, most of a short command's time, is there."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import click
import pytest

from extras import extra
from powercut.cli.commands import cli
from powercut.cli.main import main

COMMANDS = frozenset(cli.list_commands(click.Context(cli)))
"""What `powercut` has here, with its extras."""


OF_EXTRAS = {
    "audit": "audit",
    "certify": "certify",
    "history": "pages",
    "import": "logs",  # but for bundles
    "listen": "elsewhere",
    "probe": "probe",
    "reproduce": "reproduce",
    "serve": "pages",
    "--cluster": "cluster",
    "--as-seen": "logs",
    "--jobs 2": "certify",  # of `verify`
}
"""Words of command lines, and the extras that they need."""


def require_extras(words: Sequence[object]) -> None:
    """Skips the test if a command line needs an extra that is not there."""
    line = f"{' '.join(map(str, words))} "
    for word, name in OF_EXTRAS.items():
        if line.startswith(f"{word} ") or (word.startswith("--") and f" {word} " in line):
            extra(name)


def powercut(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Its exit status, and what it has said.  Not for what is of a process: signals, terminals."""
    require_extras(words)
    argv = ["powercut", *map(str, words)]
    # Files, as those of a process are: a command may write bytes.
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, environment),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    for stream in (out, err):
        stream.seek(0)
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(argv, ended.value.code, out.read(), err.read())


def plain_word(path: Path | str) -> str:
    """A path as one word of a command that is plain text in YAML, which quotes would begin anew."""
    return str(path).replace(" ", "\\ ")
