# SPDX-License-Identifier: Apache-2.0
"""The manifest of a recording: what belongs to it, and the digest of each file
(powercut.store.digest).

{"format": "powercut-manifest/1",
 "files": [{"name": "disk.log", "size": 123, "sha256": "..."}, ...]}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from powercut.model.errors import DamagedRecording
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.store import own
from powercut.store.digest import ContentDigest, file_digest
from powercut.store.files import fsync_path, host_errors, write_atomic

MANIFEST: Final = "manifest.json"
FORMAT: Final = "powercut-manifest/1"
PACK: Final = "evidence.pack"
"""Name of the file that the larger files of evidence may lie in (powercut.store.packed)."""


_digests: dict[tuple[int, int, int, int], str] = {}
"""Digests of read-only files by device, inode, size and time of change: a base image is
the same file in every recording, and its digest takes longer than all the others."""


def seal(folder: Path, names: Iterable[str]) -> None:
    """Makes the files durable, then their manifest.

    Files that did not come to be are left out: the recording was cut short, and what
    needs them will say so.  Raises HostError.
    """
    from powercut.store.packed import evidence_size, has_evidence  # noqa: PLC0415

    entries = []
    with host_errors(folder):
        for name in sorted(names):
            path = folder / name
            if not has_evidence(path):
                continue
            if path.is_file():
                fsync_path(path)
            entries.append({"name": name, "size": evidence_size(path), "sha256": digest_of(path)})
        fsync_path(folder)
    text = json.dumps({"format": FORMAT, "files": entries}, indent=1) + "\n"
    write_atomic(folder / MANIFEST, text.encode())
    own.mark(folder, folder / MANIFEST)


def is_own(folder: Path, name: str) -> bool:
    """Whether this user has sealed the recording on this host, the file `name` as it is now.

    Raises DamagedRecording if that file is not as it was sealed.
    """
    check(folder, only=(name,))
    return own.is_marked(folder, folder / MANIFEST)


def adopt(folder: Path) -> None:
    """Says that a sealed recording is this user's own, who has chosen all that it names."""
    own.mark(folder, folder / MANIFEST)


def check(folder: Path, *, only: Collection[str] | None = None) -> tuple[str, ...]:
    """The names of the sealed files, all of which are as they were.

    With `only` those among them; each must be sealed.  Raises DamagedRecording naming each file
    that is not as it was, or the manifest itself.
    """
    entries = _entries(folder)
    sealed = {name for name, _, _ in entries}
    wrong = [f"{folder / name}: it was never sealed" for name in only or () if name not in sealed]
    entries = [entry for entry in entries if only is None or entry[0] in only]
    for entry in entries:
        try:
            wrong += _compare(folder, *entry)
        except DamagedRecording as error:  # of what it is packed in
            wrong.append(str(error))
    if wrong:
        raise DamagedRecording(
            "\n".join(wrong), hint="the evidence was changed after it was sealed; run it again"
        )
    return tuple(name for name, _, _ in entries)


def sealed_digest(folder: Path, name: str) -> str:
    """The SHA-256 that the manifest gives of a file; empty if it does not name it.

    Raises DamagedRecording.
    """
    return next((sha256 for other, _, sha256 in _entries(folder) if other == name), "")


def _entries(folder: Path) -> list[tuple[str, int, str]]:
    """Name, size and digest of each sealed file.  Raises DamagedRecording."""
    path = folder / MANIFEST
    try:
        return entries_of(openable(path).read_bytes(), str(path))
    except FileNotFoundError as error:
        raise DamagedRecording(
            f"{folder}: the recording was never sealed: {MANIFEST} is missing",
            hint="the run ended before its evidence was safe; run it again",
        ) from error
    except OSError as error:
        raise DamagedRecording(f"{path}: not a manifest: {error}") from error


def entries_of(text: str | bytes, name: str) -> list[tuple[str, int, str]]:
    """The same of the manifest in `text`, called `name`.  Raises DamagedRecording."""
    try:
        manifest = parse_json(text)
        entries = [(str(e["name"]), int(e["size"]), str(e["sha256"])) for e in manifest["files"]]
        version = manifest["format"]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DamagedRecording(f"{name}: not a manifest: {error}") from error
    if version != FORMAT:
        raise DamagedRecording(
            f"{name}: written in format {version!r}, and this powercut reads {FORMAT!r}",
            hint="use the powercut that wrote it, or a newer one",
        )
    return entries


def _compare(folder: Path, name: str, size: int, sha256: str) -> list[str]:
    from powercut.store.packed import evidence_size  # noqa: PLC0415

    path = folder / name
    if "/" in name or "\0" in name or name in ("", ".", ".."):
        return [f"{folder / MANIFEST}: names a file outside of the recording: {name!r}"]
    if path.is_symlink():  # powercut makes none, and this one may lead anywhere
        return [f"{path}: is a link"]
    try:
        found = evidence_size(path)
        if found != size:
            return [f"{path}: has {found} bytes, and had {size} when it was sealed"]
        if digest_of(path) != sha256:
            return [f"{path}: its contents changed since it was sealed"]
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    return []


def digest_of(path: Path) -> str:
    """The digest of a file, which may be packed, in hex.  Raises OSError and DamagedRecording."""
    if not path.exists():
        from powercut.store.packed import evidence_bytes  # noqa: PLC0415

        content = evidence_bytes(path)
        digest = ContentDigest(len(content))
        digest.update(content.data)
        return digest.hexdigest()
    status = path.stat()
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    read_only = not status.st_mode & 0o222
    if read_only and key in _digests:
        return _digests[key]
    found = file_digest(path)
    if read_only:
        _digests[key] = found
    return found
