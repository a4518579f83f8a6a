# SPDX-License-Identifier: Apache-2.0
"""powercut listen: lines of a workload that anybody starts, and a check after a cut by hand."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from powercut.cli.commands import cli
from powercut.model.errors import PowercutError
from powercut.paths import CLIENT_BINARY, EXAMPLES

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


@contextlib.contextmanager
def listening(folder, *options):
    program = "from powercut.cli.main import main; main()"
    argv = [sys.executable, "-c", program, "listen", str(folder), *map(str, options)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    where = re.fullmatch(r"listening on (\S+) port (\d+)\n", process.stdout.readline())
    token = re.fullmatch(r"token: ([0-9a-f]{32})\n", process.stdout.readline())
    try:
        yield Listener(process, (where[1], int(where[2])), token[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def listener(tmp_path):
    with listening(tmp_path / "heard") as one:
        yield one


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
        f'cat "{store}"\n[ -n "$POWERCUT_AFTER" ] || echo "= 21" >>"{store}"\n'
        f"echo called >>'{tmp_path}/calls'\n"
    )
    for kept, verdict in (("= 1-20", "SURVIVED"), ("= 1-18", "LOSSY")):
        store.write_text(f"{kept}\n")
        argv = ["listen", str(tmp_path / "heard"), "--check", f"sh '{script}'"]
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
        with contextlib.suppress(ConnectionResetError):  # the listener closes just now
            socket.create_connection(listener.address, timeout=LONG_S).close()


CLIENTS = {
    "static": [str(CLIENT_BINARY)],
    "python": [sys.executable, str(EXAMPLES / "powercut_client.py")],
}
WORKLOAD = 'printf "%s" "$0" >&$POWERCUT_FD && test -z "$POWERCUT_TOKEN" && test $1-$2 = run-DIR'


def by_client(listener, *client):
    """The client with a workload in shell, which ends by itself."""
    where = f"{listener.address[0]}:{listener.address[1]}"
    done = subprocess.run(
        [*client, where, "sh", "-c", WORKLOAD, ACKED, "run", "DIR"],
        env={**os.environ, "POWERCUT_TOKEN": listener.token},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_becomes_the_workload(listener, client):
    assert by_client(listener, *CLIENTS[client]) == (0, "")
    assert "20 operations acknowledged of 20 tried" in listener.end()


def test_the_client_in_python_speaks_tls(tmp_path, files):
    with listening(tmp_path / "heard", *tls(files)) as listener:
        client = [*CLIENTS["python"], "--certificate", str(files[0])]
        assert by_client(listener, *client) == (0, "")
        assert "20 operations acknowledged of 20 tried" in listener.end()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_refuses_what_it_cannot_use(client):
    for words, why in (([], ":PORT PROGRAM run DIR"), (["nowhere", "true"], "nowhere")):
        done = subprocess.run(
            [*CLIENTS[client], *words],
            env={**os.environ, "POWERCUT_TOKEN": "0" * 32},
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert done.returncode != 0
        assert why in done.stderr.replace(", ", " ")
        assert "Traceback" not in done.stderr


def test_a_line_of_hostile_length_makes_nothing_certain(listener, tmp_path):
    with listener.connect() as workload:
        workload.sendall(ACKED.encode() + b"+ " + b"7" * 1_000_000 + b"\n")
    assert "beware" in listener.end()
    assert check(tmp_path, "= 1-20\\n").return_value == 3


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--certificate", "c.pem"], "--certificate and --key belong together"),
        (["--certificate", "no.pem", "--key", "no.key"], "is not there, or cannot be read"),
        (["--address", "nowhere"], "write HOST:PORT"),
        (["--address", "127.0.0.1:99999"], "write HOST:PORT"),
        (["--check", "true"], "nothing was heard there"),
        (["--check", ""], "--check: give a command"),
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


# --- TLS -----------------------------------------------------------------------------------


def own_certificate(folder, name):
    """A self-signed certificate for this host, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl: apt-get install openssl")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650",
         "-subj", "/CN=powercut", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture
def files(tmp_path):
    return own_certificate(tmp_path, "own")


def encrypted(listener, certificate, *, token=None):
    context = ssl.create_default_context(cafile=certificate)
    plain = socket.create_connection(listener.address, timeout=LONG_S)
    connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
    connection.sendall(f"{listener.token if token is None else token}\n".encode())
    return connection


