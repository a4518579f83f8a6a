# SPDX-License-Identifier: Apache-2.0
"""The small guest: a kernel from the distribution and an initramfs with our agent as PID 1.

There is nothing else in it: no shell, no libc, no udev.  The image is built once and
kept under build/guest by its digest; `ensure_guest_image` builds it again when the
agent, a guest program, the recipe in this file or the kernel that apt offers change.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from powercut.machine.guest.initramfs import (
    Entry,
    build_initramfs,
    character_device,
    directory,
    regular,
)
from powercut.machine.guest.kernel_package import MODULES_RECIPE, Kernel, ensure_kernel, load_kernel
from powercut.machine.guest.kernel_source import kernel_of
from powercut.machine.package import sha256_of_file
from powercut.machine.port import GuestImage, Part
from powercut.machine.tool import locked
from powercut.model.errors import HostError, PowercutError
from powercut.model.versions import GUEST
from powercut.paths import BUILD, PARTS, REBUILD, WAL_BINARY

_RECIPE: Final = 1  # raise it when this file makes other images from the same parts
_FOLDER: Final = BUILD / "guest"
_AGENT: Final = PARTS / "bin" / "agent"
_PROGRAMS: Final = (WAL_BINARY,)
_TOOLS: Final = (PARTS / "bin" / "synctrace",)  # where they are built: x86-64 alone
_FULL_PROGRAMS: Final = (PARTS / "bin" / "dmlog",)  # no other kernel has its target
_APT_LISTS: Final = Path("/var/lib/apt/lists")
_TIMEOUT_S: Final = 600.0


def ensure_guest_image(
    flavour: str = "cloud", *, kernel: str = GUEST, timeout_s: float = _TIMEOUT_S
) -> GuestImage:
    """The guest image of that flavour (`cloud` or `full`), built if it is not there or stale.

    Takes milliseconds when nothing has changed.  The first time it downloads a kernel
    package (27 MB; `full`: 70 MB) through apt, without root.  `kernel` may be a Debian suite or
    an absolute path instead (powercut.machine.guest.kernel_source).  Processes that call it at
    once wait for the one that builds.  Raises HostError with a remedy, or DeadlineExceeded.
    """
    deadline = time.monotonic() + timeout_s
    if kernel != GUEST:
        return _image_of(kernel_of(kernel, flavour, deadline=deadline), flavour, deadline)
    image = current_guest_image(flavour)
    if image is not None:
        return image
    inputs = _inputs(flavour)
    with _lock(deadline):
        image = current_guest_image(flavour)
        if image is not None:
            return image
        found = _kernel(flavour, deadline)
        image = _build(found, _programs(flavour))
        pointer = {"inputs": inputs, "kernel": str(found.folder), "digest": image.digest}
        pointer["package"] = image.package
        _write_json(_FOLDER / f"{flavour}.json", pointer)
    return image


def _image_of(kernel: Kernel, flavour: str, deadline: float) -> GuestImage:
    _inputs(flavour)  # raises if a program is not built
    with _lock(deadline):
        return _build(kernel, _programs(flavour))


def current_guest_image(flavour: str = "cloud") -> GuestImage | None:
    """The image of that flavour if it is there and up to date; never builds."""
    pointer = _read_json(_FOLDER / f"{flavour}.json")
    if pointer is None or not _AGENT.exists() or pointer.get("inputs") != _inputs(flavour):
        return None
    image = _load(_FOLDER / str(pointer["digest"]))
    return image and replace(image, package=str(pointer.get("package", image.package)))


def _programs(flavour: str) -> tuple[Path, ...]:
    tools = (path for path in _TOOLS if path.exists())
    return (*_PROGRAMS, *tools, *(_FULL_PROGRAMS if flavour == "full" else ()))


def _inputs(flavour: str) -> dict[str, Any]:
    """What decides whether an image is up to date, without asking apt anything."""
    parts = (_AGENT, *_programs(flavour))
    missing = [path for path in parts if not path.exists()]
    if missing:
        raise HostError(
            f"the guest's programs are not built: {', '.join(str(path) for path in missing)}",
            hint=REBUILD,
        )
    try:
        lists = _APT_LISTS.stat().st_mtime_ns  # changes whenever a newer kernel may be on offer
    except OSError:
        lists = 0
    files = {path.name: _sha256(path.read_bytes()) for path in parts}
    recipe = f"{_RECIPE}-{MODULES_RECIPE}"
    return {"recipe": recipe, "files": files, "apt_lists": lists}


def _kernel(flavour: str, deadline: float) -> Kernel:
    """The kernel that apt offers; if it cannot be had, the one that was used last."""
    try:
        return ensure_kernel(flavour, deadline=deadline)
    except PowercutError:
        pointer = _read_json(_FOLDER / f"{flavour}.json")
        if pointer is None:
            raise
        try:
            return load_kernel(Path(str(pointer["kernel"])))
        except PowercutError:
            pass
        raise


def _entries(kernel: Kernel, programs: tuple[Path, ...]) -> Iterator[Entry]:
    yield from (directory(name) for name in ("dev", "proc", "sys", "run", "mnt", "bin", "modules"))
    # The kernel opens it for PID 1 before anything is mounted.
    yield character_device("dev/console", 5, 1)
    yield regular("init", _AGENT.read_bytes(), executable=True)
    for program in programs:
        yield regular(f"bin/{program.name}", program.read_bytes(), executable=True)
    for name, order in sorted(kernel.orders.items()):
        paths = "".join(f"/modules/{file}\n" for file in order)
        yield regular(f"modules/order.{name}" if name else "modules/order", paths.encode())
    for file in sorted({file for order in kernel.orders.values() for file in order}):
        yield regular(f"modules/{file}", (kernel.folder / "modules" / file).read_bytes())


def _build(kernel: Kernel, programs: tuple[Path, ...]) -> GuestImage:
    initramfs = build_initramfs(_entries(kernel, programs))
    digest = _sha256(kernel.image.read_bytes(), initramfs)
    folder = _FOLDER / digest
    if _load(folder) is None:
        with tempfile.TemporaryDirectory(dir=_FOLDER, prefix=".new-") as temporary:
            made = Path(temporary) / "image"
            made.mkdir()
            (made / "initramfs").write_bytes(initramfs)
            _share(kernel.image, made / "kernel")
            facts = {
                "kernel_release": kernel.release,
                "package": kernel.package,
                "version": kernel.version,
                "sizes": {name: (made / name).stat().st_size for name in ("kernel", "initramfs")},
            }
            _write_json(made / "image.json", facts)
            shutil.rmtree(folder, ignore_errors=True)  # one that is damaged
            made.rename(folder)
    image = _load(folder)
    if image is None:
        raise HostError(f"the guest image in {folder} is damaged", hint=f"rm -r {folder}")
    # Another package may hold the same bytes: the image is one, and each is called by its own.
    return replace(image, package=_package(kernel.package, kernel.version))


def _package(name: str, version: str) -> str:
    return f"{name} {version}".strip()


def _share(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # the cache is on another file system
        shutil.copyfile(source, target)


def _load(folder: Path) -> GuestImage | None:
    facts = _read_json(folder / "image.json")
    if facts is None or "version" not in facts:
        return None
    paths = {name: folder / name for name in ("kernel", "initramfs")}
    if any(
        not path.exists() or path.stat().st_size != facts["sizes"][name]
        for name, path in paths.items()
    ):
        return None
    package = _package(facts["package"], facts["version"])
    return GuestImage(
        paths["kernel"], paths["initramfs"], facts["kernel_release"], folder.name, package
    )


def _lock(deadline: float) -> AbstractContextManager[None]:
    return locked(_FOLDER / ".lock", deadline=deadline, doing="building the guest image")


def _sha256(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write_json(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)


def main() -> int:
    """For the launcher: builds the image, or says why not.  Returns an exit status."""
    try:
        ensure_guest_image()
    except PowercutError as error:
        sys.stderr.write(f"{error}\n{error.hint}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())


# What our small guest is made of, by name, version and digest.


@functools.cache
def guest_parts(image: GuestImage) -> tuple[Part, ...]:
    """Its kernel, and its programs."""
    facts = json.loads((image.kernel.parent / "image.json").read_text())
    kernel = Part(
        role="guest kernel",
        name="Linux",
        version=image.kernel_release,
        package=f"{facts.get('package', '')} {facts.get('version', '')}".strip(),
        sha256=sha256_of_file(image.kernel),
    )
    programs = Part(
        role="guest programs",
        name="initramfs",
        version=image.digest,
        sha256=sha256_of_file(image.initramfs),
    )
    return kernel, programs


def guest_versions(image: GuestImage) -> dict[str, str]:
    """The same in short, as recordings keep it."""
    return {
        "kernel_release": image.kernel_release,
        "kernel_package": image.package,
        "guest_digest": image.digest,
    }
