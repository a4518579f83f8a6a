# SPDX-License-Identifier: Apache-2.0
"""The wheel of this powercut, for a container or another host: no package index has it."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from powercut import __version__
from powercut.model.errors import HostError
from powercut.paths import INSTALLED, ROOT

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def own_wheel(folder: Path) -> Path:
    """The wheel of this powercut, with all that it says of itself, made in `folder`.

    An installed one is packed again; a checkout is built, which may need a package index.
    Raises HostError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if INSTALLED:
        return _packed_again(folder)
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps"]
    argv = [*pip, "-w", str(folder), str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    made = sorted(folder.glob(f"powercut-{__version__}-*.whl"))
    if done.returncode or not made:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise HostError(f"pip could not build powercut's wheel: {said[0]}", hint=shlex.join(argv))
    return made[-1]


def _packed_again(folder: Path) -> Path:
    """The wheel that is installed here, from its files (PEP 427)."""
    found = importlib.metadata.distribution("powercut")
    about = found.read_text("WHEEL")
    if about is None or found.files is None:
        raise HostError(
            "powercut was not installed from a wheel, and none can be made of it",
            hint="install it with pip into an environment of its own",
        )
    lines = about.splitlines()
    tags = [line.split(":", 1)[1].strip().split("-") for line in lines if line.startswith("Tag:")]
    tag = "-".join(".".join(sorted({parts[at] for parts in tags})) for at in range(3))
    path = folder / f"powercut-{found.version}-{tag}.whl"
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
    listed = io.StringIO()
    lines = csv.writer(listed, lineterminator="\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
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
