# SPDX-License-Identifier: Apache-2.0
"""A program with a root of its own, for hosts that have nothing of it: it keeps, or forgets one.

As `forgetful` it acknowledges one operation, the last before the cut, without its sync.
"""

from __future__ import annotations

import shutil
from pathlib import Path

BUSYBOX = shutil.which("busybox")
LAST = 12
FORGOTTEN = LAST
PROGRAM = f"""#!/bin/busybox sh
. "${{0%/*}}/forgets"; [ "$1" = forgetful ] || forgets=; [ "$1" != forgetful ] || shift
say() {{ echo "$@" >&"$POWERCUT_FD"; }}
case $1 in
setup) busybox sync ;;
run)
    busybox mkdir -p "$2"; say ready; n=1
    while :; do
        say "? $n"
        echo "$n" >"$2/$n" || exit 5
        if [ "$n" != "$forgets" ]; then
            busybox sync "$2/$n" && busybox sync "$2" || exit 5
        fi
        say "+ $n"; [ "$n" != {LAST} ] || busybox sleep 5; n=$((n + 1))
    done ;;
check)
    for path in "$2"/*; do
        n=${{path##*/}}; [ "$(busybox cat "$path")" != "$n" ] || say "= $n"
    done ;;
esac
"""
SCENARIO = f"""
powercut: 1
name: carried
workload: {{kind: program, command: program/keep, root: root, where: no-vm}}
disk: {{model: none, size: 32 MiB}}
filesystem: {{type: ext4}}
cut: {{trigger: {{acks: {LAST}}}}}
explore: {{budget: 32}}
cells:
  - {{name: keeps, controls: [no-sync]}}
  - name: forgets
    workload.command: [program/keep, forgetful]
    controls: none
    explore.budget: 16
    expect: lossy
"""


def made_in(folder: Path, scenario: str = SCENARIO) -> Path:
    """The scenario, beside its program and root."""
    for name in ("root/bin", "program"):
        (folder / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "root/bin/busybox")
    (folder / "root/bin/sh").symlink_to("busybox")
    (folder / "program/keep").write_text(PROGRAM)
    (folder / "program/keep").chmod(0o755)
    (folder / "program/forgets").write_text(f"forgets={FORGOTTEN}\n")
    (folder / "carried.yaml").write_text(scenario)
    return folder / "carried.yaml"
