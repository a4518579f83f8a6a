# SPDX-License-Identifier: Apache-2.0
"""Durations and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.scenario.quantity import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("300ms", 300_000_000),
        ("1.5 s", 1_500_000_000),
        (" 2min ", 120 * 10**9),
        ("1h", 3600 * 10**9),
        ("7us", 7000),
        ("7µs", 7000),
        ("0.5us", 500),
        ("3ns", 3),
        (0, 0),
    ],
)
def test_durations(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text", [5, 1.5, "5", "ms", "-1s", "1 sec", "0.5ns", True, False, None, []]
)
def test_no_durations(text):
    with pytest.raises(ValueError, match=r"."):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 MiB", 64 << 20), ("1KiB", 1024), ("512", 512), ("512 B", 512), (4096, 4096), (0, 0)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["3 MB", "3k", "-1", -1, 1.5, True, None, "0.3 B", ""])
def test_no_sizes(text):
    with pytest.raises(ValueError, match=r"."):
        parse_size(text)


@given(st.integers(0, 2**62))
def test_what_is_written_back_reads_the_same(value):
    assert parse_duration(format_duration(value)) == value
    assert parse_size(format_size(value)) == value
