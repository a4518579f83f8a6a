# SPDX-License-Identifier: Apache-2.0
"""powercut listen: lines of a workload that anybody starts, and a check after a cut by hand."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from powercut.cli.main import cli
from powercut.model.errors import PowercutError

LONG_S = 60
ACKED = "ready\n" + "".join(f"? {n}\n+ {n}\n" for n in range(1, 21))


@dataclass
class Listener:
    process: subprocess.Popen[str]
    address: tuple[str, int]
    token: str

    def connect(self, token=None):
        connection = socket.create_connection(self.address, timeout=LONG_S)
        connection.sendall(f"{self.token if token is None else token}\n".encode())
        return connection

    def end(self):
        out, _ = self.process.communicate(timeout=LONG_S)
        return out


@pytest.fixture
def listener(tmp_path):
    program = "from powercut.cli.main import main; main()"
    argv = [sys.executable, "-c", program, "listen", str(tmp_path / "heard")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    where = re.fullmatch(r"listening on (\S+) port (\d+)\n", process.stdout.readline())
    token = re.fullmatch(r"token: ([0-9a-f]{32})\n", process.stdout.readline())
    yield Listener(process, (where[1], int(where[2])), token[1])
    process.kill()
    process.wait()
    process.stdout.close()


def check(tmp_path, said, *, status=0):
    script = f"printf '{said}'; exit {status}"
    argv = ["listen", str(tmp_path / "heard"), "--check", f'sh -c "{script}"']
    return CliRunner().invoke(cli, argv, standalone_mode=False)


def test_what_a_disk_lost_is_named_and_its_honest_twin_survives(listener, tmp_path):
    assert listener.address[0] == "127.0.0.1"
    with listener.connect() as workload:
        workload.sendall(ACKED.encode() + b"? 21\n+ 2")  # the power goes within a line
    assert "20 operations acknowledged of 21 tried" in listener.end()
    lossy = check(tmp_path, "= 1-5\\n= 8-20\\n")
    assert (lossy.return_value, lossy.output.splitlines()[0]) == (
        1,
        "LOSSY: 20 operations were acknowledged",
    )
    assert "2 operations are acknowledged and not there: 6-7" in lossy.output
    kept = check(tmp_path, "= 1-20\\n")
    assert kept.return_value == 0
    assert kept.output.startswith("SURVIVED: 20 operations were acknowledged")
    assert "fewer than 95 % of such cuts lose data" in kept.output
    assert check(tmp_path, "= 1-22\\n").return_value == 0  # 22: its announcement was under way
    assert check(tmp_path, "= 1-20\\n", status=4).return_value == 3
    assert check(tmp_path, "gibberish\\n").return_value == 3
    assert check(tmp_path, "bad torn page\\n").return_value == 1


def test_a_check_that_writes_is_told_that_another_one_follows(listener, tmp_path):
    with listener.connect() as workload:
        workload.sendall(ACKED.encode())
    listener.end()
    store = tmp_path / "store"
    script = tmp_path / "check.sh"
    script.write_text(
        f'cat {store}\n[ -n "$POWERCUT_AFTER" ] || echo "= 21" >>{store}\n'
        f"echo called >>{tmp_path}/calls\n"
    )
    for kept, verdict in (("= 1-20", "SURVIVED"), ("= 1-18", "LOSSY")):
        store.write_text(f"{kept}\n")
        argv = ["listen", str(tmp_path / "heard"), "--check", f"sh {script}"]
        done = CliRunner().invoke(cli, argv, standalone_mode=False)
        assert done.output.splitlines()[0] == f"{verdict}: 20 operations were acknowledged"
        assert store.read_text() == f"{kept}\n= 21\n"
    assert (tmp_path / "calls").read_text() == "called\n" * 4


def test_a_machine_that_closes_nothing_is_ended_by_hand(listener):
    with listener.connect() as workload:
        workload.sendall(ACKED.encode())
        workload.sendall(b"? 99\n")
        listener.process.send_signal(signal.SIGINT)
        assert "20 operations acknowledged of 21 tried" in listener.end()


def test_a_workload_that_says_its_end_is_heard_to_it(listener):
    """Though its connection stays open."""
    with listener.connect() as workload:
        workload.sendall(ACKED.encode() + b"\0\n")
        assert "20 operations acknowledged of 20 tried" in listener.end()


def test_a_wrong_token_says_nothing_and_a_second_client_is_nobody(listener):
    with listener.connect("0" * 32) as stranger:
        assert stranger.recv(1) == b""
    with listener.connect() as workload:
        workload.sendall(ACKED.encode())
        with pytest.raises(ConnectionRefusedError):
            _connect_until_refused(listener)
    assert "20 operations acknowledged of 20 tried" in listener.end()


def _connect_until_refused(listener):
    """Says nothing: whoever does keeps nobody out."""
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        socket.create_connection(listener.address, timeout=LONG_S).close()


def test_a_line_of_hostile_length_makes_nothing_certain(listener, tmp_path):
    with listener.connect() as workload:
        workload.sendall(ACKED.encode() + b"+ " + b"7" * 1_000_000 + b"\n")
    assert "beware" in listener.end()
    assert check(tmp_path, "= 1-20\\n").return_value == 3


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--address", "nowhere"], "write HOST:PORT"),
        (["--address", "127.0.0.1:99999"], "write HOST:PORT"),
        (["--check", "true"], "nothing was heard there"),
        (["--check", "'"], "--check: No closing quotation"),
    ],
)
def test_mistakes_are_told(tmp_path, argv, words):
    done = CliRunner().invoke(cli, ["listen", str(tmp_path / "x"), *argv])
    assert isinstance(done.exception, PowercutError)
    assert words in str(done.exception)
    assert not (tmp_path / "x").exists()


def test_a_folder_is_heard_into_once(tmp_path):
    done = CliRunner().invoke(cli, ["listen", str(tmp_path)])
    assert "it is there already" in str(done.exception)
