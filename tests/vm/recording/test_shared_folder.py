# SPDX-License-Identifier: Apache-2.0
"""A program in a QEMU guest whose folder is a captured one of the host, by virtiofs or 9p."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.machine.share import VIRTIOFSD, FolderShare
from powercut.paths import ROOT, UNSYNCED_BINARY
from powercut.recording.folder import build_tree, open_capture
from powercut.store.folder import CaptureDir

PROGRAM = ROOT / "workloads" / "programs" / "shared_folder.py"
CASES = YAML(typ="safe").load(PROGRAM.with_name("shared-folders.yaml"))

pytestmark = pytest.mark.skipif(not VIRTIOFSD.exists(), reason=f"no {VIRTIOFSD}")


@pytest.mark.root  # virtiofsd of QEMU 7.2 needs it
def test_what_a_guest_has_synced_is_durable_on_the_host(tmp_path: Path) -> None:
    """All of it, and on a host that ignores syncs nothing.  Beside the folder it can write nothing,
    though it is root there and makes its root writable.
    """
    folder = tmp_path / "folder"
    folder.mkdir()
    reached, tried = tmp_path / "reached", folder / "tried"
    attack = f'mount -o remount,rw / && touch {tried}; touch {reached}; exec "$@"'
    run = ("python3", "-I", "-S", str(PROGRAM), "run", "fdatasync", str(folder))
    order = CaptureOrder(
        folder=folder,
        command=("sh", "-c", attack, "sh", *run),
        check=(),
        acks=12,
        seconds=300.0,
        atomic_unit=4096,
        seed=1,
        share=FolderShare.parse("virtiofs"),
    )
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(order, directory)
    recording = open_capture(directory)
    acked = [f"= {number}" for number in recording.history.acked]
    assert len(acked) >= 12, directory.console.read_text()
    assert recording.gaps == ()
    said = f"touch: cannot touch '{reached}': Read-only file system"
    assert recording.refused[0].endswith(said)
    assert (tried.exists(), reached.exists()) == (True, False)
    for lying in (False, True):
        posix = recording.under(Promise.POSIX)
        space = posix.lying_space if lying else posix.space
        target = tmp_path / f"state-{lying}"
        target.mkdir()
        build_tree(space, space.tree(CrashState(recording.record.cut_ns, ())), target)
        check = [sys.executable, str(PROGRAM), "check", "fdatasync", str(target)]
        done = subprocess.run(check, capture_output=True, text=True, check=True)
        kept = done.stdout.splitlines()
        assert kept == [] if lying else set(acked) <= set(kept)


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_every_share(tmp_path: Path, case: dict[str, str]) -> None:
    """The table of docs/captured-folders.md."""
    folder = tmp_path / "folder"
    folder.mkdir()
    way = case["way"]
    without = [str(UNSYNCED_BINARY)] if case.get("unsynced") else []
    done = subprocess.run(
        [
            *(sys.executable, "-m", "powercut.cli.main", "capture", str(folder)),
            *("--share", case["share"], "--acks", "24", "--seconds", "300", "--budget", "64"),
            *("--results", str(tmp_path / "results"), "--json", "-"),
            *("--check", f"python3 {PROGRAM} check {way} {folder}", "--"),
            *(*without, "python3", str(PROGRAM), "run", way, str(folder)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads(done.stdout)
    found = result["explored"]["findings"]
    assert (result["verdict"].upper(), result["reasons"]) == (case["expect"], []), found
    assert result["control"] == "LOSSY"
