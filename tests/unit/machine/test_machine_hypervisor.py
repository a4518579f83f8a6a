# SPDX-License-Identifier: Apache-2.0
"""Process and QMP without a QEMU: peers that do what QEMU does, and what it should not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from powercut.machine.process import spawn
from powercut.machine.qemu.hypervisor import Hypervisor, Qmp
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.sandbox.users import FIRST, HostView

SOON_S = 120
NEVER_S = 3600


@pytest.fixture
def directory():
    path = Path(tempfile.mkdtemp(prefix="pc-"))
    yield path
    shutil.rmtree(path)


PEER = """
import json, socket, sys
greeting = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""},
                    "capabilities": []}}
answers = {"query-status": {"status": "running", "running": True, "singlestep": False}}
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
def say(message):
    client.sendall(json.dumps(message).encode() + b"\\n")
def commands():
    text = ""
    while data := client.recv(65536):
        text += data.decode()
        while text := text.lstrip():  # commands need not end with a newline
            command, end = json.JSONDecoder().raw_decode(text)
            text = text[end:]
            yield command
say(greeting)
for command in commands():
    name = command["execute"]
    if name == "quit":
        break
    if name == "hang":
        continue
    if name == "refuse":
        error = {"class": "GenericError", "desc": "not today"}
        say({"error": error, "id": command["id"]})
        continue
    reply = {"return": answers.get(name, {})}
    if "id" in command:
        reply["id"] = command["id"]
    say(reply)
"""


def launch(directory: Path, *argv: str, view: HostView | None = None) -> Hypervisor:
    return Hypervisor.launch(
        argv,
        directory / "qmp",
        directory / "log",
        directory / "console",
        view=view,
        timeout_s=SOON_S,
    )


@pytest.fixture
def peer(directory):
    made = launch(directory, sys.executable, "-c", PEER, str(directory / "qmp"))
    yield made
    made.kill()
    assert not (directory / "qmp").exists()


def test_a_peer_answers_until_it_is_killed(peer):
    assert peer.running
    assert peer.status(timeout_s=SOON_S) == "running"
    peer.wait_status("running", timeout_s=SOON_S)
    peer.kill()
    peer.kill()
    assert not peer.running
    assert peer.process.returncode == -signal.SIGKILL


def capabilities(process: object) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (text,) = (line.removeprefix("CapEff:") for line in lines if line.startswith("CapEff:"))
    return int(text, 16)


def test_root_s_opens_files_and_has_no_other_capability(peer):
    """DAC_OVERRIDE, DAC_READ_SEARCH and IPC_LOCK; a user's has what the user has."""
    ours = capabilities("self")
    dropped = os.geteuid() == 0 and ours & 1 << 8  # SETPCAP
    assert capabilities(peer.process.pid) == (ours & 0x4006 if dropped else ours)


def test_one_that_has_a_view_of_the_host_is_no_user_of_it(directory):
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")  # which all may run
    assert python is not None
    argv = [python, "-c", PEER, str(directory / "qmp")]
    made = launch(directory, *argv, view=HostView([directory], rings=True))
    try:
        made.wait_status("running", timeout_s=SOON_S)
        assert Path(f"/proc/{made.process.pid}").stat().st_uid == (os.geteuid() or FIRST)
        assert os.geteuid() or not capabilities(made.process.pid)
    finally:
        made.kill()


SERVER = "mount -t tmpfs none '{0}' && echo served > '{0}/disk' && exec sleep 3600"


@pytest.mark.mounts  # a user's processes trace each other
def test_a_file_in_the_mounts_of_a_server_that_may_more_can_be_opened(directory):
    """As a disk that grows is, which root's nbdfuse or storage daemon serves."""
    (mounted := directory / "served").mkdir()
    server = subprocess.Popen(["unshare", "--mount", "sh", "-c", SERVER.format(mounted)])
    try:
        disk = Path(f"/proc/{server.pid}/root{mounted}/disk")
        deadline = time.monotonic() + SOON_S
        while not disk.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        argv = ["grep", "-q", "^served$", str(disk)]
        assert spawn(argv, directory / "log", few_powers=True).wait(SOON_S) == 0
        assert spawn(argv, directory / "log").wait(SOON_S) == 0
    finally:
        server.kill()
        server.wait()


