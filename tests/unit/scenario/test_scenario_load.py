# SPDX-License-Identifier: Apache-2.0
"""Mistakes in scenarios: all at once, each with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from powercut.model.errors import UsageError
from powercut.scenario.load import expand, load_scenario, parse_scenario
from powercut.scenario.settings import Expect, Layout, Parameters

HEAD = "powercut: 1\nname: one\n"


def mistakes(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, Path("f.yaml"))
    assert caught.value.exit_status == 2
    return str(caught.value).splitlines()


def cells(text: str, **options: object):
    return expand(parse_scenario(text, Path("f.yaml")), seed=7, **options).cells


def test_next_to_nothing_is_a_scenario():
    (cell,) = cells(HEAD)
    assert cell.name == "one"
    assert cell.parameters == Parameters()
    assert cell.expect is Expect.SAFE
    assert len(cell.trials) == 1


def test_every_mistake_is_reported_with_its_place():
    assert mistakes(
        "powercut: 1\n"
        "name: First\n"
        "cutt: {}\n"
        "deadline: 60\n"
        "workload:\n"
        "  sync: fdatsync\n"
        "  recrod: 512\n"
        "  record: 100\n"
        "cut:\n"
        "  trigger: {acks: 3, after: 3s}\n"
        "matrix:\n"
        "  sync: [none]\n"
        "  machine.cache: none\n"
    ) == [
        "f.yaml:2:1: name: String should match pattern '^[a-z0-9][a-z0-9-]{0,63}$', got \"First\"",
        "f.yaml:3:1: cutt: unknown key; did you mean cut?",
        'f.yaml:4:1: deadline: a duration needs its unit, such as "300ms", got 60',
        "f.yaml:6:3: workload.sync: should be one of none, fsync, fdatasync, o_dsync, o_sync, "
        'rwf_dsync, alternate, got "fdatsync"; did you mean fdatasync?',
        "f.yaml:7:3: workload.recrod: unknown key; did you mean record?",
        "f.yaml:8:3: workload.record: a record is made of chunks of 64 bytes: write a multiple "
        "of 64, got 100",
        "f.yaml:10:3: cut.trigger: give exactly one of after, acks, flushes, random, moving, got "
        '{"acks": 3, "after": "3s"}',
        "f.yaml:12:3: matrix.sync: unknown setting; did you mean workload.sync?",
        'f.yaml:13:3: matrix.machine.cache: should be a list of values, got "none"',
    ]


def test_a_mistake_in_a_cell_or_an_axis_points_there():
    assert mistakes(
        HEAD
        + "cells:\n"
        + "  - name: a\n"
        + "    disk.flush: ignord\n"
        + "  - name: b\n"
        + "matrix:\n"
        + "  machine.cache: [none, writebak]\n"
    ) == [
        "f.yaml:5:5: cells.0.disk.flush: should be one of honoured, ignored, got "
        '"ignord"; did you mean ignored?',
        "f.yaml:8:25: matrix.machine.cache.1: should be one of none, writeback, writethrough, "
        'directsync, unsafe, got "writebak"; did you mean writeback?',
    ]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a: [", r"^f\.yaml:\d+:\d+: not valid YAML: "),
        ("a: 1\na: 2\n", r"^f\.yaml:2:1: not valid YAML: found duplicate key"),
        ("- 1\n", r"^f\.yaml:1:1: a scenario is a mapping"),
        ("", r"^f\.yaml:1:1: a scenario is a mapping"),
        ("name: x\n", r"the key 'powercut' is missing$"),
        ("powercut: 2\nname: x\n", r"^f\.yaml:1:1: powercut: should be 1, got 2$"),
        (HEAD + "trials: 0\n", r"^f\.yaml:3:1: trials: "),
        (HEAD + "trials: true\n", r"^f\.yaml:3:1: trials: "),
        (HEAD + "workload: 3\n", r"^f\.yaml:3:1: workload: "),
        (HEAD + "cells: []\n", r"^f\.yaml:3:1: cells: should be a list of cells"),
        (HEAD + "cells: [{disk.flush: ignored}]\n", r"^f\.yaml:3:9: cells\.0: a cell needs a name"),
        (HEAD + "cells: [{name: a/b}]\n", r'a cell needs a name of .*, got "a/b"$'),
        (HEAD + "cells: [{name: a}, {name: a}]\n", r"two cells have the same name"),
        (
            HEAD + "cells: [{name: a, flush: ignored}]\n",
            r"flush: unknown setting; did you mean disk",
        ),
        (HEAD + "controls: [lying]\n", r'got "lying"; did you mean lying-disk\?$'),
        (HEAD + "workload: {plant: skip-sync}\n", r"write skip-sync:N, N from 1"),
        (HEAD + "workload: {plant: skip-snc:1}\n", r"did you mean skip-sync\?$"),
        (HEAD + "workload: {direct: 1}\n", r"workload\.direct: .*got 1$"),
        (HEAD + "cut: {trigger: {random: [5s, 1s]}}\n", r"the first moment comes after the second"),
        (HEAD + "cut: {trigger: {aks: 3}}\n", r"unknown key; did you mean acks\?$"),
    ],
)
def test_single_mistakes(text, pattern):
    assert any(re.search(pattern, line) for line in mistakes(text)), mistakes(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the scenario: No such file"):
        load_scenario(tmp_path / "nothing.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_scenario(tmp_path / "bytes.yaml")


def test_cells_times_matrix():
    made = cells(
        HEAD
        + "trials: 2\n"
        + "cells:\n"
        + "  - {name: xfs, filesystem.type: xfs}\n"
        + "  - {name: raw, filesystem.type: raw, expect: lossy, trials: 3}\n"
        + "matrix:\n"
        + "  workload.direct: [false, true]\n"
        + "  machine.cache: [none, writeback]\n"
        + "  exclude: [{cell: xfs, machine.cache: writeback}, {workload.direct: true, cell: raw}]\n"
    )
    assert [(cell.name, len(cell.trials), cell.expect.value) for cell in made] == [
        ("xfs,direct=no,cache=none", 2, "safe"),
        ("xfs,direct=yes,cache=none", 2, "safe"),
        ("raw,direct=no,cache=none", 3, "lossy"),
        ("raw,direct=no,cache=writeback", 3, "lossy"),
    ]
    assert made[2].parameters.workload.layout is Layout.RAW
    assert made[1].parameters.workload.direct


def test_include_keeps_what_matches_one_of_its_entries():
    made = cells(
        HEAD
        + "matrix:\n"
        + "  workload.streams: [1, 2, 4]\n"
        + "  workload.batch: [1, 8]\n"
        + "  include: [{workload.streams: 1}, {workload.streams: 4, workload.batch: 8}]\n"
    )
    assert [cell.name for cell in made] == [
        "streams=1,batch=1",
        "streams=1,batch=8",
        "streams=4,batch=8",
    ]


def test_an_entry_that_matches_nothing_and_a_matrix_that_leaves_nothing_are_mistakes():
    axis = HEAD + "matrix:\n  workload.streams: [1, 2]\n"
    assert mistakes(axis + "  exclude: [{workload.streams: 3}]\n") == [
        "f.yaml:5:13: matrix.exclude.0: matches no cell, so that it excludes nothing"
    ]
    assert mistakes(axis + "  exclude: [{workload.streams: 1}, {workload.streams: 2}]\n") == [
        "f.yaml:3:1: matrix: include and exclude leave no cell"
    ]


def test_axes_with_the_same_last_word_keep_their_whole_names():
    made = cells(
        HEAD
        + "matrix:\n"
        + "  disk.size: [64 MiB]\n"
        + "  disk.flush_latency: [0, 2ms]\n"
        + "  cut.trigger: [{acks: 3}, {random: [1ms, 2ms]}]\n"
    )
    assert made[3].name == "size=64MiB,flush_latency=2ms,trigger=random-1ms-2ms"


def test_only_selects_by_name_or_pattern():
    text = HEAD + "matrix:\n  workload.streams: [1, 2, 12]\n"
    assert [cell.name for cell in cells(text, only=["streams=1*"])] == ["streams=1", "streams=12"]
    assert [cell.name for cell in cells(text, only=["streams=1"])] == ["streams=1"]
    with pytest.raises(UsageError, match=r"no cell 'streams=3'; did you mean streams="):
        cells(text, only=["streams=1", "streams=3"])


def test_a_cut_that_leaves_the_power_on_keeps_the_cache():
    (cell,) = cells(HEAD + "cut: {kind: vm-kill}\n")
    assert cell.parameters.cut.policy.value == "keep"
    # Also where the kind comes from the cell, the trigger from the scenario.
    (cell,) = cells(HEAD + "cut: {trigger: {acks: 5}}\ncells: [{name: a, cut.kind: guest-crash}]\n")
    assert cell.parameters.cut.policy.value == "keep"
    assert cell.parameters.cut.trigger.acks == 5


def test_the_base_may_need_what_only_its_cells_say():
    (cell,) = cells(
        HEAD
        + "filesystem: {type: raw}\nworkload: {layout: append}\n"
        + "cells: [{name: a, filesystem.type: ext4}]\n"
    )
    assert cell.parameters.workload.layout is Layout.APPEND


def test_what_is_written_back_reads_the_same():
    (cell,) = cells(HEAD + "workload: {think: 3us, record: 1 KiB}\ncontrols: none\ntrials: 4\n")
    text = cell.parameters.model_dump_json()
    assert Parameters.model_validate_json(text) == cell.parameters
    assert '"think":"3us"' in text
    assert '"controls":"none"' in text
