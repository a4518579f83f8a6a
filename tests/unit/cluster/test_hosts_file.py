# SPDX-License-Identifier: Apache-2.0
"""The hosts file: what it says of each host, and where its mistakes are."""

from __future__ import annotations

import contextlib

import pytest

from powercut.cluster import up
from powercut.cluster.hosts_file import read_hosts, target_of
from powercut.machine.remote import Unreachable
from powercut.model.errors import HostError, UsageError

GOOD = """\
powercut-hosts: 1
defaults: {user: ci, jobs: 4, identity: keys/fleet, known_hosts: known_hosts, room: 1 GiB}
hosts:
  - {name: alpha, address: 10.0.0.11}
  - {name: beta, address: beta.example, port: 2222, jobs: 8, user: root, folder: /srv/pc}
"""


def write(tmp_path, text):
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    return path


def test_each_host_has_what_it_says_and_else_the_defaults(tmp_path):
    alpha, beta = read_hosts(write(tmp_path, GOOD))
    assert (alpha.name, alpha.user, alpha.port, alpha.jobs) == ("alpha", "ci", None, 4)
    assert (beta.user, beta.port, beta.jobs, beta.folder) == ("root", 2222, 8, "/srv/pc")
    assert alpha.room == beta.room == 1 << 30
    target = target_of(beta)
    assert (target.host, target.user, target.port) == ("beta.example", "root", 2222)
    assert target.identity == str(tmp_path / "keys" / "fleet")
    assert target.known_hosts == str(tmp_path / "known_hosts")
    assert str(target) == "root@beta.example port 2222"


def test_without_defaults_ssh_decides(tmp_path):
    text = "powercut-hosts: 1\nhosts:\n  - {name: a, address: a}\n"
    (host,) = read_hosts(write(tmp_path, text))
    assert (host.user, host.port, host.identity, host.known_hosts, host.jobs) == (
        *(None,) * 4,
        1,
    )


@pytest.mark.parametrize(
    ("before", "after", "place", "words"),
    [
        ("powercut-hosts: 1", "powercut-hosts: 2", "1:1", "powercut-hosts"),
        ("jobs: 8", "job: 8", "5:53", "hosts.1.job: unknown key; did you mean jobs?"),
        ("jobs: 4", "jobs: many", "2:22", "defaults.jobs: should be a valid integer"),
        ("jobs: 8", "jobs: 0", "5:53", "hosts.1.jobs: should be greater than or equal to 1"),
        ("user: ci", "usr: ci", "2:12", "defaults.usr: unknown key; did you mean user?"),
        ("user: ci", "address: ci", "2:12", "defaults.address: each host has its own"),
        ("name: beta", "name: alpha", "5:6", "hosts.1.name: two hosts have this name"),
        ("name: beta, ", "", "5:5", "hosts.1: the key 'name' is missing"),
        ("10.0.0.11", "root@10.0.0.11", "4:19", "user and port have their own keys"),
        ("10.0.0.11", "-oProxyCommand=x", "4:19", "should be a host name or an IP address"),
        ("/srv/pc", "../../etc", "5:74", "without `..`"),
        ("/srv/pc", "'/srv/$(id)'", "5:74", "should be a path of letters"),
        ("1 GiB", "much", "2:79", "defaults.room: write a number and a unit"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path, before, after, place, words):
    path = write(tmp_path, GOOD.replace(before, after))
    with pytest.raises(UsageError) as error:
        read_hosts(path)
    lines = str(error.value).splitlines()
    assert any(line.startswith(f"{path}:{place}: ") and words in line for line in lines), lines


@pytest.mark.parametrize(
    "text", ["", "hosts: []\n", "powercut-hosts: 1\nhosts: []\n", "[]", "a: ["]
)
def test_what_is_no_hosts_file(tmp_path, text):
    with pytest.raises(UsageError, match=r"hosts\.yaml"):
        read_hosts(write(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot read the hosts file: No such file"):
        read_hosts(tmp_path / "none.yaml")


@pytest.mark.parametrize("taken", [0, 4, 5])
def test_ports_that_others_have_are_not_insisted_on(taken):
    class There:
        asked = 0

        @contextlib.contextmanager
        def tunnels(self, *, here, there, back, to):
            assert (here, to) == (there, 8786)
            assert here != back
            self.asked += 1
            if self.asked <= taken:
                raise Unreachable("no tunnel: the port is taken")
            yield

    remote = There()
    with contextlib.ExitStack() as stack:
        if taken < 5:
            up._tunnels(stack, remote, 8786)
            assert remote.asked == taken + 1
        else:
            with pytest.raises(
                HostError, match="no tunnel in 5 tries: no tunnel: the port is taken"
            ):
                up._tunnels(stack, remote, 8786)
