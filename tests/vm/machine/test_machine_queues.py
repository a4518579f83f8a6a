# SPDX-License-Identifier: Apache-2.0
"""A disk's queues and its thread: the guest uses each queue, and QEMU's thread does the work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from powercut.machine.port import NbdDisk
from powercut.model.machine import Queueing

START_S = 120
RUN_ID = "00112233445566778899aabbccddeeff"
WRITE = [
    *("exec", "/bin/wal", "write", f"run_id={RUN_ID}", "layout=raw", "record=512", "align=512"),
    *("capacity=33554432", "path=/dev/vda", "sync=fdatasync", "streams=8", "channel=fd:3"),
]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_queue_is_used_and_requests_are_handled_in_the_disks_thread(make_machine, nbd_server):
    disk = NbdDisk(nbd_server().socket)
    both = Queueing(iothread=True, queues=2)
    with make_machine(disk, cpus=2, queueing=both) as (machine, channel):
        machine.start(timeout_s=START_S)
        assert channel.wait_hello(timeout_s=START_S)["cpus"] == "2"
        assert channel.run("facts", "vda", timeout_s=START_S).facts["queues"] == "2"

        def ask(command: str, **arguments: object):
            return machine._hypervisor._qmp.execute(command, arguments, timeout_s=START_S)

        (thread,) = ask("query-iothreads")
        (path,) = (one["path"] for one in ask("x-query-virtio") if one["name"] == "virtio-blk")
        task = Path(f"/proc/{machine._hypervisor.process.pid}/task/{thread['thread-id']}")

        def ran_ns() -> int:
            return int((task / "schedstat").read_text().split()[0])

        def used(queue: int) -> int:
            status = ask("x-query-virtio-queue-status", path=path, queue=queue)
            return int(status["used-idx"])

        ran_before_ns, used_before = ran_ns(), [used(0), used(1)]
        channel.start(*WRITE)
        channel.wait_ready(timeout_s=START_S)
        assert channel.wait_acks(100, timeout_s=START_S)
        wait_until(lambda: used(0) != used_before[0] and used(1) != used_before[1])
        wait_until(lambda: ran_ns() > ran_before_ns)
        machine.kill(timeout_s=START_S)
