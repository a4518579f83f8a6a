# SPDX-License-Identifier: Apache-2.0
"""Puts into a wheel what is not Python: built parts, scenarios, example programs.

They lie in `powercut/_shipped` as they do in a checkout (powercut.paths).  The programs that guests
run are static; what the host's programs load (the capture plugin, preloads) is bound to glibc,
so the wheel says which glibc it was built with and pip installs it on that one and newer ones
(PEP 600).  An editable install builds nothing: the launcher does that for a checkout.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SHIPPED = Path("powercut", "_shipped")
MAKEFILES = (
    *("workloads", "harness/capture", "harness/guard", "harness/rawread"),
    *("guests/agent", "guests/uml"),
)
DATA = (
    "docs/findings",
    "scenarios",
    "workloads/clusters",
    "workloads/examples",
    "workloads/products",
    "workloads/programs",
)
BUILT = (
    *(
        "bin/agent",
        "bin/check-guard",
        "bin/dmlog",
        "bin/replicated",
        "bin/synctrace",
        "bin/uml-guard",
        "bin/uml-init",
    ),
    *("bin/unsynced", "bin/wal"),
    *("bin/powercut-client", "bin/powercut-folder", "bin/powercut-in-folder"),
    "bin/powercut-growing-file",
    *("lib/uml-haste.so", "lib/uml-stamp.so", "lib/uml-xstate.so", "libwal-slots.so"),
    *("nbdkit-capture-hangup.so", "nbdkit-capture-plugin.so"),
)


class BuildWithParts(build_py):
    """The modules, and beside them all that they run and read."""

    def run(self) -> None:
        """Copies the modules, then makes the rest; an editable install keeps to the checkout."""
        if not self.editable_mode:
            # Modules of an earlier build, since moved away, must not get into the wheel.
            for package in ("powercut", "powercut_extras"):
                shutil.rmtree(Path(self.build_lib) / package, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            self._ship(Path(self.build_lib).resolve() / SHIPPED)

    def _ship(self, target: Path) -> None:
        for name in DATA:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target / name, dirs_exist_ok=True, ignore=ignored)
        # Its own environment: pip's isolated build has the packages that this needs in PYTHONPATH.
        write = (
            "import sys, pathlib; sys.path.insert(0, sys.argv[1]);"
            "from powercut.report.reference import published;"
            "docs = pathlib.Path(sys.argv[2]); (docs / 'schema').mkdir(parents=True, exist_ok=True);"
            "[(docs / name).write_text(text, 'utf-8') for name, text in published().items()]"
        )
        schemas = [sys.executable, "-c", write, ROOT / "harness", target / "docs"]
        subprocess.run(schemas, check=True)
        made = Path(self.get_finalized_command("build").build_temp).resolve() / "parts"
        for folder in MAKEFILES:
            argv = [ROOT / "harness/make-part", ROOT / folder, made]
            subprocess.run(argv, check=True, env=dict(os.environ, LC_ALL="C"))
        for name in BUILT:
            (target / "parts" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(made / name, target / "parts" / name)


class TaggedWheel(bdist_wheel):
    """A wheel for any Python 3 on hosts with this host's glibc or a newer one."""

    def get_tag(self) -> tuple[str, str, str]:
        """Interpreter, ABI, platform (PEP 425, PEP 600)."""
        glibc = platform.libc_ver()[1].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{platform.machine()}"


class WithParts(Distribution):
    """A distribution with programs of one platform in it."""

    def has_ext_modules(self) -> bool:
        """Makes the wheel one of a platform."""
        return True


setup(
    cmdclass={"build_py": BuildWithParts, "bdist_wheel": TaggedWheel},
    distclass=WithParts,
    # Not build/, where the launcher keeps what it builds.
    options={"build": {"build_base": "build/wheel"}},
)
