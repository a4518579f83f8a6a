# SPDX-License-Identifier: Apache-2.0
"""One file that carries a finding: `powercut verify FILE` judges it again anywhere.

A bundle is a tar archive, compressed with zstd (RFC 8878):

    bundle.json     the manifest, first: what the finding is; path, size and SHA-256 of
                    every file
    blobs/<digest>  each distinct content once, in the order of its first use

In it are the recording, its controls (a verdict is worth as much as they are), the
scenario, the environment, and what was found out about the recording: witness,
exploration, states.  The same recording gives the same bytes.

Nothing of a bundle is believed: paths that lead out of the folder are refused, and what
is unpacked has the digests of the manifest, or is an error that names the file.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from powercut.brought import mark_results
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.named_path import openable, shown
from powercut.model.printable import parse_json
from powercut.model.verdict import LsnRange
from powercut.sandbox.archive import Archive, ArchiveLimits, open_archive
from powercut.store.digest import ContentDigest
from powercut.store.files import host_errors

MANIFEST: Final = "bundle.json"
CAPTURE: Final = "capture"
MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""How every zstd frame begins (RFC 8878, section 3.1.1)."""

_BLOCK: Final = 64 << 10
_MANIFEST_MAX: Final = 16 << 20
FILE_MAX: Final = 1 << 40
"""Bytes: the largest disk that a scenario may ask for."""

_FIRST: Final = ArchiveLimits(members=1, size=_MANIFEST_MAX, only_first=True)
_DEPTH_MAX: Final = 64  # folders are made and removed by recursion
_MORE: Final = 16  # members: the manifest, and some that should not be there and are named

VerdictWord = Literal["SAFE", "SURVIVED", "INCONCLUSIVE", "LOSSY"]


class BundledFile(BaseModel):
    """A file of the result, by its path below the folder of the run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    size: Annotated[int, Field(ge=0, le=FILE_MAX)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BundledState(BaseModel):
    """A crash state and what recovery made of it when it was bundled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    verdict: VerdictWord
    lost: tuple[LsnRange, ...]
    message: str
    engine: str
    engine_reason: str = ""  # why a faster one was not taken


