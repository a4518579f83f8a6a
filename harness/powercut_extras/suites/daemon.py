# SPDX-License-Identifier: Apache-2.0
"""qemu-storage-daemon of another Debian suite, started with that suite's libraries.

Some suites have it in a package on which their QEMU depends, so that it lies with that
(powercut_extras.suites.unpacked); others in qemu-utils, which is fetched once.

    CACHE/suites/SUITE/daemon/qemu-storage-daemon   starts it
                              root/                 what was unpacked, if it does not lie with QEMU
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Final

from powercut.machine.storage_daemon import PROGRAM
from powercut.machine.tool import locked
from powercut.model.errors import HostError
from powercut.paths import CACHE
from powercut_extras.suites.packages import suite_packages
from powercut_extras.suites.unpacked import library_folders, loader_of, suite_folder, unpack

_PACKAGE: Final = "qemu-utils"
_BINARY: Final = f"usr/bin/{PROGRAM}"

_START: Final = """\
#!/bin/sh
# qemu-storage-daemon of {suite}, with the libraries that it was unpacked with.
exec {loader} --inhibit-cache --library-path {libraries} {binary} "$@"
"""


def suite_daemon(suite: str, *, deadline: float) -> tuple[Path, Path]:
    """What starts the daemon of `suite`, and its binary; fetched if it is not there.

    Raises HostError with a remedy, or DeadlineExceeded.
    """
    folder = suite_folder(suite)
    place = folder / "daemon"
    start = place / PROGRAM
    with_qemu, own = folder / "qemu/root", place / "root"
    root = with_qemu if (with_qemu / _BINARY).is_file() else own
    if start.is_file() and (root / _BINARY).is_file():
        return start, root / _BINARY
    # Fetched before the lock is taken, which it takes itself.
    debs = () if root is with_qemu else suite_packages(suite, (_PACKAGE,), CACHE)
    with (
        locked(folder / "lock", deadline=deadline, doing=f"fetching {PROGRAM} of {suite}"),
        tempfile.TemporaryDirectory(dir=folder, prefix=".daemon-") as temporary,
    ):
        new = Path(temporary, "daemon")
        new.mkdir()
        if debs:
            unpack(debs, new / "root", deadline=deadline)
            shutil.rmtree(new / "root/usr/share", ignore_errors=True)
            if not (new / "root" / _BINARY).is_file():
                raise HostError(
                    f"{_PACKAGE} of {suite} has no {PROGRAM}", hint="machine.qemu: host"
                )
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
        words = {
            "suite": suite,
            "loader": shlex.quote(str(loader_of(root))),
            "libraries": shlex.quote(":".join(str(path) for path in library_folders(root))),
            "binary": shlex.quote(str(root / _BINARY)),
        }
        start.write_text(_START.format(**words))
        start.chmod(0o755)
    return start, root / _BINARY
