# SPDX-License-Identifier: Apache-2.0
"""Recordings of disk images that grow (workloads/programs/growing_image.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.paths import ROOT
from powercut.recording.folder import FolderRecording, build_tree, open_capture
from powercut.store.folder import CaptureDir

PROGRAM = ROOT / "workloads" / "programs" / "growing_image.py"
PLAIN = [sys.executable, str(PROGRAM)]


def record(tmp_path: Path, name: str, command: list[str]) -> FolderRecording:
    """Makes an image, runs the command on it until it has acknowledged 24 operations."""
    folder = tmp_path / "folder"
    folder.mkdir()
    subprocess.run([*PLAIN, "setup", name, str(folder)], check=True)
    order = CaptureOrder(
        folder=folder,
        command=tuple(command),
        check=(*PLAIN, "check", name, str(folder)),
        acks=24,
        seconds=300.0,
        atomic_unit=4096,
        seed=1,
    )
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(order, directory)
    recording = open_capture(directory)
    assert recording.history.acked.tolist() == list(range(1, 25)), directory.console.read_text()
    return recording


def said(tmp_path: Path, recording: FolderRecording, name: str, *, lying: bool = False) -> str:
    """What the check says of the state that holds nothing but what is durable in the end."""
    posix = recording.under(Promise.POSIX)
    space = posix.lying_space if lying else posix.space
    target = tmp_path / f"state-{lying}"
    target.mkdir()
    build_tree(space, space.tree(CrashState(recording.record.cut_ns, ())), target)
    argv = ["sh", "-c", 'exec "$@" 3>&1 1>&2', "sh", *PLAIN, "check", name, str(target)]
    environment = {"PATH": "/usr/bin:/bin", "POWERCUT_FD": "3"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


KEPT = "".join(f"= {n}\n" for n in range(1, 25))
"""What a check says that finds all of it."""
