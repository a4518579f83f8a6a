# SPDX-License-Identifier: Apache-2.0
"""Which files count as lost by a power cut at the end of `setup`, and at the first ack."""

from powercut.model.creation import Creation, creation_at_ack, creation_of
from powercut.model.reads import FileRead


def file(path, size=9, crc=7):
    return FileRead(path, size, 1, 2, unread=True, crc=crc)


def test_a_file_is_lost_that_is_gone_or_has_another_size():
    made = [file("kept"), file("gone"), file("short"), file("empty", 0)]
    left = [file("kept"), file("short", 3), file("back from the dead")]
    assert creation_of(made, left) == Creation(3, ("gone", "short"))
    assert creation_of(made, made) == Creation(3)
    assert creation_of(made, []) == Creation(3, ("gone", "kept", "short"))


def test_what_run_makes_durable_by_the_first_ack_is_not_lost():
    made = [file("kept"), file("synced later"), file("grown"), file("gone"), file("short")]
    cut = [file("kept")]
    assert creation_of(made, cut) == Creation(5, ("gone", "grown", "short", "synced later"))
    left = [file("kept"), file("synced later"), file("grown", 12), file("short", 3)]
    later = [*made[:2], file("grown", 90), *made[3:]]
    assert creation_at_ack(made, cut, left, later) == Creation(5, ("gone", "short"), acked=True)
    assert creation_at_ack(made, cut, made, later) == Creation(5, (), acked=True)


def test_what_run_removes_is_not_lost():
    made = [file("store"), file("of setup alone"), file("made shorter")]
    later = [file("store"), file("made shorter", 4)]
    seen = creation_at_ack(made, [], [file("made shorter", 4)], later)
    assert seen == Creation(2, ("store",), acked=True)
    assert not seen.doubt
    (store,) = creation_at_ack(made, [], [], [file("store")]).lost
    assert store == "store"


def test_what_was_overwritten_without_a_sync_is_lost_until_run_syncs_or_overwrites_it():
    made, cut = [file("store"), file("other")], [file("store", crc=1), file("other")]
    assert creation_of(made, cut) == Creation(2, ("store",))
    later = [file("store", crc=5), file("other")]
    stale = creation_at_ack(made, cut, cut, later)
    assert stale == Creation(2, ("store",), acked=True)
    assert creation_at_ack(made[:1], cut[:1], cut, later).doubt
    for left in (made, [file("store", crc=4)], [file("store", 12, crc=1)]):
        assert not creation_at_ack(made, cut, left, later).lost
    assert not creation_at_ack(made, cut, cut, [file("other")]).lost  # `run` has removed it
    assert not creation_at_ack(made, cut, cut, [file("store", 3), file("other")]).lost


def test_only_if_nothing_is_left_is_the_store_in_doubt():
    assert "at the end of `setup` loses all that `setup` made (a)" in Creation(1, ("a",)).doubt
    assert "at the first ack loses all" in Creation(1, ("a",), acked=True).doubt
    for creation in (Creation(0), Creation(2), Creation(2, ("a",))):
        assert not creation.doubt
