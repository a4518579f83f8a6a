# SPDX-License-Identifier: Apache-2.0
"""The uml engine on real file systems: exact answers, no leak, no survivor."""

import hashlib
import itertools
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from ordinary_user import as_ordinary_user
from stopped import stop

from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.observation import Extent
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import FilePlace, ImageWrite
from powercut.recover.uml.boot import UmlProcess
from powercut.recover.uml.engine import UmlEngine, log_bytes, unavailable
from powercut.wal.layout import SlotState
from powercut.wal.record import CHUNK, HEADER

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

RUN_ID = "00112233445566778899aabbccddeeff"
READ = ("/bin/wal", "read", f"run_id={RUN_ID}", "layout=append", "path=/mnt/wal", "record=4096")
WRITE = (*READ[:1], "write", *READ[2:], "sync=fdatasync", "channel=fd:3")
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f", "--unsupported"]}
BOOT_S = 120.0
STATE_S = 60.0


def mkfs(path: Path, filesystem: str, size: int = 16 << 20) -> Path:
    argv = MKFS[filesystem]
    tool = shutil.which(argv[0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip(f"{argv[0]} is not installed")
    with path.open("wb") as file:
        file.truncate(size)
    subprocess.run([tool, *argv[1:], str(path)], check=True, capture_output=True, timeout=60)
    return path


def plan(filesystem: str, **more) -> RecoveryPlan:
    return RecoveryPlan.of(filesystem, more.pop("options", ""), "/mnt", READ, **more)


def intact(count: int) -> tuple[Extent, ...]:
    return (Extent(0, count, SlotState.INTACT, 1, 0),)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module", params=["ext4", "xfs"])
def disk(request, tmp_path_factory):
    """A base image, and two crash states of it: after 100 and after 200 synced records."""
    folder = tmp_path_factory.mktemp(request.param)
    base = mkfs(folder / "base", request.param)
    with UmlEngine(base, plan(request.param)) as engine:
        engine.start(timeout_s=BOOT_S)
        engine.mount(timeout_s=STATE_S)
        engine.execute((*WRITE, "records=100"), timeout_s=STATE_S)
        short = engine.capture(timeout_s=STATE_S)
        engine.execute((*WRITE, "records=100", "first_lsn=101"), timeout_s=STATE_S)
        long = engine.capture(timeout_s=STATE_S)
        assert engine.boots == 1
    return request.param, base, short, long


@pytest.fixture(scope="module")
def engine(disk):
    with UmlEngine(disk[1], plan(disk[0])) as engine:
        engine.start(timeout_s=BOOT_S)
        yield engine


def test_a_cut_is_recovered_exactly_and_nothing_leaks(disk, engine):
    _, base, short, long = disk
    before = digest(base)
    for state, count in (
        (short, 100),
        (long, 200),
        (short, 100),
        (long, 200),
        ((), 0),
        (long, 200),
    ):
        seen = engine.recover(state, timeout_s=STATE_S)
        assert (seen.recovered, seen.complete, seen.failure) == (True, True, "")
        assert seen.extents == (intact(count) if count else ())
    assert digest(base) == before
    assert engine.boots == 1


def test_the_recovery_really_needs_the_journal(disk, engine):
    """The file's size is in the journal alone: without its blocks the records are gone."""
    _, _, _, long = disk
    lost = engine.recover(long[: len(long) // 2], timeout_s=STATE_S)
    assert lost.extents != intact(200)


def test_the_view_after_a_recovery_is_the_state_again(disk, engine):
    """What recovery wrote is forgotten: a fresh view is the state, byte for byte."""
    _, _, _, long = disk
    engine.recover(long, timeout_s=STATE_S)
    engine.mount(timeout_s=STATE_S)
    mounted = engine.capture(timeout_s=STATE_S)
    engine.unmount(timeout_s=STATE_S)
    assert any(
        not np.array_equal(a.data, b.data) or a.offset != b.offset
        for a, b in zip(mounted, long, strict=False)
    ), "recovery wrote nothing: the state was not dirty"
    assert engine.recover(long, timeout_s=STATE_S).extents == intact(200)


def read_through(disk: np.ndarray, place: FilePlace) -> bytes:
    """What lies where the file is said to lie."""
    content = bytearray(max((one.file + one.length for one in place.extents), default=0))
    for one in place.extents:
        content[one.file : one.file + one.length] = disk[one.disk : one.disk + one.length].tobytes()
    return bytes(content)


def test_files_lie_where_the_engine_says(disk, engine):
    _, base, _, long = disk
    image = np.fromfile(base, dtype=np.uint8)
    for write in long:
        image[write.offset : write.offset + write.length] = 0 if write.data is None else write.data
    places = {place.path: place for place in engine.files(long, timeout_s=STATE_S)}
    assert places[""].folder
    assert not places["wal"].folder
    content = read_through(image, places["wal"])
    headers = np.frombuffer(content, dtype=np.uint8).reshape(-1, 4096)[:200, :CHUNK]
    assert np.ascontiguousarray(headers).view(HEADER)["lsn"].ravel().tolist() == [*range(1, 201)]
    assert engine.recover(long, timeout_s=STATE_S).extents == intact(200)


def test_files_of_btrfs_lie_where_its_chunks_do(tmp_path):
    """btrfs says where files lie in addresses of its own, which are not those of the disk."""
    tool = shutil.which("mkfs.btrfs", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip("mkfs.btrfs is not installed")
    content = np.random.default_rng(5).bytes(300_000)
    (tmp_path / "root" / "below").mkdir(parents=True)
    (tmp_path / "root" / "below" / "file").write_bytes(content)
    base = tmp_path / "base"
    base.touch()
    os.truncate(base, 128 << 20)
    argv = [tool, "-q", "--rootdir", str(tmp_path / "root"), str(base)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    with UmlEngine(base, plan("btrfs")) as engine:
        engine.start(timeout_s=BOOT_S)
        places = {place.path: place for place in engine.files((), timeout_s=STATE_S)}
    assert places["below"].folder
    image = np.fromfile(base, dtype=np.uint8)
    assert read_through(image, places["below/file"])[: len(content)] == content


def test_a_state_that_does_not_mount_says_so_and_the_engine_goes_on(disk, engine):
    _, _, _, long = disk
    wreck = (*long, ImageWrite(0, 64 << 10, None))
    seen = engine.recover(wreck, timeout_s=STATE_S)
    assert not seen.recovered
    assert seen.complete  # as the guest has it: a refusal is an answer
    assert seen.failure.startswith(f"mount {disk[0]}: ")
    assert engine.recover(long, timeout_s=STATE_S).extents == intact(200)
    assert engine.boots == 1


def test_a_kernel_that_stops_is_restarted_and_asked_again(disk, monkeypatch):
    """Its first attempt has little time, whatever the host's load; what comes then has enough."""
    limits = itertools.chain([2.0], itertools.repeat(math.inf))
    wait = UmlProcess.wait_ring
    _, base, short, long = disk
    with UmlEngine(base, plan(disk[0])) as engine:
        engine.start(timeout_s=BOOT_S)
        assert engine.recover(short, timeout_s=STATE_S).extents == intact(100)
        for process in kernels(engine.pid):
            with suppress(ProcessLookupError):  # those of its user space come and go
                stop(process)
        monkeypatch.setattr(
            UmlProcess,
            "wait_ring",
            lambda kernel, end: wait(kernel, min(end, time.monotonic() + next(limits))),
        )
        assert engine.recover(long, timeout_s=STATE_S).extents == intact(200)
        assert engine.boots == 2


def test_reads_are_known_and_only_they_matter(disk):
    """Bytes that were not read may be anything; one that was read may not."""
    filesystem, base, _, long = disk
    with UmlEngine(base, plan(filesystem), track_reads=True) as engine:
        engine.start(timeout_s=BOOT_S)
        assert engine.recover(long, timeout_s=STATE_S).extents == intact(200)
        reads = engine.reads
        read = np.zeros(16 << 20, dtype=np.bool_)
        for offset, length in reads:
            read[offset : offset + length] = True
        assert 200 * 4096 <= read.sum() < 8 << 20
        unread = np.flatnonzero(~read.reshape(-1, 4096).any(axis=1))
        noise = np.full(4096, 0xA5, dtype=np.uint8)
        spoilt = (*long, *(ImageWrite(int(page) * 4096, 4096, noise) for page in unread))
        assert engine.recover(spoilt, timeout_s=STATE_S).extents == intact(200)
        assert engine.reads == reads
        first = next(write for write in long if b"PWAL" in write.data.tobytes())
        assert read[first.offset : first.offset + 4096].all()
        broken = (*long, ImageWrite(first.offset, 4096, noise))
        assert engine.recover(broken, timeout_s=STATE_S).extents != intact(200)
        assert engine.boots == 1


def test_a_panic_is_a_finding_with_its_console(tmp_path):
    base = mkfs(tmp_path / "base", "ext4")
    argv = ["/sbin/debugfs", "-R", "blocks <2>", str(base)]
    found = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120)
    block = int(found.stdout.split()[0])
    size = 1024 if (16 << 20) // 1024 <= 32768 else 4096
    noise = np.frombuffer(b"\xa5" * size, dtype=np.uint8)
    state = (ImageWrite(block * size, size, noise),)
    with UmlEngine(base, plan("ext4", options="errors=panic")) as engine:
        engine.start(timeout_s=BOOT_S)
        assert engine.recover((), timeout_s=STATE_S).extents == ()
        seen = engine.recover(state, timeout_s=STATE_S)
        assert not seen.recovered
        assert "panic" in seen.failure
        assert engine.boots == 2, "a panic counts only if a fresh kernel panics, too"
        assert engine.recover((), timeout_s=STATE_S).recovered
        assert engine.boots == 3


def test_a_page_that_is_not_sent_would_be_noticed(disk, monkeypatch):
    """The leak test can fail: without the pages that differ the last state answers again."""
    _, base, short, long = disk
    with UmlEngine(base, plan(disk[0])) as engine:
        engine.start(timeout_s=BOOT_S)
        assert engine.recover(short, timeout_s=STATE_S).extents == intact(100)
        monkeypatch.setattr(engine, "_put", lambda pages: 0)
        assert engine.recover(long, timeout_s=STATE_S).extents == intact(100)


@pytest.mark.public_checkout
def test_an_ordinary_user_may():
    folder = Path(tempfile.mkdtemp(prefix="powercut-test-"))
    try:
        base = mkfs(folder / "base", "ext4")
        folder.chmod(0o755)
        base.chmod(0o444)
        program = CONTROLLER.partition("while True")[0] + "print(engine.recover((), timeout_s=60))"
        done = subprocess.run(
            [*as_ordinary_user(), sys.executable, "-c", program, str(base), *READ],
            env={"PATH": os.environ["PATH"]},
            cwd="/", capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert "recovered=True, complete=True, failure=''" in done.stdout


def test_the_benchmark_measures_and_checks(disk):
    from bench.uml import compare_paths, measure
    from powercut.recover.uml.share import BarePath

    figures = measure(disk[1], disk[0], records=20, states=3, turns=1, timeout_s=300)
    assert figures.disk_bytes == 16 << 20
    assert min(figures.same_per_s, figures.varied_per_s, figures.bare_per_s) > 0
    assert figures.dirty_bytes >= 20 * 4096
    assert figures.step_ms["mount"] > 0
    paths = compare_paths(disk[1], disk[0], records=20, rounds=2, turns=1, timeout_s=300)
    assert [entry.path for entry in paths] == [
        path.name.lower().replace("_", "-") for path in BarePath
    ]
    assert all(entry.mount_ms > 0 for entry in paths)


def test_a_raw_log_needs_no_file_system(tmp_path):
    base = tmp_path / "base"
    with base.open("wb") as file:
        file.truncate(1 << 20)
    log = (f"run_id={RUN_ID}", "layout=raw", "path=/dev/dm-0", "record=512", "align=512")
    with UmlEngine(base, RecoveryPlan.of("", "", "", ("/bin/wal", "read", *log))) as engine:
        engine.start(timeout_s=BOOT_S)
        engine.mount(timeout_s=STATE_S)
        argv = ("/bin/wal", "write", *log, "sync=fdatasync", "records=7", "channel=fd:3")
        engine.execute(argv, timeout_s=STATE_S)
        state = engine.capture(timeout_s=STATE_S)
        engine.unmount(timeout_s=STATE_S)
        absent = Extent(0, 2048, SlotState.ABSENT)
        for _ in range(2):
            assert engine.recover((), timeout_s=STATE_S).extents == (absent,)
            seen = engine.recover(state, timeout_s=STATE_S).extents
            assert seen == (*intact(7), Extent(7, 2041, SlotState.ABSENT))


CONTROLLER = """
import sys
from pathlib import Path
from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml.boot import UmlProcess
from powercut.recover.uml.engine import UmlEngine
engine = UmlEngine(Path(sys.argv[1]), RecoveryPlan.of("ext4", "", "/mnt", tuple(sys.argv[2:])))
engine.start(timeout_s=120)
sys.stdout.write(f"{engine.pid}\\n")
sys.stdout.flush()
while True:
    engine.recover((), timeout_s=60)
"""


def kernels(guard: int) -> list[int]:
    """The processes that run the kernel's program: below the guard, or below its sandbox."""
    found = []
    for pid in session(guard):
        with suppress(OSError):  # its own children come and go
            if Path(f"/proc/{pid}/exe").readlink().name == "linux.uml":
                found.append(pid)
    assert found
    return found


def session(leader: int) -> list[int]:
    """Processes of the session, from /proc: field 6 of stat, counted after the name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def files_of_memory():
    return {path.name for path in Path("/dev/shm").iterdir() if "vm_file" in path.name}


def test_killing_the_controller_leaves_nothing(tmp_path):
    base = mkfs(tmp_path / "base", "ext4")
    memory = files_of_memory()
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(base), *READ], stdout=subprocess.PIPE, text=True
    )
    try:
        assert controller.stdout is not None
        guard = int(controller.stdout.readline())
        assert len(session(guard)) >= 3, "the guard, the kernel, its helpers"
    finally:
        controller.kill()
        controller.wait(timeout=BOOT_S)
        controller.stdout.close()
    deadline = time.monotonic() + BOOT_S
    while left := session(guard) or files_of_memory() - memory:  # other tests boot kernels, too
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_leaving_the_context_leaves_nothing(tmp_path):
    base = mkfs(tmp_path / "base", "ext4")
    fds = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with UmlEngine(base, plan("ext4")) as engine:
        engine.start(timeout_s=BOOT_S)
        guard = engine.pid
    assert session(guard) == []
    del engine
    assert len(os.listdir("/proc/self/fd")) <= fds + 2, "two maps of the base image may remain"  # noqa: PTH208


def test_the_kernel_finds_no_file_of_the_host(tmp_path):
    """hostfs is built into the kernel; a recording that names it gets at nothing."""
    base = mkfs(tmp_path / "base", "ext4")
    (tmp_path / "wal").write_bytes(b"secret")
    hostile = RecoveryPlan.of("hostfs", str(tmp_path), "/mnt", READ)
    with UmlEngine(base, hostile) as engine:
        engine.start(timeout_s=BOOT_S)
        with pytest.raises(HostError, match="mount hostfs"):
            engine.recover((), timeout_s=STATE_S)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("ext4", "barrier=perhaps"), "mount-unproved"),
        (("befs", ""), "mount-unsupported"),
    ],
)
def test_what_a_kernel_says_of_every_disk_is_held_against_none(tmp_path, change, reason):
    base = mkfs(tmp_path / "base", "ext4")
    wreck = (ImageWrite(0, 64 << 10, None),)
    with UmlEngine(base, RecoveryPlan.of(*change, "/mnt", READ)) as engine:
        engine.start(timeout_s=BOOT_S)
        for state in ((), wreck, wreck):
            with pytest.raises(HostError) as caught:
                engine.recover(state, timeout_s=STATE_S)
            cause = Failure.labelled(reason)
            assert cause.reason in str(caught.value)
            assert caught.value.hint == cause.remedy
        assert engine.boots == 1, "a fresh kernel knows no more options"


def test_a_first_state_that_does_not_mount_is_lost_if_the_base_image_mounts(tmp_path):
    base = mkfs(tmp_path / "base", "ext4")
    wreck = (ImageWrite(0, 64 << 10, None),)
    with UmlEngine(base, plan("ext4")) as engine:
        engine.start(timeout_s=BOOT_S)
        seen, raw = engine.record(wreck, timeout_s=STATE_S)
        assert (seen.cause, seen.recovered) == (Failure.MOUNT_REFUSED, False)
        assert raw is not None
        assert log_bytes(raw) < 1 << 16, "what is on record is the state's recovery, not the base's"
        assert engine.recover((), timeout_s=STATE_S).recovered
