# SPDX-License-Identifier: Apache-2.0
"""Where the contents of a file in a state begin to differ."""

from __future__ import annotations

import pytest

from powercut_extras.pages.timeline.contents import COMPARED_MAX, Excerpt, excerpt, laid_out


@pytest.mark.parametrize(
    ("there", "whole", "shown"),
    [
        (b"same", b"same", None),
        (b"", b"1\n2\n", Excerpt(0, "(the end of the file)", "1\\n2\\n")),
        (b"0123456789a", b"0123456789b", Excerpt(10, "23456789a", "23456789b")),
        (b"text", b"tex\0", Excerpt(3, "74 65 78 74", "74 65 78 00")),
        (b"\x1b[31m", b"<b>", Excerpt(0, "1b 5b 33 31 6d", "3c 62 3e")),
        (b"\xc3\xa9", b"e", Excerpt(0, "c3 a9", "65")),
        (b"a\\n", b"a\n", Excerpt(1, "a\\\\n", "a\\n")),
    ],
)
def test_the_first_difference_is_shown_as_text_or_in_hexadecimal(there, whole, shown):
    assert excerpt(there, whole) == shown


def test_an_excerpt_is_short_and_begins_shortly_before_the_difference():
    same = b"x" * 100_000
    found = excerpt(same + b"a" * 9000, same + b"b" * 9000)
    assert found is not None
    assert (found.at, found.there[:9], len(found.there)) == (100_000, "xxxxxxxxa", 48)


def test_a_file_is_laid_out_of_its_parts_up_to_what_is_compared():
    parts = [(4, b"new"), (0, b"ab"), (COMPARED_MAX - 1, b"yz"), (COMPARED_MAX + 9, b"far")]
    made = laid_out(parts)
    assert made[:8] == b"ab\0\0new\0"
    assert (len(made), made[-1:]) == (COMPARED_MAX, b"y")
