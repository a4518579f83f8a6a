# SPDX-License-Identifier: Apache-2.0
"""Root file systems for guests: an ext4 image, read-only, made once from what a scenario names.

What a stranger made is unpacked and packed by tar and mke2fs in the sandbox, and nothing of it
runs on the host.  Files of tars and packages keep their owners, those of a folder of this host
belong to root; an ext4 image is taken as it is.  A program's folder has a small image of its own:
a changed program does not make the root anew.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.disk.root_cache import drop_unfinished, mark_used, prune, unfinished
from powercut.disk.root_layers import RootTree
from powercut.model.errors import HostError, UsageError
from powercut.sandbox.confined import run_confined

PROGRAM: Final = "opt/powercut"
"""Where in a root the program's folder lies that comes from the host."""

FILESYSTEM: Final = "ext4"
_RECIPE: Final = "2"  # raise it when this file makes other images from the same files
_MAGIC_AT, _MAGIC = 1024 + 56, b"\x53\xef"  # s_magic, fs/ext4/ext4.h
_TIMEOUT_S: Final = 600.0
_BLOCK: Final = 4096
_making = threading.Lock()


@dataclass(frozen=True)
class RootImage:
    """An ext4 image or a folder, and what it was made from: 64 hex digits."""

    path: Path
    sha256: str


def is_image(root: Path) -> bool:
    """Whether `root` is an ext4 image already."""
    if not root.is_file():
        return False
    with root.open("rb") as file:
        file.seek(_MAGIC_AT)
        return file.read(len(_MAGIC)) == _MAGIC


Ingredients = Path | tuple[Path, ...]
"""What a root is made from: a folder, a tar, an OCI image layout, an image; or packages (.deb)."""


@functools.cache
def ensure_root_image(root: Ingredients, cache: Path) -> RootImage:
    """The image for `root`, with an empty folder PROGRAM.

    Raises UsageError for what is no root file system, HostError.
    """
    if isinstance(root, Path) and is_image(root):
        with root.open("rb") as file:
            return RootImage(root, hashlib.file_digest(file, "sha256").hexdigest())
    return _made(cache, lambda scratch: _Making(root, scratch), ".img")


@functools.cache
def ensure_root_folder(root: Ingredients, cache: Path) -> RootImage:
    """The same files as a folder of this host, in which all belongs to the user who made it."""
    return _made(cache, lambda scratch: _Making(root, scratch), "")


@functools.cache
def ensure_program_image(folder: Path, cache: Path) -> RootImage:
    """The image of a folder of this host that is to be PROGRAM in a root."""
    return _made(cache, lambda scratch: _Making(folder, scratch, program=True), ".img")


def _made(cache: Path, making_in: Callable[[Path], _Making], kind: str) -> RootImage:
    """What is in the cache, or is made there now; `kind` is how its name ends."""
    folder = cache / "roots"
    folder.mkdir(parents=True, exist_ok=True)
    drop_unfinished(folder)
    with _making, unfinished(folder) as scratch:
        making = making_in(scratch)
        path = folder / f"{making.digest}{kind}"
        if not path.exists():
            made = making.image() if kind else making.folder()
            made.chmod(0o444 if kind else 0o755)
            made.rename(path)
            prune(folder, keep=path)
    mark_used(path)
    return RootImage(path, making.digest)


class _Making:
    """One root being made in the folder `scratch`; with `program`, a program's folder instead."""

    def __init__(self, root: Ingredients, scratch: Path, *, program: bool = False) -> None:
        self._root = root
        self._is_program = program
        self._scratch = scratch
        self._tar = scratch / "root.tar"
        self._owners: list[tuple[str, int, int]] = []
        if isinstance(root, tuple):
            # Their names say what is in them: nothing need be unpacked where the image is there.
            words = f"packages {digest_of(root)} {self._write((), packages=())}"
        else:
            words = self._write((root,), packages=())
        self.digest = hashlib.sha256(f"{_RECIPE} {words}".encode()).hexdigest()

    def folder(self) -> Path:
        if isinstance(self._root, tuple):
            self._write((), packages=self._root)
        files = self._scratch / "files"
        files.mkdir()
        unpack = ["tar", "-xpf", str(self._tar), "-C", str(files), "--no-same-owner"]
        _run(unpack, reads=[self._tar], folders=[files])
        if isinstance(self._root, tuple):
            compile_python(files)
        return files

    def image(self) -> Path:
        files, image = self.folder(), self._scratch / "root.img"
        count, size = _measured(files)
        with image.open("wb") as file:
            file.truncate(-(-(size + count * 2 * _BLOCK) * 5 // 4 // _BLOCK) * _BLOCK + (16 << 20))
        one = self.digest
        uuid = f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:32]}"
        # Without a journal: nothing is ever written to it.
        pack = ["mkfs.ext4", "-q", "-F", "-b", str(_BLOCK), "-O", "^has_journal", "-m", "0"]
        pack += ["-N", str(count + 64), "-U", uuid, "-E", f"root_owner=0:0,hash_seed={uuid}"]
        _run([*pack, "-d", str(files), str(image)], files=[image], reads=[files])
        self._give(image, files)
        shutil.rmtree(files)
        return image

    def _write(self, roots: tuple[Path, ...], *, packages: tuple[Path, ...]) -> str:
        """Writes the tar of all that is given; its SHA-256."""
        with RootTree(self._scratch) as tree, self._tar.open("wb") as file:
            if self._is_program:
                tree.add_folder(roots[0])
            else:
                self._add(tree, roots, packages)
            self._owners = list(tree.owners())
            return tree.write(file, skeleton=not self._is_program)

    def _add(self, tree: RootTree, roots: tuple[Path, ...], packages: tuple[Path, ...]) -> None:
        for root in roots:
            tree.add(root)
        if packages:
            add_packages(tree, packages, self._scratch)
        tree.add_empty(PROGRAM)

    def _give(self, image: Path, files: Path) -> None:
        """Gives files to those to whom they belong: who unpacks without root's rights cannot.

        What an ordinary user unpacks is that user's, and so in the image.
        """
        lines = []
        unpacked = files.rglob("*") if os.geteuid() else ()
        owners = [(str(path.relative_to(files)), 0, 0) for path in unpacked]
        for name, owner, group in [*owners, *self._owners]:
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
    done = run_confined(
        argv, timeout_s=_TIMEOUT_S, files=files or (), reads=reads or (), folders=folders or ()
    )
    if done.returncode:
        raise HostError(
            f"{argv[0]} could not make the root image: {done.stderr.strip()[-500:]}",
            hint=f"is there room under {Path(argv[-1]).parent}?",
        )
    return f"{done.stdout}{done.stderr}"


