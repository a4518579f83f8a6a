# SPDX-License-Identifier: Apache-2.0
"""A guest kernel from the host's own distribution, without root.

apt names the package, downloads it (which checks its signature and hashes) and
dpkg-deb unpacks it; nothing is installed.  What a guest needs is kept in the cache:
the kernel and its modules, in the order in which they must be loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from powercut.machine.vmlinux import extract_vmlinux, has_pvh_entry, read_module
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.paths import CACHE

FLAVOURS: Final[Mapping[str, tuple[str, ...]]] = {
    # Debian's name first, then Ubuntu's.
    "cloud": ("linux-image-cloud-amd64", "linux-image-virtual"),
    "full": ("linux-image-amd64", "linux-image-generic"),
}
"""Metapackages by flavour: `cloud` boots faster, `full` has drivers for other buses."""

_REQUIRED: Final = ("virtio_pci", "virtio_blk", "virtio_console", "ext4", "xfs")
_USEFUL: Final = ("crc32c_generic", "crc32c_intel")
_EXTRA: Final[Mapping[str, tuple[str, ...]]] = {
    # Loaded when a file system of this name is mounted, or with powercut.load=NAME.
    "btrfs": ("xxhash_generic", "blake2b_generic", "sha256_generic", "btrfs"),
    "log-writes": ("dm_log_writes",),
    "pmem": ("nd_pmem", "virtio_pmem"),
    "nvdimm": ("nfit", "nd_pmem"),
    "virtio-scsi": ("virtio_scsi", "sd_mod"),
    "nvme": ("nvme",),
    "ide": ("ata_piix", "sd_mod"),
    "ahci": ("ahci", "sd_mod"),
    "usb-storage": ("xhci_pci", "usb_storage", "sd_mod"),
}
_BASE: Final = ""
MODULES_RECIPE: Final = hashlib.sha256(repr((_REQUIRED, _USEFUL, _EXTRA)).encode()).hexdigest()[:12]
"""Changes with the choice of modules: a kernel that was unpacked for another is unpacked anew."""

_ROOT_TOOLS: Final = "/usr/sbin:/sbin"  # where depmod is, outside an ordinary user's PATH
_REMEDY: Final = "apt-get update (as root), then try again; it needs the network once"


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel.

    `orders` maps "" (what every guest loads) and the names of extra sets to file
    names in `folder`/modules, each after what it needs.
    """

    folder: Path
    package: str
    release: str
    orders: Mapping[str, tuple[str, ...]]

    @property
    def image(self) -> Path:
        """What QEMU boots: an ELF kernel, or a bzImage where that has no PVH entry."""
        return self.folder / "kernel"


def run_tool(argv: list[str], *, deadline: float, cwd: Path | None = None) -> str:
    """Runs a tool of the host's; returns its stdout.

    `deadline` is on time.monotonic().  Raises HostError with the command, its status
    and what it said, or DeadlineExceeded.
    """
    environment = dict(os.environ, LC_ALL="C", PATH=f"{os.environ['PATH']}:{_ROOT_TOOLS}")
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
            env=environment,
            timeout=max(0.1, deadline - time.monotonic()),
        )
    except FileNotFoundError:
        raise HostError(f"there is no {argv[0]} on this host", hint="./powercut doctor") from None
    except subprocess.TimeoutExpired as expired:
        raise DeadlineExceeded(
            f"'{' '.join(argv)}' did not end within {expired.timeout:.0f} s"
        ) from None
    if done.returncode != 0:
        said = done.stderr.strip()[-1000:]
        raise HostError(
            f"'{' '.join(argv)}' failed with status {done.returncode}: {said}", hint=_REMEDY
        )
    return done.stdout


def exact_packages(depends: str) -> tuple[str, ...]:
    """The packages of one kernel version, from the output of `apt-cache depends`."""
    found = re.findall(
        r"^\s*\|?Depends: (linux-(?:image|modules)(?:-unsigned)?-\d\S*)$", depends, re.MULTILINE
    )
    return tuple(dict.fromkeys(found))


def find_packages(flavour: str, *, deadline: float) -> tuple[str, ...]:
    """Exact names of the kernel's packages, the image first.  Raises HostError if apt has none."""
    reason = HostError(f"no kernel flavour '{flavour}': there are {', '.join(FLAVOURS)}")
    for meta in FLAVOURS.get(flavour, ()):
        try:
            names = exact_packages(run_tool(["apt-cache", "depends", meta], deadline=deadline))
            if names:
                # Ubuntu keeps the modules in a package of their own, which the image needs.
                more = run_tool(["apt-cache", "depends", names[0]], deadline=deadline)
                return tuple(dict.fromkeys(names + exact_packages(more)))
        except HostError as error:
            reason = error
    raise HostError(
        f"apt knows no kernel for the guest ({' or '.join(FLAVOURS[flavour])}): {reason}"
        if flavour in FLAVOURS
        else str(reason),
        hint=_REMEDY,
    )


def package_files(packages: Iterable[str], *, deadline: float) -> tuple[str, ...]:
    """The names of the packages' files, which hold their versions.  Needs no network."""
    uris = run_tool(["apt-get", "download", "--print-uris", *packages], deadline=deadline)
    return tuple(re.findall(r"^'[^']*' (\S+\.deb) ", uris, re.MULTILINE))


