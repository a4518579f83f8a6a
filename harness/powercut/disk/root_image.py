# SPDX-License-Identifier: Apache-2.0
"""Root file systems for guests: an ext4 image, read-only, made once from what a scenario names.

What a stranger made is unpacked and packed by tar and mke2fs in the sandbox, and nothing of it
runs on the host.  Files of tars and packages keep their owners, those of a folder of this host
belong to root; an ext4 image is taken as it is.
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
from powercut.disk.root_packages import add_packages, compile_python, digest_of
from powercut.model.errors import HostError, UsageError
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


RootSource = Path | tuple[Path, ...]
"""What a root is made from: a folder, a tar, an OCI image layout, an image; or packages (.deb)."""


@functools.cache
def ensure_root_image(root: RootSource, program: Path | None, cache: Path) -> RootImage:
    """The image for `root`, with the folder `program` of the host in it, if there is one.

    Raises UsageError for what is no root file system, HostError.
    """
    if isinstance(root, Path) and is_image(root):
        with root.open("rb") as file:
            return RootImage(root, hashlib.file_digest(file, "sha256").hexdigest())
    folder = cache / "roots"
    folder.mkdir(parents=True, exist_ok=True)
    with _making, tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as scratch:
        making = _Making(root, program, Path(scratch))
        image = folder / f"{making.digest}.img"
        if not image.exists():
            made = making.image()
            made.chmod(0o444)
            made.rename(image)
    return RootImage(image, making.digest)


class _Making:
    """One image being made in the folder `scratch`."""

    def __init__(self, root: RootSource, program: Path | None, scratch: Path) -> None:
        self._root = root
        self._program = program
        self._scratch = scratch
        self._tar = scratch / "root.tar"
        self._owners: list[tuple[str, int, int]] = []
        if isinstance(root, tuple):
            # Their names say what is in them: nothing need be unpacked where the image is there.
            words = f"packages {digest_of(root)} {self._write((), packages=())}"
        else:
            words = self._write((root,), packages=())
        self.digest = hashlib.sha256(f"{_RECIPE} {words}".encode()).hexdigest()

    def image(self) -> Path:
        """Unpacks the root and packs it as an image."""
        if isinstance(self._root, tuple):
            self._write((), packages=self._root)
        files, image = self._scratch / "files", self._scratch / "root.img"
        files.mkdir()
        unpack = ["tar", "-xpf", str(self._tar), "-C", str(files), "--no-same-owner"]
        _run(unpack, reads=[self._tar], folders=[files])
        if isinstance(self._root, tuple):
            compile_python(files)
        count, size = _measured(files)
        with image.open("wb") as file:
            file.truncate(-(-(size + count * 2 * _BLOCK) * 5 // 4 // _BLOCK) * _BLOCK + (16 << 20))
        one = self.digest
        uuid = f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:32]}"
        # Without a journal: nothing is ever written to it.
        pack = ["mkfs.ext4", "-q", "-F", "-b", str(_BLOCK), "-O", "^has_journal", "-m", "0"]
        pack += ["-N", str(count + 64), "-U", uuid, "-E", f"root_owner=0:0,hash_seed={uuid}"]
        _run([*pack, "-d", str(files), str(image)], files=[image], reads=[files])
        self._give(image)
        shutil.rmtree(files)
        return image

    def _write(self, roots: tuple[Path, ...], *, packages: tuple[Path, ...]) -> str:
        """Writes the tar of all that is given, the program's folder besides; its SHA-256."""
        with RootTree() as tree, self._tar.open("wb") as file:
            for root in roots:
                tree.add(root)
            if packages:
                add_packages(tree, packages, self._scratch)
            if self._program is not None:
                tree.add_folder(self._program, PROGRAM)
            self._owners = list(tree.owners())
            return tree.write(file)

    def _give(self, image: Path) -> None:
        """Gives files to those to whom they belong: who unpacks without root's rights cannot."""
        lines = []
        for name, owner, group in self._owners:
            if any(not character.isprintable() for character in name):
                raise UsageError(
                    f"{name!r} belongs to {owner}:{group}: with such a name it can only be root's"
                )
            quoted = '"/' + name.replace('"', '""') + '"'
            lines += [f"set_inode_field {quoted} uid {owner}"]
            lines += [f"set_inode_field {quoted} gid {group}"]
        if not lines:
            return
        commands = self._scratch / "owners"
        commands.write_text("\n".join([*lines, ""]))
        said = _run(
            ["debugfs", "-w", "-f", str(commands), str(image)], files=[image], reads=[commands]
        )
        wrong = [line for line in said.splitlines() if not line.startswith("debugfs")]
        if wrong:
            raise HostError(f"debugfs could not set an owner in the root image: {wrong[0]}")


def _measured(folder: Path) -> tuple[int, int]:
    """How many files and folders there are, and how many bytes they take in blocks."""
    sizes = [path.lstat().st_size for path in folder.rglob("*")]
    return len(sizes), sum(sizes)


def _run(
    argv: list[str],
    *,
    files: list[Path] | None = None,
    reads: list[Path] | None = None,
    folders: list[Path] | None = None,
) -> str:
    """What the tool said."""
    done = run_confined(
        argv, timeout_s=_TIMEOUT_S, files=files or (), reads=reads or (), folders=folders or ()
    )
    if done.returncode:
        raise HostError(
            f"{argv[0]} could not make the root image: {done.stderr.strip()[-500:]}",
            hint=f"is there room under {Path(argv[-1]).parent}?",
        )
    return f"{done.stdout}{done.stderr}"
