# SPDX-License-Identifier: Apache-2.0
"""A program on this host's own kernel: honest, on a liar, in its sandbox, and gone when killed."""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hostile_tries import bait, reached

from powercut.campaign.runner import run_scenarios
from powercut.channel.line_channel import LineChannel
from powercut.channel.lines import unpack
from powercut.channel.stamped_source import StampedSource
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.machine.fuse import NbdFuse
from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract
from powercut.model.verdict import Verdict
from powercut.paths import CACHE, ROOT
from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.rig import loop_guest
from powercut.rig.loop_guest import LoopDevice, LoopGuest
from powercut.sandbox import check
from powercut.workload.program.sync_trace import SyncTrace, read_trace, traced

WHY_NOT = "; ".join(loop_guest.unavailable())
pytestmark = [
    pytest.mark.vm,
    pytest.mark.loop,
    pytest.mark.fuse,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]

DIR = "/mnt/data"
WAIT_S = 120
SCENARIO = """
powercut: 1
name: on-loop
workload:
  {kind: program, command: ./counter, where: loop, at_most: 1min}
cut: {trigger: {acks: 20}}
explore: {budget: 32}
disk: {model: none}
controls: [lying-disk, no-sync]
deadline: 5min
"""


def made(folder: Path) -> tuple[CaptureDisk, LoopGuest, LineChannel]:
    base = ensure_base_image(BaseImageSpec("ext4", 64 << 20), CACHE)
    disk = CaptureDisk(CaptureConfig(base, folder / "log", DeviceContract(), sockets=folder))
    disk.start()
    host = HostRoot("/", ("PATH=/usr/bin:/bin", "POWERCUT_FD=3"))
    plan = RecoveryPlan.of("ext4", "", "/host/mnt", ("x",), host=host)
    source = StampedSource()
    lines = LineChannel(source, folder / "lines", Binding())
    return disk, LoopGuest(disk.socket, plan, folder, source.theirs), lines