def ensure_kernel(flavour: str, *, deadline: float) -> Kernel:
    """The newest kernel that apt's lists offer; downloaded and unpacked if it is not cached."""
    packages = find_packages(flavour, deadline=deadline)
    files = package_files(packages, deadline=deadline)
    if len(files) != len(packages):
        raise HostError(f"apt offers no file for {', '.join(packages)}", hint=_REMEDY)
    folder = CACHE / "kernels" / files[0].removesuffix(".deb")
    if not _is_unpacked(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
            _fetch_and_unpack(Path(temporary), packages, deadline=deadline)
            shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
            (Path(temporary) / "result").rename(folder)
    return load_kernel(folder)


def _is_unpacked(folder: Path) -> bool:
    try:
        fields = json.loads((folder / "kernel.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and fields.get("modules_recipe") == MODULES_RECIPE


def load_kernel(folder: Path) -> Kernel:
    """A kernel that `ensure_kernel` has left in the cache.  Raises HostError if it is not whole."""
    try:
        fields = json.loads((folder / "kernel.json").read_text())
        orders = {name: tuple(order) for name, order in fields["orders"].items()}
        return Kernel(folder, fields["package"], fields["release"], orders)
    except (OSError, ValueError, KeyError) as error:
        raise HostError(
            f"the guest kernel in {folder} cannot be used: {error}", hint=f"rm -r {folder}"
        ) from None


def _fetch_and_unpack(folder: Path, packages: tuple[str, ...], *, deadline: float) -> None:
    """Leaves folder/result: kernel, modules/, kernel.json."""
    # apt drops root's rights to a user who may not write here; it only costs a warning.
    download = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages]
    run_tool(download, deadline=deadline, cwd=folder)
    root = folder / "root"
    for package in sorted(folder.glob("*.deb")):
        run_tool(["dpkg-deb", "-x", str(package), str(root)], deadline=deadline)
    if not (root / "lib").exists() and (root / "usr/lib").exists():
        (root / "lib").symlink_to("usr/lib")  # depmod looks in /lib; newer packages do not
    bzimages = sorted((root / "boot").glob("vmlinuz-*"))
    if len(bzimages) != 1:
        raise HostError(f"{packages[0]} holds {len(bzimages)} kernels instead of one")
    release = bzimages[0].name.removeprefix("vmlinuz-")
    run_tool(["depmod", "-b", str(root), release], deadline=deadline)

    result = folder / "result"
    modules = result / "modules"
    modules.mkdir(parents=True)
    orders = {}
    for name, paths in _orders(root / "lib/modules" / release).items():
        for path in paths:
            (modules / module_file(path)).write_bytes(read_module(path))
        orders[name] = tuple(module_file(path) for path in paths)
    image = bzimages[0].read_bytes()
    kernel = extract_vmlinux(image)
    (result / "kernel").write_bytes(kernel if has_pvh_entry(kernel) else image)
    found = asdict(Kernel(Path(), packages[0], release, orders))
    found |= {"folder": "", "modules_recipe": MODULES_RECIPE}
    (result / "kernel.json").write_text(json.dumps(found, indent=1))


def module_file(path: Path) -> str:
    """The name of an uncompressed module: xfs.ko for xfs.ko.xz."""
    return path.name.partition(".ko")[0] + ".ko"


def _orders(folder: Path) -> dict[str, tuple[Path, ...]]:
    dependencies = parse_dependencies((folder / "modules.dep").read_text())
    builtin = {module_name(line) for line in (folder / "modules.builtin").read_text().splitlines()}
    lost = [name for name in _REQUIRED if name not in dependencies and name not in builtin]
    if lost:
        raise HostError(f"the kernel in {folder} has no {', '.join(lost)}: no guest can use it")
    paths = {module_name(path): folder / path for path in dependencies.paths}
    base = load_order((*_USEFUL, *_REQUIRED), dependencies)
    orders = {_BASE: base}
    for name, wanted in _EXTRA.items():
        extra = tuple(module for module in load_order(wanted, dependencies) if module not in base)
        if extra:
            orders[name] = extra
    return {name: tuple(paths[module] for module in order) for name, order in orders.items()}


class Dependencies(dict[str, tuple[str, ...]]):
    """Module names to the names of what they need; `paths` as modules.dep has them."""

    paths: tuple[str, ...] = ()


def module_name(path: str) -> str:
    """The kernel's name of a module file: crc32c_intel for kernel/.../crc32c-intel.ko.xz."""
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def parse_dependencies(text: str) -> Dependencies:
    """Reads modules.dep (depmod writes one `path: path path` per module)."""
    found = Dependencies()
    paths = []
    for line in text.splitlines():
        path, _, needs = line.partition(":")
        found[module_name(path)] = tuple(module_name(need) for need in needs.split())
        paths.append(path)
    found.paths = tuple(paths)
    return found


def load_order(
    wanted: Iterable[str], dependencies: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """`wanted` and what they need, each after what it needs.  Unknown (built-in) ones are left."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        if name in order or name not in dependencies:
            return
        for need in reversed(dependencies[name]):
            add(need)
        order[name] = None

    for name in wanted:
        add(name)
    return tuple(order)
