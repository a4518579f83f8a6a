# SPDX-License-Identifier: Apache-2.0
"""Programs in Python that a test writes."""

from __future__ import annotations

import sys
from pathlib import Path

_HEAD = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
"""
"""To the shell its second line is the last; to Python the two are a string.  A `#!` line ends an
interpreter's name at a blank."""


def write_script(path: Path, text: str, python: Path | str = sys.executable) -> None:
    """Makes `path` a program of that Python."""
    path.write_text(_HEAD.format(python=python) + text)
    path.chmod(0o755)
