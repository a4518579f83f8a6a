# SPDX-License-Identifier: Apache-2.0
"""Quotas of control groups, of both versions, as a host and as a container see them."""

from __future__ import annotations

import math

import pytest

from powercut.machine.patience import processor_quota

POD = "/pods/one"


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        (f"0::{POD}", {"pods/one/cpu.max": "50000 100000"}, 0.5),
        (f"0::{POD}", {"pods/one/cpu.max": "max 100000"}, math.inf),
        # The narrowest counts, also if it is further out.
        (f"0::{POD}", {"pods/one/cpu.max": "150000 100000", "pods/cpu.max": "1000 10000"}, 0.1),
        # A container sees its own group as the root.
        ("0::/", {"cpu.max": "200000 100000"}, 2.0),
        (f"0::{POD}", {"cpu.max": "25000 100000"}, 0.25),
        (
            f"4:cpu,cpuacct:{POD}\n0::/",
            {"cpu/pods/one/cpu.cfs_quota_us": "5000", "cpu/pods/one/cpu.cfs_period_us": "10000"},
            0.5,
        ),
        (f"4:cpu:{POD}", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "9"}, math.inf),
        # The quota of no processor's time.
        (f"4:memory:{POD}\n", {"memory/pods/one/cpu.cfs_quota_us": "5000"}, math.inf),
        ("0::/", {}, math.inf),
        ("0::/", {"cpu.max": "what is this"}, math.inf),
        ("0::/", {"cpu.max": "50000 0"}, math.inf),
    ],
)
def test_a_quota_in_processors(tmp_path, own, files, quota):
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert processor_quota(tmp_path / "own", tmp_path) == quota


def test_a_host_without_control_groups_has_no_quota(tmp_path):
    assert processor_quota(tmp_path / "own", tmp_path) == math.inf
