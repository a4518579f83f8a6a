# SPDX-License-Identifier: Apache-2.0
"""Root file systems for guests: an ext4 image, read-only, made once from what a scenario names.

What a stranger made is unpacked and packed by tar and mke2fs in the sandbox, and nothing of it
runs on the host.  All files of a made image belong to root; an ext4 image is taken as it is.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.disk.root_layers import RootTree
from powercut.model.errors import HostError
from powercut.sandbox.confined import run_confined

PROGRAM: Final = "opt/powercut"
"""Where in a root the program's folder lies that comes from the host."""

FILESYSTEM: Final = "ext4"
_RECIPE: Final = "1"  # raise it when this file makes other images from the same files
_MAGIC_AT, _MAGIC = 1024 + 56, b"\x53\xef"  # s_magic, fs/ext4/ext4.h
_TIMEOUT_S: Final = 600.0
_BLOCK: Final = 4096
_making = threading.Lock()


@dataclass(frozen=True)
class RootImage:
    """An ext4 image, and what it was made from: 64 hex digits."""

    path: Path
    sha256: str


def is_image(root: Path) -> bool:
    """Whether `root` is an ext4 image already."""
    if not root.is_file():
        return False
    with root.open("rb") as file:
        file.seek(_MAGIC_AT)
        return file.read(len(_MAGIC)) == _MAGIC


@functools.cache
def ensure_root_image(root: Path, program: Path | None, cache: Path) -> RootImage:
    """The image for `root`, with the folder `program` of the host in it, if there is one.

    Raises UsageError for what is no root file system, HostError.
    """
    if is_image(root):
        with root.open("rb") as file:
            return RootImage(root, hashlib.file_digest(file, "sha256").hexdigest())
    folder = cache / "roots"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        _making,
        tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as scratch,
        RootTree() as tree,
    ):
        tree.add(root)
        if program is not None:
            tree.add_folder(program, PROGRAM)
        tar = Path(scratch) / "root.tar"
        with tar.open("wb") as file:
            digest = hashlib.sha256(f"{_RECIPE} {tree.write(file)}".encode()).hexdigest()
        image = folder / f"{digest}.img"
        if not image.exists():
            made = _made(tar, Path(scratch), tree.size, len(tree), digest)
            made.chmod(0o444)
            made.rename(image)
    return RootImage(image, digest)


def _made(tar: Path, scratch: Path, size: int, count: int, digest: str) -> Path:
    files, image = scratch / "files", scratch / "root.img"
    files.mkdir()
    unpack = ["tar", "-xpf", str(tar), "-C", str(files), "--no-same-owner"]
    _run(unpack, reads=[tar], folders=[files])
    with image.open("wb") as file:
        file.truncate(-(-(size + count * 2 * _BLOCK) * 5 // 4 // _BLOCK) * _BLOCK + (16 << 20))
    uuid = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    # Without a journal: nothing is ever written to it.
    pack = ["mkfs.ext4", "-q", "-F", "-b", str(_BLOCK), "-O", "^has_journal", "-m", "0"]
    pack += ["-N", str(count + 64), "-U", uuid, "-E", f"root_owner=0:0,hash_seed={uuid}"]
    _run([*pack, "-d", str(files), str(image)], files=[image], reads=[files])
    shutil.rmtree(files)
    return image


def _run(
    argv: list[str],
    *,
    files: list[Path] | None = None,
    reads: list[Path] | None = None,
    folders: list[Path] | None = None,
) -> None:
    done = run_confined(
        argv, timeout_s=_TIMEOUT_S, files=files or (), reads=reads or (), folders=folders or ()
    )
    if done.returncode:
        raise HostError(
            f"{argv[0]} could not make the root image: {done.stderr.strip()[-500:]}",
            hint=f"is there room under {Path(argv[-1]).parent}?",
        )
