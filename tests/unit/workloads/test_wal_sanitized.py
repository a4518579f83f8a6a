# SPDX-License-Identifier: Apache-2.0
"""The C unit tests under ASan and UBSan, and a bounded run of the reader's fuzz target."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.paths import ROOT

needs_libraries = pytest.mark.skipif(
    not (Path("/usr/include/libaio.h").exists() and Path("/usr/include/liburing.h").exists()),
    reason="libaio.h or liburing.h is missing (Debian: libaio-dev, liburing-dev)",
)


def make(makefiles, folder, *arguments):
    return subprocess.run(
        ["make", "-s", "-C", ROOT / makefiles, f"BUILD={folder}", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
    )


@needs_libraries
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler (Debian: build-essential)")
def test_c_unit_tests(tmp_path):
    done = make("workloads", tmp_path, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["classify: ok", "common: ok", "config: ok", "layout: ok"]
    assert done.stderr == ""


@needs_libraries
@pytest.mark.skipif(not shutil.which("clang"), reason="clang is missing (Debian: clang)")
def test_reader_survives_any_image(tmp_path):
    done = make("tests/fuzz/c", tmp_path, "fuzz_reader", "RUNS=1000")
    assert done.returncode == 0, done.stdout + done.stderr
    (units,) = (
        int(line.split()[1])
        for line in done.stderr.splitlines()
        if line.startswith("stat::number_of_executed_units")
    )
    assert units >= 1000
