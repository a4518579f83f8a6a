# SPDX-License-Identifier: Apache-2.0
"""In which order a loop machine ends: the program stops before its disk dies."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from patience import AMPLE_S

from powercut.model.errors import HostError
from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.rig import loop_guest
from powercut.rig.loop_guest import LoopGuest


class Process:
    def kill(self) -> None:
        pass

    def wait(self, timeout_s: float) -> int:
        return 0


class Host:
    """What a loop machine starts, and the order in which it ends.  `answer`: of what mounts the
    loop device, told to stop the program; None: it has ended."""

    def __init__(self, answer: bytes | None) -> None:
        self.pid = 1
        self.inside = Path("/disk")
        self.ended: list[str] = []
        self._answer = answer
        self._first: threading.Thread | None = None

    def serve(self, nbd: Path, folder: Path, *, timeout_s: float) -> "Host":
        return self

    def kill(self) -> None:
        self.ended.append("disk")

    def spawn(self, argv: list[str], log: Path, *, pass_fds: list[int]) -> Process:
        if self._first is None:  # the second is the program
            control = socket.socket(fileno=socket.dup(pass_fds[0]))
            self._first = threading.Thread(target=self._mount, args=(control,))
            self._first.start()
        return Process()

    def join(self) -> None:
        assert self._first is not None
        self._first.join()

    def _mount(self, control: socket.socket) -> None:
        with control:
            control.sendall(b"2 no-device\n")
            if self._answer is not None:
                while word := control.recv(64):
                    assert word == b"stop\n"
                    self.ended.append("program")
                    control.sendall(self._answer)


@pytest.fixture
def lines() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield theirs


@pytest.fixture
def started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: socket.socket
) -> Callable[[Host], LoopGuest]:
    return lambda host: _started(host, tmp_path, monkeypatch, lines)


def _started(
    host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch, lines: socket.socket
) -> LoopGuest:
    for name, fake in {"NbdFuse": host.serve, "spawn": host.spawn, "unavailable": tuple}.items():
        monkeypatch.setattr(loop_guest, name, fake)
    plan = RecoveryPlan.of("ext4", "", "/host/mnt", ("x",), host=HostRoot("/", ()))
    guest = LoopGuest(folder / "nbd", plan, folder, lines)
    guest.start(timeout_s=AMPLE_S)
    return guest


def test_the_program_has_stopped_when_its_disk_dies(
    started: Callable[[Host], LoopGuest],
) -> None:
    host = Host(b"stopped\n")
    guest = started(host)
    guest.begin(("prog", "run", "/mnt/data"))
    guest.kill()
    assert host.ended == ["program", "disk"]
    guest.kill()
    host.join()
    assert host.ended == ["program", "disk"]


def test_a_machine_without_a_program_ends_at_once(
    started: Callable[[Host], LoopGuest],
) -> None:
    host = Host(None)
    started(host).kill()
    host.join()
    assert host.ended == ["disk"]


@pytest.mark.parametrize("answer", [None, b"no\n"])
def test_a_program_that_may_have_seen_its_disk_die_is_told(
    answer: bytes | None, started: Callable[[Host], LoopGuest]
) -> None:
    """Its lines cannot be believed; but nothing of the machine is left behind."""
    host = Host(answer)
    guest = started(host)
    guest.begin(("prog", "run", "/mnt/data"))
    with pytest.raises(HostError, match="the program may have seen its disk die"):
        guest.kill()
    assert host.ended[-1] == "disk"
    guest.kill()
    host.join()
