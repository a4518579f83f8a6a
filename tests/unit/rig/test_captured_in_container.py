# SPDX-License-Identifier: Apache-2.0
"""A container's pid namespace has no kernel threads, so that few small numbers are processes."""

import os
import subprocess
import sys

import pytest

# The numbers that bubblewrap's process may have in a namespace of its own are used up, and free.
_IN_CONTAINER = 'for used in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; "$@"; exit $?'
_ASK = """
import sys
from powercut.doctor.host import requirement
probe = requirement(sys.argv[1])
assert probe.ok, probe.limit
"""


@pytest.fixture
def container() -> list[str]:
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    alone += ["--map-root-user"] if os.geteuid() else []
    return [*alone, "sh", "-c", _IN_CONTAINER, "sh"]


@pytest.mark.namespaces
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("captured folder", marks=pytest.mark.fuse),
        pytest.param("loop", marks=[pytest.mark.loop, pytest.mark.fuse]),
    ],
)
def test_what_a_container_can_do_is_tried_and_works(name: str, container: list[str]) -> None:
    argv = [*container, sys.executable, "-c", _ASK, name]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
