# SPDX-License-Identifier: Apache-2.0
"""Names for addresses: a symbol that is merely the last one before an address is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from powercut_extras.audit import code_names
from powercut_extras.audit.code_names import name_places

LIBRARY = """
__attribute__((noinline)) int shown(int n) { return n + 1; }
static __attribute__((noinline, used)) int hidden(int n) { return n * 3 + shown(n); }
int (*pointer)(int) = hidden;
"""


def build(folder: Path, *options: str) -> Path:
    source, library = folder / "library.c", folder / "library.so"
    source.write_text(LIBRARY)
    argv = [
        "cc",
        "-O1",
        "-fno-toplevel-reorder",
        "-shared",
        "-fPIC",
        *options,
        "-o",
        library,
        source,
    ]
    subprocess.run(argv, check=True)
    return library


def addresses(library: Path) -> dict[str, int]:
    told = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    symbols = [line.split() for line in told.splitlines()]
    return {words[2]: int(words[0], 16) for words in symbols if len(words) == 3}


@pytest.fixture(params=["addr2line", "symbols alone"])
def tool(request, monkeypatch):
    if request.param != "addr2line":
        monkeypatch.setattr(code_names, "find_tool", lambda _: None)
    return request.param


def test_a_function_without_a_symbol_has_no_name(tmp_path, tool):
    library = build(tmp_path)
    at = addresses(library)
    inside = {name: (str(library), at[name] + 2) for name in ("shown", "hidden")}
    assert name_places(inside.values()) == {inside["shown"]: "shown", inside["hidden"]: "hidden"}
    subprocess.run(["strip", library], check=True)
    assert name_places(inside.values()) == {inside["shown"]: "shown"}


def test_lines_are_told_where_they_are_known(tmp_path):
    library = build(tmp_path, "-g")
    place = (str(library), addresses(library)["hidden"] + 2)
    assert name_places([place]) == {place: "hidden (library.c:3)"}


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 90]
)
def test_what_is_no_program_has_no_names(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert name_places([(str(file), 16), (str(tmp_path / "none"), 16), ("[memory]", 0)]) == {}
