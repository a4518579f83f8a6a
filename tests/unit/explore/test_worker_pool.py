# SPDX-License-Identifier: Apache-2.0
"""Workers that cannot open what they are to work on."""

from __future__ import annotations

import multiprocessing
import signal

import pytest

from powercut.explore import disks
from powercut.explore.request import Prune
from powercut.explore.work import Work
from powercut.model.errors import PowercutError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Work on a trial that is not there; this process stays open to ^C."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return Work(tmp_path / "trial", tmp_path, "raw", Prune.NOTHING, 1)


def test_a_worker_says_why_it_cannot_start(nowhere):
    ours, theirs = multiprocessing.Pipe()
    disks._serve(nowhere, theirs)
    with pytest.raises(PowercutError, match="trial"):
        disks._receive(ours)


def test_a_worker_that_fails_after_another_does_so_in_silence(nowhere):
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    disks._serve(nowhere, theirs)
