# SPDX-License-Identifier: Apache-2.0
"""Which User-Mode Linux recovers: the host's own, or one that was unpacked beside it."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.model.versions import HOST, STAND_IN
from powercut.paths import CACHE
from powercut.recover.plan import PlanLayers

PROGRAM: Final = "linux.uml"
HOST_MODULES: Final = Path("/usr/lib/uml/modules")
_FETCHED_MODULES: Final = "root/usr/lib/uml/modules"
_LIBRARIES: Final = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
MODULE_FILES: Final = (
    "drivers/block/brd.ko",
    "drivers/block/loop.ko",
    "drivers/block/virtio_blk.ko",
    "drivers/md/dm-mod.ko",
    "drivers/md/dm-bufio.ko",
    "drivers/md/dm-snapshot.ko",
    "drivers/md/dm-log-writes.ko",
)
OPTIONAL_MODULE_FILES: Final = (
    "crypto/crc32_generic.ko",
    "drivers/net/dummy.ko",
    "fs/f2fs/f2fs.ko",
)
"""f2fs, built into none of Debian's kernels, and what it needs but in Linux 7.2: PID 1 loads them
for a mount, and a kernel without them recovers all else.  A network card that leads nowhere."""


@dataclass(frozen=True)
class UmlKernel:
    """One User-Mode Linux.

    `name` is what a person calls it: `host`, or a Debian suite.  `modules` holds a folder for
    each of its releases.  `libraries` is where its libc is, in the form of LD_LIBRARY_PATH;
    empty for the host's.
    """

    name: str
    program: Path
    modules: Path
    libraries: str = ""

    @property
    def module_folder(self) -> Path | None:
        """The newest kernel's modules of which none that is needed is missing."""
        for folder in sorted(self.modules.glob("*/kernel"), reverse=True):
            if all((folder / name).exists() for name in MODULE_FILES):
                return folder
        return None

    def files_of(self, layers: PlanLayers) -> tuple[str, ...]:
        """The files of the modules of `layers` and of those that they need, below
        `module_folder`, in the order in which they load.  A helper that is no file is built in, or
        not there.

        Raises HostError if a module is neither a file nor built in.
        """
        folder = self.module_folder
        if folder is None:
            raise HostError("no usable UML modules", hint="install the package user-mode-linux")
        needs = _needs(folder.parent / "modules.dep")
        built_in = _stems(folder.parent / "modules.builtin")
        files: dict[str, None] = {}
        for name in layers.helpers:
            files |= dict.fromkeys(reversed(needs.get(name, ())))
        for name in layers.modules:
            if name not in needs and name not in built_in:
                raise HostError(
                    f"{self.title} has no module {name}",
                    hint="take another kernel: workload.kernel",
                )
            files |= dict.fromkeys(reversed(needs.get(name, ())))
        return tuple(files)

    @property
    def title(self) -> str:
        """Its name and its version, as far as its modules tell it."""
        folder = self.module_folder
        return f"{self.name} ({folder.parent.name})" if folder is not None else self.name


def _needs(listed: Path) -> dict[str, tuple[str, ...]]:
    """Of modules.dep, by name: the module's file and those that it needs, the first last."""
    try:
        lines = listed.read_text().splitlines()
    except OSError as error:
        raise HostError(f"{listed}: {error.strerror}") from error
    split = [line.replace(":", " ", 1).split() for line in lines]
    return {
        Path(words[0]).stem: tuple(word.removeprefix("kernel/") for word in words)
        for words in split
        if words
    }


def _stems(listed: Path) -> frozenset[str]:
    try:
        return frozenset(Path(line).stem for line in listed.read_text().splitlines())
    except OSError:
        return frozenset()


def host_kernel() -> UmlKernel:
    """The User-Mode Linux in PATH, or what was fetched in its stead, whether it is there or not."""
    found = shutil.which(PROGRAM)
    fetched = CACHE / "suites" / STAND_IN / "uml"  # powercut_extras.suites
    if found is not None or not (fetched / "about.json").exists() or is_debian():
        return UmlKernel(HOST, Path(found or PROGRAM), HOST_MODULES)
    folders = [fetched / "root" / name for name in _LIBRARIES]
    libraries = ":".join(str(folder) for folder in folders if folder.is_dir())
    return UmlKernel(STAND_IN, fetched / PROGRAM, fetched / _FETCHED_MODULES, libraries)


def is_debian() -> bool:
    """Whether the host's distribution has a User-Mode Linux of its own."""
    try:
        return platform.freedesktop_os_release().get("ID", "debian") == "debian"
    except OSError:
        return True
