# SPDX-License-Identifier: Apache-2.0
"""The tracer of syncs, on this host: every call site of planted programs, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from extras import extra
from powercut.model.operations import Packet
from powercut.workload.program.sync_trace import TRACER, CallSite, SyncTrace, read_trace

SOURCE = Path(__file__).with_name("synctrace_planted.c")
AIO = Path(__file__).with_name("synctrace_aio.c")
WRITES = Path(__file__).with_name("synctrace_writes.c")
KNOWN = [
    ("fsync", "log", 1),
    ("fsync", "log", 1),
    ("fdatasync", "log", 3),
    ("fsync", ".", 1),
    ("msync", "log", 1),
    ("open(O_DSYNC)", "part-#", 1),
    ("pwritev2(RWF_DSYNC)", "log", 1),
    ("fsync", "part-#", 1),
    ("fsync", "log", 1),
    ("fsync", "log", 1),
]
"""Call, file and how often, in the order of the program."""

KNOWN_WRITES = [
    ("open(O_DSYNC)", "wal", 1),
    ("open(O_SYNC)", "log-#", 1),
    ("write(O_DSYNC)", "wal", 3),
    ("pwrite(O_DSYNC)", "wal", 2),
    ("write(O_SYNC)", "log-#", 1),
    ("writev(O_DSYNC)", "wal", 1),
    ("pwritev(O_DSYNC)", "wal", 1),
    ("pwritev2(O_DSYNC)", "wal", 1),
    ("pwritev2(O_DSYNC)", "wal", 1),
    ("pwrite(O_DSYNC)", "wal", 1),
    ("write(O_SYNC)", "log-#", 1),
    ("fallocate(O_DSYNC)", "wal", 1),
    ("sendfile(O_DSYNC)", "wal", 1),
]
"""The same of the program that writes to files opened with O_SYNC and O_DSYNC."""

KNOWN_AIO = [
    ("io_submit(FDSYNC)", "log", 3),
    ("io_submit(FSYNC)", "log", 1),
    ("io_submit(RWF_DSYNC)", "log", 2),
    ("io_submit(FSYNC)", ".", 1),
    ("open(O_DSYNC)", "wal", 1),
    ("io_submit(O_DSYNC)", "wal", 1),
]
"""The same of the program that syncs as libaio does."""

KILLED = 137


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("planted")
    built = {}
    for name, (source, options) in {
        "dynamic": (SOURCE, ["-O2", "-g", "-fomit-frame-pointer"]),
        "static": (SOURCE, ["-O2", "-g", "-static"]),
        "stripped": (SOURCE, ["-O2", "-s", "-static-pie"]),
        "pointers": (
            SOURCE,
            ["-O1", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"],
        ),
        "writes-dynamic": (WRITES, ["-O2", "-g"]),
        "writes-static": (WRITES, ["-O2", "-g", "-static"]),
        "aio": (AIO, ["-O2", "-g", "-static"]),
    }.items():
        built[name] = folder / name
        compiler = ["cc", "-D_GNU_SOURCE", *options, "-o", built[name], source, "-lpthread"]
        subprocess.run(compiler, check=True)
    return built


def trace(tmp_path: Path, *argv: str | Path, words: tuple[str, ...] = ()) -> tuple[int, SyncTrace]:
    """The exit status of a program, and what the tracer noted."""
    log = tmp_path / "notes"
    log.unlink(missing_ok=True)
    command = [
        TRACER,
        f"dir={os.path.realpath(tmp_path / 'data')}",
        f"log={log}",
        *words,
        "--",
        *argv,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    (tmp_path / "said").write_text(done.stdout)
    return done.returncode, read_trace([Packet(0, log.read_bytes())])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def seen(found: SyncTrace) -> list[tuple[str, str, int]]:
    return [(site.call, site.file, found.count(site.number)) for site in found.sites]


@pytest.mark.parametrize("kind", ["dynamic", "static", "stripped", "pointers"])
def test_each_call_site_is_one(programs, tmp_path, data, kind):
    status, found = trace(tmp_path, programs[kind], data)
    assert (status, seen(found), found.beyond) == (7, KNOWN, ())
    assert all(call.result >= 0 for call in found.calls)
    assert len({site.stack for site in found.sites}) == len(KNOWN)
    again = trace(tmp_path, programs[kind], data)[1]
    assert [site.key for site in again.sites] == [site.key for site in found.sites]


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_one_site_is_dropped_and_no_other(programs, tmp_path, data, kind):
    _, found = trace(tmp_path, programs[kind], data)
    for site in found.sites:
        stack, _, path = site.key.partition(" ")
        status, without = trace(
            tmp_path, programs[kind], data, words=(f"drop={stack}", f"path={path}")
        )
        counts = [count for _, _, count in KNOWN]
        made = [n * (at != site.number) for at, n in enumerate(counts)]
        dropped = [n * (at == site.number) for at, n in enumerate(counts)]
        assert status == 7
        assert [without.count(one.number) for one in without.sites] == made
        assert [without.count(one.number, dropped=True) for one in without.sites] == dropped
        opened = "0" if site.call.startswith("open") else "1"
        assert (tmp_path / "said").read_text() == opened


@pytest.mark.parametrize("kind", ["writes-dynamic", "writes-static"])
def test_each_write_to_a_file_opened_to_sync_is_a_call(programs, tmp_path, data, kind):
    """Writes before the first such open, and to other files, are none."""
    status, found = trace(tmp_path, programs[kind], data)
    assert (status, seen(found), found.beyond) == (7, KNOWN_WRITES, ())
    assert found.writes
    assert all(call.result >= 0 for call in found.calls)


def test_a_write_that_is_dropped_has_written_and_moved_on(programs, tmp_path, data):
    """The program itself sees no difference, and its files are the same."""
    _, found = trace(tmp_path, programs["writes-static"], data)
    whole = {path.name: path.read_bytes() for path in data.iterdir()}
    for site in found.sites[2:]:
        stack, _, path = site.key.partition(" ")
        words = (f"drop={stack}", f"path={path}")
        status, without = trace(tmp_path, programs["writes-static"], data, words=words)
        assert status == 7
        assert {path.name: path.read_bytes() for path in data.iterdir()} == whole, site.call
        counts = [count for _, _, count in KNOWN_WRITES]
        kept = site.call == "sendfile(O_DSYNC)"  # of which no plain one is known
        made = [n * (kept or at != site.number) for at, n in enumerate(counts)]
        assert [without.count(one.number) for one in without.sites] == made
        dropped = [n - m for n, m in zip(counts, made, strict=True)]
        assert [without.count(one.number, dropped=True) for one in without.sites] == dropped


def test_syncs_that_are_submitted_are_calls(programs, tmp_path, data):
    """Each lasts until its result is fetched."""
    status, found = trace(tmp_path, programs["aio"], data)
    assert (status, seen(found), found.beyond) == (7, KNOWN_AIO, ())
    assert [call.result for call in found.calls if call.site != 4] == [0, 0, 0, 0, 5, 5, 0, 5]
    for site in (0, 1, 2):
        stack, _, path = found.sites[site].key.partition(" ")
        words = (f"drop={stack}", f"path={path}")
        status, without = trace(tmp_path, programs["aio"], data, words=words)
        assert status == 7  # it saw the results that it saw before, and its own blocks
        expected = [count * (at != site) for at, (_, _, count) in enumerate(KNOWN_AIO)]
        assert [without.count(one.number) for one in without.sites] == expected
        assert without.count(site, dropped=True) == KNOWN_AIO[site][2]


@pytest.mark.parametrize("site", [3, 5])
def test_what_cannot_be_dropped_is_made(programs, tmp_path, data, site):
    """The sync of a folder, and a submitted write to a file opened to sync."""
    _, found = trace(tmp_path, programs["aio"], data)
    stack, _, path = found.sites[site].key.partition(" ")
    words = (f"drop={stack}", f"path={path}")
    status, without = trace(tmp_path, programs["aio"], data, words=words)
    assert (status, seen(without)) == (7, KNOWN_AIO)


def test_files_that_are_opened_plainly_have_plain_writes(programs, tmp_path, data):
    """Dropping the open drops the sync of each write to it but one, which has a flag of its own."""
    _, found = trace(tmp_path, programs["writes-static"], data)
    stack, _, path = found.sites[0].key.partition(" ")
    status, without = trace(
        tmp_path, programs["writes-static"], data, words=(f"drop={stack}", f"path={path}")
    )
    calls = [site.call for site in without.sites[1:] if site.file == "wal"]
    assert (status, calls) == (7, ["pwritev2(RWF_DSYNC)"])


def test_the_filter_of_writes_outlives_exec_and_dup(tmp_path, data):
    """dd opens with O_DSYNC and moves the descriptor to its standard output."""
    tool = ["dd", "if=/dev/zero", f"of={data}/x", "bs=512", "count=3", "oflag=dsync"]
    status, found = trace(tmp_path, *tool)
    assert (status, seen(found)) == (0, [("open(O_DSYNC)", "x", 1), ("write(O_DSYNC)", "x", 3)])


def test_a_descriptor_that_leaves_is_beyond(programs, tmp_path, data):
    status, found = trace(tmp_path, programs["writes-static"], data, "sends")
    sends = "has a file opened with O_SYNC or O_DSYNC, and sends descriptors to another process"
    assert (status, found.beyond) == (0, (f"the program {sends}",))


def test_a_site_has_the_names_of_its_callers(programs, tmp_path, data):
    _, found = trace(tmp_path, programs["dynamic"], data)

    def names(site: CallSite) -> list[str]:
        """Of the program's own frames: how many the C library has depends on its version."""
        own = [one for one in site.frames if not Path(one.module).name.startswith("libc.so")]
        told = extra("audit.code_names").name_places((frame.module, frame.address) for frame in own)
        places = [told.get((one.module, one.address), one.text) for one in own]
        return [place.partition(" ")[0] for place in places]

    first, second, *_, child = [names(site) for site in found.sites]
    assert first[:3] == ["save", "known", "main"]
    assert second[:3] == ["save", "known", "main"]
    assert child[:3] == ["save", "known", "main"]
    assert "in_thread" in names(found.sites[8])


