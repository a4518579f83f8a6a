# SPDX-License-Identifier: Apache-2.0
"""Debian's Slurm on this host: a controller and two nodes of a processor each, and nothing left.

Packages and files go to an overlay over this host's root, processes to a PID namespace, and what
listens to a network namespace of their own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bare_root import command_in

NODES = ("one", "two")
_INSTALL_S = 600
_SPACES = ("--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")

_OVERLAY = """
mkdir -p "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
shift
exec "$@"
"""

_INSTALL = """
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \\
    slurmctld slurmd slurm-client munge
"$0" -m pip install -q --disable-pip-version-check dask-jobqueue
"""

# Slurm takes no address of loopback for a host's.  Its nodes share one kernel, so each has a port,
# and no cgroup: Debian 12 has a plugin for version 1, which here finds nothing to do.
_UP = """
ip link set lo up
ip link add card type veth peer name other
ip addr add 10.99.0.1/24 dev card
ip link set card up
ip link set other up
echo "127.0.0.1 localhost $(hostname)" >/etc/hosts
mkdir -p /etc/slurm /run/munge /var/log/munge /var/lib/munge /var/spool/slurmctld
chown munge: /run/munge /var/log/munge /var/lib/munge
cat >/etc/slurm/slurm.conf <<END
ClusterName=here
SlurmctldHost=localhost
SlurmUser=root
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.%n.log
NodeName=one NodeHostname=localhost NodeAddr=127.0.0.1 Port=17001 CPUs=1 RealMemory=4000
NodeName=two NodeHostname=localhost NodeAddr=127.0.0.1 Port=17002 CPUs=1 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES State=UP
END
printf 'CgroupPlugin=cgroup/v1\\nCgroupAutomount=no\\n' >/etc/slurm/cgroup.conf
runuser -u munge -- munged
slurmctld
for node in one two; do slurmd -N $node; done
exec "$@"
"""


def missing() -> str:
    """Why there can be no Slurm here; empty if there can."""
    lost = [name for name in ("ip", "unshare", "apt-get") if shutil.which(name) is None]
    return f"no {', '.join(lost)}" if lost else ""


class SlurmHere:
    """`folder` has to be empty; what is written by those inside is below its `upper`."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self._python = python
        self._run(_INSTALL, [], _INSTALL_S)

    def run(self, *argv: str, timeout_s: float) -> str:
        """What a command prints that has both nodes."""
        return self._run(_UP, argv, timeout_s, "--net")

    def _run(self, script: str, argv: tuple[str, ...] | list[str], timeout_s: float, *more: str):
        inside = ["sh", "-ec", script, self._python, *argv]
        entered = command_in(self.folder / "root", *inside)
        overlay = ["sh", "-ec", _OVERLAY, "sh", str(self.folder), *entered]
        done = subprocess.run(
            ["unshare", *_SPACES, *more, *overlay],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout
