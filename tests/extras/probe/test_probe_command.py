# SPDX-License-Identifier: Apache-2.0
"""The probe on real files."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from powercut.model.errors import HostError, UsageError
from powercut_extras.probe.judge import Kind, Method, Outcome, Pattern
from powercut_extras.probe.measure import PREFIX, measure
from powercut_extras.probe.medium import look_up
from powercut_extras.probe.probe import FORMAT, NOT_A_PROOF, Request, print_result, probe

DEADLINE_S = 60


def is_memory(path: Path) -> bool:
    return look_up(path).medium.kind is Kind.MEMORY


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "powercut.cli.main", "probe", *argv]


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*argv), capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )


def test_every_way_of_writing_is_measured_and_nothing_is_left(tmp_path):
    steps = []
    measured = measure(tmp_path, size=4096, seconds=0.4, on_step=lambda *step: steps.append(step))
    found = {(rate.method, rate.pattern) for rate in measured.rates}
    wanted = {(method, pattern) for method in Method for pattern in Pattern}
    assert found == {(m, p) for m, p in wanted if m not in measured.refused}
    assert set(steps) >= found
    # tmpfs refuses O_DIRECT before Linux 6.6; nothing else may be missing.
    assert all(method.direct for method in measured.refused)
    assert all(rate.per_s > 0 and rate.operations > 0 for rate in measured.rates)
    assert all(0 < rate.p50_us <= rate.p99_us for rate in measured.rates)
    assert 0 < measured.loop_overhead_us < 1000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "flags", "calls"),
    [
        (Method.BUFFERED, 0, []),
        (Method.DIRECT, os.O_DIRECT, []),
        (Method.FSYNC, 0, ["fsync"]),
        (Method.FDATASYNC, 0, ["fdatasync"]),
        (Method.O_DSYNC, os.O_DSYNC, []),
        (Method.O_SYNC, os.O_SYNC, []),
        (Method.RWF_DSYNC, 0, [f"pwritev {os.RWF_DSYNC}"]),
        (Method.DIRECT_FDATASYNC, os.O_DIRECT, ["fdatasync"]),
        (Method.DIRECT_O_DSYNC, os.O_DIRECT | os.O_DSYNC, []),
    ],
)
def test_each_way_does_what_it_is_called(tmp_path, method, flags, calls):
    """In a process of its own, whose calls are counted on their way to the kernel."""
    code = f"""
import mmap, os, sys
from powercut_extras.probe import measure as pm
from powercut_extras.probe.judge import Method, Pattern
calls = []
for way, call in pm._AFTER.items():
    pm._AFTER[way] = lambda fd, c=call: (calls.append(c.__name__), c(fd))[1]
pwritev = os.pwritev
os.pwritev = lambda fd, b, o, f: (calls.append(f"pwritev {{f}}"), pwritev(fd, b, o, f))[1]
sync = os.O_DIRECT | os.O_SYNC | os.O_DSYNC
opened = os.open({str(tmp_path / "file")!r}, os.O_RDWR | os.O_CREAT)
method = Method.{method.name}
assert pm._FLAGS.get(method, 0) & sync == {flags}
pm._operation(opened, method, mmap.mmap(-1, 4096), 4096)(3)
assert os.fstat(opened).st_size == 4 * 4096
assert calls == {calls!r}, calls
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_device_is_overwritten_and_keeps_its_size(tmp_path):
    target = tmp_path / "disk"
    target.write_bytes(bytes(1 << 20))
    measure(target, size=512, seconds=0.2, block_device=True)
    data = target.read_bytes()
    assert len(data) >= 1 << 20  # neither truncated nor removed
    assert data[:512] != bytes(512)
    assert data[512:1024] != bytes(512)
    assert data[:16] != data[512:528]


def test_memory_is_called_memory():
    place = Path("/dev/shm")
    if not is_memory(place):
        pytest.skip("/dev/shm does not lie in memory here")
    result = probe(Request(place, seconds=0.3))
    assert result.judgement.outcome is Outcome.TOO_GOOD
    assert result.exit_status == 1
    assert result.judgement.reasons == (
        "This lies in memory: every sync returns, and nothing is durable.",
    )


