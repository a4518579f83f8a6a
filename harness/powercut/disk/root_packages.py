# SPDX-License-Identifier: Apache-2.0
"""A root file system out of a distribution's packages, without root's rights.

The packages are unpacked and their scripts never run: those would want root's rights, or ranges
of users and namespaces that many hosts do not give.  What programs need of the scripts' work is
done here instead: the links by which /bin is usr/bin, root and Debian's own users in
/etc/passwd, the usual choice of alternatives, and Python's compiled modules, which save an
interpreter seconds each time that it starts in an emulated guest.  Documentation and
translations are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from powercut.disk.root_layers import RootTree
from powercut.model.errors import HostError
from powercut.sandbox.confined import run_confined

_RECIPE: Final = "1"  # raise it when this file makes other roots from the same packages
_TIMEOUT_S: Final = 600.0

_MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Folders that are links into /usr (Debian's wiki, UsrMerge), also where a suite's packages name
them as folders still."""

_MADE_BY_SCRIPTS: Final = {
    "etc/passwd": "usr/share/base-passwd/passwd.master",
    "etc/group": "usr/share/base-passwd/group.master",
}
_ALTERNATIVES: Final = {"usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils"}
_USELESS: Final = ("doc", "man", "locale", "lintian", "info", "bash-completion")
_HOSTS: Final = b"127.0.0.1\tlocalhost\n::1\tlocalhost\n"

_UNPACK: Final = """\
out=$1; shift
for package; do
    dpkg-deb --fsys-tarfile "$package" >"$out/${package##*/}.tar" || exit 1
done
"""
_PYTHON: Final = "usr/bin/python3"
_LOADER: Final = "usr/lib64/ld-linux-x86-64.so.2"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_COMPILED: Final = ("usr/lib/python3*", "usr/local/lib/python3*", "opt")


def digest_of(packages: Iterable[Path]) -> str:
    """What stands for the root that these make: a package's file is named after its version."""
    words = "\n".join((_RECIPE, *sorted(path.name for path in packages)))
    return hashlib.sha256(words.encode()).hexdigest()


def add_packages(tree: RootTree, packages: Sequence[Path], scratch: Path) -> None:
    """Puts what the packages (.deb) hold into an empty `tree`; `scratch` is kept until it is
    written.

    Raises UsageError for a package whose files leave the root, HostError.
    """
    tars, links, settings = scratch / "tars", scratch / "links", scratch / "settings"
    for folder in (tars, links, settings):
        folder.mkdir()
    argv = ["sh", "-c", _UNPACK, "sh", str(tars), *(str(path) for path in packages)]
    # apt has checked them: they are read without a sandbox where there is none.
    done = run_confined(
        argv, timeout_s=_TIMEOUT_S, reads=packages, folders=[tars], from_outside=False
    )
    if done.returncode:
        raise HostError(f"a package could not be unpacked: {done.stderr.strip()[-500:]}")
    for name in _MERGED:
        (links / name).symlink_to(f"usr/{name}")
    _add_made(tree, links)
    for path in sorted(packages):
        tree.add(tars / f"{path.name}.tar", from_outside=False)
    for name in _USELESS:
        tree.remove(f"usr/share/{name}")
    (settings / "etc").mkdir()
    for name, source in _MADE_BY_SCRIPTS.items():
        (settings / name).write_bytes(tree.read(source))
    (settings / "etc/hosts").write_bytes(_HOSTS)
    (settings / "usr/bin").mkdir(parents=True)
    for name, target in _ALTERNATIVES.items():
        if tree.read(f"usr/bin/{target}"):
            (settings / name).symlink_to(target)
    _add_made(tree, settings)


def _add_made(tree: RootTree, folder: Path) -> None:
    """Adds what was made here, without the moment in which that was."""
    for path in folder.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    tree.add_folder(folder, exact=True)


def compile_python(files: Path) -> None:
    """Compiles the Python modules in an unpacked root by its own interpreter, if it has one.

    The root is read-only, so the compiled modules need no dates.  What does not compile stays as
    it is.
    """
    loader, python = files / _LOADER, files / _PYTHON
    folders = [path for pattern in _COMPILED for path in sorted(files.glob(pattern))]
    if not (loader.exists() and python.exists() and folders):
        return
    argv = [str(loader), "--inhibit-cache", "--library-path", str(files / _LIBRARIES)]
    argv += [str(python), "-I", "-S", "-m", "compileall", "-q"]
    argv += ["--invalidation-mode", "unchecked-hash", "-s", str(files), "-p", "/"]
    run_confined([*argv, *map(str, folders)], timeout_s=_TIMEOUT_S, folders=[files])
