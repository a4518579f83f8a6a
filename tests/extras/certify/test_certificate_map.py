# SPDX-License-Identifier: Apache-2.0
"""Cells become rows and columns: every one has its place, and what is missing shows."""

from __future__ import annotations

from collections import Counter

import pytest
from certificate_maker import cell_of, cells_of_yaml

from powercut.model.verdict import Verdict
from powercut.paths import SCENARIOS
from powercut_extras.certify.certificate import CertifiedCell
from powercut_extras.certify.heatmap import COLUMNS_MAX, ROWS_MAX, HeatMap, lay_out

HEAD = "powercut: 1\nname: some\ndescription: d\n"


def maps_of(cells: list[CertifiedCell], **order: list[str]) -> tuple[HeatMap, ...]:
    return lay_out(list(enumerate(cells)), order).maps


def numbers(maps: tuple[HeatMap, ...]) -> Counter[int]:
    return Counter(
        spot.index
        for one in maps
        for row in one.rows
        for field in row.fields
        for spot in field.spots
    )


def row_texts(one: HeatMap) -> list[tuple[str, ...]]:
    return [tuple(head.text for head in row.heads) for row in one.rows]


def test_a_product_has_the_cache_modes_in_its_columns():
    cells = cells_of_yaml(
        HEAD + "matrix:\n  machine.bus: [virtio-blk, ide]\n  filesystem.type: [ext4, raw]\n"
        "  machine.cache: [none, directsync, unsafe]\n"
    )
    (one,) = maps_of(cells)
    assert one.column_axes == ("cache mode",)
    assert [head.text for head in one.column_heads[0]] == ["none", "directsync", "unsafe"]
    assert one.row_axes == ("bus", "file system")
    assert row_texts(one) == [("virtio-blk", "ext4"), ("raw",), ("ide", "ext4"), ("raw",)]
    assert [row.heads[0].span for row in one.rows] == [2, 1, 2, 1]
    assert numbers((one,)) == Counter(range(12))
    assert not one.summarised


def test_the_order_of_values_is_that_of_the_certificate():
    cells = cells_of_yaml(
        HEAD + "matrix:\n  machine.cache: [none, unsafe, writeback]\n  trials: [1]"
    )
    (one,) = lay_out(list(enumerate(cells)), {"machine.cache": ["unsafe", "writeback"]}).maps
    assert row_texts(one) == [("unsafe",), ("writeback",), ("none",)]


def test_a_combination_without_a_cell_was_not_tested():
    cells = cells_of_yaml(
        HEAD + "matrix:\n  machine.bus: [virtio-blk, ide]\n  machine.cache: [none, unsafe]\n"
        "  exclude:\n    - {machine.bus: ide, machine.cache: unsafe}\n"
    )
    (one,) = maps_of(cells)
    assert [[len(field.spots) for field in row.fields] for row in one.rows] == [[1, 1], [1, 0]]
    assert one.rows[1].fields[1].worst is None


def test_named_cells_that_differ_at_will_are_rows_by_name():
    cells = cells_of_yaml(
        HEAD + "cells:\n  - {name: one, machine.bus: ide, disk.flush: ignored}\n"
        "  - {name: two, machine.format: qcow2}\n  - {name: three, machine.cache: unsafe}\n"
    )
    (one,) = maps_of(cells)
    assert one.row_axes == ("cell",)
    assert row_texts(one) == [("one",), ("two",), ("three",)]
    assert one.columns == 1


def test_settings_that_follow_from_a_name_are_no_axes():
    cells = cells_of_yaml(
        HEAD + "cells:\n  - {name: xfs, filesystem.type: xfs}\n"
        "  - {name: raw, filesystem.type: raw, workload.direct: true, workload.record: 4096,"
        " workload.align: 4096}\nmatrix:\n  machine.cache: [none, directsync]\n"
    )
    layout = lay_out(list(enumerate(cells)), {})
    assert layout.axes == ("cell", "machine.cache")
    assert row_texts(layout.maps[0]) == [("xfs",), ("raw",)]


