# SPDX-License-Identifier: Apache-2.0
"""What was carried to this host for a run, where it is used: found by all, and watched.

A part is read whole when the run begins, and again when anything about its files has changed
(their place on the disk, size and times, by lstat).  So a program that someone replaces in the
midst of a run makes no more trials.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from powercut.carried import Carried, CarriedRoot
from powercut.cluster.cargo import DATA, FILES, TAR, digest_of
from powercut.cluster.messages import Part, PartKind
from powercut.model.errors import HostError
from powercut.sandbox.confined import run_confined
from powercut.store.files import host_errors, remove_tree

_UNPACK_S: Final = 600.0

_Look = tuple[tuple[int, ...], ...]


class Hold:
    """The parts below `root`, powercut's folder there.  Raises HostError if one cannot be read."""

    def __init__(self, root: Path, parts: tuple[Part, ...]) -> None:
        self._paths = {part: _ready(root / part.folder, part) for part in parts}
        self._looks = {part: _look(path) for part, path in self._paths.items()}
        self.digests = {
            part.title: digest_of(path, part.kind) for part, path in self._paths.items()
        }
        """By which digest each lies here."""

    @property
    def is_sound(self) -> bool:
        """Whether each part is what was carried here."""
        return all(self.digests[part.title] == _digest(part) for part in self._paths)

    def publish(self) -> None:
        """Has this process, and all that it starts, find the parts."""
        if not self._paths:
            return
        here = {
            kind: {part: str(path) for part, path in self._paths.items() if part.kind is kind}
            for kind in PartKind
        }
        roots = {part.name: part for part in self._paths if part.kind in _ROOTS}
        images = {part.name: path for part, path in here[PartKind.ROOT_IMAGE].items()}
        folders = {part.name: path for part, path in here[PartKind.ROOT_FOLDER].items()}
        Carried(
            folders={part.name: path for part, path in here[PartKind.PROGRAM].items()},
            images={part.sha256: path for part, path in here[PartKind.PROGRAM_IMAGE].items()},
            roots={
                name: CarriedRoot(
                    part.sha256, images.get(name, ""), folders.get(name, ""), part.about
                )
                for name, part in roots.items()
            },
        ).publish()

    def check(self) -> None:
        """Raises HostError if a part is not what was carried here any more."""
        for part, path in self._paths.items():
            seen = _look(path)
            if seen == self._looks[part]:
                continue
            digest = digest_of(path, part.kind)
            if digest != _digest(part):
                raise HostError(
                    f"{part.title} was changed: it has digest {digest[:16]}, and "
                    f"{_digest(part)[:16]} was carried there"
                )
            self._looks[part] = seen


_ROOTS: Final = (PartKind.ROOT_IMAGE, PartKind.ROOT_FOLDER)


def _digest(part: Part) -> str:
    return Path(part.folder).name


def _ready(folder: Path, part: Part) -> Path:
    """Where a part lies; a folder is unpacked first."""
    if not part.kind.is_folder:
        return folder / DATA
    files, tar = folder / FILES, folder / TAR
    if files.exists():
        return files
    new = folder / f".{FILES}.{os.getpid()}"
    remove_tree(new)
    with host_errors(new):
        new.mkdir()
    argv = ["tar", "-xpf", str(tar), "-C", str(new), "--no-same-owner"]
    try:
        done = run_confined(argv, timeout_s=_UNPACK_S, reads=[tar], folders=[new])
        if done.returncode:
            raise HostError(f"{part.title} cannot be unpacked: {done.stderr.strip()[-300:]}")
        with host_errors(files):
            new.rename(files)
            tar.unlink()
    finally:
        remove_tree(new)
    return files


def _look(path: Path) -> _Look:
    return tuple(_looks(path))


def _looks(path: Path) -> Iterator[tuple[int, ...]]:
    try:
        yield _stat(path)
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted([*folders, *names]):
                yield _stat(Path(folder, name))
    except OSError as error:
        raise HostError(f"{error.filename} cannot be read: {error.strerror}") from error


def _stat(path: Path) -> tuple[int, ...]:
    seen = path.lstat()
    return (seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