def traces(folder: Path) -> list[str]:
    """Processes of `folder`, and such as see a mount in it, that do not end: those of a namespace
    get SIGKILL with its first one, and take a moment to end on a busy host."""
    deadline = time.monotonic() + WAIT_S
    while (found := seen(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def seen(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (process / "cmdline").read_text() + (process / "mounts").read_text():
                found.append(process.name)
        except OSError:  # it has ended
            continue
    return found


def test_one_that_syncs_is_safe_and_loses_all_on_a_liar_or_without_its_syncs(
    tmp_path: Path,
) -> None:
    """It is statically linked: no library takes its syncs away."""
    source = ROOT / "workloads" / "examples" / "counter.c"
    subprocess.run(["cc", "-static", "-o", tmp_path / "counter", source], check=True)
    tmp_path.chmod(0o755)  # the program is nobody there
    (tmp_path / "on-loop.yaml").write_text(SCENARIO)
    outcome = run_scenarios([tmp_path / "on-loop.yaml"], seed=7, results=tmp_path / "results")
    (cell,) = outcome.runs[0].cells
    assert cell.verdict is Verdict.SAFE, outcome.runs[0].model_dump_json(indent=1)
    assert cell.commits_acked >= 20
    assert {control.kind.value: control.verdict for control in cell.controls} == {
        "lying-disk": Verdict.LOSSY,
        "no-sync": Verdict.LOSSY,
    }
    assert cell.states is not None
    assert (cell.states.states, cell.states.lossy) == (32, 0)


def test_its_syncs_are_seen_and_one_can_be_dropped(tmp_path: Path) -> None:
    """By the tracer, in the sandbox: of two call sites one syncs three times."""
    script = "for n in 1 2 3; do sync -d /mnt/data/f; done; sync /mnt/data/f"
    argv = ("/bin/sh", "-c", f"mkdir /mnt/data; echo >/mnt/data/f; {script}")
    seen = trace(tmp_path / "seen", traced(argv, DIR))
    calls = {site.call: (seen.count(site.number), site.key) for site in seen.sites}
    assert {call: count for call, (count, _) in calls.items()} == {"fdatasync": 3, "fsync": 1}
    (dropped,) = [key for call, (_, key) in calls.items() if call == "fdatasync"]
    less = trace(tmp_path / "less", traced(argv, DIR, dropped))
    counts = {
        site.call: (less.count(site.number), less.count(site.number, dropped=True))
        for site in less.sites
    }
    assert counts == {"fdatasync": (0, 3), "fsync": (1, 0)}


def test_one_machine_runs_setup_and_what_follows(tmp_path: Path) -> None:
    """Each verb says its lines, and is killed before the host runs out of memory."""
    disk, guest, lines = made(tmp_path)
    say = ("/bin/sh", "-c", "cat /proc/self/oom_score_adj >&3")
    with closing(disk), closing(lines):
        with guest:
            guest.start(timeout_s=WAIT_S)
            for verb in (guest.set_up, guest.begin):
                verb((*say, DIR))
                assert guest.wait_end(time.monotonic() + WAIT_S) == 0, guest.console_now
        lines.drain(timeout_s=WAIT_S)
    packets = unpack((tmp_path / "lines").read_bytes(), Binding())
    assert b"".join(packet.data for packet in packets) == b"1000\n" * 2


def test_what_a_program_leaves_in_memory_is_known_while_it_runs(tmp_path: Path) -> None:
    """Not what the host has there, nor through a symbolic link."""
    script = "cd /tmp; mkdir a; echo 1 >a/pid; : >empty; ln -s /usr b; echo 2 >/dev/shm/c; "
    script += "mkdir /mnt/data; echo 3 >/mnt/data/d; echo '+ 1' >&3; sleep 300"
    disk, guest, lines = made(tmp_path)
    with closing(disk), closing(lines), guest:
        assert guest.left(timeout_s=WAIT_S) is None
        guest.start(timeout_s=WAIT_S)
        guest.begin(("/bin/sh", "-c", script))
        assert lines.wait_acks(1, timeout_s=WAIT_S)
        left = guest.left(timeout_s=WAIT_S)
        assert left is not None
        assert (sorted(left.paths), left.cut) == (["/dev/shm/c", "/tmp/a/pid", "/tmp/b"], False)
        guest.kill()
        assert guest.left(timeout_s=WAIT_S) is None


def test_a_program_that_ignores_errors_acknowledges_nothing_while_its_disk_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the machine takes to end once its disk has: dd fails at once then, and the
    program says that its data are durable."""
    kill = NbdFuse.kill
    dies_ns: list[int] = []

    def slowly(fuse: NbdFuse) -> None:
        dies_ns.append(time.monotonic_ns())
        kill(fuse)
        time.sleep(0.5)

    monkeypatch.setattr(NbdFuse, "kill", slowly)
    dd = "dd if=/dev/zero of=/mnt/f bs=4k count=1 conv=notrunc,fsync 2>&-"
    script = f'n=0; while n=$((n + 1)); do echo "? $n" >&3; {dd}; echo "+ $n" >&3; done'
    disk, guest, lines = made(tmp_path)
    with closing(disk), closing(lines):
        with guest:
            guest.start(timeout_s=WAIT_S)
            guest.begin(("/bin/sh", "-c", script))
            assert lines.wait_acks(10, timeout_s=WAIT_S)
            disk.stop_after(5, taking=True)
            assert disk.wait_stopped(timeout_s=WAIT_S)
            guest.kill()
        lines.drain(timeout_s=WAIT_S)
    packets = unpack((tmp_path / "lines").read_bytes(), Binding())
    assert sum(packet.data.startswith(b"+") for packet in packets) >= 10
    assert [packet.data for packet in packets if packet.at_ns > dies_ns[0]] == []


def trace(folder: Path, argv: tuple[str, ...]) -> SyncTrace:
    folder.mkdir()
    disk, guest, lines = made(folder)
    with closing(disk), closing(lines):
        with guest:
            guest.start(timeout_s=WAIT_S)
            guest.begin(argv)
            assert guest.wait_end(time.monotonic() + WAIT_S) == 0, guest.console_now
        lines.drain(timeout_s=WAIT_S)
    packets = unpack((folder / "lines").read_bytes(), Binding())
    assert all(packet.stamped for packet in packets)
    return read_trace(packets)


def test_the_program_has_no_rights_and_reaches_its_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile one, which is nobody."""
    monkeypatch.setattr(check, "MEMORY_MAX", 64 << 20)
    disk, guest, lines = made(tmp_path)
    with bait() as hung, closing(disk), closing(lines), guest:
        guest.start(timeout_s=WAIT_S)
        script = 'id -u && mkdir /mnt/data && touch /mnt/data/mine && exec "$@"'
        guest.begin(("/bin/sh", "-c", script, "sh", *hung.command))
        assert guest.wait_end(time.monotonic() + WAIT_S) == 0, guest.console_now
        assert guest.console_now == "65534"
        lines.drain(timeout_s=WAIT_S)
        guest.unmount(timeout_s=WAIT_S)
        assert hung.heard() == []
    packets = unpack((tmp_path / "lines").read_bytes(), Binding())
    found = reached(b"".join(packet.data for packet in packets))
    assert len(found) >= 50
    assert {name: what for name, what in found.items() if what} == {}
    assert traces(tmp_path) == []


def test_a_controller_that_is_killed_leaves_no_loop_device_behind(tmp_path: Path) -> None:
    """Its program writes all the while, and so has much to lose."""
    script = f"""
import os, signal, sys, time
sys.path[:0] = {sys.path!r}
from pathlib import Path
from test_program_on_loop import WAIT_S, made
disk, guest, _ = made(Path({str(tmp_path)!r}))
guest.start(timeout_s=WAIT_S)
write = "while dd if=/dev/zero of=/mnt/f bs=64k count=16 conv=fsync 2>/dev/null; do :; done"
guest.begin(("/bin/sh", "-c", write))
print(guest.loop.name, guest.loop.use, flush=True)
end = time.monotonic() + WAIT_S
while disk.statistics().flushes < 20 and time.monotonic() < end:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], timeout=WAIT_S * 2, check=False, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode == -9
    loop = LoopDevice(*done.stdout.split())
    end = time.monotonic() + WAIT_S
    while loop.there or traces(tmp_path):
        assert time.monotonic() < end, traces(tmp_path)
        time.sleep(0.02)
