# SPDX-License-Identifier: Apache-2.0
"""What a person reads of syncs: who asked for flushes, and who would miss which call."""

from __future__ import annotations

import io

from rich.console import Console

from powercut.model.verdict import LsnRange, Verdict
from powercut_extras.audit.stored import (
    Asker,
    Audit,
    AuditedPromise,
    MissingWrites,
    PromiseKind,
    UndecidedStates,
    UntilNext,
    Worth,
)
from powercut_extras.audit.stored_syncs import Noticed, SyncMutant, SyncMutants, WithoutSync
from powercut_extras.audit.sync_site import CalledFrom, SyncSite
from powercut_extras.audit.table import print_audit_table
from powercut_extras.audit.terminal import print_audit
from powercut_extras.audit.terminal_syncs import print_sync_mutants


def site(number: int, call: str, path: str, *callers: str, calls: int = 3) -> SyncSite:
    libc = CalledFrom(module="/usr/lib/libc.so.6", address=1, name="fsync")
    own = [CalledFrom(module="/opt/prog", address=2, name=name) for name in callers]
    return SyncSite(
        number=number, key="a" * 16 + " x", call=call, path=path, calls=calls, stack=(libc, *own)
    )


def promise(request: int, worth: Worth, *sites: int, states: int = 1) -> AuditedPromise:
    return AuditedPromise(
        request=request, kind=PromiseKind.FLUSH, at_ms=request, took_us=100, worth=worth,
        hanging=int(worth is not Worth.IDLE), hanging_bytes=1, holds=(), states=states,
        asker=Asker.CALL if sites else Asker.NO_CALL, sites=sites,
    )  # fmt: skip


def printed(show, value) -> str:
    out = io.StringIO()
    show(Console(file=out, width=300), value)
    return "\n".join(" ".join(line.split()) for line in out.getvalue().splitlines())


def test_the_audit_says_who_asked_and_of_what_nothing_is_known():
    audit = Audit(
        powercut="0", scenario="s", cell="c", trial=1, counted="operation", acknowledged=3,
        run_ms=1, late=(), engine="program", states=3, states_from=3,
        promises=(
            promise(1, Worth.LEADS, 1), promise(2, Worth.IDLE, 2), promise(3, Worth.UNSEEN, 2),
            promise(4, Worth.UNSEEN, states=0), promise(5, Worth.LEADS, 1, 2),
        ),
        sites=(
            site(1, "fsync", "log", "save"), site(2, "fdatasync", "[b]", "count"),
            site(3, "fsync", ".", "save", calls=7), site(4, "sync", "", "end", calls=1),
        ),
        unsynced=(LsnRange(7, 7),), untraced=("the program calls ptrace(2)",),
    )  # fmt: skip
    text = printed(print_audit, audit)
    assert "fdatasync [b] 3 2 - - 1 1 40 %\ncount" in text
    assert "fsync log 3 1 - 1 - - 20 %\nsave" in text
    assert "no sync of the program's - 1 - - - 1 20 %" in text
    assert "8 calls sent no flush: fsync . (7), sync (1)" in text
    assert "of 1 promise no state was looked at (--budget)" in text
    assert (
        "2 of 5 promises carried nothing in the states looked at: 40 % of the time in them; they "
        "come from fdatasync [b] (2)"
    ) in text
    assert "doubt: those that are not idle were looked at in 1 state each; more of them" in text
    assert "not traced: the program calls ptrace(2)" in text
    assert "acknowledgement of operation 7" in text


def test_the_audit_says_which_part_was_missing_and_how_many_states_were_not_judged():
    part = MissingWrites(requests=(2, 3), holds=("journal",))
    torn = MissingWrites(requests=(7,), torn=(7,), holds=("inodes",))
    update = {"hanging": 4, "states_lost": 1, "states": 9, "states_in_part": 6}
    audit = Audit(
        powercut="0", scenario="s", cell="c", trial=1, counted="operation", acknowledged=3,
        run_ms=1, late=(), engine="program", states=18, states_from=2, promises=(
            promise(5, Worth.LEADS).model_copy(update={**update, "missing": part}),
            promise(8, Worth.LEADS).model_copy(update={**update, "missing": torn}),
        ),
        undecided=(UndecidedStates(why="the check ended with status 135", states=4),),
    )  # fmt: skip
    text = printed(print_audit, audit)
    assert "missing alone: 2 of 4 writes, 2, 3 (journal)" in text
    assert "torn alone: 1 of 4 writes, 7 (inodes)" in text
    assert "not judged: 4 states: the check ended with status 135" in text
    assert (
        "if one of 2 promises is ignored, 12 of them if a part of what it made durable is missing"
        in text
    )


