# SPDX-License-Identifier: Apache-2.0
"""A guest that runs goes on in another QEMU, which has opened the same disk.

What QEMU does at its disk in between (migration_completion in migration/migration.c, do_vm_stop in
softmmu/cpus.c, bdrv_inactivate_all and bdrv_activate_all in block.c):

1. The other QEMU opens the disk when it starts, and keeps its hands off it.
2. The guest's RAM is sent while it runs; then its processors stop (event STOP), all requests are
   waited for, and the disk is flushed.
3. The state of the devices is sent.  The first QEMU gives the disk up, the other one takes it over:
   it forgets what it has read of an image's metadata, and lets the guest run.

So what was acknowledged before is durable before the other QEMU writes, and what was in flight has
completed.  The first QEMU is killed then, so that nothing of it can be of any help later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from powercut.machine.qemu.hypervisor import Hypervisor, describe
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import Move
from powercut.sandbox.users import HostView


@dataclass(frozen=True)
class Successor:
    """The QEMU to which a guest moves: its command line, where it is commanded from, the files that
    it and its guest print to; a path for a socket, or a file, over which the guest comes; and what
    root's has of the host."""

    argv: Sequence[str]
    qmp: Path
    log: Path
    console: Path
    way: Path
    view: HostView | None


@dataclass(frozen=True)
class Moved:
    """Where the guest runs now, and an instant (CLOCK_MONOTONIC, ns) at which it stood still."""

    hypervisor: Hypervisor
    stopped_ns: int


def move(source: Hypervisor, to: Successor, how: Move, *, timeout_s: float) -> Moved:
    """Moves the guest of `source`, which is gone afterwards.

    Raises HostError, with what the other QEMU said, of which nothing is left then.
    """
    deadline = time.monotonic() + timeout_s
    way = _migrate if how is Move.MIGRATE else _save_and_restore
    try:
        return way(source, to, deadline)
    finally:
        to.way.unlink(missing_ok=True)


def _migrate(source: Hypervisor, to: Successor, deadline: float) -> Moved:
    with _launched(to, deadline) as successor:
        uri = f"unix:{to.way}"
        successor.listen(uri, timeout_s=deadline - time.monotonic())
        stopped_ns = source.hand_over(uri, timeout_s=deadline - time.monotonic())
        successor.wait_status("running", timeout_s=deadline - time.monotonic())
        source.kill()
        return Moved(successor, stopped_ns)


def _save_and_restore(source: Hypervisor, to: Successor, deadline: float) -> Moved:
    stopped_ns = source.save(to.way, with_ram=True, timeout_s=deadline - time.monotonic())
    source.kill()
    with _launched(to, deadline) as successor:
        successor.restore(to.way, with_ram=True, timeout_s=deadline - time.monotonic())
        return Moved(successor, stopped_ns)


@contextmanager
def _launched(to: Successor, deadline: float) -> Iterator[Hypervisor]:
    """The other QEMU, which is gone if the guest does not come to it."""
    launch_s = deadline - time.monotonic()
    successor = Hypervisor.launch(
        to.argv, to.qmp, to.log, to.console, view=to.view, timeout_s=launch_s
    )
    try:
        yield successor
    except PowercutError as error:
        successor.kill()
        raise HostError(
            f"the guest did not get to the other QEMU: {error}\n"
            f"{describe(to.argv, successor.process, to.log)}"
        ) from None
    except BaseException:
        successor.kill()
        raise
