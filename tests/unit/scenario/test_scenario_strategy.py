# SPDX-License-Identifier: Apache-2.0
"""`matrix.strategy`: which combinations become cells, and what becomes of the others."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from powercut.model.errors import UsageError
from powercut.scenario.choose import Strategy
from powercut.scenario.load import parse_scenario

HEAD = "powercut: 1\nname: test\n"
AXES = {
    "machine.cache": ["none", "writeback", "writethrough", "directsync"],
    "workload.engine": ["pwrite", "libaio", "io_uring"],
    "workload.direct": [False, True],
    "filesystem.type": ["xfs", "ext4", "raw"],
}


def matrix(**more: str) -> str:
    lines = [f"  {key}: {values}".replace("'", "") for key, values in AXES.items()]
    lines += [f"  {key}: {value}" for key, value in more.items()]
    return HEAD + "matrix:\n" + "\n".join(lines).replace("False", "false").replace("True", "true")


def parse(text: str, **options):
    return parse_scenario(text, Path("test.yaml"), **options)


def test_without_a_strategy_what_cannot_be_is_a_mistake():
    with pytest.raises(UsageError, match="libaio is asynchronous with O_DIRECT only"):
        parse(matrix())


def test_a_product_leaves_out_what_cannot_be_and_counts_it():
    scenario = parse(matrix(strategy="product"))
    assert len(scenario.cells) == 4 * 3 * 2 * 3 - 12
    (entry,) = scenario.left_out
    assert entry.combinations == 12
    assert entry.settings == {"workload.engine": "libaio", "workload.direct": False}
    assert entry.reason.startswith("impossible: workload.engine: libaio")


def test_pairwise_has_every_pair_that_can_be():
    scenario = parse(matrix(strategy="pairwise"))
    product = parse(matrix(strategy="product"))

    def pairs(cells):
        return {
            pair
            for draft, _ in cells
            for pair in itertools.combinations(sorted(map(repr, draft.overrides.items())), 2)
        }

    assert pairs(scenario.cells) == pairs(product.cells)
    assert len(scenario.cells) < 20 < len(product.cells)
    impossible, rest = scenario.left_out
    assert impossible.combinations == 12
    assert rest.combinations == 60 - len(scenario.cells)
    assert rest.reason.startswith("pairwise: ")


def test_what_is_kept_of_a_run_names_the_cells_that_were_chosen():
    scenario = parse(matrix(strategy="pairwise"))
    again = parse(scenario.text)
    assert [d.name for d, _ in again.cells] == [d.name for d, _ in scenario.cells]
    assert [p for _, p in again.cells] == [p for _, p in scenario.cells]


def test_the_command_line_replaces_the_strategy():
    assert len(parse(matrix(strategy="pairwise"), strategy=Strategy.PRODUCT).cells) == 60


def test_exclude_and_include_are_counted():
    exclude = "[{machine.cache: none}, {filesystem.type: raw}]"
    scenario = parse(matrix(strategy="product", exclude=exclude))
    assert [(entry.settings, entry.combinations) for entry in scenario.left_out[:2]] == [
        ({"machine.cache": "none"}, 18),
        ({"filesystem.type": "raw"}, 24),
    ]
    scenario = parse(matrix(strategy="product", include="[{machine.cache: none}]"))
    assert scenario.left_out[0].combinations == 54
    assert len(scenario.cells) == 15


def test_mistakes():
    with pytest.raises(UsageError, match='should be one of product, pairwise, got "pairs"'):
        parse(matrix(strategy="pairs"))
    only = HEAD + "matrix:\n  strategy: pairwise\n  workload.engine: [libaio]\n"
    with pytest.raises(UsageError, match="no combination is possible: libaio"):
        parse(only)
    large = "\n".join(
        f"  {key}: [{', '.join(str(n) for n in range(1, 41))}]"
        for key in ("workload.streams", "workload.batch", "workload.records", "trials")
    )
    with pytest.raises(UsageError, match="has 2,560,000 combinations, more than 100,000"):
        parse(HEAD + "matrix:\n" + large)
