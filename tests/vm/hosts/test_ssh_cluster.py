# SPDX-License-Identifier: Apache-2.0
"""From a host that ssh reaches to a run: `doctor hosts prepare`, SSHCluster, `run --cluster`.

A campaign: pip installs powercut on the host, with what it imports, from a package index.  The host
is this one, with a home of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import ssh_hosts
from ssh_hosts import Home, SshServer

from powercut_extras.cluster.hosts import FOLDER

pytestmark = [pytest.mark.campaign, pytest.mark.root]

SCENARIO = """powercut: 1
name: ssh
filesystem: {type: ext4}
explore: {budget: 16}
cut: {trigger: {acks: 20}}
trials: 2
cells:
  - name: honest
  - {name: lying, disk.flush: ignored, disk.fua: ignored, explore.budget: "off", expect: lossy}
"""

CLUSTER = """
import subprocess
import sys
from distributed import Client, SSHCluster

port, key, python, *argv = sys.argv[1:]
with SSHCluster(
    ["127.0.0.1"] * 3,
    remote_python=python,
    connect_options={"port": int(port), "username": "root", "client_keys": [key]},
    worker_options={"nthreads": 1, "memory_limit": None},
    scheduler_options={"host": "127.0.0.1", "dashboard": False},
) as cluster, Client(cluster) as client:
    client.wait_for_workers(2, timeout=120)
    status = subprocess.run([*argv, "--cluster", cluster.scheduler_address]).returncode
    done = client.run(lambda dask_worker: dask_worker.state.executed_count)
    print("tasks", *done.values())
sys.exit(status)
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    if why := ssh_hosts.missing():
        pytest.skip(why)
    home = Home.own(tmp_path / "home", monkeypatch)
    made = SshServer(tmp_path, home)
    home.name("127.0.0.1", "127.0.0.1", made.port)
    home.know("127.0.0.1", made.port, made.public)
    yield made
    made.kill()


def said(*argv: str, timeout_s: float, **environment: str) -> str:
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_from_a_host_that_ssh_reaches_to_a_run(tmp_path, server):
    powercut = (sys.executable, "-m", "powercut.cli.main")
    where = f"root@127.0.0.1:{server.port}"
    ready = said(*powercut, "doctor", "hosts", "prepare", where, timeout_s=900)
    assert ready.splitlines()[-1] == f"{where}: ready"
    said(sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "more"),
         "--no-deps", "asyncssh", timeout_s=300)  # fmt: skip
    (tmp_path / "ssh.yaml").write_text(SCENARIO)
    told = tmp_path / "told.json"
    run = (*powercut, "run", str(tmp_path / "ssh.yaml"), "--seed", "7", "--json", str(told),
           "--results", str(tmp_path / "results"))  # fmt: skip
    python = f"/root/{FOLDER}/venv/bin/python"
    key = str(tmp_path / "home/.ssh/id_ed25519")
    text = said(sys.executable, "-c", CLUSTER, str(server.port), key, python, *run,
                timeout_s=900, PYTHONPATH=str(tmp_path / "more"))  # fmt: skip
    (done,) = json.loads(told.read_text())["runs"]
    assert [cell["verdict"] for cell in done["cells"]] == ["safe", "lossy"], text
    tasks = next(line for line in text.splitlines() if line.startswith("tasks"))
    assert all(int(count) for count in tasks.split()[1:]), tasks