def test_a_shell_script_is_followed_into_its_commands(tmp_path, data):
    script = tmp_path / "script"
    script.write_text(
        '#!/bin/sh\nfor n in 1 2; do echo $n > "$1/f$n"; sync "$1/f$n"; done\nsync "$1"\n'
    )
    script.chmod(0o755)
    status, found = trace(tmp_path, script, data)
    assert (status, seen(found)) == (0, [("fsync", "f#", 2), ("fsync", ".", 1)])


@pytest.mark.campaign  # builds Go's library
@pytest.mark.parametrize("go", [tool] if (tool := shutil.which("go")) else [])
def test_go_is_followed_by_its_frame_pointers(tmp_path, data, go):
    (tmp_path / "main.go").write_text(
        'package main\nimport ("os"; "syscall")\n'
        "//go:noinline\nfunc save(f *os.File) { if f.Sync() != nil { panic(1) } }\n"
        "//go:noinline\nfunc put(f *os.File) { n, _ := f.Write([]byte{1}); "
        "if n != 1 { panic(1) } }\n"
        'func main() { f, _ := os.Create(os.Args[1] + "/log"); save(f); put(f); save(f)\n'
        "c := make(chan int); go func() { save(f); c <- 1 }(); <-c\n"
        "flags := os.O_CREATE|os.O_WRONLY|syscall.O_DSYNC\n"
        'w, _ := os.OpenFile(os.Args[1] + "/wal", flags, 0600)\n'
        "put(w); go func() { put(w); put(f); c <- 1 }(); <-c }\n"
    )
    environment = dict(os.environ, GOCACHE=str(tmp_path / "cache"), GOFLAGS="-mod=mod")
    argv = [go, "build", "-o", tmp_path / "program", tmp_path / "main.go"]
    subprocess.run(argv, check=True, env=environment)
    status, found = trace(tmp_path, tmp_path / "program", data)
    written = [("open(O_DSYNC)", "wal", 1), ("write(O_DSYNC)", "wal", 1)]
    assert (status, seen(found)) == (0, [("fsync", "log", 1)] * 3 + [*written, written[1]])


@pytest.mark.parametrize(
    ("how", "status", "beyond"),
    [
        ("untraced", 0, "the program starts a process with CLONE_UNTRACED"),
        ("filter", 0, "the program has a filter of system calls of its own"),
        ("ptrace", 0, "the program calls ptrace(2)"),
        ("ring", 0, ""),
        ("daemon", 0, ""),
    ],
)
def test_what_would_not_be_followed_is_followed_or_said(
    programs, tmp_path, data, how, status, beyond
):
    ended, found = trace(tmp_path, programs["static"], data, how)
    assert (ended, seen(found)) == (status, [("fsync", "log", 1)])
    assert found.beyond == ((beyond,) if beyond else ())


def test_who_kills_its_tracer_dies_with_it(programs, tmp_path, data):
    ended, found = trace(tmp_path, programs["static"], data, "kill")
    assert ended == -9
    assert seen(found) == []


def test_the_status_is_that_of_the_program(tmp_path, data):
    assert trace(tmp_path, "sh", "-c", "exit 3")[0] == 3
    assert trace(tmp_path, "sh", "-c", "kill -9 $$")[0] == KILLED
    assert trace(tmp_path, data / "none")[0] == 127
