# SPDX-License-Identifier: Apache-2.0
"""The agent's command loop on the host: a socket instead of the virtio-serial port."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import host_needs
import pytest
from parts import built

from powercut.channel.wire import HEADER, MAGIC
from powercut.model.failure import GuestFault

COMMAND, HELLO, DONE, ERROR, FACT, TEXT = 32, 1, 6, 7, 8, 11
TIMEOUT_S = 60.0


def encode(kind: int, lsn: int, payload: bytes) -> bytes:
    def header(crc: int) -> bytes:
        return HEADER.pack(MAGIC, kind, 0, len(payload), crc, lsn, 0, 0)

    return header(google_crc32c.value(header(0) + payload)) + payload


class Agent:
    """One running agent and the controller's end of its socket."""

    def __init__(self, binary: Path) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(TIMEOUT_S)
        self.process = subprocess.Popen(
            [str(binary), "--fd", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        self.count = 0

    def read(self) -> tuple[int, int, int, bytes]:
        """The next message: type, lsn, value, payload.  Its checksum must be right."""
        raw = self._exactly(HEADER.size)
        magic, kind, _, length, crc, lsn, _, value = HEADER.unpack(raw)
        payload = self._exactly(length)
        assert magic == MAGIC
        assert google_crc32c.value(raw[:12] + bytes(4) + raw[16:] + payload) == crc
        return kind, lsn, value, payload

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            assert part, "the agent is gone"
            data += part
        return data

    def run(self, *argv: str) -> tuple[int, list[tuple[int, int, bytes]]]:
        """Runs a command: its exit status, and what came before DONE (type, value, payload)."""
        self.count += 1
        self.socket.sendall(
            encode(COMMAND, self.count, b"".join(word.encode() + b"\0" for word in argv))
        )
        before = []
        while True:
            kind, lsn, value, payload = self.read()
            if kind == DONE:
                assert lsn == self.count
                return value, before
            before.append((kind, value, payload))

    def faults(self, *argv: str) -> list[tuple[int, int]]:
        """What the errors of a command are about (`lsn`), and their errnos."""
        self.count += 1
        self.socket.sendall(
            encode(COMMAND, self.count, b"".join(word.encode() + b"\0" for word in argv))
        )
        found = []
        while (message := self.read())[0] != DONE:
            if message[0] == ERROR:
                found.append((message[1], message[2]))
        return found

    def errors(self, *argv: str) -> tuple[int, list[tuple[int, bytes]]]:
        """Like `run`, but only the errors (errno, call); the kernel's log may say anything."""
        status, before = self.run(*argv)
        return status, [(value, payload) for kind, value, payload in before if kind == ERROR]

    def close(self) -> str:
        self.socket.close()
        try:
            return self.process.communicate(timeout=TIMEOUT_S)[1]
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("make") is None or shutil.which("cc") is None:
        pytest.skip("no C compiler: apt-get install gcc make")
    flags = "CFLAGS=-O1 -g -fsanitize=undefined -fno-sanitize-recover=all -DDEVICE_TIMEOUT_MS=200"
    return built("guests/agent", tmp_path_factory.mktemp("agent"), flags) / "bin" / "agent"


@pytest.fixture
def agent(binary: Path) -> Iterator[Agent]:
    running = Agent(binary)
    assert running.read()[0] == HELLO
    yield running
    running.close()
    assert running.process.returncode == 0


def test_hello_names_agent_and_kernel(binary: Path) -> None:
    agent = Agent(binary)
    kind, _, _, payload = agent.read()
    agent.close()
    said = dict(line.split("=", 1) for line in payload.decode().splitlines())
    assert kind == HELLO
    assert said["agent"] == "2"
    assert said["release"] == os.uname().release
    assert set(said) >= {"clocksource", "cpus", "cpu_model", "disks", "modules", "modules_failed"}


def test_hello_again_on_request(agent: Agent) -> None:
    status, before = agent.run("hello")
    assert status == 0
    assert [kind for kind, _, _ in before] == [HELLO]


def test_mkdir_makes_parents_and_may_repeat(agent: Agent, tmp_path: Path) -> None:
    folder = tmp_path / "a/b/c"
    assert agent.run("mkdir", str(folder)) == (0, [])
    assert agent.run("mkdir", str(folder)) == (0, [])
    assert folder.is_dir()


def test_write_only_to_what_exists(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "attribute"
    status, errors = agent.errors("write", str(file), "write through")
    assert (status, errors) == (1, [(errno.ENOENT, f"open {file}".encode())])
    assert not file.exists()
    file.touch()
    assert agent.run("write", str(file), "write through") == (0, [])
    assert file.read_text() == "write through"


def test_failed_calls_are_named_with_their_errno(agent: Agent, tmp_path: Path) -> None:
    assert agent.errors("umount", str(tmp_path / "none")) == (
        1,
        [(errno.ENOENT, f"umount {tmp_path / 'none'}".encode())],
    )
    assert agent.errors("sync", str(tmp_path / "none")) == (
        1,
        [(errno.ENOENT, f"open {tmp_path / 'none'}".encode())],
    )


def test_sync_of_one_file_system(agent: Agent, tmp_path: Path) -> None:
    assert agent.run("sync", str(tmp_path)) == (0, [])


@pytest.mark.parametrize(
    ("argv", "error", "call"),
    [
        (("dance",), errno.ENOSYS, "no such verb: dance"),
        (("mkdir",), errno.EINVAL, "mkdir takes 1 to 1 arguments, not 0"),
        (("write", "a"), errno.EINVAL, "write takes 2 to 2 arguments, not 1"),
        (("mount", "xfs", "vda", "/mnt", "", "x"), errno.EINVAL, "mount takes 3 to 4 "),
    ],
)
def test_wrong_commands_are_refused(
    agent: Agent, argv: tuple[str, ...], error: int, call: str
) -> None:
    status, errors = agent.errors(*argv)
    assert status == 1
    assert [value for value, _ in errors] == [error]
    assert errors[0][1].decode().startswith(call)


@pytest.mark.parametrize("command", ["facts", "stat", "flushbufs"])
def test_a_disk_that_is_not_there_is_waited_for_and_named(
    agent: Agent, tmp_path: Path, command: str
) -> None:
    status, errors = agent.errors(command, "vdz")
    assert (status, errors[0]) == (1, (errno.ENODEV, b"wait for block device /dev/vdz"))
    assert agent.run("mkdir", str(tmp_path / "alive")) == (0, [])


def test_exec_passes_the_exit_status_on(agent: Agent) -> None:
    assert agent.run("exec", "/bin/true") == (0, [])
    status, errors = agent.errors("exec", "/bin/sh", "-c", "exit 42")
    assert (status, errors) == (42, [])  # a program that fails says itself why


def test_exec_of_nothing(agent: Agent) -> None:
    assert agent.errors("exec", "/no/such/program") == (
        127,
        [(errno.ENOENT, b"execv /no/such/program")],
    )


def test_exec_killed_by_a_signal(agent: Agent) -> None:
    status, errors = agent.errors("exec", "/bin/sh", "-c", "kill -SEGV $$")
    assert status == 128 + 11
    assert len(errors) == 1
    assert b"killed by signal 11" in errors[0][1]


def test_exec_reports_what_was_said(agent: Agent) -> None:
    status, before = agent.run("exec", "/bin/sh", "-c", "echo out; echo err >&2; printf unfinished")
    assert status == 0
    assert [(kind, payload) for kind, _, payload in before] == [
        (TEXT, b"out"),
        (TEXT, b"err"),
        (TEXT, b"unfinished"),
    ]


def test_exec_keeps_the_end_of_endless_talk(agent: Agent) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    status, before = agent.run("exec", "/bin/sh", "-c", script)
    lines = [payload for _, _, payload in before]
    assert status == 0
    assert lines[-1] == b"line 19999"
    assert sum(map(len, lines)) < 16384


def test_child_has_the_port_and_no_other_file(agent: Agent) -> None:
    message = encode(TEXT, 7, b"from the child")
    octal = "".join("\\" + format(byte, "03o") for byte in message)
    script = f"printf '{octal}' >&3; ls /proc/self/fd"
    status, before = agent.run("exec", "/bin/sh", "-c", script)
    assert status == 0
    # The last descriptor is the one with which ls reads the directory.
    assert [payload for _, _, payload in before] == [
        b"from the child",
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]


def test_child_that_leaves_a_grandchild_is_not_waited_for(agent: Agent) -> None:
    status, _ = agent.run("exec", "/bin/sh", "-c", "sleep 5 & exit 3")
    assert status == 3


def test_commands_follow_each_other_on_one_stream(agent: Agent, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    stream = b"".join(
        encode(COMMAND, number, b"mkdir\0" + str(path).encode() + b"\0")
        for number, path in enumerate(paths, start=1)
    )
    for byte in stream[:-1]:
        agent.socket.sendall(bytes([byte]))
    agent.socket.sendall(stream[-1:])
    assert [agent.read()[:3] for _ in paths] == [(DONE, 1, 0), (DONE, 2, 0), (DONE, 3, 0)]
    assert all(path.is_dir() for path in paths)


def test_message_that_is_no_command_is_answered(agent: Agent) -> None:
    agent.socket.sendall(encode(HELLO, 9, b"me too"))
    assert agent.read()[0::2][:1] == (ERROR,)
    assert agent.read()[:3] == (DONE, 9, 1)


@pytest.mark.parametrize("position", [0, 20, 45])
def test_damaged_stream_ends_the_agent(binary: Path, position: int) -> None:
    agent = Agent(binary)
    agent.read()
    stream = bytearray(encode(COMMAND, 1, b"mkdir\0/nowhere/at/all\0"))
    stream[position] ^= 0x10
    agent.socket.sendall(stream)
    assert agent.process.wait(timeout=TIMEOUT_S) == 1
    said = agent.close()
    assert "out of step" in said or "damaged" in said


def test_an_error_says_what_it_is_about(agent: Agent, tmp_path: Path) -> None:
    """What is held against the disk hangs on it (model/failure.py): one verb for each fault."""
    assert agent.faults("sync", str(tmp_path / "none")) == [(GuestFault.CALL, errno.ENOENT)]
    assert agent.faults("exec", "/no/such/program") == [(GuestFault.START, errno.ENOENT)]
    killed = agent.faults("exec", "/bin/sh", "-c", "kill -KILL $$")
    assert killed == [(GuestFault.SIGNAL, errno.EINTR)]
    assert agent.faults("exec", "/bin/sh", "-c", "exit 1") == []
    missing = agent.faults("mount", "xfs", "no-such-disk", str(tmp_path), "")
    assert missing == [(GuestFault.DEVICE, errno.ENODEV)]


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A block device of 1 MiB; its backing file can be cut short."""
    file = tmp_path / "disk"
    file.write_bytes(bytes(1 << 20))
    host_needs.require("loop")
    made = subprocess.run(
        ["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=True
    )
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def test_a_refused_mount_is_told_from_what_fails_before_it(agent: Agent, loop: str) -> None:
    assert agent.faults("mount", "ext4", loop, "/proc/none", "")[0][0] == GuestFault.CALL
    ((fault, error),) = agent.faults("mount", "no-such-fs", loop, "/tmp", "")
    assert (fault, error) in {(GuestFault.MOUNT, errno.ENODEV), (GuestFault.MOUNT, errno.EPERM)}


def test_a_disk_is_probed_to_its_end(agent: Agent, loop: str, tmp_path: Path) -> None:
    assert agent.run("probe", loop) == (0, [])
    os.truncate(tmp_path / "disk", 512 << 10)  # the rest reads as an I/O error
    status, errors = agent.errors("probe", loop)
    assert (status, [number for number, _ in errors]) == (1, [errno.EIO])
