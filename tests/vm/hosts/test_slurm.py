# SPDX-License-Identifier: Apache-2.0
"""From `sbatch` to a certificate: Debian's Slurm with two nodes, workers through dask-jobqueue.

A campaign: some 45 seconds to install, and as long as the trials take.
"""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import slurm_here
from slurm_here import NODES, SlurmHere

from powercut_extras.certify.verify import examine

pytestmark = pytest.mark.campaign

SCENARIO = """powercut: 1
name: slurm
filesystem: {type: ext4}
explore: {budget: 16}
cut: {trigger: {acks: 20}}
trials: 4
"""

JOBS = """
import subprocess
import sys
from distributed import Client
from dask_jobqueue import SLURMCluster

with SLURMCluster(
    cores=1, processes=1, memory="2GB", walltime="01:00:00",
    scheduler_options={"host": "127.0.0.1", "dashboard": False},
) as cluster, Client(cluster) as client:
    cluster.scale(jobs=2)
    cluster.wait_for_workers(2, timeout=300)
    print(subprocess.run(["squeue", "-h", "-o", "%T %N"], capture_output=True, text=True).stdout)
    sys.stdout.flush()
    argv = [*sys.argv[1:], "--cluster", cluster.scheduler_address]
    status = subprocess.run(argv, cwd="/root").returncode
    done = client.run(lambda dask_worker: dask_worker.state.executed_count)
    print("tasks", *done.values())
sys.exit(status)
"""


@pytest.fixture
def folder(tmp_path):
    if why := slurm_here.missing():
        pytest.skip(why)
    made = tmp_path / "slurm"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def test_from_sbatch_to_a_certificate(tmp_path, folder):
    (tmp_path / "slurm.yaml").write_text(SCENARIO)
    slurm = SlurmHere(folder, sys.executable)
    powercut = [sys.executable, "-m", "powercut.cli.main", "certify", str(tmp_path / "slurm.yaml")]
    said = slurm.run(sys.executable, "-c", JOBS, *powercut, timeout_s=1800)
    assert all(f"RUNNING {node}" in said for node in NODES), said
    (certificate,) = (folder / "upper/root/results").glob("certify/slurm/*Z-*")
    told = json.loads((certificate / "certificate.json").read_text())
    assert [cell["verdict"] for cell in told["cells"]] == ["safe"], said
    assert examine(certificate).problems == ()
    tasks = next(line for line in said.splitlines() if line.startswith("tasks")).split()[1:]
    assert len(tasks) == len(NODES)
    assert all(int(count) for count in tasks), said
