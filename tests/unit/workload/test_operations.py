# SPDX-License-Identifier: Apache-2.0
"""Operations as sets: what a program claimed, what its check says, and what follows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory, Packet, Sighting
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import history_of, sighting_of
from powercut.workload.program.promises import ProgramPromises

K = FindingKind


def said(text: str) -> OperationHistory:
    """One packet a line, an instant each from 10 on, 10 apart."""
    return history_of(
        [Packet(10 * n, f"{line}\n".encode()) for n, line in enumerate(text.split(", "), 1)]
    )


def found(text: str, **more) -> Sighting:
    lines = "".join(f"{line}\n" for line in text.split(", ") if line).encode()
    return sighting_of(Observation((), lines=lines, **more))


def judged(history: str, check: str, instant: int = 10**6, **more):
    findings = check_operations(said(history), instant, found(check, **more))
    return [
        (finding.kind, finding.verdict.name, [str(span) for span in finding.lsns])
        for finding in findings
    ]


def test_out_of_order_and_all_there():
    assert judged("ready, ? 5, ? 9, + 9, ? 1, + 1, + 5", "= 1, = 5, = 9") == []


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("= 1", [(K.LOST, "LOSSY", ["2"])]),
        ("", [(K.LOST, "LOSSY", ["1-2"])]),
        ("= 1-3", []),
        ("= 1-2, x 3 half", [(K.INCOMPLETE, "INCONCLUSIVE", ["3"])]),
        ("= 1-2, x 9 garbage", [(K.INCOMPLETE, "INCONCLUSIVE", ["9"])]),
        (
            "= 1, x 2 half, x 3 half",
            [(K.CORRUPT, "LOSSY", ["2"]), (K.INCOMPLETE, "INCONCLUSIVE", ["3"])],
        ),
        ("= 1, x 2 half", [(K.CORRUPT, "LOSSY", ["2"])]),
        ("= 1-5", [(K.NEVER_ATTEMPTED, "LOSSY", ["4-5"])]),
        ("= 0-9223372036854775807", [(K.NEVER_ATTEMPTED, "LOSSY", ["0", "4-9223372036854775807"])]),
        ("= 1-2, bad torn index", [(K.NOT_RECOVERED, "LOSSY", [])]),
        ("= 1-2, ! no memory", [(K.INCOMPLETE, "INCONCLUSIVE", [])]),
        ("= 1-2, nonsense", [(K.INCOMPLETE, "INCONCLUSIVE", [])]),
        ("= 1, ! no memory", [(K.INCOMPLETE, "INCONCLUSIVE", [])]),
    ],
)
def test_two_acknowledged_and_one_tried(check, expected):
    assert judged("? 1, + 1, ? 2, + 2, ? 3", check) == expected


def test_a_program_may_promise_that_no_operation_is_seen_unfinished():
    claims = "atomic, ready, ? 1, + 1, ? 2"
    assert judged(claims, "= 1, x 2 half") == [(K.CORRUPT, "LOSSY", ["2"])]
    assert judged(claims, "= 1-2") == []
    (trouble,) = said("? 1, atomic, + 1").trouble
    assert "after its first attempt" in trouble
    assert not said("? 1, atomic, + 1").atomic


FIVE = "? 1, + 1, ? 2, + 2, ? 3, - 3, ? 4, + 4, ? 5"  # 3 has failed, 5 is under way


@pytest.mark.parametrize(
    ("check", "prefix", "opens"),
    [
        ("= 1-2, = 4-5", [], []),
        ("", [], []),
        ("= 1", [], []),
        ("= 1-2", [], []),
        ("= 1, = 4", [(K.LOST, "LOSSY", ["2"])], []),
        ("= 4", [(K.LOST, "LOSSY", ["1-2"])], []),
        ("= 5", [(K.LOST, "LOSSY", ["1-2", "4"])], []),  # not acknowledged, and there
        ("= 2-4", [(K.LOST, "LOSSY", ["1"])], []),
        ("= 1, x 2 half", [(K.CORRUPT, "LOSSY", ["2"])], [(K.CORRUPT, "LOSSY", ["2"])]),
        ("bad torn", [(K.NOT_RECOVERED, "LOSSY", [])], [(K.NOT_RECOVERED, "LOSSY", [])]),
        ("= 1-9", [(K.NEVER_ATTEMPTED, "LOSSY", ["6-9"])], [(K.NEVER_ATTEMPTED, "LOSSY", ["6-9"])]),
    ],
)
def test_a_program_may_promise_less_than_each_ack(check, prefix, opens):
    assert judged(f"promise prefix, ready, {FIVE}", check) == prefix
    assert judged(f"promise opens, ready, {FIVE}", check) == opens


def test_a_lower_number_that_is_missing_is_a_hole_and_is_told_so():
    (told,) = check_operations(said(f"promise prefix, {FIVE}"), 10**6, found("= 1, = 4"))
    assert told.message == "1 operation is acknowledged and not there, though a later one is: 2"


def test_a_check_that_did_not_look_at_everything_finds_no_hole():
    seen = judged(f"promise prefix, {FIVE}", "= 1, = 4", complete=False, failure="status 3")
    assert seen == [(K.INCOMPLETE, "INCONCLUSIVE", [])]


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ("? 1, promise prefix, + 1", "after its first attempt"),
        ("promise most, ? 1, + 1", "no line of the contract: 'promise most'"),
        ("promise, ? 1, + 1", "no line of the contract: 'promise'"),
        ("promise prefix, ? 2, + 2, ? 1", "tries operation 1 after 2"),
        ("promise prefix, ? 1, - 1, ? 1", "tries operation 1 after 1"),
    ],
)
def test_a_promise_that_cannot_be_is_trouble(claims, why):
    (trouble,) = said(claims).trouble
    assert why in trouble


def test_who_promises_nothing_less_keeps_every_ack():
    assert [said(f"{first}? 2, + 2").keeps for first in ("", "promise prefix, ")] == [
        "every",
        "prefix",
    ]
    assert said("promise opens, ? 2, + 2, ? 1, + 1").keeps == "opens"
    assert said("? 1, promise opens").keeps == "every"


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_of_a_prefix_what_is_lost_stands_before_what_is_there(acked, there):
    history = said(", ".join(["promise prefix", *(f"? {n}" for n in range(31))]))
    history = replace(history, acked=np.array(sorted(acked)), ack_ns=np.full(len(acked), 5))
    (*told,) = check_operations(
        history, 10**6, found(", ".join(f"= {number}" for number in sorted(there)))
    )
    lost = {number for one in told for span in one.lsns for number in span}
    assert lost == {number for number in acked - there if number < max(there, default=0)}


def test_a_control_is_judged_by_every_ack():
    weak = ProgramPromises(said(f"promise opens, {FIVE}"))
    claims, nothing = weak.claims_at(10**6), Observation((), lines=b"")
    assert weak.check(claims, nothing) == ()
    (lost,) = weak.of_every_ack().check(claims, nothing)
    assert (lost.kind, [str(span) for span in lost.lsns]) == (K.LOST, ["1-2", "4"])


def test_an_unfinished_operation_that_is_called_wrong_is_told_with_its_remedy():
    (told,) = check_operations(said("? 1, + 1, ? 2"), 10**6, found("= 1, x 2 half a line"))
    assert "the check calls 2 wrong (2: half a line), which was never acknowledged" in told.message
    assert "have `run` say `atomic`" in told.message


def test_a_check_that_fails_leaves_nothing_out_that_counts():
    found_by = judged("? 1, + 1", "", complete=False, failure="status 3")
    assert found_by == [(K.INCOMPLETE, "INCONCLUSIVE", [])]
    assert (K.NOT_RECOVERED, "LOSSY", []) in judged(
        "? 1, + 1", "bad x", complete=False, failure="status 1"
    )


def test_what_is_required_depends_on_the_instant():
    history = said("? 1, + 1, ? 2, + 2")  # at 10, 20, 30, 40
    assert [sorted(history.acked_before(t)) for t in (20, 21, 40, 41)] == [[], [1], [1], [1, 2]]
    assert [sorted(history.attempted_before(t)) for t in (10, 11, 31)] == [[], [1], [1, 2]]
    assert [history.required(t) for t in (20, 21, 41)] == [None, LsnRange(1, 1), LsnRange(1, 2)]
    assert judged("? 1, + 1, ? 2, + 2", "= 1", instant=40) == []
    assert judged("? 1, + 1, ? 2, + 2", "= 1", instant=41) == [(K.LOST, "LOSSY", ["2"])]


@pytest.mark.parametrize(("instant", "last", "lost"), [(40, 1, []), (41, 2, ["2"])])
def test_a_run_has_promised_what_it_acknowledged_before_the_instant(instant, last, lost):
    promises = ProgramPromises(said("? 1, + 1, ? 2, + 2"))
    claims = promises.claims_at(instant)
    assert (claims.required, claims.attempted) == ((LsnRange(1, last),), 2)
    findings = promises.check(claims, Observation((), lines=b"= 1\n"))
    assert [str(span) for finding in findings for span in finding.lsns] == lost


def test_a_mount_that_was_not_tried_to_its_end_convicts_nobody():
    promises = ProgramPromises(said("? 1, + 1"))
    claims = promises.claims_received()
    for complete, expected in (
        (True, (K.NOT_RECOVERED, "LOSSY")),
        (False, (K.INCOMPLETE, "INCONCLUSIVE")),
    ):
        seen = Observation((), recovered=False, complete=complete, failure="no memory")
        (finding,) = promises.check(claims, seen)
        assert (finding.kind, finding.verdict.name) == expected
    assert promises.difference(claims, seen).missing == ()
    assert promises.difference(claims, Observation(())).missing == (LsnRange(1, 1),)


def test_an_attempt_that_is_announced_late_convicts_nobody():
    """No disk returns what was not yet written: the program has said it too late."""
    for instant in (21, 30):
        late = judged("? 1, + 1, ? 2, + 2", "= 1-2", instant=instant)
        assert late == [(K.INCOMPLETE, "INCONCLUSIVE", [])]
    assert judged("? 1, + 1, ? 2, + 2", "= 1-2", instant=31) == []
    assert judged("? 1, + 1, ? 2, + 2", "= 1-3", instant=21) == [
        (K.NEVER_ATTEMPTED, "LOSSY", ["3"]),
        (K.INCOMPLETE, "INCONCLUSIVE", []),
    ]


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        ("? 1, + 1, + 1", "twice"),
        ("+ 1", "never tried"),
        ("? 1, - 1, + 1", "has failed"),
        ("? 1, + 1, ? 1", "again"),
        ("? 1, + 1, - 1", "takes back"),
        ("! disk full", "disk full"),
        ("hello", "no line"),
    ],
)
def test_impossible_claims_are_trouble_and_require_nothing_more(lines, trouble):
    history = said(lines)
    assert len(history.trouble) == 1
    assert trouble in history.trouble[0]
    assert history.acked_before(10**6) <= {1}
    assert ("+ 1" in lines.split(", ")[:2]) >= bool(history.acked_before(10**6))


def test_what_comes_after_an_impossible_claim_and_after_the_cut_counts_all_the_same():
    history = said("? 1, + 1, + 1, ? 2, + 2")
    assert (len(history.trouble), sorted(history.acked_before(10**6))) == (1, [1, 2])
    late = history_of([Packet(50, b"+ 9\n"), Packet(10, b"? 1\n"), Packet(20, b"+ 1\n")], 40)
    assert (late.trouble, sorted(late.acked_before(10**6))) == ((), [1])


def test_a_failed_operation_may_be_tried_again():
    history = said("? 1, - 1, ? 1, + 1")
    assert (history.trouble, sorted(history.acked_before(10**6))) == ((), [1])


def test_claims_after_the_cut_were_never_made():
    packets = [
        Packet(10, b"? 1\n"),
        Packet(20, b"+ 1\n"),
        Packet(30, b"? 2\n"),
        Packet(40, b"+ 2\n"),
    ]
    assert sorted(history_of(packets, 40).acked_before(10**6)) == [1]


def test_an_attempt_that_is_announced_after_the_cut_was_made():
    """The clock of the lines may be ahead: what is there was tried; its ack requires nothing."""
    packets = [Packet(10, b"? 1\n"), Packet(50, b"? 2\n"), Packet(60, b"+ 2\n")]
    history = history_of(packets, 40)
    assert history.names == {1, 2}
    assert sorted(history.acked_before(10**6)) == []


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_by_definition(tried, acked, there):
    acked &= tried
    order = np.array(sorted(tried), dtype=np.int64)
    acks = np.array(sorted(acked), dtype=np.int64)
    history = OperationHistory(
        order, np.zeros(len(order), np.int64), acks, np.ones(len(acks), np.int64)
    )
    findings = check_operations(
        history, 10, Sighting(tuple(LsnRange(one, one) for one in sorted(there)))
    )
    by_kind = {finding.kind: {lsn for span in finding.lsns for lsn in span} for finding in findings}
    assert by_kind.get(K.LOST, set()) == acked - there
    assert by_kind.get(K.NEVER_ATTEMPTED, set()) == there - tried
    assert set(by_kind) <= {K.LOST, K.NEVER_ATTEMPTED}
    assert all(finding.verdict is Verdict.LOSSY for finding in findings)


def test_a_program_that_acknowledges_without_trying_is_not_convicted_by_its_silence():
    assert judged("+ 1", "= 1") == [(K.NEVER_ATTEMPTED, "INCONCLUSIVE", ["1"])]


@pytest.mark.parametrize(
    ("check", "instant", "expected"),
    [
        ("= 1-2", 25, []),  # 2 is announced at 30, and may have been tried long before
        ("= 2", 10**6, [(K.LOST, "LOSSY", ["1"])]),
        ("= 1-3", 10**6, [(K.NEVER_ATTEMPTED, "INCONCLUSIVE", ["3"])]),  # on its way at the cut
    ],
)
def test_claims_that_count_from_their_receipt(check, instant, expected):
    history = replace(said("? 1, + 1, ? 2"), by_receipt=True)
    findings = check_operations(history, instant, found(check))
    assert [(f.kind, f.verdict.name, [str(span) for span in f.lsns]) for f in findings] == expected
