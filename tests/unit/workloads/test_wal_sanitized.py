# SPDX-License-Identifier: Apache-2.0
"""The C unit tests under ASan and UBSan, and a bounded run of the reader's fuzz target."""

import shutil
from pathlib import Path

import pytest
from parts import make_part

needs_libraries = pytest.mark.skipif(
    not (Path("/usr/include/libaio.h").exists() and Path("/usr/include/liburing.h").exists()),
    reason="libaio.h or liburing.h is missing (Debian: libaio-dev, liburing-dev)",
)


@needs_libraries
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler (Debian: build-essential)")
def test_c_unit_tests(tmp_path):
    done = make_part("workloads", tmp_path, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["classify: ok", "common: ok", "config: ok", "layout: ok"]
    assert done.stderr == ""


@pytest.mark.nightly
@needs_libraries
@pytest.mark.skipif(not shutil.which("clang"), reason="clang is missing (Debian: clang)")
def test_reader_survives_any_image(tmp_path):
    done = make_part("tests/fuzz/c", tmp_path, "fuzz_reader", "RUNS=1000")
    assert done.returncode == 0, done.stdout + done.stderr
    (units,) = (
        int(line.split()[1])
        for line in done.stderr.splitlines()
        if line.startswith("stat::number_of_executed_units")
    )
    assert units >= 1000
