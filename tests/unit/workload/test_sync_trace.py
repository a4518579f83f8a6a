# SPDX-License-Identifier: Apache-2.0
"""What the tracer's notes say, and what a program cannot say in its place."""

from __future__ import annotations

import pytest

from powercut.model.operations import Packet
from powercut.model.units import NEVER
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.workload.program.sync_trace import SyncCall, read_trace, traced
from powercut.workload.program.workload import ProgramWorkload

KEY = "0123456789abcdef"
STACK = "00000000000000aa"
SITE = f"site 0 {STACK} fsync wal/seg-# /usr/lib/libc.so.6+0x10 /opt/a%20b+0x2f [memory]"


def packets(*lines: str, key: str = KEY) -> list[Packet]:
    """A line a packet, at 10, 20, 30 ...; what begins with a star is the tracer's."""
    told = [line.replace("*", f"~ {key} ") for line in lines]
    return [Packet(10 * at, f"{line}\n".encode()) for at, line in enumerate(told, 1)]


def history(*lines: str, dropped: str = f"{STACK} wal/seg-#", syncs: str = "traced"):
    settings = ProgramSettings(
        kind="program", command=("x",), folder="/", syncs=syncs, dropped_sync=dropped
    )
    workload = ProgramWorkload(Parameters(workload=settings))
    return workload.promises_by_lines(packets(*lines), 10**9).requirements


def test_begins_and_ends_make_calls_with_instants():
    lines = ("*trace 1", "*" + SITE, "*begin 0 7", "+ 1", "*begin 0 8", "*end 0 7 0", "*drop 0 9")
    trace = read_trace(packets(*lines))
    assert trace.calls == (
        SyncCall(0, 7, 30, 60, 0),
        SyncCall(0, 8, 50, int(NEVER)),
        SyncCall(0, 9, 70, 70, dropped=True),
    )
    (site,) = trace.sites
    assert (site.key, site.call, site.file) == (f"{STACK} wal/seg-#", "fsync", "wal/seg-#")
    assert [(frame.module, frame.address) for frame in site.frames] == [
        ("/usr/lib/libc.so.6", 0x10), ("/opt/a b", 0x2F), ("[memory]", 0)
    ]  # fmt: skip


def test_a_trace_says_whether_it_has_writes():
    assert not read_trace(packets("*trace 1", "*" + SITE)).writes
    trace = read_trace(packets("*trace 1", "*writes 7", "*" + SITE))
    assert (trace.writes, trace.beyond, len(trace.sites)) == (True, (), 1)


def test_a_program_cannot_write_the_tracers_notes():
    forged = [f"~ {'f' * 16} site 0 {STACK} fsync x", f"~ {'f' * 16} drop 0 1"]
    trace = read_trace(packets("*trace 1", *forged))
    assert (trace.sites, trace.calls, trace.beyond) == ((), (), ())
    assert any("no line of the contract" in one for one in history("*trace 1", *forged).trouble)


@pytest.mark.parametrize("lines", [(), ("ready",), ("ready", "*trace 1"), ("*trace 2",)])
def test_a_trace_that_does_not_begin_the_run_is_none(lines):
    assert read_trace(packets(*lines)).beyond == ("the tracer did not begin",)
    assert "the tracer did not begin" in history(*lines).trouble


def test_a_sync_that_was_not_dropped_says_nothing():
    said = history("*trace 1", "*" + SITE, "*begin 0 7", "*end 0 7 0", "? 1", "+ 1")
    assert said.trouble == ("no call came from the site that was to be dropped",)
    assert history("*trace 1", "*" + SITE, "*drop 0 7", "? 1", "+ 1").trouble == ()


def test_what_the_tracer_does_not_follow_makes_a_dropped_sync_unknown_and_no_other_run():
    lines = ("*trace 1", "*" + SITE, "*drop 0 7", "*beyond calls ptrace(2)", "? 1", "+ 1")
    assert history(*lines).trouble == ("the program calls ptrace(2)",)
    assert history(*lines, dropped="").trouble == ()


def test_notes_in_a_run_without_a_tracer_are_the_programs_mistake():
    assert len(history("*trace 1", "? 1", "+ 1", dropped="", syncs="kept").trouble) == 1


def test_the_command_line_of_the_tracer():
    argv = traced(("prog", "run", "/mnt"), "/mnt", f"{STACK} wal/seg-#")
    assert argv[1:] == (
        "dir=/mnt", f"drop={STACK}", "path=wal/seg-#", "--", "prog", "run", "/mnt"
    )  # fmt: skip
    assert traced(("prog", "run"), "/mnt")[1:] == ("dir=/mnt", "--", "prog", "run")