def test_a_status_that_never_comes(peer):
    with pytest.raises(DeadlineExceeded, match="'running', not 'paused'"):
        peer.wait_status("paused", timeout_s=0.05)


def test_quit_is_in_order(peer):
    peer.quit(timeout_s=SOON_S)
    assert peer.process.returncode == 0


def test_refusals_and_deadlines_are_told(peer):
    with pytest.raises(HostError, match="refused refuse: not today"):
        peer._qmp.execute("refuse", timeout_s=SOON_S)
    with pytest.raises(DeadlineExceeded, match="did not hang within"):
        peer._qmp.execute("hang", timeout_s=0.05)


def test_a_peer_that_dies_between_commands(peer):
    os.kill(peer.process.pid, signal.SIGKILL)
    peer.process.wait()
    with pytest.raises(HostError, match="hung up"):
        peer.status(timeout_s=NEVER_S)


def test_a_program_that_ends_at_once_is_told_with_its_words(directory):
    with pytest.raises(HostError) as caught:
        launch(directory, "/bin/sh", "-c", "echo no such option >&2; exit 3")
    message = str(caught.value)
    assert "ended before it connected" in message
    assert "command: /bin/sh -c 'echo no such option >&2; exit 3'" in message
    assert "exit status 3" in message
    assert "output: no such option" in message
    assert not (directory / "qmp").exists()


def test_a_program_that_never_connects_is_killed_at_the_deadline(directory, monkeypatch):
    made = []

    def remembered(*args, **more):
        made.append(spawn(*args, **more))
        return made[-1]

    monkeypatch.setattr("powercut.machine.qemu.hypervisor.spawn", remembered)
    argv = ["/bin/sleep", "3600"]
    with pytest.raises(HostError, match="did not connect to QMP within"):
        Hypervisor.launch(
            argv,
            directory / "qmp",
            directory / "log",
            directory / "console",
            view=None,
            timeout_s=0.05,
        )
    with pytest.raises(ProcessLookupError):
        os.kill(made[0].pid, 0)


def test_a_peer_that_speaks_something_else(directory):
    script = (
        "import socket, sys\n"
        "client = socket.socket(socket.AF_UNIX)\n"
        "client.connect(sys.argv[1])\n"
        "client.sendall(b'hello there\\n')\n"
        "client.recv(1)\n"
    )
    with pytest.raises(HostError, match="QEMU did not start"):
        launch(directory, sys.executable, "-c", script, str(directory / "qmp"))


def test_a_program_that_is_not_there(directory):
    with pytest.raises(HostError, match="not an executable"):
        launch(directory, str(directory / "missing"))
    assert not (directory / "qmp").exists()


def test_a_taken_socket_path_is_told(directory):
    (directory / "taken").mkdir()
    with pytest.raises(HostError, match="cannot listen for QEMU"):
        Qmp(directory / "taken")
    assert (directory / "taken").is_dir()


def test_children_outlive_the_thread_that_asked_for_them(directory):
    made: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(
        target=lambda: made.append(spawn(["cat", "/dev/zero"], Path("/dev/null")))
    )
    thread.start()
    thread.join()
    (child,) = made
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
    finally:
        child.kill()
        child.wait()


def test_children_die_with_the_controller(directory):
    script = (
        "import sys\nfrom pathlib import Path\nfrom powercut.machine.process import spawn\n"
        "child = spawn(['sleep', '3600'], Path('/dev/null'))\n"
        "sys.stdout.write(f'{child.pid}\\n')\nsys.stdout.flush()\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as controller:
        pid = int(controller.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        controller.kill()
        controller.wait()
        deadline = time.monotonic() + SOON_S
        while _alive(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
