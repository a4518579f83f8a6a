# SPDX-License-Identifier: Apache-2.0
"""Which files count as written, and when a check that does not read them is no evidence."""

from powercut.model.reads import CheckReads, FileRead, reads_of


def file(path, size=9, modified=5, changed=5, *, unread=True):
    return FileRead(path, size, modified, changed, unread)


def test_a_file_is_written_that_is_new_or_has_other_times_or_another_size():
    before = [file("same"), file("grown"), file("dated"), file("put back"), file("gone")]
    after = [
        file("same"),
        file("grown", size=10),
        file("dated", modified=6),
        file("put back", changed=6),
        file("new"),
        file("empty", size=0),
    ]
    assert reads_of(before, after) == CheckReads(4, ("dated", "grown", "new", "put back"))
    assert reads_of(after, after) == CheckReads(0)


def test_what_was_read_is_not_named():
    after = [file("a", unread=False), file("b")]
    assert reads_of([], after) == CheckReads(2, ("b",))


def test_a_check_is_blind_that_reads_none_of_what_was_written():
    assert CheckReads(6, tuple("abcdef")).blind.count("a, b, c, d and 2 more") == 1
    for reads in (CheckReads(0), CheckReads(2), CheckReads(2, ("a",))):
        assert not reads.blind
    assert CheckReads(2, ("a",)).words == (
        "what 1 of 2 files that were written hold: the check did not read a"
    )
    assert not CheckReads(2).words
