# SPDX-License-Identifier: Apache-2.0
"""QEMU and kernels of other Debian suites, unpacked into the cache beside the host's own.

Nothing is installed, and neither root nor a namespace is needed: the packages of QEMU and of all
that it depends on, down to libc, are unpacked into one folder, and QEMU is started by the dynamic
loader in it with the libraries in it (ld.so(8): --library-path, --inhibit-cache), its modules
(QEMU_MODULE_DIR) and its firmware (-L).

    CACHE/suites/SUITE/apt/        what apt keeps; may be deleted when nothing is being fetched
                      /qemu/       root/, qemu-system-x86_64 (which starts it), about.json
                      /kernel-FLAVOUR/   as powercut.machine.guest.kernel_package leaves it
                      /uml/        root/, linux.uml (with that root's loader), about.json
                      /lock

Each part appears by a rename when it is whole.  A part that is there is used as it is, so that a
night's run has the versions of the run before: to get newer ones, delete the suite's folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from powercut.machine.guest.kernel_package import (
    FLAVOURS,
    Kernel,
    fetch_and_unpack,
    find_packages,
    is_unpacked,
    load_kernel,
)
from powercut.machine.qemu.build import PROGRAM, QemuBuild, examine_qemu
from powercut.machine.tool import locked, run_tool
from powercut.model.errors import HostError, UsageError
from powercut.model.versions import SUITES, UML_SUITES
from powercut.paths import CACHE
from powercut_extras.suites import apt
from powercut_extras.suites.interpreter import with_interpreter

_QEMU_PACKAGE: Final = "qemu-system-x86"
_UML_PACKAGE: Final = "user-mode-linux"
_UML: Final = "linux.uml"
_UML_MODULES: Final = "root/usr/lib/uml/modules"
_USELESS: Final = ("doc", "man", "locale", "lintian", "info", "bash-completion")
_LOADER: Final = "ld-linux-x86-64.so.2"
_OLD_LOADER: Final = "ld-2.*.so"  # what the former was a link to until glibc 2.34
_RECIPE: Final = 1  # raise it when other folders are made from the same packages

_START: Final = """\
#!/bin/sh
# QEMU of {suite}, with the libraries, modules and firmware that it was unpacked with.
here=$(dirname -- "$(readlink -f -- "$0")")
export QEMU_MODULE_DIR="$here/root/usr/lib/x86_64-linux-gnu/qemu"
exec "$here/{loader}" --inhibit-cache --library-path "{libraries}" "$here/{binary}" \\
    -L "$here/root/usr/share/qemu" -L "$here/root/usr/share/seabios" \\
    -L "$here/root/usr/lib/ipxe/qemu" "$@"
