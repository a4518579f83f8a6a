#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what runs of `files` tried: files_count.py RESULTS..., folders of runs of `powercut run`.

A sequence is its calls and its sync, wherever they came.  A state recovered holds every case of its
recording against its promises: the sync's if that had returned, and those that hold always.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from files_cases import KINDS, SYNCS, Case


def settings_of(command: list[str]) -> dict[str, str]:
    """The words NAME=VALUE of a command line."""
    return dict(word.split("=", 1) for word in command[1:] if "=" in word)


def sequence(seed: int, number: int, settings: dict[str, str]) -> tuple[str, ...]:
    """The kinds of a case's calls, and of its first sync."""
    without = frozenset(settings.get("without", "").split(",")) - {""}
    names = settings.get("promise") == "names"
    length = int(settings.get("length", "2"))
    case = Case(seed, number, length, names=names, without=without)
    return (*case.wanted, case.syncs[0].kind)


def count(results: list[Path]) -> str:
    """What all trials of `results` come to, a line each file system and one for all."""
    states, lossy, recordings = Counter(), Counter(), Counter()
    promises, sequences = Counter(), set()
    for path in sorted(found for folder in results for found in folder.glob("cells/*/*")):
        if not (path / "exploration.json").exists():
            continue
        trial = json.loads((path / "trial.json").read_text())
        seen = json.loads((path / "exploration.json").read_text())
        settings = settings_of(trial["parameters"]["workload"]["command"])
        seed, cell = int(settings.get("seed", trial["trial"]["seed"])), trial["cell"]
        cases = numbers(seed, settings)
        sequences |= {sequence(seed, number, settings) for number in cases}
        recordings[cell] += 1
        states[cell] += seen["coverage"]["recovered"]
        promises[cell] += seen["coverage"]["recovered"] * len(cases)
        lossy[cell] += seen["coverage"]["lossy"]
    lines = [
        f"{cell}: {recordings[cell]} recordings, {states[cell]:,} states, "
        f"{promises[cell]:,} cases checked, {lossy[cell]} states break a promise"
        for cell in recordings
    ]
    pairs = sum(len(one) == 3 for one in sequences)  # two calls and a sync
    longer = len(sequences) - pairs
    return "\n".join(
        [
            *lines,
            f"in all: {recordings.total()} recordings, {pairs:,} sequences of "
            f"{len(KINDS) ** 2 * len(SYNCS):,} of length 2, {longer:,} longer ones, "
            f"{states.total():,} states recovered, "
            f"{promises.total():,} cases checked, {lossy.total()} states break a promise",
        ]
    )


def numbers(seed: int, settings: dict[str, str]) -> range:
    """The cases of a recording, as `files` takes them."""
    without = frozenset(settings.get("without", "").split(",")) - {""}
    return Case.numbers(
        seed, settings.get("first", "0"), int(settings.get("cases", "100")), without
    )


if __name__ == "__main__":
    print(count([Path(word) for word in sys.argv[1:]]))
