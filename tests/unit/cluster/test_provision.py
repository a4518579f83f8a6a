# SPDX-License-Identifier: Apache-2.0
"""Hosts are asked and made ready; here each is a home on this host, and its wheels are small."""

from __future__ import annotations

import hashlib
import os
import zipfile

import pytest
from click.testing import CliRunner
from hosts_here import HostHere

from powercut.cli.commands import cli
from powercut.cluster import facts
from powercut.cluster.facts import examine
from powercut.cluster.hosts_file import HostSettings
from powercut.cluster.provision import clean, prepare
from powercut.cluster.wheels import Wheelhouse, code_digest, installed_code, make_wheels

HOST = HostSettings(name="alpha", address="alpha", room=0)
MARK = ".cache/powercut-cluster"


@pytest.fixture
def there(tmp_path):
    home = tmp_path / "alpha"
    home.mkdir()
    return HostHere(home)


def test_a_host_says_what_it_is_and_nothing_is_left_there(there):
    (report,) = examine([HOST], lambda _: there)
    assert (report.problem, report.lacks) == ("", ())
    assert report.facts.machine == os.uname().machine
    assert report.facts.python.startswith("3.")
    assert (report.facts.processors >= 1, report.facts.version) == (True, "")
    assert list(there.home.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"room": 1 << 60}, "MiB are free, and `room` asks for"),
        ({"python": "no-such-python"}, "no no-such-python there"),
        ({"folder": "/proc/1/powercut"}, "may not write to /proc/1/powercut"),
    ],
)
def test_why_a_host_cannot_take_part(there, change, words):
    host = HOST.model_copy(update=change)
    for report in (
        *examine([host], lambda _: there),
        *prepare([host], house(there), remote_of=lambda _: there),
    ):
        assert words in report.problem
        assert report.hint
    assert list(there.home.iterdir()) == []


def house(there):
    """Two wheels that hold nothing, the second in place of pip."""
    folder = there.home.parent / "wheels"
    folder.mkdir(exist_ok=True)
    made = {}
    for name in ("powercut-1-py3-none-any.whl", "pip-1-py3-none-any.whl"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("nothing", name)
        made[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return Wheelhouse(folder, made, "0" * 64)


def test_dead_hosts_are_named_and_the_others_asked(tmp_path, there):
    dead = HostHere(tmp_path / "beta")
    dead.dead = True
    hosts = [HOST, HOST.model_copy(update={"name": "beta"})]
    ways = {"alpha": there, "beta": dead}
    alpha, beta = examine(hosts, lambda host: ways[host.name])
    assert (alpha.problem, beta.facts) == ("", None)
    assert "nobody answers" in beta.problem


def test_files_of_others_are_left_alone(there):
    (there.home / MARK).mkdir(parents=True)
    (there.home / MARK / "thesis.txt").write_text("mine")
    (report,) = prepare([HOST], house(there), remote_of=lambda _: there)
    assert "holds files that are not powercut's" in report.problem
    (report,) = clean([HOST], lambda _: there)
    assert "holds files that are not powercut's" in report.problem
    assert (there.home / MARK / "thesis.txt").read_text() == "mine"


def test_what_does_not_install_is_told_and_clean_removes_it(there):
    (report,) = prepare([HOST], house(there), remote_of=lambda _: there)
    assert "alpha: no environment could be made" in report.problem
    assert (there.home / MARK / "wheels" / "powercut-1-py3-none-any.whl").exists()
    assert clean([HOST], lambda _: there)[0].problem == ""
    assert list((there.home / ".cache").iterdir()) == []
    assert clean([HOST], lambda _: there)[0].problem == ""  # nothing there any more


def test_wheels_that_arrive_with_other_bytes_are_not_used(there):
    wheels = house(there)
    (wheels.folder / "powercut-1-py3-none-any.whl").write_bytes(b"other")
    (report,) = prepare([HOST], wheels, remote_of=lambda _: there)
    assert "what was brought has other bytes there" in report.problem


def test_a_doctor_that_does_not_run_is_told(there):
    folder = there.home / MARK
    folder.mkdir(parents=True)
    (folder / facts.CURRENT).write_text("0123456789abcdef")
    (report,) = examine([HOST], lambda _: there)
    assert "powercut doctor does not run there" in report.problem


def test_wheels_are_the_installed_files_and_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.cluster.wheels._dependencies", lambda _: ("click",))
    first = make_wheels(tmp_path)
    assert sorted(name.split("-")[0] for name in first.sha256) == [
        *("click", "distributed", "pip", "powercut")
    ]
    assert first.installer.startswith("pip-")
    own = next(name for name in first.sha256 if name.startswith("powercut-"))
    with zipfile.ZipFile(tmp_path / own) as archive:
        files = {
            name.removeprefix("powercut/"): archive.read(name)
            for name in archive.namelist()
            if name.startswith("powercut/")
        }
    assert code_digest(files) == first.code == installed_code()
    assert "_shipped/parts/nbdkit-capture-plugin.so" in files
    stamps = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert make_wheels(tmp_path) == first
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps


def test_the_command_line_says_what_is_wrong(tmp_path):
    path = tmp_path / "hosts.yaml"
    path.write_text("powercut-hosts: 1\nhosts: [{name: a, address: 127.0.0.1, port: 1}]\n")
    done = CliRunner().invoke(cli, ["doctor", "hosts", "check", str(path)], standalone_mode=False)
    assert done.return_value == 3
    assert "a: ssh 127.0.0.1 port 1: " in done.output
    assert "1 of 1 hosts cannot take part" in done.output
