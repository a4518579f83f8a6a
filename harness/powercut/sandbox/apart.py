# SPDX-License-Identifier: Apache-2.0
"""A process that talks to strangers: no home, no process of others, no file but those given.

Unlike a tool (powercut.sandbox.confined) it lives as long as it is needed, and is talked to through
its standard input and output.  Only bubblewrap will do: Landlock leaves it the processes and the
network of this host.  Root's runs as another user (powercut.sandbox.users).
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.paths import PACKAGE
from powercut.sandbox.confined import SETTINGS, find_tool, sandboxes
from powercut.sandbox.users import PROGRAMS, for_all, lowered, open_above, topmost

_INSTALL: Final = "apt-get install bubblewrap, and allow it to make namespaces"


def start_apart(
    module: str,
    words: Sequence[str],
    *,
    reads: Sequence[Path] = (),
    network: bool = False,
    paths: Sequence[Path] = (),
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a module of this Python, or of `paths`, that sees `reads`, and has `pass_fds`.

    It ends with the thread that starts it.  Its standard error goes nowhere.  Raises HostError
    where there is no bubblewrap.
    """
    if why := sandboxes().bubblewrap:
        raise HostError(f"there is no sandbox to run {module} in: bubblewrap: {why}", hint=_INSTALL)
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_path("purelib"))]
    shown = [path for path in python if not path.is_relative_to("/usr")]
    shown = list(dict.fromkeys((*shown, PACKAGE, *reads)))
    users = lowered(topmost(path for path in shown if not for_all([path])))
    argv = [str(find_tool("bwrap")), "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
    argv += ["--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--new-session"]
    argv += [] if network else ["--unshare-net"]
    argv += ["--dev", "/dev", "--proc", "/proc", *users.options]
    argv += ["--perms", "1777", "--tmpfs", "/tmp", "--chdir", "/"]
    for setting in SETTINGS:
        if Path(setting).exists():
            argv += ["--ro-bind", setting, setting]
    for path in PROGRAMS:
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            argv += ["--ro-bind", str(path), str(path)]
    for path in shown:
        argv += [*open_above(path), "--ro-bind", str(path), str(path)]
    argv += ["--", *users.argv, sys.executable, "-m", module, *words]
    environment = {
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C",
        "HOME": "/",
        "PYTHONPATH": ":".join(map(str, (PACKAGE.parent, *paths))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        pass_fds=pass_fds,
    )
