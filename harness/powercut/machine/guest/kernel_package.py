# SPDX-License-Identifier: Apache-2.0
"""A guest kernel from the host's own distribution, without root.

apt names the package, downloads it (which checks its signature and hashes) and
dpkg-deb unpacks it; nothing is installed.  What a guest needs is kept in the cache:
the kernel and its modules, in the order in which they must be loaded.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import lzma
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import zstandard

from powercut.machine.tool import run_on_package, run_tool
from powercut.model.errors import HostError
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
    "virtiofs": ("virtiofs",),
    "9p": ("9pnet_virtio", "9p"),  # `cloud` has it not
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

_REMEDY: Final = "apt-get update (as root), then try again; it needs the network once"


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel.

    `orders` maps "" (what every guest loads) and the names of extra sets to file
    names in `folder`/modules, each after what it needs.  `version` is that of the package;
    empty if it came from none.
    """

    folder: Path
    package: str
    version: str
    release: str
    orders: Mapping[str, tuple[str, ...]]

    @property
    def image(self) -> Path:
        """What QEMU boots: an ELF kernel, or a bzImage where that has no PVH entry."""
        return self.folder / "kernel"


def exact_packages(depends: str) -> tuple[str, ...]:
    """The packages of one kernel version, from the output of `apt-cache depends`."""
    packages = re.findall(
        r"^\s*\|?Depends: (linux-(?:image|binary|base|modules)(?:-unsigned)?-\d\S*)$",
        depends,
        re.MULTILINE,
    )
    return tuple(dict.fromkeys(packages))


def find_packages(flavour: str, *, deadline: float, apt: Sequence[str] = ()) -> tuple[str, ...]:
    """Exact names of the kernel's packages, the image first.  Raises HostError if apt has none.

    `apt` are options that make apt's commands speak of another suite.
    """

    def depends(package: str) -> str:
        argv = ["apt-cache", *apt, "depends", package]
        return run_tool(argv, deadline=deadline, hint=_hint(apt))

    reason = HostError(f"no kernel flavour '{flavour}': there are {', '.join(FLAVOURS)}")
    for meta in FLAVOURS.get(flavour, ()):
        try:
            names = exact_packages(depends(meta))
            if names:
                # Ubuntu keeps the modules in a package of their own; newer Debians the kernel, too.
                return tuple(dict.fromkeys(names + exact_packages(depends(names[0]))))
        except HostError as error:
            reason = error
    raise HostError(
        f"apt knows no kernel for the guest ({' or '.join(FLAVOURS[flavour])}): {reason}"
        if flavour in FLAVOURS
        else str(reason),
        hint=_hint(apt),
    )


def _hint(apt: Sequence[str]) -> str:
    return "it needs the network once; try again" if apt else _REMEDY


def package_files(packages: Iterable[str], *, deadline: float) -> tuple[str, ...]:
    """The names of the packages' files, which hold their versions.  Needs no network."""
    argv = ["apt-get", "download", "--print-uris", *packages]
    uris = run_tool(argv, deadline=deadline, hint=_REMEDY)
    return tuple(re.findall(r"^'[^']*' (\S+\.deb) ", uris, re.MULTILINE))