"""


@dataclass(frozen=True)
class CachedSuite:
    """What of a suite is there; `size` in bytes, without what apt keeps."""

    suite: str
    qemu: str
    kernels: tuple[str, ...]
    size: int
    uml: tuple[str, ...] = ()


def suite_folder(suite: str) -> Path:
    """Where a suite is kept.  Raises UsageError for a name that is none."""
    if suite not in UML_SUITES:
        known = ", ".join(UML_SUITES)
        raise UsageError(f"{suite!r} is no Debian suite that powercut knows: {known}")
    return CACHE / "suites" / suite


def suite_qemu(suite: str, *, deadline: float) -> QemuBuild:
    """The QEMU of `suite`; fetched (about 40 MB) and unpacked (about 180 MB) if it is not there.

    Raises HostError with a remedy, or DeadlineExceeded.
    """
    folder = suite_folder(suite)
    build = _cached_qemu(folder / "qemu")
    if build is not None:
        return build
    with locked(folder / "lock", deadline=deadline, doing=f"fetching {suite}"):
        build = _cached_qemu(folder / "qemu")
        if build is not None:
            return build
        debs = apt.SuiteApt(suite, folder / "apt").download_closure(
            [_QEMU_PACKAGE], deadline=deadline
        )
        with _new(folder) as temporary:
            _unpack_qemu(suite, debs, Path(temporary), deadline=deadline)
            _replace(Path(temporary), folder / "qemu")
        _tidy(folder)
    build = _cached_qemu(folder / "qemu")
    if build is None:
        raise HostError(f"the QEMU in {folder} is damaged", hint=f"rm -r {folder}")
    return build


def suite_kernel(suite: str, flavour: str, *, deadline: float) -> Kernel:
    """The kernel of `suite` in that flavour; fetched if it is not there.

    Raises HostError with a remedy, or DeadlineExceeded.
    """
    folder = suite_folder(suite)
    place = folder / f"kernel-{flavour}"
    if not is_unpacked(place):
        with locked(folder / "lock", deadline=deadline, doing=f"fetching {suite}"):
            if not is_unpacked(place):
                source = apt.SuiteApt(suite, folder / "apt")
                source.prepare(deadline=deadline)
                packages = find_packages(flavour, deadline=deadline, apt=source.options)
                with _new(folder) as temporary:
                    made = fetch_and_unpack(
                        Path(temporary), packages, deadline=deadline, apt=source.options
                    )
                    _replace(made, place)
                _tidy(folder)
    return load_kernel(place)


def suite_uml(suite: str, *, deadline: float) -> tuple[Path, Path, str]:
    """The User-Mode Linux of `suite`, fetched (about 40 MB) and unpacked if it is not there: its
    program, the folder of its modules, the path of its libraries.

    Raises HostError with a remedy, or DeadlineExceeded.
    """
    place = suite_folder(suite) / "uml"
    if not _uml_is_there(place):
        with locked(place.parent / "lock", deadline=deadline, doing=f"fetching {suite}"):
            if not _uml_is_there(place):
                debs = apt.SuiteApt(suite, place.parent / "apt").download_closure(
                    [_UML_PACKAGE], deadline=deadline
                )
                with _new(place.parent) as temporary:
                    _unpack_uml(debs, Path(temporary), place, deadline=deadline)
                    _replace(Path(temporary), place)
                _tidy(place.parent)
    root = place / "root"
    if suite not in SUITES:
        # Older than what is preloaded into it (guests/uml): it runs with the host's libc, which
        # still has all that the older one had.
        return root / "usr/bin" / _UML, place / _UML_MODULES, ""
    folders = [str(folder) for folder in library_folders(root)]
    return place / _UML, place / _UML_MODULES, ":".join(folders)


def _unpack_uml(debs: Sequence[Path], folder: Path, place: Path, *, deadline: float) -> None:
    """Into `folder`, as it will lie at `place`: the loader is named by its whole path."""
    root = folder / "root"
    unpack(debs, root, deadline=deadline)
    loader = place / loader_of(root).relative_to(folder)
    program = folder / _UML
    program.write_bytes(with_interpreter((root / "usr/bin" / _UML).read_bytes(), str(loader)))
    program.chmod(0o755)
    about = {"recipe": _RECIPE, "loader": str(loader), "packages": sorted(d.name for d in debs)}
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def _uml_is_there(place: Path) -> bool:
    """Whether it is, and was made for this place: a cache may be moved."""
    about = _read_about(place)
    return about is not None and Path(str(about["loader"])).is_relative_to(place)


def cached_suites() -> tuple[CachedSuite, ...]:
    """The suites of which something is there.  Reads a few small files; needs no network."""
    suites = []
    for suite in UML_SUITES:
        folder = suite_folder(suite)
        about = _read_about(folder / "qemu")
        size = int(about["bytes"]) if about else 0
        kernels = []
        for flavour in FLAVOURS:
            with suppress(HostError):
                kernel = load_kernel(folder / f"kernel-{flavour}")
                kernels.append(kernel.release)
                size += _size(kernel.folder)
        uml = tuple(path.name for path in sorted((folder / "uml" / _UML_MODULES).glob("*")))
        size += _size(folder / "uml") if uml else 0
        if about or kernels or uml:
            version = str(about["version"]) if about else ""
            suites.append(CachedSuite(suite, version, tuple(kernels), size, uml))
    return tuple(suites)


def _unpack_qemu(suite: str, debs: Sequence[Path], folder: Path, *, deadline: float) -> None:
    root = folder / "root"
    unpack(debs, root, deadline=deadline)
    start = folder / PROGRAM
    start.write_text(
        _START.format(
            suite=suite,
            loader=loader_of(root).relative_to(folder),
            libraries=":".join(
                f"$here/{path.relative_to(folder)}" for path in library_folders(root)
            ),
            binary=f"root/usr/bin/{PROGRAM}",
        )
    )
    start.chmod(0o755)
    names = sorted(deb.name for deb in debs)
    build = examine_qemu(start, binary=root / "usr/bin" / PROGRAM)
    about = {
        "recipe": _RECIPE,
        "version": build.version,
        "packages": names,
        "libraries": hashlib.sha256("\n".join(names).encode()).hexdigest()[:32],
        "bytes": _size(root),
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def unpack(debs: Sequence[Path], root: Path, *, deadline: float) -> None:
    """Unpacks packages into the new folder `root`.  Raises HostError, or DeadlineExceeded."""
    root.mkdir()
    for deb in debs:
        # apt has checked their signatures; in a user namespace their owners could not be kept.
        run_tool(["dpkg-deb", "-x", str(deb.absolute()), str(root.absolute())], deadline=deadline)
    for name in _USELESS:
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)


def loader_of(root: Path) -> Path:
    """What starts programs that were unpacked there with their libraries.  Raises HostError."""
    # Older suites keep libc in /lib; a link from /lib64 would point out of the folder.
    found = [*root.rglob(_LOADER), *root.rglob(_OLD_LOADER)]
    loaders = [path for path in sorted(found) if not path.is_symlink()]
    if not loaders:
        raise HostError(f"the packages that were fetched hold no {_LOADER}")
    return loaders[0]


def library_folders(root: Path) -> list[Path]:
    """Where those libraries are."""
    folders = (root / "usr/lib/x86_64-linux-gnu", root / "lib/x86_64-linux-gnu")
    return [folder for folder in folders if folder.is_dir()]


def _cached_qemu(folder: Path) -> QemuBuild | None:
    about = _read_about(folder)
    if about is None:
        return None
    binary = folder / "root/usr/bin" / PROGRAM
    return examine_qemu(folder / PROGRAM, binary=binary, libraries=str(about["libraries"]))


def _read_about(folder: Path) -> dict[str, Any] | None:
    try:
        about = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and about.get("recipe") == _RECIPE else None


def _new(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder to make something in; what a process left that was killed goes first."""
    for leftover in folder.glob(".new-*"):  # under the lock: nobody else is making anything
        shutil.rmtree(leftover, ignore_errors=True)
    return tempfile.TemporaryDirectory(dir=folder, prefix=".new-", ignore_cleanup_errors=True)


def _replace(made: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)  # of another recipe, or damaged
    made.rename(place)


def _tidy(folder: Path) -> None:
    """Drops what is large and not needed again: downloads, and apt's index of its lists."""
    for pattern in ("archives/*.deb", "cache/*.bin"):
        for file in (folder / "apt").glob(pattern):
            file.unlink(missing_ok=True)


def _size(folder: Path) -> int:
    paths = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return sum(path.stat().st_size for path in paths)
