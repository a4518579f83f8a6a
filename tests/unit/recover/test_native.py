# SPDX-License-Identifier: Apache-2.0
"""A program's check on the host: trees as archives, the sandbox, and who is believed."""

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from powercut.model.observation import Observation
from powercut.recover.native import inside
from powercut.recover.native.check import CheckSandbox, unavailable
from powercut.recover.native.engine import SAMPLE, SAMPLE_FIRST, NativeEngine
from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.recover.port import SecondLook
from powercut.sandbox.rebooted import BOOT_ID, new_clocks

needs_bubblewrap = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


ORDINARY = inside.PECULIAR.pack(0)
ACCESS_NS, CHANGE_NS = 1_000_000_000_123_456_789, 900_000_000_000_000_001


def entry(path: str, mode: int, *, size: int = 0, parts: int = 0, xattrs: int = 0) -> bytes:
    times = (ACCESS_NS // 10**9, CHANGE_NS // 10**9, ACCESS_NS % 10**9, CHANGE_NS % 10**9)
    return inside.ENTRY.pack(size, mode, len(path), parts, xattrs, *times) + path.encode()


def folder(path: str, mode: int = 0o755) -> bytes:
    return entry(path, stat.S_IFDIR | mode)


def file(path: str, size: int, *parts: tuple[int, bytes], mode: int = 0o644) -> bytes:
    head = entry(path, stat.S_IFREG | mode, size=size, parts=len(parts))
    return head + b"".join(inside.PART.pack(at, len(data)) + data for at, data in parts)


def link(path: str, target: bytes) -> bytes:
    return entry(path, stat.S_IFLNK | 0o777, parts=1) + inside.PART.pack(0, len(target)) + target


def same(path: str, first: bytes) -> bytes:
    head = entry(path, stat.S_IFREG, parts=inside.SAME_FILE)
    return head + inside.PART.pack(0, len(first)) + first


def with_attribute(path: str, name: bytes, value: bytes, *, mode: int) -> bytes:
    head = entry(path, stat.S_IFREG | mode, xattrs=1)
    return head + inside.XATTR.pack(len(name), len(value)) + name + value


def test_an_archive_becomes_the_files_that_it_holds(tmp_path):
    archive = (
        ORDINARY
        + folder("data", 0o500)
        + file("data/sparse", 9000, (4096, b"x" * 10), (8999, b"y"), mode=0o600)
        + link("data/link", b"sparse")
        + file("empty", 0)
        + same("other", b"data/sparse")
        + with_attribute("marked", b"user.k", b"value", mode=0o400)
    )
    inside.unpack(memoryview(archive), str(tmp_path))
    for name in ("data", "data/sparse", "data/link", "empty", "marked"):
        found = (tmp_path / name).lstat()
        assert (found.st_atime_ns, found.st_mtime_ns) == (ACCESS_NS, CHANGE_NS), name
    assert (tmp_path / "data/sparse").read_bytes() == (
        bytes(4096) + b"x" * 10 + bytes(8999 - 4106) + b"y"
    )
    assert (tmp_path / "data/link").readlink().name == "sparse"
    assert stat.S_IMODE((tmp_path / "data/sparse").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o500
    assert (tmp_path / "empty").read_bytes() == b""
    assert (tmp_path / "other").samefile(tmp_path / "data/sparse")
    assert os.getxattr(tmp_path / "marked", "user.k") == b"value"
    assert stat.S_IMODE((tmp_path / "marked").stat().st_mode) == 0o400


@contextmanager
def shared():
    """Memory as the guest shares it, and a way to leave an archive in it."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, 1 << 20)

    def put(archive: bytes) -> int:
        os.pwrite(fd, archive, inside.FIRST)
        return len(archive)

    try:
        yield fd, put
    finally:
        os.close(fd)


CHECK = 'echo "= $(cat /mnt/data/n)" >&3; touch /mnt/data/mine; [ ! -e /mnt/data/was ]; kill -0 1'
STAYS = (
    'echo ready >&3; while c=$(dd bs=1 count=1 2>/dev/null) && [ -n "$c" ]; do echo stays >&3; '
    f"{CHECK}; echo done $? >&3; done"
)


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script, "sh")


@pytest.fixture
def sandbox():
    with shared() as (fd, put):
        made = []

        def make(check: str, checks: str = "exit 0", visible: tuple[str, ...] = ()) -> CheckSandbox:
            root = HostRoot("/", ("PATH=/usr/bin:/bin",), visible)
            made.append(CheckSandbox(root, shell(check), shell(checks)))
            return made[-1]

        def run(box: CheckSandbox, archive: bytes, timeout_s: float = 60):
            done = box.check(fd, put(archive), timeout_s=timeout_s)
            return done.status, done.lines, done.said

        yield make, run
        for box in made:
            box.close()


def tree(number: int) -> bytes:
    return ORDINARY + folder("data") + file("data/n", 1, (0, str(number).encode()))


@needs_bubblewrap
def test_a_check_on_the_host_sees_another_boot_than_the_host_s(sandbox):
    """On which the program itself may have run, and left unsynced what it trusts until a boot."""
    make, run = sandbox
    script = f"cat {BOOT_ID} >&3; sed -n 's/^btime //p' /proc/stat >&3"
    seen = [run(make(script), tree(1))[1].decode().split() for _ in range(2)]
    boots = [boot for boot, _ in seen]
    assert len({*boots, Path(BOOT_ID).read_text().strip()}) == 3
    assert {len(boot) for boot in boots} == {36}
    if new_clocks():
        assert all(time.time() - int(at) < 300 for _, at in seen)


@needs_bubblewrap
def test_each_tree_is_checked_afresh(sandbox):
    make, run = sandbox
    box = make(
        "ls /mnt/data >&3; ls /tmp /run >&2; touch /mnt/data/left; mkdir /mnt/more; id -u >&3"
    )
    for _ in range(2):
        status, lines, said = run(box, tree(1))
        assert (status, lines.split()[0], said.split()) == (0, b"n", ["/run:", "/tmp:"])
        assert lines.split()[1:] == [b"%d" % (os.geteuid() or 65534)]


@needs_bubblewrap
def test_a_sandbox_outlives_the_thread_that_has_started_it(sandbox):
    make, run = sandbox
    box = make("cat /mnt/data/n >&3")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run, box, tree(1)).result()[1] == b"1"
    assert run(box, tree(2))[1] == b"2"


@needs_bubblewrap
def test_what_a_check_leaves_in_memory_is_not_there_for_the_next(sandbox, tmp_path):
    """But for what its command is made of."""
    make, run = sandbox
    kept = tmp_path / "program"
    kept.write_text("")
    script = (
        "for f in /tmp /run /var/tmp /dev/shm; do "
        "  [ -e $f/left ] && exit 5; mkdir $f/left; echo 1 > $f/left/copy; "
        f"done; [ -e '{kept}' ] && echo there >&3"
    )
    box = make(script, visible=(str(tmp_path),))
    assert [run(box, tree(number)) for number in (1, 2, 3)] == [(0, b"there\n", "")] * 3


SHARED = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
made = [
    libc.shmget(7, 4096, 0o3600), libc.semget(7, 1, 0o3600), libc.msgget(7, 0o3600),
    ctypes.CDLL("librt.so.1").mq_open(b"/left", os.O_CREAT | os.O_EXCL, 0o600, None),
]
os.write(3, b"made\\n" if min(made) >= 0 else b"left %r\\n" % made)
"""


@needs_bubblewrap
def test_shared_memory_semaphores_and_queues_are_not_there_for_the_next(sandbox):
    """System V's, which have no name among the files, and POSIX queues, as after any boot."""
    make, run = sandbox
    box = make(f"exec /usr/bin/python3 -ISc '{SHARED}'")
    assert [run(box, tree(number)) for number in (1, 2, 3)] == [(0, b"made\n", "")] * 3


@needs_bubblewrap
def test_a_program_that_stays_is_asked_again_and_again(sandbox):
    make, run = sandbox
    box = make(CHECK, STAYS)
    answers = [run(box, tree(number)) for number in (1, 2, 3)]
    assert [status for status, _, _ in answers] == [0, 0, 0]
    assert [lines for _, lines, _ in answers] == [b"stays\n= %d\n" % n for n in (1, 2, 3)]


@needs_bubblewrap
@pytest.mark.parametrize(
    "checks", ["exit 3", "echo hello >&3; exec sleep 300", "echo ready >&3; exit 0"]
)
def test_a_program_that_does_not_stay_is_started_for_each_tree(sandbox, checks):
    make, run = sandbox
    box = make(CHECK, checks)
    assert [run(box, tree(number))[:2] for number in (1, 2)] == [(0, b"= 1\n"), (0, b"= 2\n")]


@needs_bubblewrap
def test_a_check_that_fails_hangs_or_leaves_a_daemon(sandbox):
    make, run = sandbox
    assert run(make("echo no room; exit 4"), tree(1)) == (4, b"", "no room\n")
    hangs = make("echo = 1 >&3; exec sleep 300")  # a busy host has started it within 5 s
    assert run(hangs, tree(1), timeout_s=5)[:2] == (None, b"= 1\n")
    names = "cat /proc/[0-9]*/comm 2>/dev/null"
    leaves = f"setsid sleep 300 & until {names} | grep -q sleep; do :; done"
    box = make(f"{names} | grep -c sleep >&3; {leaves}")
    assert [run(box, tree(1))[:2] for _ in range(3)] == [(0, b"0\n")] * 3


@needs_bubblewrap
def test_lines_are_all_there_by_whatever_name_the_descriptor_was_opened(sandbox):
    make, run = sandbox
    box = make("echo = 1 >&3; echo = 2 >/proc/self/fd/3; sh -c 'echo = 3 >>/dev/fd/3'")
    assert [run(box, tree(1))[:2] for _ in range(2)] == [(0, b"= 1\n= 2\n= 3\n")] * 2


class FakeGuest:
    """Says of a state what it is told to; hands the same tree over for the same writes."""

    base = None

    def __init__(self, fd, put, says):
        self.memory_fd, self._put, self._says = fd, put, says
        self.asked = self.sampled = 0

    def start(self, *, timeout_s):
        pass

    def close(self):
        pass

    def recover(self, writes, *, timeout_s):
        self.asked += 1
        return Observation((), lines=self._says(writes))

    def sample(self, writes, *, timeout_s):
        self.sampled += 1
        return Observation((), lines=self._says(writes))

    def tree(self, writes, *, timeout_s):
        archive = tree(writes)
        self._put(archive)
        return Observation(()), memoryview(archive)


class GuestWithTrees(FakeGuest):
    """Its states are trees."""

    def tree(self, writes, *, timeout_s):
        self._put(writes)
        return Observation(()), memoryview(writes)


def engine(guest, check=CHECK, nodes=()) -> NativeEngine:
    host = HostRoot("/", ("PATH=/usr/bin:/bin",), nodes=nodes)
    plan = RecoveryPlan.of("ext4", "", "/host/mnt", shell(check), host=host)
    made = NativeEngine(guest, plan, shell("exit 0"))
    assert isinstance(made, SecondLook)
    return made


@needs_bubblewrap
def test_the_first_trees_and_a_sample_are_checked_in_the_guest_as_well():
    with shared() as (fd, put):
        guest = FakeGuest(fd, put, lambda number: b"= %d\n" % number)
        with engine(guest) as one:
            for number in [*range(SAMPLE + 1), 3, 4]:
                seen = one.recover(number, timeout_s=60)
                assert seen.lines == b"= %d\n" % number
            assert (guest.asked, guest.sampled) == (SAMPLE_FIRST, 1)
            assert (one.on_host, one.same_files) == (SAMPLE + 1, 2)
            assert one.doubts == ()
            assert one.look_again(3, timeout_s=60).lines == b"= 3\n"
            assert guest.asked == SAMPLE_FIRST + 1


@needs_bubblewrap
def test_a_cluster_is_asked_in_the_guest_alone():
    """Its nodes are there: on the host a check finds nobody, and may call that a loss."""
    with shared() as (fd, put):
        guest = FakeGuest(fd, put, lambda number: b"= %d\n" % number)
        with engine(guest, "exit 0", nodes=("a", "b")) as one:
            for number in range(SAMPLE_FIRST + 2):
                assert one.recover(number, timeout_s=60).lines == b"= %d\n" % number
            assert (guest.asked, guest.sampled, one.on_host) == (SAMPLE_FIRST + 2, 0, 0)


class GuestThatHolds(FakeGuest):
    """Its samples are always those of state 3."""

    def sample(self, writes, *, timeout_s):
        del writes
        return super().sample(3, timeout_s=timeout_s)


@needs_bubblewrap
def test_a_sample_that_says_something_else_is_started_anew_for_its_state():
    with shared() as (fd, put):
        guest = GuestThatHolds(fd, put, lambda number: b"= %d\n" % number)
        with engine(guest) as one:
            for number in range(SAMPLE):
                assert one.recover(number, timeout_s=60).lines == b"= %d\n" % number
            assert (guest.asked, guest.sampled, one.doubts) == (SAMPLE_FIRST + 1, 1, ())


@needs_bubblewrap
def test_a_tree_is_told_from_the_one_before_it_by_every_byte():
    first = folder("f", 0o755) + file("f/a", 3, (0, b"abc"))
    trees = [b"", first, first, file("a", 0), first, first.replace(b"abc", b"abd"), b"", b""]
    trees = [ORDINARY + one for one in trees]
    with shared() as (fd, put):
        guest = GuestWithTrees(fd, put, lambda _: b"= 7\n")
        with engine(guest, "echo = 7 >&3") as one:
            for tree_of_state in trees:
                assert one.recover(tree_of_state, timeout_s=60).lines == b"= 7\n"
            assert (one.on_host, one.same_files) == (4, 4)


@needs_bubblewrap
def test_what_a_copy_cannot_have_is_looked_at_in_the_guest():
    """Owners, flags and the like: until host and guest have said the same of a tree with them."""

    def peculiar(number: int, content: int) -> bytes:
        text = str(content).encode()
        return inside.PECULIAR.pack(number) + folder("data") + file("data/n", 1, (0, text))

    with shared() as (fd, put):
        guest = GuestWithTrees(fd, put, lambda _: b"= 7\n")
        with engine(guest, "echo = 7 >&3") as one:
            for content in range(4):
                one.recover(peculiar(0, content), timeout_s=60)
            assert (guest.asked, guest.sampled) == (SAMPLE_FIRST, 0)
            for content in range(4):
                one.recover(peculiar(1, content), timeout_s=60)
            assert (guest.asked, guest.sampled) == (SAMPLE_FIRST, 1)
    with shared() as (fd, put):
        guest = GuestWithTrees(fd, put, lambda tree: b"= %d\n" % tree[0])
        with engine(guest, "echo = 0 >&3") as one:
            for content in range(3):
                assert one.recover(peculiar(0, content), timeout_s=60).lines == b"= 0\n"
            for content in range(3):
                assert one.recover(peculiar(1, content), timeout_s=60).lines == b"= 1\n"
            asked = guest.asked + guest.sampled
            assert one.recover(peculiar(0, 4), timeout_s=60).lines == b"= 0\n"
            # That a copy misses what it cannot have says nothing of other trees.
            assert (guest.asked + guest.sampled, one.doubts) == (asked, ())


@needs_bubblewrap
def test_times_and_modes_are_part_of_a_tree():
    first = ORDINARY + file("a", 0)
    later = first.replace(
        (CHANGE_NS // 10**9).to_bytes(8, "little"), (CHANGE_NS // 10**9 + 1).to_bytes(8, "little")
    )
    with shared() as (fd, put):
        says = {first: b"900000000", later: b"900000001", ORDINARY + file("a", 0, mode=0o600): b""}
        guest = GuestWithTrees(fd, put, lambda tree: b"= %s\n" % says[bytes(tree)])
        with engine(guest, 'echo "= $(find /mnt/a -perm 644 -printf "%Ts")" >&3') as one:
            for tree_of_state, said in [*says.items()] * 2:
                assert one.recover(tree_of_state, timeout_s=60).lines == b"= %s\n" % said
            assert (one.on_host, one.same_files, one.doubts) == (3, 3, ())


@needs_bubblewrap
def test_where_the_two_differ_the_guest_is_right_and_the_host_not_asked_again():
    with shared() as (fd, put):
        guest = FakeGuest(fd, put, lambda number: b"= %d\n" % (number if number < 2 else 0))
        with engine(guest) as one:
            seen = [one.recover(number, timeout_s=60).lines for number in range(3, 3 + SAMPLE)]
            assert seen == [b"= 0\n"] * SAMPLE
            assert (one.on_host, one.doubts) == (1, ())
        guest = FakeGuest(fd, put, lambda number: b"= %d\n" % (number if number < 5 else 0))
        with engine(guest) as one:
            for number in range(SAMPLE):
                one.recover(number, timeout_s=60)
            assert "states were checked on the host, and then a check in the guest" in one.doubts[0]


@needs_bubblewrap
def test_a_check_that_does_not_look_at_everything_is_left_to_the_guest():
    with shared() as (fd, put):
        guest = FakeGuest(fd, put, lambda number: b"= 7\n")
        with engine(guest, "exit 3") as one:
            assert one.recover(1, timeout_s=60).lines == b"= 7\n"
            assert (guest.asked, one.on_host, one.doubts) == (1, 0, ())


@needs_bubblewrap
def test_a_check_changes_no_setting_of_the_host(sandbox):
    make, run = sandbox  # a value is written that is there already: even so it must be refused
    setting = "/proc/sys/kernel/hostname"
    box = make(f"value=$(cat {setting}) && echo read >&3; echo $value >{setting} && echo wrote >&3")
    assert run(box, tree(1))[1] == b"read\n"
