# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures what it says and leaves nothing behind; how fast is not for a test."""

import pytest

from bench import disk as bench
from bench.disk import LOADS, DiskLoad, measure
from powercut.model.errors import HostError


def test_a_small_load_on_both_disks(tmp_path):
    loads = (
        DiskLoad("small", 4096, 64, 4, 16),
        DiskLoad("large", 1 << 20, 4, 1, 0, "MB/s"),
    )
    rates = measure(loads, folder=tmp_path, rounds=1)
    assert [(rate.name, rate.unit) for rate in rates] == [("small", "writes/s"), ("large", "MB/s")]
    assert all(rate.ratio == rate.capture / rate.reference > 0 for rate in rates)
    assert list(tmp_path.iterdir()) == []


def test_rates_are_in_their_unit():
    assert LOADS[0].rate(0.5) == 2 * LOADS[0].count
    assert DiskLoad("", 1 << 20, 10, 1, 0, "MB/s").rate(2) == 10 * 1.048576 / 2


def test_a_failing_client_is_a_host_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="not installed"):
        bench._elapsed_s(LOADS[0], tmp_path / "none")