def test_a_row_for_each_flush_of_a_call():
    first, second = {"nth": 1, "of_call": 2}, {"nth": 2, "of_call": 2}
    torn = MissingWrites(requests=(7,), torn=(7,), holds=("journal",))
    lost = {**second, "states_lost": 1, "message": "1 operation is lost: 3, 5-7\nby it"}
    joined = {**first, "states": 9, "states_in_part": 6, "until_next": UntilNext(acks=0, writes=2)}
    acked = {**first, "states_undecided": 4, "until_next": UntilNext(acks=1, writes=2)}
    audit = Audit(
        powercut="0", scenario="s", cell="c", trial=1, counted="operation", acknowledged=3,
        run_ms=1, late=(), engine="program", states=18, states_from=2, seconds=2, promises=(
            promise(0, Worth.IDLE).model_copy(update={"at_ms": -1}),
            promise(1, Worth.UNSEEN, 1).model_copy(update=joined),
            promise(2, Worth.LEADS, 1).model_copy(update=lost),
            promise(3, Worth.UNSEEN, 1).model_copy(update=acked),
            promise(4, Worth.LEADS, 1).model_copy(update={**lost, "missing": torn}),
            promise(5, Worth.LEADS, 1).model_copy(update={**lost, "missing": torn}),
            promise(6, Worth.UNSEEN, states=0),
        ), sites=(site(1, "fsync", "log", "save"),),
    )  # fmt: skip
    assert [one.joinable for one in audit.promises] == [False, True, *[False] * 5]
    text = printed(print_audit_table, [audit])
    assert (
        "| c: 3 operations | fsync log in save | 1 of 2 | 2 | 0 of 2 | "
        "2 in 10 states, 6 of a part; 4 states not judged | - | 1 | 29 % | |\n"
        "| | fsync log in save | 2 of 2 | 3 | 3 of 3 | - | - | - | 43 % | "
        "1 operation is lost (torn: journal) |\n"
        "| | no sync of the program's | | 1 | - | 1 not looked at | - | - | 14 % | |\n"
        "| | before the first operation | | 1 | - | - | 1 | - | 14 % | |\n"
    ) in text
    assert "1 recording; 18 states recovered in 2 s" in text


def without(noticed: Noticed, **more: object) -> WithoutSync:
    return WithoutSync(noticed=noticed, dropped=3, **more)


def test_the_table_of_mutants_says_who_noticed_what_and_what_is_not_known():
    yes = without(Noticed.YES, states=40, states_lost=9, result="results/x")
    no = without(Noticed.NO, states=40)
    unknown = without(Noticed.UNKNOWN, why="the test does not come there")
    result = SyncMutants(
        powercut="0", program=("./p",), filesystem="xfs", seed=1, verdict=Verdict.SAFE,
        acknowledged=12, states=40, test=("./t",),
        mutants=(
            SyncMutant(site=site(1, "fsync", "log", "save", "run"), powercut=yes, test=unknown),
            SyncMutant(site=site(2, "fsync", "b", "count"), powercut=no, test=without(Noticed.NO)),
            SyncMutant(site=site(3, "fsync", "c", "end"), powercut=no, test=unknown),
            SyncMutant(site=site(4, "fsync", "/tmp/x", "end"), skipped="elsewhere"),
        ),
    )  # fmt: skip
    assert [one.verdict for one in result.mutants] == [
        "powercut",
        "none",
        "not known",
        "not tried",
    ]
    text = printed(print_sync_mutants, result)
    assert "1 fsync log 3 noticed not known powercut\nsave < run 9 of 40 states" in text
    unnoticed = "Dropped, and no check noticed:\n2: fsync of b in count, 3 calls dropped\n"
    assert f"{unnoticed}Not noticed is not needless" in text
    assert "sync 3, test: not known: the test does not come there" in text
    assert "sync 4: not tried: elsewhere" in text
