# SPDX-License-Identifier: Apache-2.0
"""What a command in a captured folder writes elsewhere is named, and acquits nothing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from powercut.campaign.folder import CaptureOrder, judge_folder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.outside import LeftFiles
from powercut.recording.folder import open_capture
from powercut.store.folder import CaptureDir, CaptureRecord, CaptureResult

pytestmark = pytest.mark.fuse

# Keeps numbers in the file DIR/table/log, without a sync; DIR/table may lead elsewhere.
KEEPER = """if True:
    import os, sys
    folder, target, sync = sys.argv[1:]
    lines = int(os.environ["POWERCUT_FD"])
    os.makedirs(os.path.join(folder, target), exist_ok=True)
    if target != "table":
        os.symlink(target, folder + "/table")
    log = os.open(folder + "/table/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    if os.path.exists(folder + "/note"):
        os.unlink(folder + "/note")
    for place in (folder + "/table", folder):
        os.fsync(os.open(place, os.O_RDONLY))
    os.write(lines, b"ready\\n")
    for n in range(1, 13):
        os.write(lines, b"? %d\\n" % n)
        os.write(log, b"%d\\n" % n)
        if sync == "synced":
            os.fdatasync(log)
        os.write(lines, b"+ %d\\n" % n)
"""
CHECK = 'grep -aE "^[0-9]+$" "$1/table/log" 2>/dev/null | sed "s/^/= /" >&3; exit 0'


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of this host that is not below /tmp."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        yield Path(name)


def captured(
    tmp_path: Path, target: str, sync: str, scratch: tuple[str, ...] = ()
) -> tuple[CaptureRecord, CaptureResult]:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "note").write_text("gone once it runs")
    command = (sys.executable, "-I", "-S", "-c", KEEPER, str(folder), target, sync)
    check = ("/bin/sh", "-c", CHECK, "sh", str(folder))
    directory = CaptureDir.create(tmp_path / "recording")
    order = CaptureOrder(folder, command, check, 0, 60.0, 4096, 1, scratch=scratch)
    record = record_folder(order, directory)
    wanted = ExploreRequest(budget=Budget(states=40), seed=1, confirm=False)
    return record, judge_folder(open_capture(directory, Promise.JOURNAL), wanted, state_s=120.0)


@pytest.mark.parametrize(
    ("target", "sync", "verdict"),
    [
        ("table", "synced", "SAFE"),
        ("table", "never", "LOSSY"),
        ("space", "synced", "SAFE"),  # a link within the folder
        ("space", "never", "LOSSY"),
    ],
)
def test_what_stays_in_the_folder_is_judged(
    tmp_path: Path, target: str, sync: str, verdict: str
) -> None:
    record, result = captured(tmp_path, target, sync)
    assert (result.verdict.name, result.control) == (verdict, "LOSSY"), (
        result.reasons,
        result.explored.findings,
    )
    assert record.elsewhere.paths == ()


@pytest.mark.parametrize("sync", ["synced", "never"])
@pytest.mark.parametrize("place", ["/var/tmp", "/dev/shm"])
def test_a_path_that_leads_out_of_the_folder(tmp_path: Path, place: str, sync: str) -> None:
    target = f"{place}/powercut-{os.getpid()}"
    record, result = captured(tmp_path, target, sync)
    assert record.elsewhere == LeftFiles((f"{target}/log",))
    assert (result.verdict.name, result.explored.coverage.distinct) == ("INCONCLUSIVE", 0)
    assert (
        f"table leads to {target}, outside of {tmp_path / 'folder'}: what the program wrote there, "
        f"such as {target}/log, is in no crash state: declare what no promise rests on with "
        "--scratch, or workload.scratch"
    ) in result.reasons
    assert not Path(target).exists()  # nor is it on the host


def test_of_declared_scratch_nothing_is_said(tmp_path: Path) -> None:
    """The check alone decides then, and finds nothing."""
    record, result = captured(tmp_path, "/var/tmp/powercut-cache", "synced", ("/var/tmp",))
    assert record.elsewhere.paths == ("/var/tmp/powercut-cache/log",)
    assert (result.outside.files, result.outside.doubt) == ((), "")
    assert result.verdict.name == "INCONCLUSIVE"
    assert "it found 0 of 12 operations" in result.reasons[0]


def test_the_host_is_read_only(tmp_path: Path, home: Path) -> None:
    record, result = captured(tmp_path, str(home / "space"), "never")
    assert (record.status, result.verdict.name, result.acknowledged) == (1, "INCONCLUSIVE", 0)
    told = [reason for reason in result.reasons if "perhaps wanted to elsewhere" in reason]
    assert len(told) == 1
    assert f"Read-only file system: '{home / 'space'}'" in told[0]
    assert list(home.iterdir()) == []


# Keeps its values in `place`, and in DIR no more than which there are.
BESIDE = """if True:
    import os, sys
    folder, place = sys.argv[1:]
    lines = int(os.environ["POWERCUT_FD"])
    index = os.open(folder + "/index", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.fsync(os.open(folder, os.O_RDONLY))
    os.write(lines, b"ready\\n")
    for n in range(1, 13):
        os.write(lines, b"? %d\\n" % n)
        with open("%s/powercut-%d" % (place, n), "w") as value:
            value.write("value %d\\n" % n)
        os.write(index, b"%d\\n" % n)
        os.fdatasync(index)
        os.write(lines, b"+ %d\\n" % n)
"""
INDEX = 'grep -aE "^[0-9]+$" "$1/index" 2>/dev/null | sed "s/^/= /" >&3; exit 0'


@pytest.mark.parametrize("place", ["/dev", "/dev/shm"])
def test_values_among_the_devices_are_not_taken_for_durable(tmp_path: Path, place: str) -> None:
    """Nobody writes there but in shared memory, of which the verdict tells."""
    folder = tmp_path / "folder"
    folder.mkdir()
    command = (sys.executable, "-I", "-S", "-c", BESIDE, str(folder), place)
    check = ("/bin/sh", "-c", INDEX, "sh", str(folder))
    directory = CaptureDir.create(tmp_path / "recording")
    record = record_folder(CaptureOrder(folder, command, check, 0, 60.0, 4096, 1), directory)
    wanted = ExploreRequest(budget=Budget(states=40), seed=1, confirm=False)
    result = judge_folder(open_capture(directory, Promise.JOURNAL), wanted)
    if place == "/dev":
        assert (record.status, result.acknowledged) == (1, 0)
        assert "Read-only file system: '/dev/powercut-1'" in directory.console.read_text()
        assert result.verdict.name == "INCONCLUSIVE"
    else:
        assert len(record.elsewhere.paths) == 12
        assert "/dev/shm/powercut-1" in result.outside.words


# Trusts its unsynced log while the machine has not booted since, as lmdb-js's safeRestore does.
TRUSTING = """if True:
    import os, sys
    way, folder = sys.argv[1:]
    lines = int(os.environ["POWERCUT_FD"])
    log = os.open(folder + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(os.open(folder + "/boot", os.O_WRONLY | os.O_CREAT), open(BOOT, "rb").read())
    os.sync()
    os.write(lines, b"ready\\n")
    for n in range(1, 13):
        os.write(lines, b"? %d\\n" % n)
        os.write(log, b"%d\\n" % n)
        if way == "honest":
            os.fdatasync(log)
            os.utime(log, ns=(n, n))
            os.fsync(log)
        os.write(lines, b"+ %d\\n" % n)
""".replace("BOOT", repr("/proc/sys/kernel/random/boot_id"))
# What was written under this boot it throws away unless all is marked as synced, by a time.
TRUSTS = """
    [ -e "$1/log" ] || exit 0
    count=$(wc -l < "$1/log")
    if ! cmp -s "$1/boot" /proc/sys/kernel/random/boot_id; then
        marked=$(date -r "$1/log" +%s%N)
        [ "$marked" -lt 1000 ] && [ "$marked" -lt "$count" ] && count=$marked
    elif [ "$2" = strict ]; then
        echo "bad the machine has not booted" >&3
    fi
    head -n "$count" "$1/log" | sed "s/^/= /" >&3
"""


def test_a_check_sees_another_boot(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    command = (sys.executable, "-I", "-S", "-c", TRUSTING, "honest", str(folder))
    check = ("/bin/sh", "-c", TRUSTS, "sh", str(folder), "strict")
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(CaptureOrder(folder, command, check, 0, 60.0, 4096, 1), directory)
    boot = (folder / "boot").read_text()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text()
    wanted = ExploreRequest(budget=Budget(states=40), seed=1, confirm=False)
    result = judge_folder(open_capture(directory, Promise.JOURNAL), wanted)
    assert (result.verdict.name, result.control) == ("SAFE", "LOSSY"), (
        result.reasons,
        result.explored.findings,
    )
