# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor hosts` against a real ssh server: what it brings, and what it says.

The host's Python is a script, whose environment has a pip and a powercut that need no index;
tests/vm/hosts/test_ssh_cluster.py installs the real ones.
"""

from __future__ import annotations

import hashlib
import json

import pytest
import ssh_hosts
from click.testing import CliRunner
from ssh_hosts import Home, SshServer

from powercut.cli.commands import cli
from powercut_extras.cluster import hosts
from powercut_extras.cluster.hosts import FOLDER, check, prepare

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(ssh_hosts.missing()), reason=ssh_hosts.missing()),
]

PYTHON = """#!/bin/sh
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'END'
#!/bin/sh
echo "$*" >>pip.txt
[ ! -e "$HOME/no-index" ] || { echo "ERROR: No matching distribution found"; exit 1; } >&2
printf '#!/bin/sh\\ncat "$HOME/doctor.json"\\n' >venv/bin/powercut
chmod 755 venv/bin/powercut
END
chmod 755 "$3/bin/pip"
"""
KVM = {"name": "KVM", "ok": False, "needed": False, "limit": "slow", "remedy": "buy one"}
QEMU = {"name": "QEMU", "ok": False, "needed": True, "limit": "no guests", "remedy": "apt-get it"}
SED = {"name": "sed", "ok": True, "needed": True, "limit": "", "remedy": ""}


@pytest.fixture
def box(tmp_path, monkeypatch):
    """An ssh server that is known as `box`."""
    home = Home.own(tmp_path / "home", monkeypatch)
    server = SshServer(tmp_path, home)
    home.name("box", "127.0.0.1", server.port)
    home.know("127.0.0.1", server.port, server.public)
    put("python", PYTHON)
    there("chmod 755 python")
    put("doctor.json", json.dumps({"probes": [KVM, SED]}))
    yield
    server.kill()


def there(script, text=""):
    status, output, printed = hosts._run("box", script, text.encode())
    assert status == 0, printed
    return output.decode()


def put(name, text):
    there(f"cat >{name}", text)


@pytest.fixture
def wheel(tmp_path):
    made = tmp_path / "powercut-1-py3-none-any.whl"
    made.write_bytes(bytes(range(256)) * 4096)
    return made


def test_a_host_gets_the_wheel_and_its_pip_installs_it(box, wheel):
    (report,) = prepare(["box"], wheel, "/root/python")
    assert (report.name, report.problems) == ("box", ())
    said = there(f"cd {FOLDER}; sha256sum {wheel.name}; cat pip.txt")
    digest, dependencies, itself = said.splitlines()
    assert digest.split()[0] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert dependencies.endswith(f" ./{wheel.name}[cluster]")
    assert itself.endswith(f" --no-deps --force-reinstall ./{wheel.name}")
    assert check(["box"]) == (report,)


def test_what_a_host_lacks_is_said_and_what_it_may_lack_is_not(box, wheel):
    put("doctor.json", json.dumps({"probes": [KVM, QEMU, SED]}))
    (report,) = prepare(["box"], wheel, "/root/python")
    assert report.problems == ("QEMU: no guests (apt-get it)",)


def test_a_host_without_an_index_is_named_with_what_its_pip_said(box, wheel):
    put("no-index", "")
    (report,) = prepare(["box"], wheel, "/root/python")
    assert report.problems == (
        "powercut could not be installed: ERROR: No matching distribution found",
    )


def test_the_command_tells_of_each_host_and_fails_if_one_cannot_take_part(box, monkeypatch):
    monkeypatch.setattr(hosts, "_CONNECT_S", 5.0)
    argv = ["doctor", "hosts", "check", "box", f"root@127.0.0.1:{ssh_hosts.free_port()}"]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert done.return_value == 3
    mine, hint, other, *_ = done.output.splitlines()
    assert mine.startswith("box: powercut doctor does not run there: ")
    assert hint == "box: powercut doctor hosts prepare"
    assert other.startswith("root@127.0.0.1:")
    assert "ssh root@127.0.0.1:" in other