def test_memory_stays_memory_whatever_the_user_says():
    place = Path("/dev/shm")
    if not is_memory(place):
        pytest.skip("/dev/shm does not lie in memory here")
    result = probe(Request(place, seconds=0.2, kind=Kind.NVME, plp=True))
    assert result.place.medium.kind is Kind.MEMORY
    assert result.exit_status == 1


def test_the_command_prints_a_table_and_keeps_the_figures(tmp_path):
    out = tmp_path / "figures.json"
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run(str(folder), "--seconds", "0.3", "--medium", "hdd-7200", "--json", str(out))
    figures = json.loads(out.read_text())
    assert (
        done.returncode
        == {"plausible": 0, "too-good-to-be-true": 1, "cannot-tell": 3}[figures["outcome"]]
    )
    assert figures["format"] == FORMAT
    assert figures["block_bytes"] == 4096
    assert {rate["method"] for rate in figures["rates"]} | set(figures["refused"]) == {
        method.value for method in Method
    }
    assert "fdatasync" in done.stdout
    assert " ".join(NOT_A_PROOF.split()) in " ".join(done.stdout.split())
    assert list(folder.iterdir()) == []


def test_json_on_stdout_is_nothing_but_json(tmp_path):
    done = run(str(tmp_path), "--seconds", "0.2", "--json", "-")
    assert json.loads(done.stdout)["format"] == FORMAT
    assert "is that possible?" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_leaves_nothing(tmp_path, number):
    with subprocess.Popen(
        command(str(tmp_path), "--seconds", "600"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background of a shell inherits that SIGINT and SIGHUP are ignored.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
    ) as child:
        try:
            end = time.monotonic() + DEADLINE_S
            while not list(tmp_path.glob(f"{PREFIX}*")):
                assert child.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            child.send_signal(number)
            _, said = child.communicate(timeout=DEADLINE_S)
        finally:
            child.kill()
    assert child.returncode == 130
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["/nowhere/at/all"], "there is nothing of this name"),
        (["/dev/null"], "a character device, and no file or folder"),
        (["/proc"], "no file can be made here"),
        ([".", "--write-size", "100"], "multiple of 512 bytes"),
        ([".", "--write-size", "2MiB"], "1 MiB at most"),
        ([".", "--write-size", "many"], "write a number"),
        ([".", "--medium", "floppy"], "Invalid value"),
        ([".", "--seconds", "0"], "Invalid value"),
    ],
)
def test_mistakes_exit_with_2(argv, message):
    done = run(*argv)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_block_device_is_not_touched_without_a_word(monkeypatch, tmp_path):
    target = tmp_path / "disk"
    target.write_bytes(b"precious")
    monkeypatch.setattr(Path, "is_block_device", lambda path: path == target)
    with pytest.raises(UsageError, match="overwrites its first 64 MiB") as caught:
        probe(Request(target))
    assert "--destructive" in caught.value.hint
    assert target.read_bytes() == b"precious"


def test_a_full_disk_is_trouble_of_the_host_and_nothing_is_left(monkeypatch, tmp_path):
    def full(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr("powercut_extras.probe.measure._overhead_us", lambda _: 0.5)
    with pytest.raises(HostError, match="No space left") as caught:
        probe(Request(tmp_path, seconds=0.2))
    assert "64 MiB" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_on_offer_is_said_and_not_measured(monkeypatch, tmp_path):
    def refuse(*_: object) -> int:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(os, "pwritev", refuse)
    result = probe(Request(tmp_path, seconds=0.3))
    assert Method.RWF_DSYNC in result.measured.refused
    console = Console(file=io.StringIO(), width=80, color_system=None)
    print_result(console, result)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "RWF_DSYNC is not on offer here: Operation not supported" in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines() if "│" in line)
