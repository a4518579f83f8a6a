# SPDX-License-Identifier: Apache-2.0
"""What a user gets wrong is his to mend, whatever it is: never a traceback, never status 1."""

from __future__ import annotations

import pytest
from command_line import powercut

APPEND = "workloads/examples/append.sh"


def is_mistake(done, *words):
    """Exit status 2, and one message with all `words`."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "bug in powercut" not in done.stderr
    for word in words:
        assert word in done.stderr
    return True


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (("capture", ".", "--check", "'x", "--", "true"), "--check"),
        (("listen", ".", "--check", "'x"), "--check"),
        (("record", "--mkfs", "'x", "--", APPEND), "--mkfs"),
        (("try", "--mkfs", "'x", "--", APPEND), "--mkfs"),
        (("audit", "syncs", "--mkfs", "'x", "--", APPEND), "--mkfs"),
        (("audit", "syncs", "--test", "'x", "--", APPEND), "--test"),
    ],
)
def test_an_open_quote_names_its_option(argv, option):
    done = powercut(*argv)
    assert is_mistake(done, option, "not a command line: no closing quotation: 'x")
