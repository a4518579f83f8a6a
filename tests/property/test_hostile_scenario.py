# SPDX-License-Identifier: Apache-2.0
"""A scenario or a preset that a stranger wrote is read, or refused with its place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hostile import EDGES, SLICES, fuzz, survives
from hypothesis import strategies as st

from powercut.model.errors import UsageError
from powercut.scenario.load import parse_scenario
from powercut.scenario.preset import parse_preset
from powercut.scenario.settings import setting_paths

HEAD = "powercut: 1\nname: x\n"
LAUGHS = "a: &a [l, l, l, l, l, l, l, l, l]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + LAUGHS, "its aliases stand for 4,412,961,520 values"),
        ("a: &a\n  b: *a\n" + HEAD, "."),
        (HEAD + "description: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        (HEAD + "cells: " + "{a: " * 3000, "nested too deeply"),
        ("- " * 5000 + "x", "nested too deeply"),
        ("? " * 3000 + "x", "nested too deeply"),
        (HEAD + "? {a: b}\n: c\n", "a key is no word"),
        (HEAD + "seed: " + "9" * 100_000, "not valid YAML"),
        (HEAD + "<<: 3\n", "."),
        (HEAD + "name: !!python/object/apply:os.system ['id']\n", "."),
        (HEAD + 'filesystem: {mount: ["a\\0b"]}\n', "filesystem.mount"),
        (HEAD + 'machine: {kernel_arguments: ["a\\nb"]}\n', "machine.kernel_arguments"),
        (HEAD + "machine: {qemu: '../evil'}\n", "machine.qemu"),
        (HEAD + "cells: [{name: ../../x}]\n", "cells.0.name"),
        (HEAD + "cells: [{name: 'a\x1b[2Jb'}]\n", "."),
    ],
)
def test_bombs_and_oddities_are_refused_at_once(text, says):
    begin = time.process_time()  # others may want the processor, too
    with pytest.raises(UsageError, match=says):
        parse_scenario(text, Path("x.yaml"))
    assert time.process_time() - begin < 10


scalars = st.one_of(
    st.sampled_from([str(number) for number in EDGES]),
    st.sampled_from(["~", "yes", ".inf", "-1", "1.5", "'", '"\\0"', "1e999", "0x7f", "1:2", "[]",
                     "{}", "*a", "&a x", "!!set {a}", "!!binary eA==", "2020-01-01", "|", "xfs",
                     "64 MiB", "3s", "none", "auto", "[-l, logdev=/dev/sda]", "[a, [b]]"]),
    st.text(max_size=8),
)  # fmt: skip
keys = st.one_of(
    st.sampled_from([*setting_paths(), "matrix", "cells", "preset", "seed", "name", "trials"]),
    st.text(max_size=6),
)
lines = st.lists(st.tuples(st.integers(0, 3), keys, scalars), max_size=6)


@pytest.mark.parametrize("examples", SLICES)
def test_any_settings_are_read_or_refused(examples):
    def check(listed):
        body = "".join(f"{'  ' * depth}{key}: {value}\n" for depth, key, value in listed)
        nested = "".join(
            f"{key.partition('.')[0]}: {{{key.partition('.')[2] or 'x'}: {value}}}\n"
            for _, key, value in listed
        )
        for text in (HEAD + body, HEAD + nested, HEAD + "matrix:\n  " + body):
            survives(lambda text=text: parse_scenario(text, Path("x.yaml")))
        survives(lambda: parse_preset("powercut-preset: 1\n" + body, Path("x.yaml")))

    fuzz(lines, check, examples)


@pytest.mark.parametrize("examples", SLICES)
def test_any_text_is_read_or_refused(examples):
    alphabet = st.sampled_from(list("{}[]:,-?&*!|>%@`#'\"\\ \n\tab01~<="))
    texts = st.lists(alphabet, max_size=60).map("".join)
    fuzz(texts, lambda text: survives(lambda: parse_scenario(text, Path("x.yaml"))), examples)
