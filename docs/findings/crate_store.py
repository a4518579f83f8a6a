# SPDX-License-Identifier: Apache-2.0
"""Builds a program of Rust over one crate, for the scripts beside it."""

import os
import shutil
import subprocess
import sys
import tempfile


def built(crate, version, source):
    """The program of `source` with that crate, which it calls `store`."""
    if shutil.which("cargo") is None:
        print("cargo is not installed")
        sys.exit(77)
    folder = tempfile.mkdtemp()
    name = f"{crate}-{version}".replace(".", "-")
    os.mkdir(f"{folder}/src")
    with open(f"{folder}/src/main.rs", "w") as file:
        file.write(source)
    with open(f"{folder}/Cargo.toml", "w") as file:
        file.write(f'[package]\nname = "{name}"\nversion = "0.0.0"\nedition = "2021"\n\n')
        file.write(f'[dependencies]\nstore = {{ package = "{crate}", version = "={version}" }}\n')
    target = os.environ.setdefault("CARGO_TARGET_DIR", f"{folder}/target")
    subprocess.run(["cargo", "build", "--quiet"], cwd=folder, check=True)
    return f"{target}/debug/{name}"
