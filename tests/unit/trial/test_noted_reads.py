# SPDX-License-Identifier: Apache-2.0
"""Links out of DIR on a machine that does not say what it had in memory."""

from types import SimpleNamespace

import pytest

from powercut.model.outside import LeftFiles
from powercut.model.reads import CheckReads, FileRead
from powercut.scenario.settings import Parameters
from powercut.trial import positive

WRITTEN = FileRead("data/log", 9, 1, 2, unread=False)


def noted(target, left, *, same=True):
    """What is learned of a folder with a link to `target`."""
    link = FileRead("data/link", 0, 1, 2, unread=False, target=target)
    engine = SimpleNamespace(
        files_read=lambda writes, *, check, timeout_s: ("", (WRITTEN, link) if check else ())
    )
    run = SimpleNamespace(
        workload=SimpleNamespace(same=lambda *_: same),
        job=SimpleNamespace(parameters=Parameters()),
        left=left, reads=None, outside=None,
    )  # fmt: skip
    positive._note_reads(run, SimpleNamespace(observation=""), engine, ["left"], timeout_s=1)
    return run


@pytest.fixture(autouse=True)
def by_lines(monkeypatch):
    monkeypatch.setattr(positive, "AcksByLines", SimpleNamespace)


@pytest.mark.parametrize("target", ["/tmp/n", "/dev/shm/n", "/var/run/n", "../../run/n"])
def test_where_memory_is_not_listed_a_link_that_leads_there_is_a_doubt(target):
    run = noted(target, None)
    assert run.reads == CheckReads(1)
    assert "data/link leads to" in run.outside.doubt


@pytest.mark.parametrize("target", ["log", "/mnt/data/log", "/usr/lib/x"])
def test_a_link_that_leads_elsewhere_leaves_it_unknown(target):
    assert noted(target, None).outside is None


def test_where_nothing_is_left_in_memory_no_link_leads_out():
    assert noted("/tmp/n", LeftFiles()).outside.doubt == ""


def test_what_a_check_reads_that_says_something_else_now_is_not_known():
    assert noted("log", LeftFiles(), same=False).reads is None
