# SPDX-License-Identifier: Apache-2.0
"""The size of the house and its walls.  Every limit here only goes down.

What is measured and how: tests/support/house_rooms.py.  A change that needs room makes room: where
a figure has fallen, its limit follows, so that nobody takes what others have given up.
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from house_rooms import EXTRAS, ROOMS, TABLE, House, is_extra, read_table, room_of_folder

from powercut.paths import ROOT

CORE_LINES = 68_983
"""The goal is 62,000."""

LONGEST_CHAIN = 28
SLACK = 100
"""Lines that the core may have fewer than its limit before the limit has to follow."""

NAMES = {
    "model": 202, "scenario": 60, "host": 65, "crash": 55, "workload": 52, "disk": 55,
    "machine": 37, "recover": 78, "recording": 76, "judge": 16, "explore": 37, "run": 59,
    "report": 23, "cli": 0,
}  # fmt: skip
"""How many names of a room other rooms of the core import.  The goal is 25, but of `model`."""

NAMES_FOR_EXTRAS = 493
"""How many names of the core extras import."""

WRONG_WAY = {
    "later room": 45,
    "core of an extra": 0,
    "extra of another": 0,
}
"""Imports against the order of the rooms, of an extra by the core, and of an extra by another."""


@functools.cache
def house() -> House:
    return House(ROOT / "harness")


def wrong_way() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {kind: [] for kind in WRONG_WAY}
    for one in house().wrong:
        above, below = is_extra(one.importer.room), is_extra(one.imported.room)
        kind = "extra of another" if above else "core of an extra" if below else "later room"
        found[kind].append(f"{one.importer.name} imports {one.imported.name}")
    return found


def test_each_module_has_a_room() -> None:
    rooms = {module.room for module in house().modules.values()}
    assert {room for room in rooms if not is_extra(room)} <= set(ROOMS)


def test_the_table_has_what_has_not_moved_and_nothing_else() -> None:
    left = read_table()
    assert set(left) <= set(house().modules), f"{TABLE.name} names modules that are not there"
    at_home = [name for name, room in left.items() if room_of_folder(name) == room]
    assert not at_home, "their folder says it"


def test_the_core_gets_no_larger() -> None:
    lines = house().lines_of_core()
    assert lines <= CORE_LINES, f"the core has {lines:,} lines: make room first"
    assert lines > CORE_LINES - SLACK, f"the core has {lines:,} lines: lower CORE_LINES to that"


def test_no_more_names_leave_a_room() -> None:
    names = {room: len(house().taken_from(room)) for room in ROOMS}
    assert names == NAMES, "more than a limit: take less; fewer: lower the limit"
    assert len(house().taken_by_extras()) == NAMES_FOR_EXTRAS


@pytest.mark.parametrize("kind", WRONG_WAY)
def test_no_more_imports_go_the_wrong_way(kind) -> None:
    found = wrong_way()[kind]
    assert len(found) == WRONG_WAY[kind], "\n".join(found)


def test_the_longest_chain_of_imports_gets_no_longer() -> None:
    chain = house().longest_chain()
    assert len(chain) == LONGEST_CHAIN, " -> ".join(chain)


# --- the measure itself -------------------------------------------------------------------------


def made(tmp_path, files, planned=()):
    for name, text in files.items():
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return House(tmp_path, dict(planned))


def test_imports_are_seen_wherever_they_are(tmp_path) -> None:
    small = made(
        tmp_path,
        {
            "powercut.__init__": "",
            "powercut.crash.__init__": "",
            "powercut.crash.states": "A = B = 1\n",
            "powercut.run.__init__": "",
            "powercut.run.trial": (
                "import powercut.crash.states\nfrom powercut.crash import states\n"
                "def f():\n    from powercut.crash.states import A, B\n"
            ),
            "powercut.crash.late": "if True:\n    from powercut.run.trial import f\n",
            "powercut_extras.probe.verb": "from powercut.run.trial import f\n",
            "powercut_extras.pages.page": "from powercut_extras.probe.verb import f\n",
            "powercut.cli.probe": "from powercut_extras.probe import verb\n",
        },
    )
    assert small.taken_from("crash") == {
        "powercut.crash.states", "powercut.crash.states.A", "powercut.crash.states.B",
    }  # fmt: skip
    assert {(one.importer.name, one.imported.name) for one in small.wrong} == {
        ("powercut.crash.late", "powercut.run.trial"),
        ("powercut.cli.probe", "powercut_extras.probe.verb"),
        ("powercut_extras.pages.page", "powercut_extras.probe.verb"),
    }
    assert small.lines_of_core() == 8
    assert small.longest_chain() == [
        "powercut.cli.probe", "powercut_extras.probe.verb", "powercut.run.trial",
        "powercut.crash.states",
    ]  # fmt: skip


def test_a_module_that_has_not_moved_counts_for_its_room_to_be(tmp_path) -> None:
    files = {
        "powercut.rig.cell": "A = 1\n",
        "powercut.crash.states": "from powercut.rig.cell import A",
    }
    small = made(tmp_path, files, {"powercut.rig.cell": "run"})
    assert small.taken_from("run") == {"powercut.rig.cell.A"}
    assert Counter(one.importer.name for one in small.wrong) == {"powercut.crash.states": 1}
    planned = {"powercut.rig.cell": f"{EXTRAS}.probe"}
    assert is_extra(made(tmp_path, files, planned).modules["powercut.rig.cell"].room)
