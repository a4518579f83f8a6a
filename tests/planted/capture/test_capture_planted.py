# SPDX-License-Identifier: Apache-2.0
"""Faults planted into the capture disk's core: its own tests must catch every one.

Each fault is one small change of the C sources, of the kind that a bad day brings.  A
test that still passes with it would prove nothing.
"""

import os
import re
import shutil
import subprocess

import pytest
from parts import built

from powercut.paths import ROOT

SOURCES = ROOT / "harness" / "capture"

FAULTS = {
    "a flush covers what completed while it was in flight": (
        "cache.c",
        "number < horizon",
        "number < disk->cache.last",
    ),
    "an ignored flush makes writes durable": (
        "requests.c",
        "    if (!injection && connection->part.flush_honoured)\n        cache_flush",
        "    if (!injection)\n        cache_flush",
    ),
    "a flush covers what another disk has cached": (
        "cache.c",
        "if (number >= disk->cache.first && extent->sectors && lies_on(part, extent))",
        "if (number >= disk->cache.first && extent->sectors)",
    ),
    "an honoured flush does nothing": (
        "requests.c",
        "uint64_t horizon = disk->cache.last;",
        "uint64_t horizon = 0;",
    ),
    "FUA is ignored": (
        "requests.c",
        "&& !(event->flags & PCLOG_IGNORED))",
        "&& event->flags & PCLOG_IGNORED)",
    ),
    "a FUA write makes earlier ones durable": (
        "requests.c",
        "    if (durable_at_once(disk, event)) {\n",
        "    if (durable_at_once(disk, event)) {\n"
        "        struct disk_part whole = {.length = disk->size};\n"
        "        cache_flush(disk, &whole, disk->cache.last);\n",
    ),
    "an older cached write overwrites a newer durable one": (
        "medium.c",
        "if (view->entries[extent->sector + i] < entry)",
        "if (entry)",
    ),
    "a write is durable although the cache is volatile": (
        "requests.c",
        "return !volatile_cache(disk)",
        "return volatile_cache(disk)",
    ),
    "the newest write is destaged instead of the oldest": (
        "cache.c",
        "struct extent *oldest = cache_item(&disk->cache, disk->cache.first);",
        "struct extent *oldest = cache_item(&disk->cache, disk->cache.last - 1);",
    ),
    "a cut leaves the client's view as it was": (
        "cut.c",
        "        view_revert(&disk->current, &disk->medium, &cut->items[i].extent);",
        "        ;",
    ),
    "old connections go on after a cut": (
        "cut.c",
        "    disk->generation++;\n",
        "",
    ),
    "a torn sector keeps too much": (
        "cut.c",
        "memcpy(sector + (from - start), written + (from - start), to - from);",
        "memcpy(sector, written, SECTOR);",
    ),
    "a survivor overwrites what is newer": (
        "cut.c",
        "if (shown > one.entry && shown < 2 * cut->patch_unit)",
        "if (0)",
    ),
    "what is in flight always survives": (
        "cut.c",
        "cut->items[cut->count++].extent = at->extent;",
        "view_apply(&disk->medium, &at->extent);",
    ),
    "what is in flight never survives": (
        "cut.c",
        "*at = disk->in_flight.next; at != &disk->in_flight; at",
        "*at = disk->in_flight.next; false; at",
    ),
    "policy random never keeps what is in flight": (
        "cut.c",
        "        if (policy == PCLOG_POLICY_RANDOM)\n",
        "        if (policy == PCLOG_POLICY_RANDOM && i < cut->disk->cache.last - "
        "cut->disk->cache.first)\n",
    ),
    "policy prefix ends before what is in flight": (
        "cut.c",
        "survive_prefix(seed, cut->count)",
        "survive_prefix(seed, cut->disk->cache.last - cut->disk->cache.first)",
    ),
    "a disk that stopped completes writes": (
        "requests.c",
        "    return wait_until(connection, RUNNING);",
        "    return wait_until(connection, TAKING);",
    ),
    "a disk that stopped between requests takes one": (
        "requests.c",
        "    int error = wait_until(connection, TAKING);",
        "    int error = powered(connection) ? 0 : EIO;",
    ),
    "a disk goes on with the wrong number of requests": (
        "stop.c",
        "(at_flush ? disk->counts.flushes < stop->flush : stop->left > 0)",
        "(at_flush ? disk->counts.flushes < stop->flush : stop->left > 1)",
    ),
    "a disk has not started again after a cut": (
        "cut.c",
        "    disk->motion = RUNNING;\n",
        "",
    ),
    "a disk is told to have stopped before anything waits": (
        "stop.c",
        "        return; /* until there is one */",
        "        ;",
    ),
    "a full log is not noticed": (
        "log.c",
        "    if (log->failure)\n        return log->failure;\n",
        "    if (log->failure)\n        return 0;\n",
    ),
    "a payload's checksum is wrong": (
        "crc32c.c",
        "uint32_t joined = over_one_lane((uint32_t)first) ^ (uint32_t)second;",
        "uint32_t joined = (uint32_t)first ^ (uint32_t)second;",
    ),
}


def run_core_tests(folder, tmp_path):
    name = "core_test.plain"
    flags = "CFLAGS=-O0 -Wno-error"
    program = built(folder, tmp_path / "build", flags, name) / "capture" / name
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    return subprocess.run(
        [program], capture_output=True, text=True, timeout=300, check=False, env=environment
    )


@pytest.fixture
def sources(tmp_path):
    return shutil.copytree(SOURCES, tmp_path / "capture")


def test_without_a_fault_the_tests_pass(sources, tmp_path):
    assert run_core_tests(sources, tmp_path).stdout == "ok\n"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault, sources, tmp_path):
    name, right, wrong = FAULTS[fault]
    text = (sources / name).read_text()
    assert text.count(right) == 1, "the fault no longer fits the source"
    (sources / name).write_text(text.replace(right, wrong))
    done = run_core_tests(sources, tmp_path)
    assert done.returncode != 0, f"nothing noticed that {fault}"
    assert done.returncode < 0 or re.search(
        r"(core|injected|parts|stop)_test\.c:|core_fixture\.c:", done.stderr
    ), done.stderr
