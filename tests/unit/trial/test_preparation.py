# SPDX-License-Identifier: Apache-2.0
"""What is known of `setup` when the second look at it fails: that it failed, and no more."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from powercut.model.creation import Creation
from powercut.model.errors import HostError
from powercut.model.reads import FileRead
from powercut.trial.preparation import NOT_LISTED, Preparation

AT_SETUP, AT_ACK, AT_CUT = ["at setup"], ["at ack"], ["at cut"]
ALL = (FileRead("data/store", 9, 1, 2, unread=True),)
TIMEOUT_S = 60


class Engine:
    """A `DatesReads` that knows the files of each disk; None of one that it cannot list."""

    def __init__(self, *, acked=ALL, cut=ALL):
        self._files = {"[]": ALL, str(AT_SETUP): (), str(AT_ACK): acked, str(AT_CUT): cut}

    def files_read(self, writes, *, check, timeout_s):
        return SimpleNamespace(recovered=True), self._files[str(list(writes))]


def creation(monkeypatch, at_first_ack, engine):
    made = Preparation(SimpleNamespace(), SimpleNamespace())
    made._cut = AT_SETUP
    monkeypatch.setattr(made, "_at_first_ack", at_first_ack)
    return made.creation(engine, AT_CUT, timeout_s=TIMEOUT_S)


def late():
    raise HostError("the guest did not start in time")


@pytest.mark.parametrize(
    ("at_first_ack", "engine", "why"),
    [
        (late, Engine(), "the guest did not start in time"),
        (lambda: AT_ACK, Engine(acked=None), NOT_LISTED),
        (lambda: AT_ACK, Engine(cut=None), NOT_LISTED),
    ],
)
def test_a_second_look_that_fails_says_why(monkeypatch, at_first_ack, engine, why):
    seen = creation(monkeypatch, at_first_ack, engine)
    assert seen == Creation(1, ("data/store",), unknown=why)
    for words in (seen.doubt, seen.words):
        assert f"(whether `run` syncs it before its first ack is not known: {why})" in words


def test_what_run_syncs_before_its_first_ack_is_durable(monkeypatch):
    seen = creation(monkeypatch, lambda: AT_ACK, Engine())
    assert (seen, seen.doubt) == (Creation(1, (), acked=True), "")
    lost = creation(monkeypatch, lambda: AT_ACK, Engine(acked=()))
    assert lost == Creation(1, ("data/store",), acked=True)
    assert "not known" not in lost.doubt