# A root file system out of a distribution's packages, without root's rights.
#
# The packages are unpacked and their scripts never run: those would want root's rights, or ranges
# of users and namespaces that many hosts do not give.  What programs need of the scripts' work is
# done here instead: the links by which /bin is usr/bin, root and Debian's own users in
# /etc/passwd, the usual choice of alternatives, and Python's compiled modules, which save an
# interpreter seconds each time that it starts in an emulated guest.  Documentation and
# translations are left out.

_PACKAGES_RECIPE: Final = "1"  # raise it when this file makes other roots from the same packages

_MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Folders that are links into /usr (Debian's wiki, UsrMerge), also where a suite's packages name
them as folders still."""

_MADE_BY_SCRIPTS: Final = {
    "etc/passwd": "usr/share/base-passwd/passwd.master",
    "etc/group": "usr/share/base-passwd/group.master",
}
_ALTERNATIVES: Final = {"usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils"}
_USELESS: Final = ("doc", "man", "locale", "lintian", "info", "bash-completion")
_HOSTS: Final = b"127.0.0.1\tlocalhost\n::1\tlocalhost\n"

_UNPACK: Final = """\
out=$1; shift
for package; do
    dpkg-deb --fsys-tarfile "$package" >"$out/${package##*/}.tar" || exit 1
done
"""
_PYTHON: Final = "usr/bin/python3"
_LOADER: Final = "usr/lib64/ld-linux-x86-64.so.2"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_COMPILED: Final = ("usr/lib/python3*", "usr/local/lib/python3*", "opt")


def digest_of(packages: Iterable[Path]) -> str:
    """What stands for the root that these make: a package's file is named after its version."""
    words = "\n".join((_PACKAGES_RECIPE, *sorted(path.name for path in packages)))
    return hashlib.sha256(words.encode()).hexdigest()


def add_packages(tree: RootTree, packages: Sequence[Path], scratch: Path) -> None:
    """Puts what the packages (.deb) hold into an empty `tree`; `scratch` is kept until it is
    written.

    Raises UsageError for a package whose files leave the root, HostError.
    """
    tars, links, settings = scratch / "tars", scratch / "links", scratch / "settings"
    for folder in (tars, links, settings):
        folder.mkdir()
    argv = ["sh", "-c", _UNPACK, "sh", str(tars), *(str(path) for path in packages)]
    # apt has checked them: they are read without a sandbox where there is none.
    done = run_confined(
        argv, timeout_s=_TIMEOUT_S, reads=packages, folders=[tars], from_outside=False
    )
    if done.returncode:
        raise HostError(f"a package could not be unpacked: {done.stderr.strip()[-500:]}")
    for name in _MERGED:
        (links / name).symlink_to(f"usr/{name}")
    _add_made(tree, links)
    for path in sorted(packages):
        tree.add(tars / f"{path.name}.tar", from_outside=False)
    for name in _USELESS:
        tree.remove(f"usr/share/{name}")
    (settings / "etc").mkdir()
    for name, source in _MADE_BY_SCRIPTS.items():
        (settings / name).write_bytes(tree.read(source))
    (settings / "etc/hosts").write_bytes(_HOSTS)
    (settings / "usr/bin").mkdir(parents=True)
    for name, target in _ALTERNATIVES.items():
        if tree.read(f"usr/bin/{target}"):
            (settings / name).symlink_to(target)
    _add_made(tree, settings)


def _add_made(tree: RootTree, folder: Path) -> None:
    """Adds what was made here, without the moment in which that was."""
    for path in folder.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    tree.add_folder(folder, exact=True)


def compile_python(files: Path) -> None:
    """Compiles the Python modules in an unpacked root by its own interpreter, if it has one.

    The root is read-only, so the compiled modules need no dates.  What does not compile stays as
    it is.
    """
    loader, python = files / _LOADER, files / _PYTHON
    folders = [path for pattern in _COMPILED for path in sorted(files.glob(pattern))]
    if not (loader.exists() and python.exists() and folders):
        return
    argv = [str(loader), "--inhibit-cache", "--library-path", str(files / _LIBRARIES)]
    argv += [str(python), "-I", "-S", "-m", "compileall", "-q"]
    argv += ["--invalidation-mode", "unchecked-hash", "-s", str(files), "-p", "/"]
    run_confined([*argv, *map(str, folders)], timeout_s=_TIMEOUT_S, folders=[files])
