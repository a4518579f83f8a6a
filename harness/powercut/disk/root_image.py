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
import io
import os
import re
import shutil
import stat
import tarfile
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from powercut.brought import brought
from powercut.closing import Closing
from powercut.disk.root_cache import drop_unfinished, mark_used, prune, unfinished
from powercut.model.errors import HostError, UsageError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.sandbox.archive import Archive, ArchiveLimits, open_archive
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


# One tar out of a root file system's layers: a folder, a tar, or an OCI image layout.
#
# Everything here reads: names, links and whiteouts are resolved in memory, and nothing is made on
# the host but the tar.  Whatever a layer says stays below its root: names with `..` are refused,
# links lead to what they mean inside.  Device nodes, sockets and FIFOs are left out, as the guest
# has a /dev of its own; hard links become files.
#
# OCI image layout: github.com/opencontainers/image-spec, image-layout.md and layer.md (whiteouts:
# `.wh.NAME` removes NAME of lower layers, `.wh..wh..opq` all that lower layers have in its folder).

SKELETON: Final = ("dev", "proc", "sys", "tmp", "run", "var/tmp", "mnt")
"""Folders that a guest mounts something on."""

_MEMBERS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 16 << 30
_LINKS_MAX: Final = 40
_TIME_OF_FILES_S: Final = 946_684_800  # 2000: tools refuse times that no archive can hold
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH  # a root is read-only in any case
_OWNER_MAX: Final = (1 << 32) - 2  # chown(2) takes -1 for: as it is
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")

_TOO_MUCH: Final = f"a root of more than {_MEMBERS_MAX:,} files or {_BYTES_MAX >> 30} GiB"


@dataclass(frozen=True)
class _Entry:
    """A member of the tar to be: its header, and where the bytes of a file are."""

    info: tarfile.TarInfo
    tar: Archive | None = None
    path: Path | None = None

    def open(self) -> IO[bytes] | None:
        if self.path is not None:
            return self.path.open("rb")
        return self.tar.open(self.info) if self.tar is not None else None


class _Node:
    """A name, and those below it; without an entry it is only a part of theirs."""

    __slots__ = ("below", "entry")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.entry: _Entry | None = None


