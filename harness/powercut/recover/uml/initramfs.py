# SPDX-License-Identifier: Apache-2.0
"""What a User-Mode Linux boots from: a cpio archive with PID 1 and modules."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from powercut.model.errors import HostError
from powercut.recover.plan import PlanLayers
from powercut.recover.uml.boot import init_binary
from powercut.recover.uml.kernel import MODULE_FILES, OPTIONAL_MODULE_FILES, UmlKernel


def _member(inode: int, path: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    """One member of a cpio archive, format `newc` (the kernel's buffer-format.rst)."""
    name = path.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return b"".join((header, b"\0" * (-len(header) % 4), data, b"\0" * (-len(data) % 4)))


def initramfs(
    programs: Mapping[str, Path], kernel: UmlKernel, layers: PlanLayers | None = None
) -> bytes:
    """What `kernel` boots from: PID 1, the modules it needs, and `programs` by their paths.

    With what `layers` take.  Raises HostError if it has no such module."""
    modules = kernel.module_folder
    if modules is None:
        raise HostError("no usable UML modules", hint="install the package user-mode-linux")
    files = {"init": init_binary(), **{name.lstrip("/"): path for name, path in programs.items()}}
    optional = [name for name in OPTIONAL_MODULE_FILES if (modules / name).exists()]
    names = (*MODULE_FILES, *optional, *(kernel.files_of(layers) if layers is not None else ()))
    files |= {f"modules/{Path(name).name}": modules / name for name in names}
    folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    parts = []
    for inode, name in enumerate(sorted({"dev", *folders}), start=1):
        parts.append(_member(inode, name, stat.S_IFDIR | 0o755, b"", (0, 0)))
    parts.append(_member(1000, "dev/console", stat.S_IFCHR | 0o600, b"", (5, 1)))
    for inode, (name, path) in enumerate(sorted(files.items()), start=2000):
        parts.append(_member(inode, name, stat.S_IFREG | 0o755, path.read_bytes(), (0, 0)))
    parts.append(_member(0, "TRAILER!!!", 0, b"", (0, 0)))
    return b"".join(parts)
