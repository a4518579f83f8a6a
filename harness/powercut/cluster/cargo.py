# SPDX-License-Identifier: Apache-2.0
"""Programs with a root of their own, carried to hosts: each part once, named by its digest.

    carried/DIGEST/data      an image, with the SHA-256 DIGEST
                  /data.tar  a folder; DIGEST is that of the tar that its files make
                  /files     the same, unpacked there

A cell needs the folder that its program lies in, and the root: in a virtual machine both are
images, made on this host and the same bytes everywhere; without one the root is a folder.  A host
says by which digest it has each part, and one with another digest takes no part
(powercut.cluster.identity).  There the parts are watched: powercut.cluster.hold.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from powercut.closing import ResourceOwner
from powercut.cluster.messages import Part, PartKind
from powercut.cluster.roster import ClusterHost
from powercut.disk.root_image import RootImage
from powercut.disk.root_layers import RootTree
from powercut.model.errors import HostError
from powercut.rig import commands
from powercut.rig.rig import Rig
from powercut.rig.root_text import packages_of
from powercut.rig.unpacked import root_name, unpacked_root
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import Parameters
from powercut.store.files import host_errors

FOLDER: Final = "carried"
DATA: Final = "data"
TAR: Final = "data.tar"
FILES: Final = "files"
_PROGRAM_DIGESTS: Final = (
    "root_sha256",
    "program_folder_sha256",
    "program_sha256",
    "command_sha256",
)


class Cargo(ResourceOwner):
    """The parts of the programs of some cells; a context manager.

    Raises HostError, UsageError for a root that cannot be made.
    """

    def __init__(self, rig: Rig, cells: Iterable[Parameters]) -> None:
        super().__init__()
        self._cache = rig.cache
        self._sources: dict[Part, Path] = {}
        self._packing = threading.Lock()
        for parameters in cells:
            self._add_cell(rig, parameters)

    def _open(self, stack: ExitStack) -> None:
        self._cache.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=self._cache, prefix=".carried-")
        self._scratch = Path(stack.enter_context(folder))

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each once, in the order of the cells."""
        return tuple(self._sources)

    @property
    def digests(self) -> dict[str, str]:
        """By which digest every host has to have each."""
        return {part.title: Path(part.folder).name for part in self._sources}

    def bring(self, host: ClusterHost) -> None:
        """Leaves on a host what it does not have yet.  Raises HostError."""
        for part, source in self._sources.items():
            if part.kind.is_folder and host.has(f"{part.folder}/{FILES}"):
                continue
            if part.kind.is_folder:
                host.bring(part.folder, {TAR: self._packed(part, source)})
            else:
                host.bring(part.folder, {DATA: source})

    def _packed(self, part: Part, source: Path) -> Path:
        path = self._scratch / Path(part.folder).name
        with self._packing, host_errors(path):
            if not path.exists():
                with path.open("wb") as file:
                    tree_digest(source, part.kind, file)
        return path

    def _add_cell(self, rig: Rig, parameters: Parameters) -> None:
        contents = commands.contents_of(parameters)
        if contents.root is None:
            return
        name, about = root_name(contents.root), packages_of(parameters, rig.cache).get("root", "")
        if contents.program is not None:
            self._add(PartKind.PROGRAM, str(contents.program), contents.program)
        if place_of(parameters).files is Files.UNPACKED:
            root = unpacked_root(contents.root)
            self._add(PartKind.ROOT_FOLDER, name, root.path, root, about)
            return
        image, program = rig.root_image(parameters), rig.program_image(parameters)
        assert image is not None
        self._add(PartKind.ROOT_IMAGE, name, image.path, image, about)
        if program is not None:
            self._add(PartKind.PROGRAM_IMAGE, str(contents.program), program.path, program)

    def _add(
        self, kind: PartKind, name: str, path: Path, made: RootImage | None = None, about: str = ""
    ) -> None:
        if any((part.kind, part.name) == (kind, name) for part in self._sources):
            return
        part = Part(
            kind=kind,
            name=name,
            folder=f"{FOLDER}/{digest_of(path, kind)}",
            sha256="" if made is None else made.sha256,
            about=about,
        )
        self._sources[part] = path


def program_digests(rig: Rig, parameters: Parameters) -> dict[str, str]:
    """What a trial's record has to say of a carried program; nothing for what has none.

    Raises HostError.
    """
    if not place_of(parameters).files.carried:
        return {}
    versions = rig.versions(parameters)
    return {name: versions[name] for name in _PROGRAM_DIGESTS if name in versions}


def digest_of(path: Path, kind: PartKind) -> str:
    """The digest of a part that lies at `path`.  Raises HostError."""
    try:
        if kind.is_folder:
            return tree_digest(path, kind)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HostError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def tree_digest(folder: Path, kind: PartKind, file: IO[bytes] | None = None) -> str:
    """The SHA-256 of the tar of a folder, which is written to `file`.  Raises OSError.

    Of a root everything counts, of a program's folder what comes into a root of its own.
    """
    with RootTree() as tree:
        tree.add_folder(folder, exact=kind is PartKind.ROOT_FOLDER)
        if file is not None:
            return tree.write(file, skeleton=False)
        with Path(os.devnull).open("wb") as nowhere:
            return tree.write(nowhere, skeleton=False)