def test_names_that_the_matrix_makes_needless_are_no_axis():
    cells = cells_of_yaml(
        HEAD + "cells:\n  - {name: passes}\n  - {name: drops, expect: lossy}\nmatrix:\n"
        "  machine.cache: [none, unsafe]\n  machine.bus: [virtio-blk, ide]\n  exclude:\n"
        "    - {cell: passes, machine.cache: unsafe}\n    - {cell: drops, machine.cache: none}\n"
    )
    assert lay_out(list(enumerate(cells)), {}).axes == ("machine.bus", "machine.cache")


def test_many_rows_become_a_map_for_each_value_of_the_first():
    buses = "[virtio-blk, virtio-scsi, virtio-scsi-fua, nvme, ide, ahci, usb-storage]"
    cells = cells_of_yaml(
        HEAD + f"matrix:\n  machine.bus: {buses}\n  filesystem.type: [xfs, ext4]\n"
        "  workload.sync: [fsync, fdatasync, o_dsync, o_sync]\n"
        "  machine.cache: [none, writeback, writethrough, directsync]\n"
    )
    maps = maps_of(cells)
    assert len(cells) == 7 * 2 * 4 * 4
    assert [one.title for one in maps][:2] == ["bus virtio-blk", "bus virtio-scsi"]
    assert len(maps) == 7
    assert all(len(one.rows) <= ROWS_MAX for one in maps)
    assert numbers(maps) == Counter(range(len(cells)))


def test_many_columns_go_on_below():
    sizes = ", ".join(str(64 * n) for n in range(1, 31))
    cells = cells_of_yaml(
        HEAD + f"matrix:\n  workload.record: [{sizes}]\n  workload.batch: [1, 2]\n"
    )
    maps = maps_of(cells)
    assert all(one.columns <= COLUMNS_MAX for one in maps)
    assert numbers(maps) == Counter(range(60))


def test_a_covering_array_is_summarised_by_pairs():
    cells = cells_of_yaml(
        HEAD + "matrix:\n  strategy: pairwise\n  machine.bus: [virtio-blk, nvme, ide]\n"
        "  filesystem.type: [xfs, ext4, raw]\n  workload.sync: [fsync, fdatasync, o_dsync]\n"
        "  machine.cache: [none, writeback, directsync]\n  cut.policy: [drop, keep, random]\n"
    )
    assert len(cells) < 30  # of 243
    (one,) = maps_of(cells)
    assert one.summarised
    assert one.column_axes == ("cache mode",)
    assert [row.heads[0].text for row in one.rows if len(row.heads) == 2] == [
        "bus",
        "file system",
        "sync mode",
        "cut policy",
    ]
    # Each cell stands once under each of the other settings, and no pair is missing.
    assert numbers((one,)) == Counter(dict.fromkeys(range(len(cells)), 4))
    assert all(field.spots for row in one.rows for field in row.fields)


def test_a_field_shows_its_worst():
    base = cell_of("a", Verdict.SAFE)
    from powercut_extras.certify.cell_settings import Spot
    from powercut_extras.certify.heatmap import MapField

    field = MapField(
        (
            Spot(0, base, {}),
            Spot(1, cell_of("b", Verdict.LOSSY, expected_lossy=True), {}),
            Spot(2, cell_of("c", Verdict.LOSSY), {}),
            Spot(3, cell_of("d", Verdict.INCONCLUSIVE), {}),
        )
    )
    assert field.worst is not None
    assert field.worst.index == 2  # of the lossy ones that which nobody expected
    assert field.counts == ((Verdict.LOSSY, 2), (Verdict.INCONCLUSIVE, 1), (Verdict.SAFE, 1))
    assert field.surprise


@pytest.mark.parametrize("name", ["certify", "matrix", "lying", "cuts"])
def test_every_cell_of_the_published_scenarios_has_its_place(name: str):
    files = sorted((SCENARIOS / name).rglob("*.yaml"))
    assert files
    for path in files:
        cells = cells_of_yaml(path.read_text())
        layout = lay_out(list(enumerate(cells)), {})
        found = numbers(layout.maps)
        assert set(found) == set(range(len(cells))), path
        if not any(one.summarised for one in layout.maps):
            assert set(found.values()) == {1}, path
            assert set(layout.families) == set(range(len(cells))), path
