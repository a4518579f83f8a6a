# SPDX-License-Identifier: Apache-2.0
"""Base images: a freshly formatted disk, made once and never modified.

Formatting happens on the host, without root: the tools of all file systems take a
plain file, and see nothing else of the host (powercut.sandbox).  UUIDs are fixed, so
that the same request gives the same file system.
"""

from __future__ import annotations

import hashlib
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from powercut.model.errors import HostError, UsageError
from powercut.sandbox.confined import find_tool, run_confined
from powercut.scenario.mkfs_options import refused_mkfs_options
from powercut.scenario.settings_several import STRIPE, DiskPart, Holds

_UUID: Final = "5ca1ab1e-0000-4000-8000-706f77657263"
_XFS_SUPPORTED_BYTES: Final = 300 << 20  # mkfs.xfs 6.0 and later refuse less by default
_TIMEOUT_S: Final = 60.0
_BLOCK: Final = 1 << 20  # bytes that are copied at a time
_PACKAGES: Final = {
    "mkfs.xfs": "xfsprogs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.f2fs": "f2fs-tools",
}


@dataclass(frozen=True)
class BaseImageSpec:
    """What a base image holds.

    `filesystem` is `xfs`, `ext4`, `btrfs`, `f2fs`, or empty for a disk of zeroes; `size` is in
    bytes; `mkfs_options` are given to mkfs as they are.  With `parts` the image holds several
    disks, of which `size` is that of the first.  With another `number` its UUID is another.
    """

    filesystem: str
    size: int
    mkfs_options: tuple[str, ...] = ()
    parts: tuple[DiskPart, ...] = ()
    number: int = 0

    @property
    def whole_size(self) -> int:
        """Bytes of the image."""
        return sum(part.size for part in self.parts) or self.size


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
        case "f2fs":
            head = ["mkfs.f2fs", "-q", "-f", "-r", "-t", "0", "-U", _UUID]
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
    image = cache / "base" / f"{spec.filesystem or 'raw'}-{spec.whole_size >> 20}M-{digest}.img"
    with _making:  # trials at the same time want the same image
        return image if image.exists() else _make(spec, image, cache, formatted=bool(argv))


def _make(spec: BaseImageSpec, image: Path, cache: Path, *, formatted: bool) -> Path:
    image.parent.mkdir(parents=True, exist_ok=True)
    own = secrets.token_hex(8)  # others, in a container, may have the same process id
    unfinished = image.with_suffix(f".{own}.tmp")
    try:
        with unfinished.open("wb") as file:
            file.truncate(spec.whole_size)
        if formatted and spec.parts:
            format_parts(spec, unfinished)
        elif formatted:
            format_image(spec, unfinished, number=spec.number)
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
    # Named as ever if it is one disk.
    shape = repr(spec).replace(", parts=()", "").replace(", number=0", "")
    what = f"({shape}, {list(argv)!r})".encode() + version.encode()
    return hashlib.sha256(what).hexdigest()[:12]


_BESIDE_XFS: Final = {
    Holds.XFS_LOG: ("-l", "logdev={}"),
    # All files are to lie there.  Before Linux 6.14 such a file shares no blocks, and XFS does not
    # mount with both.
    Holds.XFS_REALTIME: ("-m", "reflink=0", "-d", "rtinherit=1", "-r", "rtdev={}"),
}
"""What mkfs.xfs is told of a disk beside the first."""


def format_parts(spec: BaseImageSpec, image: Path) -> None:
    """Lays out several disks on `image`, each as it is used.  Raises as `format_image`."""
    alone = replace(spec, parts=())
    with tempfile.TemporaryDirectory(dir=image.parent) as folder:
        files = {part.name: Path(folder, part.name) for part in spec.parts}
        for part in spec.parts:
            with files[part.name].open("wb") as file:
                file.truncate(part.size)
        kinds = {part.holds: files[part.name] for part in spec.parts}
        if Holds.STRIPE in kinds:
            stripes = Path(folder, "stripes")
            with stripes.open("wb") as file:
                file.truncate(spec.whole_size)
            format_image(replace(alone, size=spec.whole_size), stripes)
            deal_stripes(stripes, [files[part.name] for part in spec.parts])
        else:
            beside = {kind: kinds[kind] for kind in _BESIDE_XFS if kind in kinds}
            format_image(alone, files[spec.parts[0].name], beside=beside)
        for number, part in enumerate(spec.parts):
            if part.holds is Holds.FOLDER:
                format_image(replace(alone, size=part.size), files[part.name], number=number)
            _copy(files[part.name], image, part.offset)


def deal_stripes(whole: Path, disks: Sequence[Path]) -> None:
    """Writes the stripes of `whole` to `disks` in turn (dm-stripe)."""
    with whole.open("rb") as file, ExitStack() as stack:
        onto = [stack.enter_context(disk.open("r+b")) for disk in disks]
        for number in range(whole.stat().st_size // STRIPE):
            stripe = file.read(STRIPE)
            if stripe.count(0) != len(stripe):
                onto[number % len(disks)].seek(number // len(disks) * STRIPE)
                onto[number % len(disks)].write(stripe)


def _copy(source: Path, image: Path, offset: int) -> None:
    with source.open("rb") as file, image.open("r+b") as onto:
        for at in range(0, source.stat().st_size, _BLOCK):
            block = file.read(_BLOCK)
            if block.count(0) != len(block):
                onto.seek(offset + at)
                onto.write(block)


def format_image(
    spec: BaseImageSpec,
    image: Path,
    *,
    beside: Mapping[Holds, Path] = MappingProxyType({}),
    number: int = 0,
) -> None:
    """Formats `image`; an XFS may have parts on files `beside` it.  `number` makes another UUID.

    Raises HostError.
    """
    argv = [
        word.replace(_UUID, f"{_UUID[:-1]}{number}") if number else word
        for word in mkfs_argv(spec, image)
    ]
    for holds, path in beside.items():
        argv[-1:-1] = [word.format(path) for word in _BESIDE_XFS[holds]]
    done = _run_tool(argv, image, *beside.values(), from_outside=bool(spec.mkfs_options))
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
        raise HostError(f"{argv[0]} is not installed", hint=f"apt-get install {_PACKAGES[argv[0]]}")
    return run_confined(argv, timeout_s=_TIMEOUT_S, files=files, from_outside=from_outside)
