# SPDX-License-Identifier: Apache-2.0
"""What each cache mode sends to an NBD disk, counted at the server.

The table in docs/adding-a-machine.md is this test.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from powercut.machine.port import FileDisk, NbdDisk
from powercut.machine.qemu.machine import Lifecycle, QemuMachine
from powercut.model.errors import UsageError
from powercut.model.machine import CacheMode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

START_S = 120
COMMITS = 25
WRITE = [
    *("exec", "/bin/wal", "write", "run_id=00112233445566778899aabbccddeeff"),
    *("layout=raw", "path=/dev/vda", "record=4096", "align=4096", "capacity=33554432"),
    *(f"records={COMMITS}", "direct=1", "channel=fd:3"),
]
NO_FLUSH = [  # nbdkit's file plugin always offers flush; this one never does
    *("--filter=log", "eval", "logfile=@LOG@", "can_write=exit 0", "can_flush=exit 3"),
    *("can_fua=echo none", "get_size=stat -Lc %s @IMAGE@"),
    "pread=dd status=none if=@IMAGE@ skip=$4 count=$3 iflag=count_bytes,skip_bytes",
    "pwrite=dd status=none of=@IMAGE@ conv=notrunc seek=$4 oflag=seek_bytes",
]


def requests(log: Path) -> dict[str, int]:
    """Requests that change the disk or make it durable, from nbdkit's log filter."""
    found = re.findall(r" (Write|Flush|Trim|Zero) id=\d+ (.*)", log.read_text())
    return dict(Counter(f"{kind}{'+FUA' if 'fua=1' in rest else ''}" for kind, rest in found))


def commit(make_machine, server, templates, mode, sync):
    with make_machine(NbdDisk(server.socket), templates=templates, cache=mode) as (
        machine,
        channel,
    ):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        result = channel.run(*WRITE, f"sync={sync}", timeout_s=START_S)
        assert (result.status, result.error) == (0, "")
        machine.kill(timeout_s=START_S)
        assert channel.drain(timeout_s=START_S).acked == COMMITS
    return requests(server.log)


@pytest.mark.parametrize(
    ("mode", "sync", "sent"),
    [
        (CacheMode.NONE, "fdatasync", {"Write": 1, "Flush": 1}),
        (CacheMode.WRITEBACK, "fdatasync", {"Write": 1, "Flush": 1}),
        (CacheMode.WRITETHROUGH, "fdatasync", {"Write+FUA": 1}),
        (CacheMode.DIRECTSYNC, "fdatasync", {"Write+FUA": 1}),
        (CacheMode.NONE, "o_dsync", {"Write": 1, "Flush": 2}),
        (CacheMode.DIRECTSYNC, "o_dsync", {"Write+FUA": 1}),
        (CacheMode.WRITEBACK, "none", {"Write": 1}),
        (CacheMode.WRITETHROUGH, "none", {"Write+FUA": 1}),
    ],
)
def test_requests_per_commit(make_machine, nbd_server, templates, mode, sync, sent):
    counted = commit(make_machine, nbd_server(), templates, mode, sync)
    assert counted == {kind: COMMITS * count for kind, count in sent.items()}


def test_unsafe_does_not_hold_back_flushes_from_an_nbd_disk(
    make_machine, nbd_server, templates, monkeypatch
):
    """Why the next test's refusal exists.  If this fails, QEMU has changed: lift the refusal."""
    server = nbd_server()
    monkeypatch.setattr(QemuMachine, "_examine_disk", lambda *_: 64 << 20)
    counted = commit(make_machine, server, templates, CacheMode.UNSAFE, "fdatasync")
    assert counted == {"Write": COMMITS, "Flush": COMMITS}


def test_unsafe_is_refused_where_it_would_have_no_effect(make_machine, nbd_server):
    disk = NbdDisk(nbd_server().socket)
    with make_machine(disk, cache=CacheMode.UNSAFE) as (machine, _):
        with pytest.raises(UsageError, match="cache=unsafe would have no effect") as caught:
            machine.start(timeout_s=START_S)
        assert "offer no flush" in caught.value.hint
        assert machine.state is Lifecycle.FAILED


def test_unsafe_on_a_disk_that_offers_no_flush_is_what_unsafe_means(
    make_machine, nbd_server, templates
):
    server = nbd_server(plugin=NO_FLUSH)
    counted = commit(make_machine, server, templates, CacheMode.UNSAFE, "fdatasync")
    assert counted == {"Write": COMMITS}


def test_unsafe_applies_to_an_image_file(make_machine, nbd_server, templates):
    disk = FileDisk(nbd_server().image)
    with make_machine(disk, templates=templates, cache=CacheMode.UNSAFE) as (machine, channel):
        machine.start(timeout_s=START_S)
        channel.wait_hello(timeout_s=START_S)
        assert channel.run(*WRITE, "sync=fdatasync", timeout_s=START_S).status == 0
