# SPDX-License-Identifier: Apache-2.0
"""Libraries that a program is started with.

LD_PRELOAD ends a name at a blank, and ld.so goes on without what it does not find.  So libraries
are named there without their folders, which LD_LIBRARY_PATH gives: that splits at colons and
semicolons alone (ld.so(8)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def preloading(libraries: Sequence[Path], environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, in which ld.so loads `libraries` first, before what is preloaded already."""
    names = [library.name for library in libraries]
    folders = dict.fromkeys(str(library.parent) for library in libraries)
    return {
        **environment,
        "LD_PRELOAD": _joined(*names, environment.get("LD_PRELOAD", "")),
        "LD_LIBRARY_PATH": _joined(*folders, environment.get("LD_LIBRARY_PATH", "")),
    }


def _joined(*words: str) -> str:
    return ":".join(filter(None, words))