class BundleManifest(BaseModel):
    """bundle.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["powercut-bundle/1"] = "powercut-bundle/1"
    powercut: str
    scenario: str
    cell: str
    trial: int
    recording: str  # its path below the folder of the run
    verdict: VerdictWord  # of the trial, before its controls
    lost: tuple[LsnRange, ...]
    state: BundledState | None = None
    files: tuple[BundledFile, ...]
    kind: Literal["trial", "capture"] = "trial"
    """What is bundled: a trial, or the recording of a captured folder."""


def is_bundle(path: Path) -> bool:
    """Whether `path` is a file that begins as a bundle does."""
    try:
        with openable(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def unpack(bundle: Path, folder: Path) -> BundleManifest:
    """Unpacks `bundle` into the new folder `folder`, every file checked.

    Raises UsageError if it is no bundle or `folder` exists, DamagedRecording if something
    in it is not what it was, and HostError if it cannot be written.
    """
    if not is_bundle(bundle):
        raise UsageError(f"{bundle}: is no bundle", hint="`powercut export` makes them")
    if folder.exists():
        raise UsageError(f"{folder}: exists already", hint="give the name of a new folder")
    try:
        return _unpack(bundle, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # half a result is none
        raise


def _unpack(bundle: Path, folder: Path) -> BundleManifest:
    try:
        with _opened(bundle, folder, _FIRST) as tar:
            manifest = _read_manifest(bundle, tar)
        with host_errors(folder):
            folder.mkdir(parents=True)
            mark_results(folder)
            _check_room(bundle, folder, manifest)
        with _opened(bundle, folder, _limits(manifest)) as tar:
            tar.next()  # the manifest
            _unpack_blobs(bundle, tar, folder, manifest)
    except tarfile.TarError as error:
        raise DamagedRecording(
            f"{bundle}: cut off, or damaged: {error}", hint="copy it again"
        ) from error
    missing = [each.path for each in manifest.files if not (folder / each.path).is_file()]
    if missing:
        raise DamagedRecording(
            f"{bundle}: cut off: {', '.join(missing[:4])} is not in it", hint="copy it again"
        )
    return manifest


@contextmanager
def _opened(bundle: Path, folder: Path, limits: ArchiveLimits) -> Iterator[Archive]:
    """The bundle without its compression, which lies near `folder` meanwhile."""
    scratch = next(path for path in folder.absolute().parents if path.is_dir())
    try:
        bundle.open("rb").close()
    except OSError as error:
        raise UsageError(f"{bundle}: {error.strerror}") from error
    with open_archive(bundle, limits, scratch) as tar:
        yield tar


def _limits(manifest: BundleManifest) -> ArchiveLimits:
    sizes = {each.sha256: each.size for each in manifest.files}
    return ArchiveLimits(members=len(sizes) + _MORE, size=sum(sizes.values()) + 2 * _MANIFEST_MAX)


def _read_manifest(bundle: Path, tar: Archive) -> BundleManifest:
    first = tar.next()
    content = tar.open(first) if first and first.name == MANIFEST else None
    if first is None or content is None or first.size > _MANIFEST_MAX:
        raise UsageError(f"{bundle}: is no bundle of powercut: {MANIFEST} does not come first")
    text = content.read()
    try:
        version = parse_json(text).get("format")
        if version != "powercut-bundle/1":
            raise DamagedRecording(
                f"{bundle}: written in format {version!r}, which this powercut does not read",
                hint="use the powercut that wrote it, or a newer one",
            )
        manifest = BundleManifest.model_validate_json(text)
    except (ValueError, AttributeError, ValidationError) as error:
        raise DamagedRecording(f"{bundle}: {MANIFEST} makes no sense: {error}") from error
    for name in (manifest.recording, *(each.path for each in manifest.files)):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or not _plain(name):
            raise DamagedRecording(f"{bundle}: names a file outside of it: {name!r}")
        if len(path.parts) > _DEPTH_MAX:
            raise DamagedRecording(
                f"{bundle}: {shown(name)} is more than {_DEPTH_MAX} folders deep",
                hint="no bundle of powercut's is: this one was made by something else",
            )
    if manifest.state is not None and not re.fullmatch(r"[0-9a-f]{12}", manifest.state.name):
        raise DamagedRecording(f"{bundle}: {manifest.state.name!r} is no name of a state")
    return manifest


def _plain(name: str) -> bool:
    return name.isprintable() and "\\" not in name


def _check_room(bundle: Path, folder: Path, manifest: BundleManifest) -> None:
    """Raises HostError unless the contents would fit, holes and all."""
    size = sum({each.sha256: each.size for each in manifest.files}.values())
    free = shutil.disk_usage(folder).free
    if size > free:
        raise HostError(
            f"{bundle}: holds {size} bytes, and {folder} has room for {free}",
            hint="free some space, or set TMPDIR to where there is",
        )


def _unpack_blobs(bundle: Path, tar: Archive, folder: Path, manifest: BundleManifest) -> None:
    wanted: dict[str, list[BundledFile]] = {}
    for each in manifest.files:
        wanted.setdefault(f"blobs/{each.sha256}", []).append(each)
    while (member := tar.next()) is not None:
        files = wanted.pop(member.name, None)
        if files is None or not member.isreg() or member.size != files[0].size:
            raise DamagedRecording(f"{bundle}: holds {member.name!r}, which its manifest does not")
        content = tar.open(member)
        assert content is not None
        first = folder / files[0].path
        with host_errors(first):
            if _put(content, first, member.size) != files[0].sha256:
                raise DamagedRecording(
                    f"{bundle}: {files[0].path} is not what was bundled", hint="copy it again"
                )
            for other in files[1:]:
                target = folder / other.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(first)
            if len(files) > 1 or first.name in ("base.img", "backing.img"):
                first.chmod(0o444)


def _put(content: IO[bytes], path: Path, size: int) -> str:
    """Writes `content` with holes where it is zero; returns its digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = ContentDigest(size)
    zeroes = bytes(_BLOCK)
    with path.open("xb") as file:
        while block := content.read(_BLOCK):
            digest.update(block)
            if block == zeroes[: len(block)]:
                file.seek(len(block), os.SEEK_CUR)
            else:
                file.write(block)
        file.truncate(size)
    return digest.hexdigest()
