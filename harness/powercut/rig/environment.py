# SPDX-License-Identifier: Apache-2.0
"""What of the caller's environment a program under test does not get.

A program runs with few variables, so that its recording can be made again elsewhere.  One that
changes what it does (a switch for its syncs, say) would then be tested in another way than it is
used: so the names of those that did not reach it are told.  Their values are nobody's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_OF_A_SESSION: Final = re.compile(
    r"HOME|PATH|LANG|LANGUAGE|LC_\w+|TERM|TERM_\w+|COLORTERM|COLUMNS|LINES|SHELL|USER|LOGNAME|PWD"
    r"|OLDPWD|SHLVL|_|HOSTNAME|HOSTTYPE|MAIL|EDITOR|VISUAL|PAGER|LESS\w*|LS_COLORS|DISPLAY"
    r"|WAYLAND_DISPLAY|WINDOWID|XAUTHORITY|XDG_\w+|DBUS_SESSION_BUS_ADDRESS|SSH_\w+|GPG_\w+|SUDO_\w+"
    r"|INVOCATION_ID|JOURNAL_STREAM|HIST\w+|PS[1-4]|TMUX\w*|STY|TMPDIR|POWERCUT_\w+"
)
"""Variables of who sits at a terminal: they are for shells, and for powercut itself."""


def withheld(caller: Mapping[str, str], passed: Iterable[str]) -> tuple[str, ...]:
    """The names in the environment of the `caller` that are not in `passed` (NAME=VALUE each) and
    that a program might look at."""
    names = {pair.partition("=")[0] for pair in passed}
    return tuple(
        sorted(one for one in caller if one not in names and not _OF_A_SESSION.fullmatch(one))
    )