class RootTree(Closing):
    """The files of a root, layer above layer; a context manager, as it keeps tars open."""

    def __init__(self, scratch: Path | None = None) -> None:
        """`scratch` gets what compressed tars hold."""
        self._scratch = scratch or Path(tempfile.gettempdir())
        self._root = _Node()
        self._count = 0
        self._bytes = 0
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    def add(self, root: Path, *, from_outside: bool = True) -> None:
        """The layers in `root`; those `from_outside` are read in a sandbox, or not at all.

        Raises UsageError for what is no root file system, HostError.
        """
        try:
            if (root / "index.json").is_file():
                for layer in _oci_layers(root):
                    self._add_tar(layer, from_outside)
            elif root.is_dir():
                self.add_folder(root)
            else:
                self._add_tar(root, from_outside)
        except (OSError, tarfile.TarError, EOFError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{root}: no root file system can be read there: {why}",
                hint="workload.root is a folder, a tar, an ext4 image or a folder with index.json "
                "(OCI image layout)",
            ) from error

    def add_folder(self, folder: Path, below: str = "", *, exact: bool = False) -> None:
        """A folder of the host, whose links are not followed.

        Times do not count, nor who besides their owner may write to a file: both differ between two
        copies of the same.  In an `exact` one all of it counts.
        """
        for path in sorted(folder.rglob("*")) if exact else brought(folder):
            info = _info_of(path, str(PurePosixPath(below, path.relative_to(folder))))
            if info is not None:
                if not exact:
                    info.mtime, info.mode = _TIME_OF_FILES_S, info.mode & ~_OTHERS_WRITE
                self._put(_Entry(info, path=path if info.isreg() else None))

    def add_empty(self, name: str) -> None:
        """A folder in which there is nothing yet."""
        self._make_folders(name)

    def write(self, file: IO[bytes], *, skeleton: bool = True) -> str:
        """Writes the tar; its SHA-256.  `skeleton` makes the folders that a guest needs."""
        for name in SKELETON if skeleton else ():
            self._make_folders(name)
        out = _Hashing(file)
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name, entry in self._entries():
                with ExitStack() as stack:
                    data = entry.open()
                    if data is not None:
                        stack.enter_context(data)
                    tar.addfile(_plain(entry.info, name), data)
        return out.digest.hexdigest()

    def read(self, name: str) -> bytes:
        """The bytes of a file; empty if there is none of that name, or it is none."""
        entry = self._entry_at(self._resolved(name))
        data = entry.open() if entry is not None and entry.info.isreg() else None
        if data is None:
            return b""
        with data:
            return data.read()

    def remove(self, name: str) -> None:
        """Leaves out what `name` is, and all that is below it."""
        parts = self._resolved(name)
        if not parts:
            self._empty(self._root)
        elif (above := self._node_at(parts[:-1])) and (node := above.below.pop(parts[-1], None)):
            self._count -= sum(1 for _ in _entries_below(node, ""))

    def owners(self) -> Iterator[tuple[str, int, int]]:
        """What does not belong to root: its name, its owner and its group."""
        for name, entry in self._entries():
            if entry.info.uid or entry.info.gid:
                yield name, entry.info.uid, entry.info.gid

    @property
    def size(self) -> int:
        return sum(entry.info.size for _, entry in self._entries())

    def __len__(self) -> int:
        return self._count

    def _entries(self) -> list[tuple[str, _Entry]]:
        return sorted(_entries_below(self._root, ""), key=lambda one: one[0])

    def _add_tar(self, path: Path, from_outside: bool) -> None:
        limits = ArchiveLimits(members=_MEMBERS_MAX, size=_BYTES_MAX)
        # Open until the tree is written.
        tar = self._stack.enter_context(
            open_archive(path, limits, self._scratch, from_outside=from_outside)
        )
        members = [(_clean(info.name, path), _owned(info, path)) for info in tar]
        for name, _ in members:
            folder, _, last = name.rpartition("/")
            if last == _OPAQUE:
                if (node := self._node_at(self._resolved(folder))) is not None:
                    self._empty(node)
            elif last.startswith(_WHITEOUT):
                self.remove(f"{folder}/{last.removeprefix(_WHITEOUT)}".strip("/"))
        for name, info in members:
            if name and not name.rpartition("/")[2].startswith(_WHITEOUT):
                self._add_member(tar, name, info, path)

    def _add_member(self, tar: Archive, name: str, info: tarfile.TarInfo, path: Path) -> None:
        if info.islnk():
            meant = self._entry_at(self._resolved(_clean(info.linkname, path)))
            if meant is None:
                raise UsageError(f"{path}: {name} is a link to {info.linkname}, which is not there")
            copy = _plain(meant.info, name)
            copy.offset_data = meant.info.offset_data
            self._put(_Entry(copy, meant.tar, meant.path))
        elif info.isreg() or info.isdir() or info.issym():
            info.name = name
            self._put(_Entry(info, tar if info.isreg() else None))

    def _put(self, entry: _Entry) -> None:
        parts = self._resolved(entry.info.name)
        node = self._made(parts[:-1])
        if parts:
            node = node.below.setdefault(parts[-1], _Node())
        there = node.entry
        if entry.info.isdir() and there is not None and there.info.issym():
            return  # `bin` may be a link to usr/bin, and a folder in the next layer
        if not entry.info.isdir() and there is not None and there.info.isdir():
            self._empty(node)  # only a folder can have something below it
        self._set(node, entry)
        self._bytes += entry.info.size
        if self._bytes > _BYTES_MAX:
            raise UsageError(_TOO_MUCH)

    def _set(self, node: _Node, entry: _Entry) -> None:
        self._count += node.entry is None
        node.entry = entry
        if self._count > _MEMBERS_MAX:
            raise UsageError(_TOO_MUCH)

    def _made(self, parts: Sequence[str]) -> _Node:
        """The folder `parts`, which are resolved, made where it is not there."""
        node = self._root
        for end, part in enumerate(parts, 1):
            node = node.below.setdefault(part, _Node())
            if node.entry is None:
                info = tarfile.TarInfo("/".join(parts[:end]))
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                self._set(node, _Entry(info))
        return node

    def _make_folders(self, name: str) -> None:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            self._made(self._resolved("/".join(parts[:end])))

    def _empty(self, node: _Node) -> None:
        self._count -= sum(1 for below in node.below.values() for _ in _entries_below(below, ""))
        node.below = {}

    def _node_at(self, parts: Iterable[str]) -> _Node | None:
        node: _Node | None = self._root
        for part in parts:
            node = node.below.get(part) if node is not None else None
        return node

    def _entry_at(self, parts: Iterable[str]) -> _Entry | None:
        node = self._node_at(parts)
        return node.entry if node is not None else None

    def _resolved(self, name: str) -> list[str]:
        """`name` with the links among its folders replaced by what they mean inside the root."""
        left = deque(name.split("/"))
        done: list[str] = []
        nodes: list[_Node | None] = [self._root]
        for _ in range(_LINKS_MAX + name.count("/")):
            if len(left) <= 1:
                break
            part = left.popleft()
            if part == "..":
                if done:
                    done.pop()
                    nodes.pop()
                continue
            if part in ("", "."):
                continue
            above = nodes[-1]
            node = above.below.get(part) if above is not None else None
            if node is None or node.entry is None or not node.entry.info.issym():
                done.append(part)
                nodes.append(node)
                continue
            target = node.entry.info.linkname
            if target.startswith("/"):
                done, nodes = [], [self._root]
            left.extendleft(reversed(target.split("/")))
        else:
            raise UsageError(f"{name}: too many links on the way to it")
        return [part for part in (*done, *left) if part]


