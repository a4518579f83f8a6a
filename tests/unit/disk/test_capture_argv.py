# SPDX-License-Identifier: Apache-2.0
"""The command line of the capture disk, and what it says when it cannot start."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig, capture_argv, capture_environment
from powercut.disk.pclog_format import header_of, log_path, map_file
from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import HostError
from powercut.paths import CAPTURE_PLUGIN
from powercut.scenario.settings_errors import DiskError

MIB = 1 << 20


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    path.write_bytes(bytes(MIB))
    return path


def header_at(prefix):
    path = log_path(prefix)
    return header_of(path, map_file(path))


def test_every_promise_of_the_contract_is_on_the_command_line():
    contract = DeviceContract(
        volatile_cache=True,
        flush=Honour.IGNORED,
        fua=Honour.HONOURED,
        ordered=True,
        atomic_unit=4096,
        cache_size=MIB,
        flush_latency_ns=8_333_333,
        fua_latency_ns=1,
    )
    whose = Binding(bytes(range(16)), 5, "a = b", bytes(range(32)))
    config = CaptureConfig(
        Path("/r/base"), Path("/r/disk"), contract, whose, plugin=Path("/p.so"), slow=True
    )
    assert capture_argv(config, Path("/s"), 7) == (
        *("nbdkit", "--foreground", "--unix", "/s/nbd", "/p.so"),
        *("base=/r/base", "log=/r/disk", "control-fd=7", "directory=/s"),
        "run-id=000102030405060708090a0b0c0d0e0f",
        "binding=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        *("seed=5", "cell=a = b"),
        *("volatile-cache=on", "offer-flush=on", "flush=ignored", "fua=honoured", "ordered=on"),
        *("atomic-unit=4096", "cache-size=1048576"),
        *("flush-latency-ns=8333333", "fua-latency-ns=1", "slow=on"),
    )


def test_errors_are_told_as_the_disk_reads_them():
    errors = [
        ({"on": "write"}, "write:nth:1:EIO:1:lost"),
        ({"on": "fua", "nth": 3, "times": "sticky", "then": "kept"}, "fua:nth:3:EIO:0:kept"),
        ({"on": "flush", "at": "300ms", "error": "hang"}, "flush:at:300000000:hang:1:lost"),
        ({"on": "read", "rate": 0.25, "times": 7}, "read:rate:250000:EIO:7:lost"),
        ({"on": "discard", "sectors": (8, 16)}, "discard:nth:1:EIO:1:lost:8:16"),
    ]
    made = tuple(DiskError.model_validate(error) for error, _ in errors)
    argv = capture_argv(CaptureConfig(Path("/b"), None, errors=made), Path("/s"), 7)
    assert argv[-5:] == tuple(f"error={told}" for _, told in errors)


def test_without_a_log_none_is_named():
    argv = capture_argv(CaptureConfig(Path("/b"), None), Path("/s"), 7)
    assert not [word for word in argv if word.startswith(("log=", "control="))]


def test_the_contract_comes_back_from_the_header(base, tmp_path):
    contract = DeviceContract(
        flush=Honour.IGNORED, ordered=True, atomic_unit=1, cache_size=4096, fua_latency_ns=5
    )
    whose = Binding(b"0123456789abcdef", (1 << 63) - 1, "cache=none, ü", b"d" * 32)
    with CaptureDisk(CaptureConfig(base, tmp_path / "log", contract, whose)):
        pass
    header = header_at(tmp_path / "log")
    assert (header.contract, header.disk_size) == (contract, MIB)
    assert header.binding == whose


@pytest.mark.parametrize(("cell", "kept"), [("x" * 200, "x" * 96), ("x" * 95 + "ü", "x" * 95)])
def test_a_long_name_of_a_cell_is_cut_off_in_the_header_and_no_letter_is_halved(
    base, tmp_path, cell, kept
):
    config = CaptureConfig(base, tmp_path / "log", binding=Binding(cell=cell))
    with CaptureDisk(config):
        pass
    assert header_at(tmp_path / "log").binding == Binding(cell=kept)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("flush=perhaps", r"flush=perhaps: must be honoured or ignored"),
        ("volatile-cache=1", r"volatile-cache=1: must be on or off"),
        ("atomic-unit=100", r"atomic-unit=100: must be 1 .* power of two from 512 to 65536"),
        ("cache-size=big", r"cache-size=big: must be a size"),
        ("run-id=12", r"run-id=12: must be 32 hexadecimal digits"),
        ("model=hdd-7200", r"model=hdd-7200: no such parameter"),
        ("fua-latency-ns=-1", r"fua-latency-ns=-1: must be nanoseconds"),
        ("colour=red", r"colour=red: no such parameter"),
        ("base=/nowhere/at/all", r"base=/nowhere/at/all: No such file"),
        ("log=/nowhere/at/all", r"log=/nowhere/at/all: No such file"),
        ("control=/nowhere/at/all", r"control=/nowhere/at/all.*: No such file"),
    ],
)
def test_errors_name_the_parameter(setting, message, base, tmp_path):
    argv = ["nbdkit", "-U", str(tmp_path / "nbd"), "--run", "true", str(CAPTURE_PLUGIN)]
    done = subprocess.run(
        [*argv, f"base={base}", setting], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert re.search(message, done.stderr)


def test_a_base_is_needed(tmp_path):
    argv = ["nbdkit", "-U", str(tmp_path / "nbd"), "--run", "true", str(CAPTURE_PLUGIN)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "base=FILE is missing" in done.stderr


def test_a_disk_that_cannot_start_shows_command_and_output(base, tmp_path):
    base.write_bytes(bytes(700))
    with pytest.raises(HostError) as caught:
        CaptureDisk(CaptureConfig(base, tmp_path / "log", sockets=tmp_path)).start()
    assert "not a multiple of 512" in str(caught.value)
    assert f"base={base}" in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base"]


def test_an_existing_recording_is_never_overwritten(base, tmp_path):
    (tmp_path / "log.data").write_bytes(b"precious")
    with pytest.raises(HostError, match="File exists"):
        CaptureDisk(CaptureConfig(base, tmp_path / "log")).start()
    assert (tmp_path / "log.data").read_bytes() == b"precious"


def test_a_plugin_that_was_not_built(base, tmp_path):
    with pytest.raises(HostError, match="not built") as caught:
        CaptureDisk(CaptureConfig(base, None, plugin=tmp_path / "none.so")).start()
    assert "make" in caught.value.hint


def test_the_guard_against_hangups_is_preloaded_before_others():
    config = CaptureConfig(Path("/b"), None, plugin=Path("/x/p.so"))
    guard = {"LD_PRELOAD": "nbdkit-capture-hangup.so", "LD_LIBRARY_PATH": "/x"}
    assert capture_environment(config, {"A": "b"}) == {"A": "b", **guard}
    others = {"LD_PRELOAD": "/o.so", "LD_LIBRARY_PATH": "/lib"}
    assert capture_environment(config, others) == {
        name: f"{value}:{others[name]}" for name, value in guard.items()
    }


def test_a_guard_that_was_not_built(base, tmp_path):
    shutil.copy(CAPTURE_PLUGIN, tmp_path / "p.so")
    with pytest.raises(HostError, match=r"not built: no .*hangup"):
        CaptureDisk(CaptureConfig(base, None, plugin=tmp_path / "p.so")).start()


def test_a_socket_path_that_is_too_long(base, tmp_path):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    with pytest.raises(HostError, match="too long"):
        CaptureDisk(CaptureConfig(base, None, sockets=deep)).start()
    assert list(deep.iterdir()) == []
