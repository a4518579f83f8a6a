# SPDX-License-Identifier: Apache-2.0
"""What strangers wrote is shown in a terminal, and not obeyed by it."""

from __future__ import annotations

import io
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from powercut.console import PlainConsole
from powercut.model.printable import printable

HOSTILE = [
    "\x1b[2J\x1b[HSAFE",  # clears the screen
    "\x1b]52;c;cm0gLXJmIH4=\x07",  # writes to the clipboard
    "\x1b]8;;http://evil\x07SAFE\x1b]8;;\x07",  # a link
    "LOSSY\rSAFE ",
    "LOSSY\b\b\b\b\bSAFE ",
    "\x9b2K",  # C1: the same as ESC [
    "\u202eEFAS\u202c",
    "\ud800",
]


def obeyed(text):
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]


@pytest.mark.parametrize("text", HOSTILE)
def test_controls_are_shown_as_escapes(text):
    shown = printable(text)
    assert not obeyed(shown)
    assert "\\" in shown
    assert "\u202e" not in shown


def test_what_people_write_stays():
    text = "cell-1: 3 µs, “naïve” 日本 ✓\n\tnext"
    assert printable(text) == text


@given(st.text())
def test_nothing_that_is_obeyed_gets_through(text):
    assert not obeyed(printable(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_and_lines_of_a_console(text):
    out = io.StringIO()
    console = PlainConsole(file=out, width=200)
    table = Table(title=text)
    table.add_column("cell")
    table.add_row(text)
    table.add_row(Text(text))
    for each in (table, text, Text(text)):
        console.print(each, markup=False)
    assert not obeyed(out.getvalue())


def test_the_console_keeps_its_own_colours():
    out = io.StringIO()
    PlainConsole(file=out, force_terminal=True, color_system="standard").print("[red]LOSSY[/]")
    assert "\x1b[31mLOSSY\x1b[0m" in out.getvalue()


def test_a_mistake_in_a_scenario_is_no_program_for_the_terminal(tmp_path):
    path = tmp_path / "evil.yaml"
    path.write_text('powercut: 1\nname: "\\e[2J\\e]0;owned\\a"\n')
    argv = [sys.executable, "-m", "powercut.cli.main", "run", "--dry-run", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "name" in done.stderr
    assert not obeyed(done.stdout + done.stderr)
