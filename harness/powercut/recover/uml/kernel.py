# SPDX-License-Identifier: Apache-2.0
"""Which User-Mode Linux recovers: the host's own, or one that was unpacked beside it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.versions import HOST

PROGRAM: Final = "linux.uml"
HOST_MODULES: Final = Path("/usr/lib/uml/modules")
MODULE_FILES: Final = (
    "drivers/block/brd.ko",
    "drivers/block/loop.ko",
    "drivers/block/virtio_blk.ko",
    "drivers/md/dm-mod.ko",
    "drivers/md/dm-bufio.ko",
    "drivers/md/dm-snapshot.ko",
    "drivers/md/dm-log-writes.ko",
)
OPTIONAL_MODULE_FILES: Final = ("crypto/crc32_generic.ko", "fs/f2fs/f2fs.ko")
"""f2fs, built into none of Debian's kernels, and what it needs but in Linux 7.2: PID 1 loads them
for a mount, and a kernel without them recovers all else."""


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

    @property
    def title(self) -> str:
        """Its name and its version, as far as its modules tell it."""
        folder = self.module_folder
        return f"{self.name} ({folder.parent.name})" if folder is not None else self.name


def host_kernel() -> UmlKernel:
    """The User-Mode Linux in PATH, whether it is there or not."""
    return UmlKernel(HOST, Path(shutil.which(PROGRAM) or PROGRAM), HOST_MODULES)
