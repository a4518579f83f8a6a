# SPDX-License-Identifier: Apache-2.0
"""A tool that the host killed has not found an image that does not open."""

from __future__ import annotations

import pytest
from patience import AMPLE_S

from powercut.disk.image_format import open_image
from powercut.model.errors import HostError
from powercut.model.machine import ImageFormat


def test_a_tool_killed_by_the_host_says_nothing_of_the_image(tmp_path, monkeypatch):
    for name in ("qemu-img", "qemu-io"):
        tool = tmp_path / name
        tool.write_text("#!/bin/sh\nkill -KILL $$\n")  # as the kernel does when memory runs out
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "nbd").touch()
    with pytest.raises(HostError, match="was killed by the host"):
        open_image(tmp_path / "nbd", ImageFormat.QCOW2, timeout_s=AMPLE_S)
