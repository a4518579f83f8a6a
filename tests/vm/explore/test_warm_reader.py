# SPDX-License-Identifier: Apache-2.0
"""A check that is held where it has started, and continued for each state: nothing of one state is
there in the next, and what cannot be held is started anew."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.recover.port import ImageWrite
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.sandbox.confined import find_tool

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

WAIT_S = 120
BYTES, BLOCK = 16 << 20, 4096
UUID = "12345678-1234-1234-1234-123456789012"
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static char seen[4096]; /* of all states that this process has seen */

static int leave(void) /* false if it had been there */
{
    static const char *const folders[] = {"/tmp", "/run", "/var/tmp", "/dev/shm"};
    char path[256];
    int i;

    for (i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/left", folders[i]);
        if (mkdir(path, 0700) != 0)
            return 0;
        snprintf(path, sizeof path, "%s/left/f", folders[i]);
        if (creat(path, 0400) < 0)
            return 0;
    }
    return 1;
}

static void *nothing(void *argument) { return argument; }

int main(int argc, char *argv[])
{
    unsigned started;
    pthread_t thread;
    char path[256];
    ssize_t got;
    int file;

    if (argc != 4 || getrandom(&started, sizeof started, 0) != sizeof started)
        return 9;
    if (strcmp(argv[1], "open") == 0 && open("/etc/passwd", O_RDONLY) < 0)
        return 9;
    if (strcmp(argv[1], "leave") == 0 && !leave())
        return 7;
    if (strcmp(argv[1], "thread") == 0 &&
        (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0))
        return 9;
    snprintf(path, sizeof path, "%s/f", argv[3]);
    file = open(path, O_RDONLY);
    got = read(file, seen + strlen(seen), 64);
    dprintf(3, "%sx %u started\n", seen, started);
    if (strcmp(argv[1], "name") == 0 && (file = open("/proc/self/fd/3", O_WRONLY | O_TRUNC)) >= 0)
        dprintf(file, "by name\n");
    if (strcmp(argv[1], "much") == 0)
        for (file = 0; file < 40000; file++)
            dprintf(3, "= %07d\n", file);
    if (strcmp(argv[1], "stray") == 0 && fork() == 0)
        for (;;)
            pause();
    return got > 0 ? 0 : 8;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "check.c").write_text(SOURCE)
    argv = ["cc", "-static", "-pthread", "-o", folder / "check", folder / "check.c"]
    subprocess.run(argv, check=True)
    return folder / "check"


def image(folder: Path, number: int) -> bytes:
    """A disk on which DIR has one file, which says `= number`."""
    (folder / "files/data").mkdir(parents=True, exist_ok=True)
    (folder / "files/data/f").write_text(f"= {number}\n")
    path = folder / "image"
    path.unlink(missing_ok=True)
    argv = [str(find_tool("mkfs.ext4")), "-q", "-F", "-U", UUID, "-E", f"hash_seed={UUID}"]
    argv += ["-d", folder / "files", path, str(BYTES >> 10)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return path.read_bytes()


def writes_between(base: bytes, other: bytes) -> list[ImageWrite]:
    one, two = (np.frombuffer(data, dtype=np.uint8).reshape(-1, BLOCK) for data in (base, other))
    changed = np.flatnonzero((one != two).any(axis=1)).tolist()
    return [ImageWrite(block * BLOCK, BLOCK, two[block]) for block in changed]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The base image, and what makes three states of it."""
    folder = tmp_path_factory.mktemp("states")
    base = image(folder, 0)
    (folder / "base").write_bytes(base)
    return folder / "base", [writes_between(base, image(folder, number)) for number in (1, 2, 3)]


def plan(program: Path, how: str) -> RecoveryPlan:
    host = HostRoot("/", ("PATH=/usr/bin:/bin",), (str(program.parent),))
    reader = (str(program), how, "check", "/mnt/data")
    return RecoveryPlan.of("ext4", "", "/host/mnt", reader, host=host)


def test_each_state_is_told_by_itself_and_what_can_be_held_is_started_once(program, states):
    base, writes = states
    with UmlEngine(base, plan(program, "plain")) as engine:
        engine.start(timeout_s=WAIT_S)
        for how, starts in (
            ("plain", 1),
            ("thread", 1),
            ("open", 3),
            ("stray", 3),
            ("leave", 1),
            ("plain", 1),
        ):
            engine.follow(plan(program, how), timeout_s=WAIT_S)
            started = []
            for number, state in enumerate(writes, 1):
                seen = engine.sample(state, timeout_s=WAIT_S)
                assert (seen.recovered, seen.complete) == (True, True), (how, seen)
                first, last = seen.lines.splitlines()
                assert first == b"= %d" % number, how
                started.append(last)
            assert len(set(started)) == starts, how
            anew = engine.recover(writes[0], timeout_s=WAIT_S)
            assert anew.lines.startswith(b"= 1\n")
            assert anew.lines.splitlines()[1] not in started
        assert engine.boots == 1


def test_lines_are_all_there_by_whatever_name_the_descriptor_was_opened(program, states):
    """As Java, and `echo > /proc/self/fd/3`, must: a file would begin anew.  And more of them than
    a pipe holds."""
    base, writes = states
    with UmlEngine(base, plan(program, "name")) as engine:
        engine.start(timeout_s=WAIT_S)
        for look in (engine.recover, engine.sample, engine.sample):
            for number, state in enumerate(writes, 1):
                first, _, last = look(state, timeout_s=WAIT_S).lines.splitlines()
                assert (first, last) == (b"= %d" % number, b"by name")
        engine.follow(plan(program, "much"), timeout_s=WAIT_S)
        for look in (engine.recover, engine.sample):
            lines = look(writes[0], timeout_s=WAIT_S).lines.splitlines()
            assert (len(lines), lines[-1]) == (40_002, b"= 0039999")
