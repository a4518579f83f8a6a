# SPDX-License-Identifier: Apache-2.0
"""ssh against a real server on this host: who is let in, what a command leaves, lost links."""

from __future__ import annotations

import signal
import socket

import pytest
import ssh_hosts
from ssh_hosts import Home, SshServer, host_key

from powercut.model.errors import DeadlineExceeded, HostError, UsageError
from powercut_extras.elsewhere.channel import LinePort, SshChannel
from powercut_extras.elsewhere.machine import ForeignMachine
from powercut_extras.elsewhere.power import Power
from powercut_extras.elsewhere.remote import NotLetIn, Unreachable, WrongKey
from powercut_extras.elsewhere.ssh import FabricRemote

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(ssh_hosts.missing()), reason=ssh_hosts.missing()),
]
LONG_S = 60
STAYS_S = 60
"""Without a terminal a server ends no command when its link is gone: it has to end by itself."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    return Home.own(tmp_path / "home", monkeypatch)


@pytest.fixture
def server(tmp_path, home):
    made = SshServer(tmp_path, home)
    home.name("box", "127.0.0.1", made.port)
    home.know("127.0.0.1", made.port, made.public)
    yield made
    made.kill()


@pytest.fixture
def remote(server):
    with FabricRemote("box") as made:
        made.connect(timeout_s=LONG_S)
        yield made


def test_a_command_leaves_its_bytes_its_words_and_its_status(remote):
    done = remote.run("cat; echo oops >&2; exit 3", stdin=[b"\0\xff", b"x" * 99_999], timeout_s=60)
    assert (done.status, done.printed) == (3, "oops\n")
    assert done.output == b"\0\xff" + b"x" * 99_999


def test_a_command_that_a_signal_ends_has_failed(remote):
    assert remote.run("kill -9 $$", timeout_s=LONG_S).status == 255


def test_a_command_that_does_not_end_in_time(remote):
    with pytest.raises(DeadlineExceeded, match="no answer within 1 s"):
        remote.run(f"sleep {STAYS_S}", timeout_s=1)
    assert remote.run("echo still here", timeout_s=LONG_S).text == "still here"


def test_the_end_in_order_and_a_lost_link_differ(remote, server):
    ended = remote.begin("echo a; exit 4", timeout_s=LONG_S)
    assert ended.read() == b"a\n"
    assert (ended.read(), ended.status, ended.ended_in_order) == (b"", 4, True)
    lost = remote.begin(f"echo b; sleep {STAYS_S}", timeout_s=LONG_S)
    assert lost.read() == b"b\n"
    server.kill_sessions(signal.SIGKILL)
    assert (lost.read(), lost.status, lost.ended_in_order) == (b"", None, False)
    with pytest.raises(Unreachable):
        remote.run("true", timeout_s=LONG_S)


def test_a_host_that_is_not_known_is_not_trusted(home, server):
    home.forget()
    with pytest.raises(WrongKey, match="not found in known_hosts") as error:
        FabricRemote("box").connect(timeout_s=LONG_S)
    assert "ssh box true" in error.value.hint


def test_a_host_with_another_key_is_refused(home, server, tmp_path):
    home.forget()
    (tmp_path / "other").mkdir()
    home.know("127.0.0.1", server.port, host_key(tmp_path / "other")[1])
    with pytest.raises(WrongKey, match="another host key") as error:
        FabricRemote("box").connect(timeout_s=LONG_S)
    assert "ssh-keygen -R" in error.value.hint


def test_a_user_without_a_key_is_not_let_in(home, server):
    for key in (home.path / ".ssh").glob("id_ed25519*"):
        key.unlink()
    other = Home.make(home.path / "other")
    for key in (other.path / ".ssh").glob("id_ed25519*"):
        key.rename(home.path / ".ssh" / key.name)
    with pytest.raises(NotLetIn, match="Authentication failed") as error:
        FabricRemote("box").connect(timeout_s=LONG_S)
    assert "ssh box true" in error.value.hint


def test_a_host_that_is_dead(home, server):
    server.kill()
    with pytest.raises(Unreachable, match="ssh box: "):
        FabricRemote("box").connect(timeout_s=LONG_S)


def test_a_host_that_takes_the_connection_and_says_nothing(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        home.name("silent", "127.0.0.1", silent.getsockname()[1])
        with pytest.raises(Unreachable, match="ssh silent: "):
            FabricRemote("silent").connect(timeout_s=1)


@pytest.fixture
def channel(remote, tmp_path):
    (tmp_path / "run").mkdir()
    machine = ForeignMachine("box", remote, Power(None), tmp_path)
    with (
        LinePort(tmp_path / "run" / "lines") as port,
        SshChannel("box", remote, machine, port) as made,
    ):
        yield made


def test_files_are_brought_with_their_modes(channel, tmp_path):
    folder = tmp_path / "program"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "run.sh").write_text("#!/bin/sh\nexit 7\n")
    (folder / "deep" / "run.sh").chmod(0o755)
    there = tmp_path / "there with a space"
    channel.bring(folder, str(there), timeout_s=LONG_S)
    assert channel.run(str(there / "deep" / "run.sh"), timeout_s=LONG_S).status == 7


def test_a_command_that_wants_no_more_says_why(remote):
    endless = (b"x" * 65536 for _ in range(10_000))
    done = remote.run("head -c 10 >/dev/null; echo full >&2; exit 5", stdin=endless, timeout_s=60)
    assert (done.status, done.printed) == (5, "full\n")


def test_an_open_quote_in_the_configuration_is_named(home, server):
    with (home.path / ".ssh" / "config").open("a") as config:
        config.write("Host box\n  UserKnownHostsFile 'open\n")
    with pytest.raises(UsageError, match="UserKnownHostsFile of ssh's configuration: not a comm"):
        FabricRemote("box").connect(timeout_s=LONG_S)


def test_what_cannot_be_brought_is_told(channel, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HostError, match="could not be brought"):
        channel.bring(tmp_path / "file", str(tmp_path / "file"), timeout_s=LONG_S)
    with pytest.raises(HostError, match="cannot be packed"):
        channel.bring(tmp_path / "nothing", str(tmp_path / "to"), timeout_s=LONG_S)


def test_lines_come_on_the_port_and_what_is_printed_does_not(channel, tmp_path):
    with socket.socket(socket.AF_UNIX) as lines:
        lines.connect(str(tmp_path / "run" / "lines"))
        done = channel.run("sh", "-c", "echo '= 1-3' >&3; echo noise; echo more >&2", timeout_s=60)
        assert (done.status, done.texts) == (0, ("noise", "more"))
        assert lines.recv(100) == b"= 1-3\n\0\n"


def test_a_machine_whose_kernel_may_not_be_restarted(remote, tmp_path):
    machine = ForeignMachine("box", remote, Power(None), tmp_path)
    machine.boot_id = "1"
    remote.run = _without_sysrq(remote.run)
    with pytest.raises(HostError, match="may not restart the kernel"):
        machine.crash(timeout_s=LONG_S)


def _without_sysrq(run):
    def other(script, **options):
        return run(script.replace("/proc/sysrq-trigger", "/proc/no-such-file"), **options)

    return other
