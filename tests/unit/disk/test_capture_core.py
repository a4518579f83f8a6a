# SPDX-License-Identifier: Apache-2.0
"""Runs the C tests of the capture disk's core under the sanitizers."""

import os
import subprocess

import pytest
from parts import built


@pytest.mark.parametrize(
    "sanitizer", ["thread", pytest.param("address", marks=pytest.mark.nightly)]
)
def test_core_under_sanitizer(sanitizer, tmp_path):
    name = f"core_test.{sanitizer}"
    program = built("harness/capture", tmp_path / "build", name) / "capture" / name
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [program], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
