# SPDX-License-Identifier: Apache-2.0
"""Base images: a freshly formatted disk, made once and never modified.

Formatting happens on the host, without root: the tools of all file systems take a
plain file, and see nothing else of the host (powercut.sandbox).  UUIDs are fixed, so
that the same request gives the same file system.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError, UsageError
from powercut.sandbox.confined import find_tool, run_confined
from powercut.scenario.mkfs_options import refused_mkfs_options

_UUID: Final = "5ca1ab1e-0000-4000-8000-706f77657263"
_XFS_SUPPORTED_BYTES: Final = 300 << 20  # mkfs.xfs 6.0 and later refuse less by default
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class BaseImageSpec:
    """What a base image holds.

    `filesystem` is `xfs`, `ext4`, `btrfs`, or empty for a disk of zeroes; `size` is in
    bytes; `mkfs_options` are given to mkfs as they are.
    """

    filesystem: str
    size: int
    mkfs_options: tuple[str, ...] = ()


def mkfs_argv(spec: BaseImageSpec, image: Path) -> list[str]:
    """The command that formats `image`; empty if there is nothing to format.

    ext4 is told to initialise everything at once: its lazy initialisation would write
    to the disk in the background of every run.
    """
    match spec.filesystem:
        case "":
            return []
        case "xfs":
            small = ["--unsupported"] if spec.size < _XFS_SUPPORTED_BYTES else []
            head = ["mkfs.xfs", "-q", "-f", *small, "-m", f"uuid={_UUID}"]
        case "ext4":
            lazy = "lazy_itable_init=0,lazy_journal_init=0"
            head = ["mkfs.ext4", "-q", "-F", "-U", _UUID, "-E", lazy]
        case "btrfs":
            head = ["mkfs.btrfs", "-q", "-f", "-U", _UUID]
        case other:
            raise ValueError(f"no recipe to format {other!r}")
    return [*head, *spec.mkfs_options, str(image)]


_making = threading.Lock()


def ensure_base_image(spec: BaseImageSpec, cache: Path) -> Path:
    """The image that `spec` describes, read-only, made if it is not in `cache` yet.

    Raises UsageError for an option that mkfs is not given on the host, and HostError if the
    formatting tool is missing, fails, or the disk is full.
    """
    # Settings come from recordings, too, which no scenario's rules have seen.
    if refused := refused_mkfs_options(spec.filesystem, spec.mkfs_options):
        raise UsageError(f"filesystem.mkfs: {refused[0]}", hint="see docs/scenario-reference.md")
    argv = mkfs_argv(spec, Path("IMAGE"))
    digest = _digest(spec, argv)
    image = cache / "base" / f"{spec.filesystem or 'raw'}-{spec.size >> 20}M-{digest}.img"
    with _making:  # trials at the same time want the same image
        return image if image.exists() else _make(spec, image, cache, formatted=bool(argv))


def _make(spec: BaseImageSpec, image: Path, cache: Path, *, formatted: bool) -> Path:
    image.parent.mkdir(parents=True, exist_ok=True)
    unfinished = image.with_suffix(f".{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            file.truncate(spec.size)
        if formatted:
            _format(spec, unfinished)
            dig_holes(unfinished)  # mkfs.xfs reserves its whole log
        unfinished.chmod(0o444)
        unfinished.rename(image)
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(
            f"cannot make the base image {image}: {error}",
            hint=f"check the free space under {cache}",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return image


def dig_holes(image: Path) -> None:
    """Gives back the room that zeroes take: an image is kept with each recording made of it.

    Its bytes stay what they are.  Raises OSError or SubprocessError.
    """
    # A copy, since blocks that are reserved and not written count as holes for fallocate(1).
    dense = image.rename(image.with_suffix(".dense"))
    try:
        copy = ["cp", "--sparse=always", str(dense), str(image)]
        subprocess.run(copy, timeout=_TIMEOUT_S, check=True, capture_output=True)
    finally:
        dense.unlink()


def _digest(spec: BaseImageSpec, argv: Sequence[str]) -> str:
    """Changes with everything that shapes the image, the tool's version among it."""
    version = ""
    if argv:
        asked = _run_tool([argv[0], "-V"], from_outside=False)
        version = asked.stdout + asked.stderr  # mkfs.ext4 says it on the second
    what = repr((spec, list(argv))).encode() + version.encode()
    return hashlib.sha256(what).hexdigest()[:12]


def _format(spec: BaseImageSpec, image: Path) -> None:
    argv = mkfs_argv(spec, image)
    done = _run_tool(argv, image, from_outside=bool(spec.mkfs_options))
    if done.returncode:
        complaint = (done.stderr or done.stdout).partition("Usage:")[0].strip()
        raise HostError(
            f"{argv[0]} failed with status {done.returncode}: {complaint}",
            hint=f"check mkfs options and disk size of the scenario; it ran: {' '.join(argv)}",
        )


def _run_tool(
    argv: Sequence[str], *files: Path, from_outside: bool
) -> subprocess.CompletedProcess[str]:
    if find_tool(argv[0]) is None:
        package = {"mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs", "mkfs.btrfs": "btrfs-progs"}
        raise HostError(f"{argv[0]} is not installed", hint=f"apt-get install {package[argv[0]]}")
    return run_confined(argv, timeout_s=_TIMEOUT_S, files=files, from_outside=from_outside)
