# SPDX-License-Identifier: Apache-2.0
"""Builds a program of Go over one module, for the scripts beside it."""

import os
import shutil
import subprocess
import sys
import tempfile


def built(module, version, source):
    """The program of `source`, which imports that module."""
    if shutil.which("go") is None:
        print("go is not installed")
        sys.exit(77)
    folder = tempfile.mkdtemp()
    with open(f"{folder}/main.go", "w") as file:
        file.write(source)
    with open(f"{folder}/go.mod", "w") as file:
        file.write(f"module shown\n\ngo 1.20\n\nrequire {module} {version}\n")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "build", "-o", "shown", "."], cwd=folder, env=environment, check=True)
    return f"{folder}/shown"