def ensure_kernel(flavour: str, *, deadline: float) -> Kernel:
    """The newest kernel that apt's lists offer; downloaded and unpacked if it is not cached."""
    packages = find_packages(flavour, deadline=deadline)
    files = package_files(packages, deadline=deadline)
    if len(files) != len(packages):
        raise HostError(f"apt offers no file for {', '.join(packages)}", hint=_REMEDY)
    folder = CACHE / "kernels" / files[0].removesuffix(".deb")
    if not is_unpacked(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
            made = fetch_and_unpack(Path(temporary), packages, deadline=deadline)
            shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
            made.rename(folder)
    return load_kernel(folder)


def is_unpacked(folder: Path) -> bool:
    """Whether there is a kernel that this version of powercut has unpacked."""
    try:
        fields = json.loads((folder / "kernel.json").read_text())
    except (OSError, ValueError):
        return False
    known = isinstance(fields, dict) and fields.get("modules_recipe") == MODULES_RECIPE
    return known and "version" in fields


def load_kernel(folder: Path) -> Kernel:
    """A kernel that `ensure_kernel` has left in the cache.  Raises HostError if it is not whole."""
    try:
        fields = json.loads((folder / "kernel.json").read_text())
        orders = {name: tuple(order) for name, order in fields["orders"].items()}
        version = fields.get("version", "")
        return Kernel(folder, fields["package"], version, fields["release"], orders)
    except (OSError, ValueError, KeyError) as error:
        raise HostError(
            f"the guest kernel in {folder} cannot be used: {error}", hint=f"rm -r {folder}"
        ) from None


def fetch_and_unpack(
    folder: Path, packages: tuple[str, ...], *, deadline: float, apt: Sequence[str] = ()
) -> Path:
    """Leaves a kernel in the folder that it returns, which is below `folder`."""
    # apt drops root's rights to a user who may not write here; it only costs a warning.
    download = ["apt-get", "-q", *apt, "-o", "APT::Sandbox::User=root", "download", *packages]
    run_tool(download, deadline=deadline, cwd=folder, hint=_hint(apt))
    return unpack(folder, sorted(folder.glob("*.deb")), packages[0], deadline=deadline)


def unpack(
    folder: Path,
    files: Sequence[Path],
    package: str,
    *,
    deadline: float,
    from_outside: bool = False,
) -> Path:
    """The same from packages that are there; the one called `package` names the version.

    `from_outside` says that apt vouches for none of them.
    """
    root = folder / "root"
    root.mkdir()
    for file in files:
        run_on_package(
            ["dpkg-deb", "-x", str(file.absolute()), str(root.absolute())],
            deadline=deadline,
            reads=[file],
            folders=[root],
            from_outside=from_outside,
        )
    ours = [file for file in files if file.name.startswith(f"{package}_")]
    named = (ours or list(files))[0]
    version = run_on_package(
        ["dpkg-deb", "-f", str(named.absolute()), "Version"],
        deadline=deadline,
        reads=[named],
        from_outside=from_outside,
    ).strip()
    return condense(folder, root, package, version, deadline=deadline, from_outside=from_outside)


def condense(
    folder: Path,
    root: Path,
    package: str,
    version: str,
    *,
    deadline: float,
    from_outside: bool = False,
) -> Path:
    """Leaves what a guest needs of the kernel in `root` in the folder that it returns.

    `root` has boot/vmlinuz-RELEASE, or vmlinuz among its modules as Debian does it since Linux 7,
    and lib/modules/RELEASE; depmod writes into the latter.
    """
    if not (root / "lib").exists() and (root / "usr/lib").exists():
        (root / "lib").symlink_to("usr/lib")  # depmod looks in /lib; newer packages do not
    images = {path.name.removeprefix("vmlinuz-"): path for path in root.glob("boot/vmlinuz-*")}
    images |= {path.parent.name: path for path in root.glob("lib/modules/*/vmlinuz")}
    if len(images) != 1:
        raise HostError(f"{package} holds {len(images)} kernels instead of one")
    ((release, image),) = images.items()
    run_on_package(
        ["depmod", "-b", str(root.absolute()), release],
        deadline=deadline,
        folders=[root],
        from_outside=from_outside,
    )
    result = folder / "result"
    modules = result / "modules"
    modules.mkdir(parents=True)
    orders = {}
    for name, paths in _orders(root / "lib/modules" / release).items():
        for path in paths:
            (modules / module_file(path)).write_bytes(read_module(_inside(root, path)))
        orders[name] = tuple(module_file(path) for path in paths)
    write_image(_inside(root, image).read_bytes(), result)
    write_about(Kernel(result, package, version, release, orders))
    return result


def _inside(root: Path, path: Path) -> Path:
    """`path`, unless it leads out of the package: through `..`, or by a link."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise HostError(f"{path.name}: leads out of the kernel's package")
    return path


def write_image(image: bytes, folder: Path) -> None:
    """Writes `folder`/kernel: what QEMU boots fastest."""
    kernel = image if image.startswith(b"\x7fELF") else extract_vmlinux(image)
    (folder / "kernel").write_bytes(kernel if has_pvh_entry(kernel) else image)


def write_about(kernel: Kernel) -> None:
    """Writes the file by which a kernel is found again."""
    about = asdict(kernel) | {"folder": "", "modules_recipe": MODULES_RECIPE}
    (kernel.folder / "kernel.json").write_text(json.dumps(about, indent=1))


def module_file(path: Path) -> str:
    """The name of an uncompressed module: xfs.ko for xfs.ko.xz."""
    return path.name.partition(".ko")[0] + ".ko"


def _orders(folder: Path) -> dict[str, tuple[Path, ...]]:
    try:
        dependencies = parse_dependencies((folder / "modules.dep").read_text())
        lines = (folder / "modules.builtin").read_text().splitlines()
    except OSError as error:
        raise HostError(f"the kernel's modules are not whole: {error}") from None
    builtin = {module_name(line) for line in lines}
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
    dependencies = Dependencies()
    paths = []
    for line in text.splitlines():
        path, _, needs = line.partition(":")
        dependencies[module_name(path)] = tuple(module_name(need) for need in needs.split())
        paths.append(path)
    dependencies.paths = tuple(paths)
    return dependencies


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


# The kernel proper inside a bzImage.
#
# QEMU starts an uncompressed ELF kernel at its PVH entry point without the BIOS loader,
# the real-mode stub and the decompressor: 0.27 s less under TCG.  Distributions ship the
# compressed bzImage only, whose setup header says where the payload lies
# (Documentation/arch/x86/boot.rst of the kernel: protocol 2.08 and later).

_SETUP_SECTS: Final = 0x1F1
_MAGIC: Final = 0x202
_VERSION: Final = 0x206
_PAYLOAD_OFFSET: Final = 0x248
_LZ4_LEGACY: Final = b"\x02\x21\x4c\x18"
_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
_BYTES_MAX: Final = 512 << 20
_STEP: Final = 4096  # of zstd: 128 MiB at most come of it
_DAMAGE: Final = (
    EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, zstandard.ZstdError,
)  # fmt: skip
_SIZE_TRAILER: Final = 4
_SEGMENTS_MAX: Final = 64  # a kernel has five
_NOTES_MAX: Final = 64 << 10
_NOTE_SEGMENT: Final = 4  # PT_NOTE
_XEN_PHYS32_ENTRY: Final = 18  # XEN_ELFNOTE_PHYS32_ENTRY: the PVH entry point
_LZ4_TIMEOUT_S: Final = 120.0


def decompress(data: bytes) -> bytes:
    """The first compressed stream in `data`, by its magic number; what follows it is ignored.

    Handles gzip, xz, lzma, bzip2, zstd and (with the `lz4` command) lz4.  An lz4
    stream must end where `data` ends.  Raises HostError for anything else, and for what is damaged
    or larger than any kernel.
    """
    try:
        plain = _decompressed(data)
    except _DAMAGE as error:
        raise HostError(f"its compression is damaged: {error}") from error
    if len(plain) > _BYTES_MAX:
        raise HostError(f"more than {_BYTES_MAX >> 20} MiB without its compression: no kernel")
    return plain


def _decompressed(data: bytes) -> bytes:
    most = _BYTES_MAX + 1
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(data, most)
    if data.startswith(b"\xfd7zXZ\0") or data.startswith(b"\x5d\0\0"):
        return lzma.LZMADecompressor(memlimit=_BYTES_MAX).decompress(data, most)
    if data.startswith(b"BZh"):
        return bz2.BZ2Decompressor().decompress(data, most)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(data, most)
    if data.startswith((_LZ4_LEGACY, _LZ4_FRAME)):
        return _lz4(data)
    raise HostError(f"unknown compression: the data begin with {data[:6].hex(' ')}")


def _zstd(data: bytes, most: int) -> bytes:
    """As much of a frame as makes `most` bytes, and what the last step brings beyond."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_BYTES_MAX).decompressobj()
    plain = bytearray()
    for at in range(0, len(data), _STEP):
        plain += unpacker.decompress(data[at : at + _STEP])
        if unpacker.eof or len(plain) > most:
            break
    return bytes(plain)


def _lz4(data: bytes) -> bytes:
    try:
        done = subprocess.run(
            ["lz4", "-d", "-c", "-q"],
            input=data,
            capture_output=True,
            check=False,
            timeout=_LZ4_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise HostError(
            "this kernel is compressed with lz4, and there is no lz4 command",
            hint="apt-get install lz4",
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise HostError(f"lz4 -d failed with status {done.returncode}: {said}")
    return done.stdout


def extract_vmlinux(image: bytes) -> bytes:
    """The ELF kernel in a bzImage.  Raises HostError if it is not one, or damaged."""
    if len(image) < 0x264 or image[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise HostError("not a bzImage: no boot protocol header")
    (version,) = struct.unpack_from("<H", image, _VERSION)
    if version < 0x208:
        raise HostError(f"boot protocol {version >> 8}.{version & 255:02d} names no payload")
    setup_sectors = image[_SETUP_SECTS] or 4  # 0 means 4, for old boot loaders
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_OFFSET)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if len(payload) != length or length <= _SIZE_TRAILER:
        raise HostError("the bzImage ends before its payload does")
    # The kernel's build appends the uncompressed size (gzip has its own there).
    (size,) = struct.unpack("<I", payload[-_SIZE_TRAILER:])
    is_lz4 = payload.startswith((_LZ4_LEGACY, _LZ4_FRAME))
    kernel = decompress(payload[:-_SIZE_TRAILER] if is_lz4 else payload)
    if len(kernel) != size or not kernel.startswith(b"\x7fELF"):
        raise HostError(f"the payload of the bzImage is damaged: {len(kernel)} of {size} bytes")
    return kernel


def has_pvh_entry(kernel: bytes) -> bool:
    """Whether an ELF64 kernel has the note that QEMU needs to start it directly."""
    if len(kernel) < 64 or kernel[:5] != b"\x7fELF\x02":
        return False
    (table,) = struct.unpack_from("<Q", kernel, 32)
    entry_size, count = struct.unpack_from("<HH", kernel, 54)
    for index in range(min(count, _SEGMENTS_MAX)):
        try:
            kind, _flags, start, _va, _pa, size = struct.unpack_from(
                "<IIQQQQ", kernel, table + index * entry_size
            )
        except (struct.error, OverflowError):  # they would lie behind its end
            return False
        if kind == _NOTE_SEGMENT and _has_note(kernel[start : start + min(size, _NOTES_MAX)]):
            return True
    return False


def _has_note(notes: bytes) -> bool:
    at = 0
    while at + 12 <= len(notes):
        name_size, value_size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size].rstrip(b"\0")
        if kind == _XEN_PHYS32_ENTRY and name == b"Xen":
            return True
        at += 12 + (name_size + 3) // 4 * 4 + (value_size + 3) // 4 * 4
    return False


def read_module(path: Path) -> bytes:
    """A kernel module's ELF bytes, whether it is stored compressed or not."""
    data = path.read_bytes()
    return data if data.startswith(b"\x7fELF") else decompress(data)
