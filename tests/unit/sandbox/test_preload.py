# SPDX-License-Identifier: Apache-2.0
"""A library is preloaded whatever its folder is called: where it is not, nothing else tells."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from powercut.recover.uml.boot import haste_library
from powercut.sandbox.confined import preloading


@pytest.mark.parametrize("name", ["plain", "with blank", "with, comma", "with\nline", "%41$HOME"])
def test_it_is_loaded_from_a_folder_of_any_name(name):
    with tempfile.TemporaryDirectory(dir="/tmp") as plain:  # TMPDIR may have a colon
        folder = Path(plain, name)
        folder.mkdir()
        library = folder / "powercut-test.so"
        shutil.copy(haste_library(), library)
        environment = preloading([library], os.environ)
        argv = ["cat", "/proc/self/maps"]
        maps = subprocess.run(argv, env=environment, capture_output=True, check=True)
    assert b"powercut-test.so" in maps.stdout
    assert maps.stderr == b""
