# SPDX-License-Identifier: Apache-2.0
"""What of the caller's environment a program under test does not get.

A program runs with few variables, so that its recording can be made again elsewhere.  One that
changes what it does (a switch for its syncs, say) would then be tested in another way than it is
used: so the names of those that did not reach it are told.  Their values are nobody's business.

A shell of today has dozens of which a program knows nothing.  So those are told by name that a file
of the program has as a word, and the others are counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from powercut.model.withheld import Withheld
from powercut.rig import commands
from powercut.rig.program_files import files_beside, own_files
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import Parameters, ProgramSettings

_OWN_MAX: Final = 128 << 20
_BESIDE_MAX: Final = 16 << 20
_READ: Final = 1 << 20

_OF_A_SESSION: Final = re.compile(
    r"HOME|PATH|LANG|LANGUAGE|LC_\w+|TERM|TERM_\w+|COLORTERM|COLUMNS|LINES|SHELL|USER|LOGNAME|PWD"
    r"|OLDPWD|SHLVL|_|HOSTNAME|HOSTTYPE|MAIL|EDITOR|VISUAL|PAGER|LESS\w*|LS_COLORS|DISPLAY"
    r"|WAYLAND_DISPLAY|WINDOWID|XAUTHORITY|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SSH_\w+|GPG_\w+|SUDO_\w+"
    r"|INVOCATION_ID|JOURNAL_STREAM|HIST\w+|PS[1-4]|TMUX\w*|STY|TMPDIR|POWERCUT_\w+"
)
"""Variables of who sits at a terminal: they are for shells, and for powercut itself."""


def withheld(parameters: Parameters, caller: Mapping[str, str] = os.environ) -> Withheld:
    """What of the environment of the `caller` does not reach the program of a cell, if it has one
    that is not powercut's."""
    settings = parameters.workload
    if not isinstance(settings, ProgramSettings) or place_of(parameters).files is Files.GUEST:
        return Withheld()
    missing = left_out(caller, commands.contents_of(parameters).environment)
    try:
        own = own_files(parameters)
        named = _named(missing, own, _OWN_MAX) if own else None
        if named is None:
            return Withheld(missing)
        named |= {one for one in missing if _has(" ".join(settings.command).encode(), one)}
        named |= _named(missing, files_beside(parameters), _BESIDE_MAX, whole=False) or set()
    except OSError:
        return Withheld(missing)
    told = tuple(one for one in missing if one in named)
    return Withheld(told, len(missing) - len(told), searched=True)


def left_out(caller: Mapping[str, str], passed: Iterable[str]) -> tuple[str, ...]:
    """The names in the environment of the `caller` that are not in `passed` (NAME=VALUE each) and
    that a program might look at."""
    names = {pair.partition("=")[0] for pair in passed}
    return tuple(
        sorted(one for one in caller if one not in names and not _OF_A_SESSION.fullmatch(one))
    )


def _named(
    names: tuple[str, ...], files: Iterable[Path], at_most: int, *, whole: bool = True
) -> set[str] | None:
    """Which names the files have as a word; None where `whole` and they have more bytes than
    `at_most`.  Raises OSError."""
    found: set[str] = set()
    overlap = max(map(len, names), default=0) + 2
    for path in files:
        with path.open("rb") as file:
            before = b""
            while data := file.read(_READ):
                at_most -= len(data)
                if at_most < 0:
                    return None if whole else found
                part = before + data
                found |= {one for one in names if one not in found and _has(part, one)}
                before = part[-overlap:]
    return found


def _has(text: bytes, name: str) -> bool:
    word = os.fsencode(name)
    return word in text and bool(re.search(rb"(?<!\w)%s(?!\w)" % re.escape(word), text))