def is_hung_up(connection):
    """After the alert of TLS, perhaps."""
    try:
        return connection.recv(100)[:1] in (b"", b"\x15")
    except (ConnectionError, ssl.SSLError):
        return True


def tls(files):
    return "--certificate", files[0], "--key", files[1]


def test_lines_come_encrypted_and_end_with_the_power(tmp_path, files):
    with listening(tmp_path / "heard", *tls(files)) as listener:
        assert re.fullmatch(
            r"certificate: SHA-256 [0-9a-f]{64}\n", listener.process.stdout.readline()
        )
        workload = encrypted(listener, files[0])
        # Token and lines in one record, then a record whose end does not come.
        workload.sendall(ACKED.encode() + b"? 21\n+ 2")
        socket.socket.shutdown(workload, socket.SHUT_RDWR)  # nothing is said of an end
        workload.close()
        assert "20 operations acknowledged of 21 tried" in listener.end()
    kept = check(tmp_path, "= 1-20\n")
    assert kept.output.startswith("SURVIVED: 20 operations were acknowledged")
    assert b"? 21" in (tmp_path / "heard" / "lines.bin").read_bytes()


def test_a_machine_with_tls_that_closes_nothing_is_ended_by_hand(tmp_path, files):
    """What stays in the connection is read as what it says, not as it was sent."""
    with listening(tmp_path / "heard", *tls(files)) as listener:
        with encrypted(listener, files[0]) as workload:
            workload.sendall(ACKED.encode() + b"? 99\n")
            listener.process.send_signal(signal.SIGINT)
            out = listener.end()
        assert "20 operations acknowledged of 21 tried" in out
        assert "beware" not in out


def test_the_shell_example_works(tmp_path, files):
    """As docs/foreign-machines.md has it."""
    with listening(tmp_path / "heard", *tls(files)) as listener:
        where = "{}:{}".format(*listener.address)
        client = subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-no_ign_eof", "-verify_return_error", "-CAfile",
             str(files[0]), "-connect", where],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        _, errors = client.communicate(f"{listener.token}\n{ACKED}".encode(), timeout=LONG_S)
        assert "20 operations acknowledged of 20 tried" in listener.end(), errors


def test_who_does_not_speak_tls_or_trusts_another_certificate_is_refused(tmp_path, files):
    other, _ = own_certificate(tmp_path, "other")
    with listening(tmp_path / "heard", *tls(files)) as listener:
        with listener.connect() as plain:  # with the right token
            assert is_hung_up(plain)
        with pytest.raises(ssl.SSLCertVerificationError):
            encrypted(listener, other)
        with encrypted(listener, files[0], token="0" * 32) as stranger:
            assert is_hung_up(stranger)
        with encrypted(listener, files[0]) as workload:
            workload.sendall(ACKED.encode())
        out = listener.end()
    refused = [line for line in out.splitlines() if line.startswith("refused 127.0.0.1: ")]
    assert any("it does not speak TLS" in line for line in refused), out
    assert any("it does not accept this certificate" in line for line in refused), out
    assert any("it said another token" in line for line in refused), out
    assert "20 operations acknowledged of 20 tried" in out


def test_a_key_of_another_certificate_is_a_mistake(tmp_path, files):
    _, other = own_certificate(tmp_path, "other")
    done = CliRunner().invoke(
        cli, ["listen", str(tmp_path / "x"), *map(str, tls((files[0], other)))]
    )
    assert "they do not belong together" in str(done.exception)
    files[1].write_text("nothing")
    done = CliRunner().invoke(cli, ["listen", str(tmp_path / "x"), *map(str, tls(files))])
    assert "not PEM files" in str(done.exception)
    assert not (tmp_path / "x").exists()


def test_what_is_heard_is_for_its_owner_alone(listener, tmp_path):
    assert (tmp_path / "heard").stat().st_mode & 0o777 == 0o700


@pytest.mark.ipv6
@pytest.mark.parametrize("address", ["[::1]:0", "::1:0"])
def test_it_listens_on_ipv6(tmp_path, address):
    with listening(tmp_path / "heard", "--address", address) as listener:
        assert listener.address[0] == "::1"
        with listener.connect() as workload:
            workload.sendall(ACKED.encode())
        assert "20 operations acknowledged of 20 tried" in listener.end()


def test_an_address_that_is_none_is_named(tmp_path):
    argv = ["listen", str(tmp_path / "heard"), "--address", "no.such.host.invalid:0"]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert "cannot listen on no.such.host.invalid port 0" in str(done.exception)
