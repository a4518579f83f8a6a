# SPDX-License-Identifier: Apache-2.0
"""What every workload has to keep to its port: WAL, anybody's program, and a fake.  No VM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import pytest
from handmade import Handmade, history

from powercut.model.observation import Extent, Observation
from powercut.model.operations import Packet
from powercut.model.units import NEVER
from powercut.model.verdict import FindingKind, Verdict
from powercut.scenario.choices import ControlKind
from powercut.scenario.settings import Parameters
from powercut.scenario.settings_workload import KINDS
from powercut.scenario.workloads import WORKLOADS, WorkloadRow
from powercut.wal.layout import SlotState
from powercut.workload.port import (
    AcksByLines,
    AcksByWire,
    Contents,
    Continues,
    HasUnsyncedTwin,
    Promises,
    Recognised,
    Run,
    Workload,
)
from powercut.workload.program.workload import ProgramWorkload
from powercut.workload.table import workload_of

RUN = Run(bytes(range(16)), 7)
RECORD = 512
CUT = 1_000
PROGRAM = Parameters.model_validate(
    {"workload": {"kind": "program", "command": ["./prog", "--fast"], "folder": "/somewhere"}}
)
WAL = Parameters.model_validate({"workload": {"record": RECORD}})


class FakeWorkload(ProgramWorkload):
    """A workload from elsewhere, by a table entry of its own."""

    def argv(self, verb: str, folder: str = "/data") -> tuple[str, ...]:
        return ("/bin/fake", verb, folder)


@dataclass(frozen=True)
class Backend:
    """A kind of workload: acks (number, instant) of what was all tried at 1; what came back."""

    name: str
    parameters: Parameters
    promises: Callable[[Workload, Sequence[tuple[int, int]], int], Promises]
    back: Callable[..., Observation]


def _by_wire(workload: Workload, acks: Sequence[tuple[int, int]], tried: int) -> Promises:
    assert isinstance(workload, AcksByWire)
    timeline = Handmade(disk_size=1 << 20).timeline(cut_at=CUT)
    return workload.promises_by_wire(RUN, timeline, history(acks, [(tried, 1)]))


def _records(numbers: Sequence[int], **more: object) -> Observation:
    extents = tuple(Extent(lsn - 1, 1, SlotState.INTACT, lsn) for lsn in numbers)
    return Observation(extents, **more)  # type: ignore[arg-type]  # as the keywords have it


def _by_lines(workload: Workload, acks: Sequence[tuple[int, int]], tried: int) -> Promises:
    assert isinstance(workload, AcksByLines)
    packets = [Packet(1, f"? {number}\n".encode()) for number in range(1, tried + 1)]
    packets += [Packet(at, f"+ {number}\n".encode()) for number, at in acks]
    return workload.promises_by_lines(packets, CUT)


def _operations(numbers: Sequence[int], **more: object) -> Observation:
    lines = "".join(f"= {number}\n" for number in numbers).encode()
    return Observation((), lines=lines, **more)  # type: ignore[arg-type]  # as the keywords have it


BACKENDS = [
    Backend("wal", WAL, _by_wire, _records),
    Backend("program", PROGRAM, _by_lines, _operations),
    Backend("fake", PROGRAM, _by_lines, _operations),
]
ACKS = [(1, 10), (2, 20), (3, 30)]


@pytest.fixture(params=BACKENDS, ids=[backend.name for backend in BACKENDS])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    made: Backend = request.param
    if made.name == "fake":
        place = WORKLOADS["program"].settings
        monkeypatch.setitem(WORKLOADS, "program", WorkloadRow(place, f"{__name__}:FakeWorkload"))
    return made


@pytest.fixture
def workload(backend: Backend) -> Workload:
    return workload_of(backend.parameters)


@pytest.fixture
def promises(backend: Backend, workload: Workload) -> Promises:
    return backend.promises(workload, ACKS, 4)


def kinds(findings: Sequence[object]) -> set[tuple[FindingKind, Verdict]]:
    return {(finding.kind, finding.verdict) for finding in findings}  # type: ignore[attr-defined]


def test_every_kind_of_settings_has_a_workload_and_no_other() -> None:
    assert set(WORKLOADS) == set(KINDS)
    for kind, settings in KINDS.items():
        assert settings.model_fields["kind"].annotation is not None
        assert get_args(settings.model_fields["kind"].annotation) == (kind,)


def test_it_follows_from_the_settings_and_these_outlive_json(
    backend: Backend, workload: Workload
) -> None:
    again = Parameters.model_validate_json(backend.parameters.model_dump_json())
    assert again == backend.parameters
    assert workload.settings == backend.parameters.workload
    assert workload_of(again).writer(RUN) == workload.writer(RUN)
    assert workload_of(again).reader(RUN) == workload.reader(RUN)


def test_its_command_lines_have_a_program_first_and_no_empty_word(workload: Workload) -> None:
    for argv in (workload.writer(RUN), workload.reader(RUN)):
        assert argv[0].startswith("/")
        assert all(argv)
    assert workload.writer(RUN) != workload.reader(RUN)


def test_its_contents_tell_runs_apart_or_its_command_lines_do(workload: Workload) -> None:
    other = Run(bytes(16), 8)
    contents: Contents = workload.contents(RUN)
    assert (contents, workload.writer(RUN)) != (workload.contents(other), workload.writer(other))
    if contents.environment:
        assert contents.start.startswith("/")
        assert all("=" in pair for pair in contents.environment)


def test_its_claims_come_in_one_way(workload: Workload) -> None:
    assert isinstance(workload, AcksByWire) != isinstance(workload, AcksByLines)
    assert 0 < workload.recovery_s < 3600


def test_controls_change_nothing_but_what_they_must(workload: Workload) -> None:
    for kind in (ControlKind.LYING_DISK, ControlKind.HONEST):
        assert type(workload.control(kind)) is type(workload.settings)
    assert workload.control(ControlKind.LYING_DISK) == workload.settings  # it plants nothing
    if isinstance(workload, HasUnsyncedTwin):
        assert workload.unsynced() != workload.settings


def test_going_on_is_a_command_line_of_the_same_program(workload: Workload) -> None:
    if isinstance(workload, Continues):
        assert workload.continuation(RUN, 5).command[0] == workload.writer(RUN)[0]
        assert workload.continuation(RUN, 5) != workload.continuation(RUN, 6)


def test_nothing_is_required_before_the_first_ack_and_all_after_the_last(
    promises: Promises,
) -> None:
    assert (promises.acked, promises.attempted, promises.gaps) == (3, 4, ())
    assert promises.claims_at(10).required == ()
    counts = [sum(len(span) for span in promises.claims_at(t).required) for t in (11, 21, 31)]
    assert counts == [1, 2, 3]
    assert promises.claims_at(CUT).required == promises.claims_received().required
    assert promises.claims_at(CUT).attempted == 4
    assert promises.requirements.ack_ns.tolist() == [10, 20, 30]
    assert promises.start_ns == 1


def test_all_that_was_promised_is_nothing_to_find(backend: Backend, promises: Promises) -> None:
    for back in ([1, 2, 3], [1, 2, 3, 4]):  # what was tried and not acknowledged may be either
        assert promises.check(promises.claims_at(CUT), backend.back(back)) == ()


def test_what_was_promised_and_is_gone_is_lost_by_number(
    backend: Backend, promises: Promises
) -> None:
    (finding,) = promises.check(promises.claims_at(CUT), backend.back([1]))
    assert (finding.kind, finding.verdict) == (FindingKind.LOST, Verdict.LOSSY)
    assert [lsn for span in finding.lsns for lsn in span] == [2, 3]
    assert promises.check(promises.claims_at(11), backend.back([1])) == ()


def test_what_nobody_tried_and_is_there_is_a_phantom(backend: Backend, promises: Promises) -> None:
    found = promises.check(promises.claims_at(CUT), backend.back([1, 2, 3, 4, 5]))
    assert (FindingKind.NEVER_ATTEMPTED, Verdict.LOSSY) in kinds(found)


def test_a_reader_that_did_not_finish_loses_nothing_and_acquits_nothing(
    backend: Backend, promises: Promises
) -> None:
    seen = backend.back([], complete=False, failure="no memory")
    assert kinds(promises.check(promises.claims_at(CUT), seen)) == {
        (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)
    }


def test_a_system_that_does_not_come_back_has_not_recovered(
    backend: Backend, promises: Promises
) -> None:
    seen = Observation((), recovered=False, failure="does not mount")
    assert kinds(promises.check(promises.claims_at(CUT), seen)) == {
        (FindingKind.NOT_RECOVERED, Verdict.LOSSY)
    }


def test_only_the_log_of_our_own_is_recognised_in_writes(
    backend: Backend, promises: Promises
) -> None:
    assert isinstance(promises, Recognised) == (backend.name == "wal")


def test_claims_after_the_cut_do_not_count(backend: Backend, workload: Workload) -> None:
    if isinstance(workload, AcksByLines):
        late = backend.promises(workload, [*ACKS, (4, CUT + 1)], 4)
        assert late.claims_at(int(NEVER)).required == late.claims_at(31).required


def test_a_check_is_believed_only_if_it_finds_nothing_where_nothing_was_tried(
    backend: Backend, workload: Workload
) -> None:
    if isinstance(workload, AcksByLines):
        assert workload.check_untouched(backend.back([])) == ()
        for seen in (backend.back([1]), backend.back([], complete=False, failure="no")):
            doubts = workload.check_untouched(seen)
            assert {doubt.verdict for doubt in doubts} == {Verdict.INCONCLUSIVE}
        assert workload.same(backend.back([1, 2]), backend.back([2, 1]))
        assert not workload.same(backend.back([1]), backend.back([2]))
