# SPDX-License-Identifier: Apache-2.0
"""This powercut and all that it imports, as wheels: what a host gets to run.

A cluster of `hosts up` runs one version, which is this one.  So nothing is fetched from an index,
whose packages may have changed meanwhile: the installed files themselves are packed again (binary
distribution format, PEP 427).  A checkout's built parts go along as they are, since certificates
name their digests.  All dates in the wheels are one and the same, so equal files give equal wheels.
"""

from __future__ import annotations

import base64
import csv
import functools
import hashlib
import importlib.metadata
import io
import os
import platform
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from powercut import __version__
from powercut.model.errors import HostError
from powercut.paths import CACHE, INSTALLED, PARTS, REBUILD, ROOT

PACKAGE: Final = Path(__file__).resolve().parents[1]
_ENGINE: Final = "distributed"
_INSTALLER: Final = "pip"
_DATA: Final = ("scenarios", "workloads/examples", "workloads/products", "workloads/programs")
_BUILT: Final = ("bin", "lib")
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
_SCRIPTS: Final = "[console_scripts]\npowercut = powercut.cli.main:main\n"


@dataclass(frozen=True)
class Wheelhouse:
    """Wheels in a folder, and the digest that stands for all of them."""

    folder: Path
    sha256: Mapping[str, str]
    """SHA-256 of each wheel by its file name."""

    code: str
    """Digest of powercut's own files (`code_digest`)."""

    @property
    def digest(self) -> str:
        """Names the version: 16 hex digits over all wheels."""
        text = "".join(f"{self.sha256[name]}  {name}\n" for name in sorted(self.sha256))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def installer(self) -> str:
        """The wheel of pip, which runs from it."""
        return next(name for name in self.sha256 if name.startswith(f"{_INSTALLER}-"))


def code_digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 over names and contents of powercut's files, 64 hex digits."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return digest.hexdigest()


@functools.cache
def installed_code() -> str:
    """The digest of the powercut that runs here, as a wheel would install it."""
    return code_digest(_powercut_files())


def make_wheels(folder: Path = CACHE / "wheels") -> Wheelhouse:
    """The wheels, made if they are not in `folder`.

    Raises HostError if something is not installed in a way that can be packed again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = _powercut_files()
    code = code_digest(own)
    made = {}
    for name in (*_dependencies("powercut"), _ENGINE, *_dependencies(_ENGINE), _INSTALLER):
        path = _packed_again(name, folder)
        made[path.name] = _sha256(path)
    tag = f"py3-none-manylinux_{platform.libc_ver()[1].replace('.', '_')}_{platform.machine()}"
    path = folder / f"powercut-{__version__}-0{code[:16]}-{tag}.whl"
    if not path.exists():
        info = f"powercut-{__version__}.dist-info"
        about = {
            f"{info}/METADATA": (
                f"Metadata-Version: 2.1\nName: powercut\nVersion: {__version__}\n"
            ).encode(),
            f"{info}/WHEEL": (
                f"Wheel-Version: 1.0\nGenerator: powercut\nRoot-Is-Purelib: false\nTag: {tag}\n"
            ).encode(),
            f"{info}/entry_points.txt": _SCRIPTS.encode(),
        }
        _write(path, {f"powercut/{name}": data for name, data in own.items()} | about, info)
    made[path.name] = _sha256(path)
    return Wheelhouse(folder, made, code)


def own_wheel(folder: Path) -> Path:
    """The wheel of this powercut, with all that it says of itself, made in `folder`.

    An installed one is packed again; a checkout is built, which may need a package index.
    Raises HostError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if INSTALLED:
        return _packed_again("powercut", folder)
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps"]
    argv = [*pip, "-w", str(folder), str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    made = sorted(folder.glob(f"powercut-{__version__}-*.whl"))
    if done.returncode or not made:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise HostError(f"pip could not build powercut's wheel: {said[0]}", hint=shlex.join(argv))
    return made[-1]


def _powercut_files() -> dict[str, bytes]:
    """By name below the package: what an installed wheel has there."""
    files = dict(_below(PACKAGE, ""))
    if not INSTALLED:
        for name in _DATA:
            files |= _below(ROOT / name, f"_shipped/{name}/")
        for folder in _BUILT:
            files |= _below(PARTS / folder, f"_shipped/parts/{folder}/")
        for path in sorted(PARTS.glob("*.so")):
            files[f"_shipped/parts/{path.name}"] = path.read_bytes()
        if not any(name.endswith("plugin.so") for name in files):
            raise HostError(f"{PARTS}: the built parts are missing", hint=REBUILD)
    return files


def _below(folder: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and "__pycache__" not in name.parts:
            yield f"{prefix}{name.as_posix()}", path.read_bytes()


def _dependencies(name: str) -> tuple[str, ...]:
    """The distributions that `name` needs here, itself not, in order of their names."""
    found: set[str] = set()
    todo = [name]
    while todo:
        try:
            required = importlib.metadata.requires(todo.pop()) or ()
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python or system
        for line in required:
            match = re.match(r"[A-Za-z0-9._-]+", line)
            wanted = _normal(match[0]) if match else ""
            if "extra ==" not in line.replace("'", '"') and wanted not in found:
                found.add(wanted)
                todo.append(wanted)
    return tuple(sorted(one for one in found if _is_here(one)))


def _is_here(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _packed_again(name: str, folder: Path) -> Path:
    """The wheel of a distribution that is installed here."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise HostError(
            f"a host gets {name} from here, and there is none", hint=f"pip install {name}"
        ) from None
    about = found.read_text("WHEEL")
    if about is None or found.files is None:
        raise HostError(
            f"{name} was not installed from a wheel, so that no host can get it from here",
            hint="install powercut with pip into an environment of its own",
        )
    tags = [
        line.split(":", 1)[1].strip().split("-")
        for line in about.splitlines()
        if line.startswith("Tag:")
    ]
    tag = "-".join(".".join(sorted({parts[at] for parts in tags})) for at in range(3))
    plain = re.sub(r"[-_.]+", "_", found.metadata["Name"]).lower()
    path = folder / f"{plain}-{found.version}-{tag}.whl"
    if path.exists():
        return path
    files: dict[str, bytes] = {}
    info = ""
    for one in found.files:
        parts = PurePosixPath(one).parts
        if parts[0].endswith(".dist-info"):
            info = parts[0]
        if ".." in parts or "__pycache__" in parts or one.name in _LEFT_OUT:
            continue
        files[one.as_posix()] = Path(str(one.locate())).read_bytes()
    _write(path, files, info)
    return path


def _write(path: Path, files: Mapping[str, bytes], info: str) -> None:
    """A wheel with these files, and the list of them."""
    listed = io.StringIO()
    lines = csv.writer(listed, lineterminator="\n")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(files):
            data = files[name]
            entry = zipfile.ZipInfo(name, _DATE)
            runs = data.startswith((b"\x7fELF", b"#!"))
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            lines.writerow([name, f"sha256={digest.decode()}", len(data)])
        lines.writerow([f"{info}/RECORD", "", ""])
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", _DATE), listed.getvalue())
    unfinished.rename(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
