# SPDX-License-Identifier: Apache-2.0
"""The kernel of a guest: the host's distribution's, another suite's, or one that is given.

Given are a package (`linux-image-*.deb`, as of Debian or of `make bindeb-pkg`), a folder with
boot/vmlinuz-RELEASE and lib/modules/RELEASE (`make tar-pkg`, unpacked), or a kernel by itself
(bzImage or vmlinux), which must have every driver built in.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Final

from powercut.machine.guest.kernel_package import (
    MODULES_RECIPE,
    Kernel,
    condense,
    ensure_kernel,
    is_unpacked,
    load_kernel,
    unpack,
    write_about,
    write_image,
)
from powercut.machine.suites import suites
from powercut.machine.tool import locked
from powercut.model.errors import HostError
from powercut.model.named_path import openable
from powercut.model.versions import GUEST, is_path
from powercut.paths import CACHE

_WHAT: Final = "give a linux-image .deb, a folder with boot/ and lib/modules/, or a bzImage"
_RELEASE: Final = re.compile(rb"Linux version (\S+)")


def kernel_of(choice: str, flavour: str, *, deadline: float) -> Kernel:
    """The kernel that `choice` means: `guest`, a suite, or an absolute path.

    `flavour` is `cloud` or `full`, where there is a choice.  Raises HostError with a remedy, or
    DeadlineExceeded.
    """
    if choice == GUEST:
        return ensure_kernel(flavour, deadline=deadline)
    if is_path(choice):
        return given_kernel(Path(choice), deadline=deadline)
    return suites().kernel(choice, flavour, deadline=deadline)


def given_kernel(path: Path, *, deadline: float) -> Kernel:
    """The kernel at `path`, unpacked into the cache.  Raises HostError if it is none."""
    place = CACHE / "kernels" / f"given-{_digest(path)}"
    if not is_unpacked(place):
        with locked(place.parent / f"{place.name}.lock", deadline=deadline, doing="unpacking"):
            if not is_unpacked(place):
                with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as temporary:
                    made = _take(path, Path(temporary), deadline)
                    shutil.rmtree(place, ignore_errors=True)
                    made.rename(place)
    return load_kernel(place)


def with_modules(image: Path, modules: Path) -> Path:
    """A folder as of `make tar-pkg` of a kernel as `make` leaves it.

    `modules` is where `make modules_install INSTALL_MOD_PATH=` has put them, or the release's own
    folder in there.  The folder is in the cache, and stays.  Raises HostError.
    """
    if not image.is_file():
        raise HostError(f"no kernel at {image}", hint="give arch/x86/boot/bzImage, and --modules")
    release = _release(image.read_bytes(), image)
    found = [
        folder
        for folder in (modules / "lib/modules" / release, modules / release, modules)
        if (folder / "kernel").is_dir() and folder.resolve().name == release
    ]
    if not found:
        raise HostError(
            f"{modules} has no modules of {release}, which is what {image.name} is",
            hint=f"make modules_install INSTALL_MOD_PATH={modules}",
        )
    digest = hashlib.sha256(image.read_bytes() + _listing(found[0]).encode()).hexdigest()[:24]
    place = CACHE / "kernels" / f"built-{digest}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as temporary:
            made = Path(temporary, "made")
            (made / "boot").mkdir(parents=True)
            shutil.copy2(image, made / "boot" / f"vmlinuz-{release}")
            # `build` and `source` lead to the tree that it was made from.
            leave = shutil.ignore_patterns("build", "source")
            shutil.copytree(found[0], made / "lib/modules" / release, ignore=leave)
            if not place.exists():
                made.rename(place)
    return place


def _listing(folder: Path) -> str:
    """Changes with the modules in `folder` and make's lists of them: names, sizes, times."""
    text = ""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and (".ko" in file.name or file.name.startswith("modules.")):
            status = file.stat()
            text += f"{file.relative_to(folder)} {status.st_size} {status.st_mtime_ns}\n"
    return text


def _take(path: Path, folder: Path, deadline: float) -> Path:
    if path.is_dir():
        root = folder / "root"
        for part in ("boot", "lib/modules"):  # depmod writes beside the modules
            shutil.copytree(path / part, root / part, symlinks=True)
        return condense(folder, root, path.name, "", deadline=deadline, from_outside=True)
    if path.suffix == ".deb":
        package = path.name.partition("_")[0]
        return unpack(folder, [path], package, deadline=deadline, from_outside=True)
    image = path.read_bytes()
    result = folder / "result"
    (result / "modules").mkdir(parents=True)
    write_image(image, result)
    write_about(Kernel(result, path.name, "", _release(image, result / "kernel"), {"": ()}))
    return result


def _release(image: bytes, kernel: Path) -> str:
    """The kernel's own name for itself: boot.rst of the kernel, `kernel_version`, or its banner."""
    if image[0x202:0x206] == b"HdrS":
        (offset,) = struct.unpack_from("<H", image, 0x20E)
        if offset:
            return image[offset + 0x200 :].split(b"\0", 1)[0].split()[0].decode(errors="replace")
    release = _RELEASE.search(kernel.read_bytes())
    if release is None:
        raise HostError("this kernel does not say which release it is", hint=_WHAT)
    return release[1].decode(errors="replace")


def _digest(path: Path) -> str:
    """Changes with the kernel at `path`; of a folder, with its image and its list of modules."""
    digest = hashlib.sha256(MODULES_RECIPE.encode())
    try:
        files = [path]
        if path.is_dir():
            files = sorted((path / "boot").glob("vmlinuz-*"))
            if not files or not (path / "lib/modules").is_dir():
                raise HostError(f"no kernel in {path}", hint=_WHAT)
            digest.update(_listing(path / "lib/modules").encode())
        for file in files:
            digest.update(openable(file).read_bytes())
    except OSError as error:
        raise HostError(f"no kernel at {path}: {error.strerror}", hint=_WHAT) from None
    return digest.hexdigest()[:24]
