# SPDX-License-Identifier: Apache-2.0
"""A process that talks to strangers, such as the dispatcher of a cluster: who it is to the host.

What it reaches is attacked by tests/unit/cluster/test_engine.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile_tries import users_of

from powercut.sandbox.apart import start_apart
from powercut.sandbox.confined import sandboxes
from powercut.sandbox.users import FIRST, users_apart

TIMEOUT_S = 120


@pytest.mark.skipif(bool(sandboxes().bubblewrap), reason="no bubblewrap")
@pytest.mark.parametrize("network", [False, True])
def test_to_the_host_root_s_is_nobody_it_knows(tmp_path: Path, network: bool):
    go = tmp_path / "go"
    os.mkfifo(go)
    process = start_apart("tokenize", [str(go)], reads=[go], network=network)
    try:
        with go.open("w") as writer:  # once it has begun to read
            users = users_of(str(go))
            writer.write("x = 1\n")
        process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert users == {FIRST if users_apart([go]) else os.geteuid()}
