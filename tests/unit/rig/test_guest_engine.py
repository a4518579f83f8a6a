# SPDX-License-Identifier: Apache-2.0
"""Where the guest engine keeps the image of a state, and how QEMU opens it there."""

import errno
import os

import pytest

from powercut.model.errors import HostError
from powercut.recover.plan import RecoveryPlan
from powercut.rig.guest_engine import GuestEngine
from powercut.scenario.settings import Parameters

PLAN = RecoveryPlan.of("ext4", "", "/root/mnt", ())


def host_of(monkeypatch, error):
    """A file system on which opening a file with O_DIRECT ends with `error`; 0: none."""
    opens = os.open

    def opened(path, flags, *rest, **how):
        file = opens(path, flags & ~os.O_DIRECT, *rest, **how)
        if error and flags & os.O_DIRECT:  # as Linux does: the file has been made by then
            os.close(file)
            raise OSError(error, os.strerror(error))
        return file

    monkeypatch.setattr(os, "open", opened)


def past_the_cache(tmp_path):
    with GuestEngine(tmp_path / "base", Parameters(), PLAN) as engine:
        assert not list(engine._folder.iterdir())
        return engine._parameters.machine.host_cache.direct


def test_a_state_is_opened_as_the_recorded_disk_was(tmp_path, monkeypatch):
    host_of(monkeypatch, 0)
    assert past_the_cache(tmp_path)


def test_where_no_file_takes_direct_io_a_state_lies_in_the_page_cache(tmp_path, monkeypatch):
    """/tmp of many hosts is a tmpfs, and takes none before Linux 6.6."""
    host_of(monkeypatch, errno.EINVAL)
    assert not past_the_cache(tmp_path)


def test_a_full_host_is_no_such_file_system(tmp_path, monkeypatch):
    host_of(monkeypatch, errno.ENOSPC)
    with pytest.raises(HostError, match="No space left"):
        past_the_cache(tmp_path)
