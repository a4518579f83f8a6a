# SPDX-License-Identifier: Apache-2.0
"""The list of what a check has read, from a guest that need not be honest."""

import struct

import pytest

from powercut.model.errors import HostError
from powercut.model.reads import FileRead
from powercut.recover.port import reads_in

ONE = struct.pack("<Q", 1) + struct.pack("<QQQIIII", 7, 5, 6, 3, 0, 1, 9) + b"a\x1b\xff"
LINK = struct.pack("<Q", 1) + struct.pack("<QQQIIII", 0, 5, 6, 1, 2, 0, 0) + b"l/\x1b"


def test_a_list_is_read_and_can_be_shown():
    assert reads_in(ONE) == (FileRead("a\\x1b\ufffd", 7, 5, 6, True, crc=9),)
    assert reads_in(LINK) == (FileRead("l", 0, 5, 6, False, "/\\x1b"),)
    assert reads_in(struct.pack("<Q", 0)) == ()


def test_nothing_is_not_known():
    assert reads_in(b"") is None


@pytest.mark.parametrize(
    "answer",
    [ONE[:-1], ONE + b"x", ONE[:9], ONE[:3], struct.pack("<Q", 2**63) + ONE[8:], LINK[:-1]],
    ids=["short", "long", "torn", "no head", "many", "short target"],
)
def test_a_list_that_is_none_is_refused(answer):
    with pytest.raises(HostError, match="the guest's list of what was read"):
        reads_in(answer)