def _entries_below(node: _Node, name: str) -> Iterator[tuple[str, _Entry]]:
    left = [(name, node)]
    while left:
        at, node = left.pop()
        if node.entry is not None:
            yield at, node.entry
        left += [(f"{at}/{part}" if at else part, below) for part, below in node.below.items()]


def _oci_layers(root: Path) -> Iterator[Path]:
    """The layers of an image, the lowest first, each as its digest says."""
    try:
        document = parse_json(openable(root / "index.json").read_bytes())
        for _ in range(_LINKS_MAX):
            if "layers" in document:
                for layer in document["layers"]:
                    yield _blob(root, layer)
                return
            wanted = document["manifests"]
            fitting = [one for one in wanted if _is_for_us(one.get("platform"))] or wanted
            document = parse_json(_blob(root, fitting[0]).read_bytes())
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{root}: index.json is none of an OCI image layout: {error!r}") from error
    raise UsageError(f"{root}: index.json leads to no manifest")


def _is_for_us(platform: Any) -> bool:
    return platform is None or (platform["os"], platform["architecture"]) == ("linux", "amd64")


def _blob(root: Path, descriptor: Any) -> Path:
    found = _DIGEST.fullmatch(descriptor["digest"])
    if found is None:
        raise ValueError(f"digest {descriptor['digest']!r}: it should be sha256:...")
    path = root / "blobs" / "sha256" / found.group(1)
    with openable(path).open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != found.group(1):
            raise UsageError(f"{path}: it is not what its digest says", hint="fetch it again")
    return path


def _clean(name: str, where: Path) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise UsageError(f"{where}: a member leads out of the root: {name!r}")
    return "/".join(parts)


def _owned(info: tarfile.TarInfo, where: Path) -> tarfile.TarInfo:
    if not (0 <= info.uid <= _OWNER_MAX and 0 <= info.gid <= _OWNER_MAX):
        raise UsageError(f"{where}: {info.name} belongs to {info.uid}:{info.gid}, which are none")
    return info


def _info_of(path: Path, name: str) -> tarfile.TarInfo | None:
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        info.size = status.st_size
    else:
        return None
    return info


def _plain(info: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """The header without extensions and names of owners, readable for the user who packs it."""
    plain = tarfile.TarInfo(name)
    plain.type, plain.linkname, plain.size = info.type, info.linkname, info.size
    if not (info.isdir() or info.issym()):
        plain.type = tarfile.REGTYPE
    plain.mode = info.mode | (0o700 if info.isdir() else 0o400)
    plain.mtime, plain.uid, plain.gid = int(info.mtime), info.uid, info.gid
    return plain


class _Hashing(io.RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)
