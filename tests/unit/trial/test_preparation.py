# SPDX-License-Identifier: Apache-2.0
"""The second look at what `setup` made: as the cell runs; where it fails, that it failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from powercut.model.creation import Creation
from powercut.model.errors import HostError
from powercut.model.operations import Packet
from powercut.model.reads import FileRead
from powercut.recover.plan import GuestRoot
from powercut.trial.record import NOT_LISTED, Preparation, durable_at_first_ack
from powercut.trial.system import GuestSystem
from powercut.workload.program.claims import history_of
from support.handmade import Handmade

AT_SETUP, AT_ACK, AT_CUT = ["at setup"], ["at ack"], ["at cut"]
ALL = (FileRead("data/store", 9, 1, 2, unread=True),)
TIMEOUT_S = 60


def acked(*missed):
    """The cut there, and what a check against its promises misses."""

    def check(claims, seen):
        assert (claims, seen) == ("before 5", "recovered")
        return [SimpleNamespace(message=one) for one in missed]

    promises = SimpleNamespace(claims_at=lambda instant: f"before {instant}", check=check)
    return AT_ACK, promises, 5


class Engine:
    """A `DatesReads` that knows the files of each disk; None of one that it cannot list."""

    def __init__(self, *, acked=ALL, cut=ALL):
        self._files = {"[]": ALL, str(AT_SETUP): (), str(AT_ACK): acked, str(AT_CUT): cut}

    def recover(self, writes, *, timeout_s):
        assert writes == AT_ACK
        return "recovered"

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
        (acked, Engine(acked=None), NOT_LISTED),
        (acked, Engine(cut=None), NOT_LISTED),
    ],
)
def test_a_second_look_that_fails_says_why(monkeypatch, at_first_ack, engine, why):
    seen = creation(monkeypatch, at_first_ack, engine)
    assert seen == Creation(1, ("data/store",), unknown=why)
    for words in (seen.doubt, seen.words):
        assert f"(whether `run` syncs it before its first ack is not known: {why})" in words


def test_what_run_syncs_before_its_first_ack_is_durable(monkeypatch):
    seen = creation(monkeypatch, lambda: acked("never asked"), Engine())
    assert (seen, seen.doubt) == (Creation(1, (), acked=True), "")
    lost = creation(monkeypatch, acked, Engine(acked=()))
    assert lost == Creation(1, ("data/store",), acked=True)
    assert "not known" not in lost.doubt


def test_one_file_of_many_may_be_all_that_matters(monkeypatch):
    other = FileRead("data/other", 9, 1, 2, unread=True)
    engine = Engine(acked=(other,), cut=(*ALL, other))
    engine._files |= {"[]": (*ALL, other), str(AT_SETUP): (other,)}
    found = creation(monkeypatch, acked, engine)
    assert (found, found.doubt) == (Creation(2, ("data/store",), acked=True), "")
    found = creation(monkeypatch, lambda: acked("lost: 1"), engine)
    assert found.missed == "lost: 1"
    assert "a power cut at the first ack loses what was acknowledged (lost: 1)" in found.doubt


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("unsynced", [True, False])
def test_in_a_guest_a_program_starts_with_the_syncs_of_its_cell(unsynced, dated):
    """At its creation, too, where nothing is dated."""
    said = []
    run = SimpleNamespace(plan=SimpleNamespace(root=GuestRoot("/p", ("A=1",))))
    channel = SimpleNamespace(start=lambda *argv: said.append(argv))
    GuestSystem(run).start(channel, ("/p/x", "run", "d"), unsynced=unsynced, dated=dated)
    flags = (str(int(dated)), str(int(unsynced)))
    assert said == [("works", *flags, "/p", "1", "A=1", "/p/x", "run", "d")]


@pytest.mark.parametrize(("flushed", "kept"), [((10, 20), [b"a"]), ((10, 31), [])])
def test_the_first_ack_counts_when_it_was_made(flushed, kept):
    """At 30: what was durable then, and nothing that became so before it was heard."""
    made = Handmade(disk_size=8192)
    made.write(0, b"a" * 4096, at=1, done=2)
    made.flush(at=flushed[0], done=flushed[1])
    made.write(4096, b"b" * 4096, at=22, done=29)
    made.flush(at=50, done=60)
    claims = history_of([Packet(25, b"? 1\n"), Packet(30, b"+ 1\n"), Packet(45, b"? 2\n+ 2\n")])
    instant, writes = durable_at_first_ack(made.timeline(), claims)
    assert (instant, [bytes(one.data[:1]) for one in writes]) == (31, kept)
