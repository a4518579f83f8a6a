# SPDX-License-Identifier: Apache-2.0
"""What a time line is drawn from: bounded, and nothing in it that a page would read as its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from runs_by_hand import RECORDS, make_run

from powercut.cli.commands import cli
from powercut.crash.states import CrashState, StateSpace
from powercut.model.timeline import RequestKind
from powercut.model.verdict import LsnRange
from powercut.report.difference import difference_lines
from powercut.store.exploration import COLUMNS, ROWS, ExploreResult, MapField, StateMap
from powercut.store.trial_dir import TrialDir
from powercut.witness.search import Drop
from powercut_extras.audit.picture import Picture
from powercut_extras.audit.stored import Audit, AuditedPromise, PromiseKind, Worth, read_audit
from powercut_extras.pages.timeline import data as made
from powercut_extras.pages.timeline.data import embedded, timeline_json, window_json
from powercut_extras.pages.timeline.names import FileRow
from powercut_extras.pages.timeline.pictures import pictures_json
from powercut_extras.pages.timeline.source import Source, source_at

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\u2028"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose states were explored and whose flushes were audited."""
    place = make_run(tmp_path_factory.mktemp("results")).path / "cells/honest/0001"
    for words in (["explore", "--budget", "40"], ["audit", "flushes"]):
        done = CliRunner().invoke(cli, [*words, str(place)])
        assert done.exception is None, done.output
    return place


def test_data_in_a_page_has_nothing_that_html_reads() -> None:
    held = embedded({"name": HOSTILE, "and": "<!-- & -->"})
    assert not set("<>&\u2028") & set(held)
    assert json.loads(held)["name"] == HOSTILE


class Numbers:
    """Requests without names."""

    def lane(self, request: int) -> str:
        return f"file {request % 50}"

    def told(self, request: int) -> str:
        return f"request {request}"

    def missing(self, state: CrashState, drops: Sequence[Drop]) -> Iterator[tuple[str, str]]:
        yield from ()

    def files(self, state: CrashState) -> list[FileRow]:
        return []


def long(source: Source, requests: int) -> Source:
    """The same with so many requests, each of them flushed by the next one but one."""
    kinds = np.resize(np.array([RequestKind.WRITE, RequestKind.FLUSH], dtype=np.uint8), requests)
    at = np.arange(requests, dtype=np.int64) * 100 + source.start_ns
    nothing = np.zeros(requests, dtype=np.int64)
    timeline = source.space.timeline
    many = replace(
        timeline.requests, kind=kinds, fua=np.zeros(requests, dtype=np.bool_), offset=nothing,
        length=np.where(kinds == RequestKind.WRITE, 4096, 0), submitted_ns=at, completed_ns=at + 60,
        data_offset=nothing - 1, failed=np.zeros(requests, dtype=np.bool_),
    )  # fmt: skip
    space = StateSpace(replace(timeline, requests=many, cut=None))
    return replace(source, space=space, names=Numbers(), end_ns=int(at[-1]) + 100, states=())


def audit_of(source: Source) -> Audit:
    found = read_audit(TrialDir(source.path, source.path))
    assert found is not None
    return found


def many_promises(source: Source) -> Picture:
    """An audit of every flush of a long recording."""
    promise = AuditedPromise(
        request=0, kind=PromiseKind.FLUSH, at_ms=0.0, took_us=1.0, worth=Worth.CARRIES, hanging=1,
        hanging_bytes=4096, holds=("records of the log",), lsns=(LsnRange(1, 9),),
    )  # fmt: skip
    flushes = range(1, len(source.lanes.of), 2)
    promises = tuple(promise.model_copy(update={"request": one}) for one in flushes)
    return Picture(audit_of(source).model_copy(update={"promises": promises}))


def explored_everywhere(source: Source) -> tuple[tuple[str, ExploreResult], ...]:
    """An exploration with states in every field of its map."""
    ((title, seen),) = source.explored
    every = tuple(
        MapField(column=place // ROWS, row=place % ROWS, states=10**6, lossy=10**5)
        for place in range(COLUMNS * ROWS)
    )
    drawn = StateMap(begin=source.start_ns, end=source.end_ns, fields=every)
    return ((title, seen.model_copy(update={"map": drawn})),)


def test_a_long_recording_makes_a_bounded_page(honest: Path) -> None:
    requests = 100_000
    source = long(source_at(honest), requests)
    source = replace(source, audit=many_promises(source), explored=explored_everywhere(source))
    whole = timeline_json(source, difference_lines)
    assert all(not lane["marks"] for lane in whole["pictures"]["audit"]["lanes"])
    assert len(whole["pictures"]["maps"][0]["fields"]) == COLUMNS * ROWS
    assert len(embedded(whole)) < 2_000_000
    assert sum(lane["count"] for lane in whole["lanes"]) == requests
    assert all(len(one["requests"]) <= made.REQUESTS_MAX for one in whole["windows"])
    part: dict[str, Any] = window_json(source, 5_000_000, 5_010_000)
    assert part["left_off"] == 0
    assert part["issued"] == 25_000
    first, last = part["requests"][0], part["requests"][-1]
    assert (first[0], last[0]) == (50_000, 50_099)
    whole_window = window_json(source, 0, source.end_ns - source.start_ns)
    assert len(whole_window["requests"]) == made.REQUESTS_MAX
    assert whole_window["left_off"] == requests - made.REQUESTS_MAX


def test_an_audit_of_a_stranger_is_drawn_within_bounds(honest: Path, tmp_path: Path) -> None:
    """Ranges without end cost nothing; one of another recording is not drawn."""
    folder = tmp_path / "run/cells/honest/0001"
    shutil.copytree(honest, folder)
    whole = source_at(folder)
    first = audit_of(whole).promises[0].model_copy(update={"lsns": (LsnRange(1, 10**18),)})
    audit = audit_of(whole).model_copy(update={"promises": (first,)})
    drawn = pictures_json(replace(whole, audit=Picture(audit)))["audit"]
    assert len(drawn["lanes"][0]["marks"][0][3]) == RECORDS
    other = audit.model_copy(update={"promises": (first.model_copy(update={"request": 999}),)})
    (folder / "audit.json").write_text(other.model_dump_json())
    assert source_at(folder).audit is None
    (folder / "audit.json").write_text("{}")
    broken = source_at(folder)
    assert broken.audit is None
    assert any("audit.json" in one for one in broken.problems)
