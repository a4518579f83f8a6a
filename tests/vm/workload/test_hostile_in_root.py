# SPDX-License-Identifier: Apache-2.0
"""A hostile program with a root of its own, in a virtual machine and without one: what it reaches.

As root and as an ordinary user, in one boot of each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_tries import Bait, bait

from powercut.disk.base import ensure_base_image
from powercut.paths import CACHE
from powercut.recover.plan import Mount, Read, RecoveryPlan
from powercut.recover.uml.boot import unavailable
from powercut.recover.uml.engine import UmlEngine
from powercut.rig.commands import base_image, recovery_plan
from powercut.rig.guest_engine import GuestEngine
from powercut.scenario.load import load_scenario
from powercut.scenario.settings import Parameters

WAIT_S = 400
BUSYBOX = shutil.which("busybox")
pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(BUSYBOX is None, reason="busybox-static is not installed"),
]
SCENARIO = """
powercut: 1
name: hostile
workload: {kind: program, command: program/nothing, root: root, at_most: 2min}
disk: {model: none, size: 32 MiB}
cut: {trigger: {acks: 1}}
deadline: 10min
cells:
  - name: guest
  - name: no-vm
    workload.where: no-vm
"""
UNUSED = ("*-packages", "test*", "idlelib", "lib2to3", "ensurepip", "__pycache__", "config-*")
OF_THE_HOST = {
    *("a relative socket of the host", "a renamed socket of the host", "a unix socket of the host"),
    *("that socket by PID 1's root", "an abstract socket of the host", "TCP to the host"),
    *("a packet to the world", "a named pipe of the host", "/dev/shm of the host"),
    *("/tmp of the host", "memory of the controller", "command line of the controller"),
    *("hostfs of /", "hostfs of /etc", "hostfs of /dev/shm", "hostfs of the shown folder"),
}
"""What of a guest would be of the host.  The rest is the guest's own, which goes with it."""


def rooted(folder: Path, hung: Bait) -> dict[str, Parameters]:
    """The cells of a scenario; in its root are this Python, and what the bait looks like."""
    assert BUSYBOX is not None
    root, python = folder / "root", Path(os.path.realpath(sys.executable))
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(
        library, root / library.relative_to("/"), ignore=shutil.ignore_patterns(*UNUSED)
    )
    for program in (python, *(library / "lib-dynload").glob("*.so")):
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        words = {word for word in said.split() if word.startswith("/") and word[-1] != ":"}
        for path in (python, *map(Path, words)):
            there = root / path.relative_to("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            if not there.exists():
                shutil.copy(path, there)
    (root / "bin").mkdir(exist_ok=True)
    for name in ("sh", "su"):
        shutil.copy(BUSYBOX, root / "bin" / name)
    (root / "bin/su").chmod(0o4755)
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    like = root / hung.folder.relative_to("/")
    like.mkdir(parents=True)
    shutil.copy(hung.folder / "hostile_program.py", like)
    (like / "victim").write_text("precious")
    for path in (like, *like.parents):
        path.chmod(0o755)
        if path == root:
            break
    (folder / "program").mkdir()
    (folder / "program/nothing").write_text("#!/bin/sh\n")
    (folder / "program/nothing").chmod(0o755)
    (folder / "hostile.yaml").write_text(SCENARIO)
    return {
        cell.name: parameters for cell, parameters in load_scenario(folder / "hostile.yaml").cells
    }


def trying(parameters: Parameters, hung: Bait) -> RecoveryPlan:
    """Mounts the disk, and tries all twice."""
    plan = recovery_plan(parameters, bytes(16))
    mount = plan.find(Mount)
    assert mount is not None
    script = '"$@" frugal; exec "$@" frugal nobody'
    return replace(plan, steps=(mount, Read(("/bin/sh", "-c", script, "sh", *hung.command))))


def reached(lines: bytes, where: str) -> list[set[str]]:
    """What root has reached, and what the other user has; both are printed (-s)."""
    said = [tuple(json.loads(line)) for line in lines.splitlines()]
    assert len(said) >= 100
    assert len(said) % 2 == 0
    halves = [dict(said[: len(said) // 2]), dict(said[len(said) // 2 :])]
    assert list(halves[0]) == list(halves[1])
    for name in halves[0]:
        cells = (half[name] or "nothing" for half in halves)
        sys.stdout.write(f"| {name} | {where} | {' | '.join(cells)} |\n")
    return [{name for name, what in half.items() if what} for half in halves]


@pytest.mark.nightly
def test_in_a_virtual_machine_it_reaches_that_alone(tmp_path: Path) -> None:
    with bait() as hung:
        parameters = rooted(tmp_path, hung)["guest"]
        base = ensure_base_image(base_image(parameters), CACHE)
        with GuestEngine(base, parameters, trying(parameters, hung)) as engine:
            engine.start(timeout_s=WAIT_S)
            seen = engine.recover((), timeout_s=WAIT_S)
        assert hung.heard() == []
    assert seen.complete, seen.failure
    root, other = reached(seen.lines, "guest")
    assert root & OF_THE_HOST == set()
    assert other & OF_THE_HOST == set()
    assert other < root


@pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))
def test_without_one_it_reaches_nothing(tmp_path: Path) -> None:
    with bait() as hung:
        parameters = rooted(tmp_path, hung)["no-vm"]
        base = ensure_base_image(base_image(parameters), CACHE)
        with UmlEngine(base, trying(parameters, hung), programs={}) as engine:
            engine.start(timeout_s=WAIT_S)
            seen = engine.recover((), timeout_s=WAIT_S)
        assert hung.heard() == []
    assert seen.complete, seen.failure
    root, other = reached(seen.lines, "no-vm")
    assert root == {"sysrq"}  # its own kernel's
    assert other == set()
