# SPDX-License-Identifier: Apache-2.0
"""Programs that forget a sync, in a captured folder: each loses what it must, its twin nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from folders_judged import judged_by

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.cli.commands import cli
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.model.observation import Observation
from powercut.recording.folder import FolderRecording, build_tree, open_capture
from powercut.store.folder import CaptureDir, CaptureResult

pytestmark = pytest.mark.fuse

PROGRAM = Path(__file__).parents[2] / "support" / "folder_program.py"
JOURNAL, POSIX = Promise.JOURNAL, Promise.POSIX
ALL = "1-12"
PATIENCE_S = 60


def order_of(folder: Path, command: list[str], **changes: object) -> CaptureOrder:
    values = {"check": ("check",), "acks": 0, "seconds": 120.0, "atomic_unit": 4096, "seed": 1}
    return CaptureOrder(folder=folder, command=tuple(command), **(values | changes))  # type: ignore[arg-type]  # the fields by name


def record(tmp_path: Path, *command: str) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    directory = CaptureDir.create(tmp_path / "recording")
    found = record_folder(order_of(folder, list(command)), directory)
    assert found.status == 0, directory.console.read_text()
    return open_capture(directory)


def keep(tmp_path: Path, way: str) -> FolderRecording:
    """The recording of the program that keeps numbers in this way."""
    folder = str(tmp_path / "folder")
    return record(tmp_path, sys.executable, "-I", "-S", str(PROGRAM), way, folder)


def numbers_in(state: Path) -> Observation:
    """The check: the numbers in the file `log`, as far as they are in order."""
    log = state / "log"
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    kept = [n for n, line in enumerate(lines, 1) if line == f"{n:3}"]
    return Observation((), lines="".join(f"= {n}\n" for n in kept).encode())


def judged(tmp_path: Path, recording: FolderRecording, promise: Promise) -> CaptureResult:
    scratch = tmp_path / f"states-{promise.value}"
    return judged_by(numbers_in, recording, promise, scratch)


@pytest.mark.parametrize("repeats", [True, False])
def test_a_loss_that_the_check_does_not_say_twice_is_none(tmp_path: Path, repeats: bool) -> None:
    """An honest program, whose check does not see what is there: of each folder but that in which
    all is there, or the first time.

    Of the control the check is believed at once: it must miss something there.
    """
    recording = keep(tmp_path, "append")
    looks: dict[bytes, int] = {}

    def check(state: Path) -> Observation:
        seen = numbers_in(state).lines
        looks[seen] = looks.get(seen, 0) + 1
        if b"= 7\n" in seen and b"= 12\n" not in seen and (repeats or looks[seen] == 1):
            return Observation((), lines=seen.replace(b"= 7\n", b""))
        return Observation((), lines=seen)

    scratch = tmp_path / "states"
    result = judged_by(check, recording, JOURNAL, scratch, states=400)
    kinds = {finding.kind.value for finding in result.explored.findings}
    assert result.control == "LOSSY"
    if repeats:
        assert (result.verdict.name, kinds) == ("LOSSY", {"lost"})
        assert result.explored.coverage.lossy > 0
    else:
        assert (result.verdict.name, kinds) == ("INCONCLUSIVE", {"disagreement", "control"})
        assert result.explored.coverage.lossy == 0
        assert result.explored.findings[0].examples[0].message.startswith("not repeated: ")


@pytest.mark.parametrize(
    ("way", "sees", "verdict", "found"),
    [
        ("append", lambda number: False, "INCONCLUSIVE", 0),
        ("append", lambda number: number % 2, "INCONCLUSIVE", 6),
        ("append", lambda number: number != 12, "INCONCLUSIVE", 11),
        ("append", lambda number: True, "SAFE", 12),
        ("append-unsynced", lambda number: False, "INCONCLUSIVE", 0),
        ("append-unsynced", lambda number: True, "LOSSY", 12),
    ],
    ids=["nothing", "half", "all-but-one", "honest", "loser-unseen", "loser"],
)
def test_a_check_that_misses_what_is_there_convicts_and_acquits_nobody(
    tmp_path: Path, way: str, sees: Callable[[int], bool], verdict: str, found: int
) -> None:
    recording = keep(tmp_path, way)

    def check(state: Path) -> Observation:
        lines = numbers_in(state).lines.splitlines(keepends=True)
        return Observation((), lines=b"".join(one for one in lines if sees(int(one[2:]))))

    scratch = tmp_path / "states"
    result = judged_by(check, recording, JOURNAL, scratch, states=400)
    assert result.positive is not None
    assert (result.verdict.name, result.positive.found, result.positive.acknowledged) == (
        verdict,
        found,
        12,
    )
    if verdict == "INCONCLUSIVE":
        (reason,) = result.reasons
        assert f"it found {found} of 12 operations with every write that was issued" in reason
        assert result.explored.coverage.distinct == 0
        assert [one.kind.value for one in result.explored.findings] == ["incomplete"]


VALUES = """
import os
fd = int(os.environ["POWERCUT_FD"])
for n in range(1, 21):
    os.write(fd, b"? %d\\n" % n)
    with open(f"values/{n}", "wb", buffering=0) as file:
        file.write(b"value of %d" % n * 50)
        SYNC
    os.fsync(folder)
    with open("index", "ab", buffering=0) as file:
        file.write(b"%d\\n" % n)
        os.fsync(file.fileno())
    os.write(fd, b"+ %d\\n" % n)
"""


def values_in(state: Path, reads: str) -> Observation:
    """A check that believes in names, in what an index says of them, or in the values."""
    names = [one.name for one in (state / "values").iterdir()]
    if reads != "names":
        index = state / "index"
        words = index.read_bytes().split(b"\n")[:-1] if index.exists() else []
        names = [word.decode() for word in words if word.isdigit()]
    if reads == "values":
        there = {n: state / "values" / n for n in names if (state / "values" / n).exists()}
        names = [n for n in there if there[n].read_bytes() == b"value of %d" % int(n) * 50]
    return Observation((), lines="".join(f"= {n}\n" for n in names).encode())


@pytest.mark.parametrize(
    ("sync", "reads", "verdict", "unread"),
    [
        ("pass", "names", "INCONCLUSIVE", 21),
        ("pass", "index", "SAFE", 20),
        ("pass", "values", "LOSSY", 0),
        ("os.fsync(file.fileno())", "values", "SAFE", 0),
    ],
    ids=["names", "index", "values", "honest"],
)
def test_files_that_no_check_reads_are_named(
    tmp_path: Path, sync: str, reads: str, verdict: str, unread: int
) -> None:
    """The values are never synced but by the honest one; names and the index are."""
    folder = tmp_path / "folder"
    (folder / "values").mkdir(parents=True)
    program = tmp_path / "program.py"
    start = f"import os; os.chdir({str(folder)!r}); folder = os.open('values', os.O_RDONLY)"
    program.write_text(start + VALUES.replace("SYNC", sync))
    recording = record(tmp_path, sys.executable, "-I", "-S", str(program))
    scratch = tmp_path / "states"
    result = judged_by(
        lambda state: values_in(state, reads), recording, JOURNAL, scratch, states=400
    )
    assert result.reads is not None
    assert (result.reads.written, len(result.reads.unread)) == (21, unread)
    if reads == "names":
        assert any("none of the files that were written" in one for one in result.reasons)
    assert result.verdict.name == verdict, (result.reasons, result.explored.findings)


def lost_at_the_end(tmp_path: Path, recording: FolderRecording, promise: Promise) -> str:
    """What the program had acknowledged, and the state with nothing but what is durable lacks."""
    space = recording.under(promise).space
    target = tmp_path / f"end-{promise.value}"
    target.mkdir()
    state = CrashState(recording.record.cut_ns, ())
    build_tree(space, space.tree(state), target)
    there = {int(line.split()[1]) for line in numbers_in(target).lines.decode().splitlines()}
    missing = sorted(set(recording.history.acked.tolist()) - there)
    return f"{missing[0]}-{missing[-1]}" if missing else ""


@pytest.mark.parametrize(
    ("way", "in_journal", "in_posix"),
    [
        ("append", "", ""),
        ("append-dsync", "", ""),
        ("append-sync-all", "", ""),
        ("append-unsynced", ALL, ALL),
        ("append-last-unsynced", "12-12", "12-12"),
        ("append-name-unsynced", "", ALL),
        ("replace", "", ""),
        ("replace-name-unsynced", "12-12", ALL),
        ("replace-contents-unsynced", ALL, ALL),
    ],
)
def test_what_is_lost(tmp_path: Path, way: str, in_journal: str, in_posix: str) -> None:
    recording = keep(tmp_path, way)
    assert not recording.gaps
    assert recording.history.acked.tolist() == list(range(1, 13))
    for promise, lost in ((JOURNAL, in_journal), (POSIX, in_posix)):
        assert lost_at_the_end(tmp_path, recording, promise) == lost, promise
        result = judged(tmp_path, recording, promise)
        assert result.control == "LOSSY", result.reasons
        assert result.verdict.name == ("LOSSY" if lost else "SAFE"), (
            result.reasons,
            result.explored.findings,
        )


APPENDS = """
import os, sys
said = int(os.environ["POWERCUT_FD"])
log = os.open(sys.argv[1] + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
os.fsync(os.open(sys.argv[1], os.O_RDONLY))
for number in range(1, int(sys.argv[2]) + 1):
    os.write(said, b"? %d\\n" % number)
    os.write(log, b"%3d\\n" % number)
    os.fsync(log)
    os.write(said, b"+ %d\\n" % number)
"""


@pytest.mark.parametrize(
    ("operations", "states", "why"),
    [
        (5, 400, "5 operations were acknowledged"),
        (12, 8, "only 8 states were looked at"),
        (12, 400, ""),
    ],
)
def test_few_operations_or_states_acquit_nobody(
    tmp_path: Path, operations: int, states: int, why: str
) -> None:
    command = [sys.executable, "-I", "-S", "-c", APPENDS, str(tmp_path / "folder")]
    recording = record(tmp_path, *command, str(operations))
    scratch = tmp_path / "states"
    result = judged_by(numbers_in, recording, JOURNAL, scratch, states=states)
    assert result.explored.coverage.lossy == 0
    assert result.verdict.name == ("INCONCLUSIVE" if why else "SAFE"), result.reasons
    assert any(reason.startswith(why) for reason in result.reasons) is bool(why)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_what_is_written_to_another_folder_is_no_loss(tmp_path: Path, elsewhere: bool) -> None:
    """Twelve acks and no write say nothing of syncs; with one unsynced write they do."""
    place = f"/var/tmp/powercut-{tmp_path.name}" if elsewhere else str(tmp_path / "folder")
    words = [sys.executable, "-I", "-S", str(PROGRAM), "append-unsynced", place]
    recording = record(tmp_path, "sh", "-c", 'mkdir -p "$5"; exec "$0" "$@"', *words)
    result = judged(tmp_path, recording, JOURNAL)
    assert (result.verdict.name, result.acknowledged) == (
        "INCONCLUSIVE" if elsewhere else "LOSSY",
        12,
    )
    if elsewhere:
        assert result.explored.coverage.distinct == result.explored.coverage.lossy == 0
        (reason,) = result.reasons
        said = f"12 operations were acknowledged, and nothing was written in {tmp_path / 'folder'}"
        assert reason.startswith(said)
        assert recording.record.elsewhere.paths == (f"{place}/log",)
        assert not Path(place).exists()


def test_nothing_is_printed_after_the_end(tmp_path: Path) -> None:
    """What the command has left in the background is gone when the recording is sealed."""
    folder = tmp_path / "folder"
    folder.mkdir()
    many = "for i in 1 2 3 4; do (while :; do echo $i; done) & done; "
    said = 'echo "? 1" >&$POWERCUT_FD; echo "+ 1" >&$POWERCUT_FD; wait'
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(order_of(folder, ["sh", "-c", many + said], acks=1), directory)
    size = directory.console.stat().st_size
    assert open_capture(directory).history.acked.tolist() == [1]
    assert directory.console.stat().st_size == size


def test_a_file_that_is_truncated_and_written_again(tmp_path: Path) -> None:
    """At the end all is durable, but between truncation and sync everything may be gone."""
    recording = keep(tmp_path, "replace-truncating")
    for promise in Promise:
        assert lost_at_the_end(tmp_path, recording, promise) == ""
        result = judged(tmp_path, recording, promise)
        assert result.verdict.name == "LOSSY"
        examples = [one for found in result.explored.findings for one in found.examples]
        lost = {one.lsns for one in examples}
        assert any(spans[0].first == 1 for spans in lost), lost


def test_what_programs_may_do_to_files(tmp_path: Path) -> None:
    """Whatever a shell's tools do comes out in the state with everything as it was left."""
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "first").write_text("first")
    os.link(folder / "first", folder / "sub" / "second")
    (folder / "link").symlink_to("first")
    (folder / "sparse").write_bytes(b"")
    os.truncate(folder / "sparse", 1 << 20)
    script = f"""set -e; cd {folder}; echo ready >&3
        echo more >> first; mkdir -p a/b; mv sub/second a/b/third; rmdir sub; ln a/b/third a/four
        dd if=/dev/zero of=direct bs=4096 count=3 oflag=direct 2>/dev/null; truncate -s 5000 direct
        fallocate -l 8192 sparse; printf x | dd of=sparse bs=1 seek=70000 conv=notrunc 2>/dev/null
        fallocate -p -o 65536 -l 4096 sparse; ln -s nowhere dangling; rm link; cp direct copy
        exec 4>gone; rm gone; echo lost >&4; : > empty"""
    recording = record(tmp_path, "sh", "-c", script)
    for promise in Promise:
        space = recording.under(promise).space
        cut = recording.record.cut_ns
        state = CrashState(cut, tuple(space.volatile(cut).tolist()))
        target = tmp_path / promise.value
        target.mkdir()
        build_tree(space, space.tree(state), target)
        argv = ["diff", "-r", "--no-dereference", folder, target]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert (target / "first").stat().st_ino == (target / "a" / "four").stat().st_ino


def test_a_mapping_is_written_when_it_is_synced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "log").write_bytes(b"    " * 1024)
    script = """if True:
        import mmap, os, sys
        lines = int(os.environ["POWERCUT_FD"])
        file = os.open(sys.argv[1] + "/log", os.O_RDWR)
        memory = mmap.mmap(file, 4096)
        for n in range(1, 13):
            os.write(lines, b"? %d\\n" % n)
            memory[4 * n - 4 : 4 * n] = b"%3d\\n" % n
            memory.flush()
            os.write(lines, b"+ %d\\n" % n)"""
    recording = record(tmp_path, sys.executable, "-I", "-S", "-c", script, str(tmp_path / "folder"))
    assert lost_at_the_end(tmp_path, recording, POSIX) == ""
    result = judged(tmp_path, recording, POSIX)
    assert result.verdict.name == "SAFE", (result.reasons, result.explored.findings)


def test_a_run_with_too_few_acks_has_longer(tmp_path: Path) -> None:
    """As a program has on a busy host; it is cut as soon as there are ten."""
    (tmp_path / "folder").mkdir()
    say = 'say() { echo "? $1" >&3; echo "+ $1" >&3; }; '
    late = "echo ready >&3; say 1; sleep 4; for n in 2 3 4 5 6 7 8 9 10; do say $n; done; sleep 99"
    directory = CaptureDir.create(tmp_path / "recording")
    order = order_of(tmp_path / "folder", ["sh", "-c", say + late], seconds=3.0)
    assert record_folder(order, directory).status is None
    assert open_capture(directory).history.acked.tolist() == list(range(1, 11))


def test_what_a_command_leaves_behind_ends_with_the_cut(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    left = f"powercut-left-{os.getpid()}"
    command = ["bash", "-c", f"setsid bash -c 'exec -a {left} sleep 1000' &"]
    directory = CaptureDir.create(tmp_path / "recording")
    order = order_of(tmp_path / "folder", command, seconds=2.0)
    assert record_folder(order, directory).status is None  # it goes on as long as what it has left
    assert left not in processes()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    argv = ["capture", str(tmp_path / "folder"), "--results", str(tmp_path), "--check", "true"]
    done = CliRunner().invoke(cli, [*argv, "--", "sh", "-c", "echo no room >&2; exit 7"])
    told = " ".join(done.output.split())
    assert "the command: it ended with status 7: no room" in told
    assert "0 operations were acknowledged, and fewer than 10 prove nothing" in told


def processes() -> str:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(line.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_nothing_is_left_of_a_controller_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    mark = folder / "started"
    script = f"""
from pathlib import Path
from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.store.folder import CaptureDir
command = ("sh", "-c", "touch {mark}; sleep 1000")
order = CaptureOrder(Path({str(folder)!r}), command, (), 0, 900, 4096, 1)
record_folder(order, CaptureDir.create(Path({str(tmp_path / "recording")!r})))
"""
    controller = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(mark.exists)
    finally:
        controller.send_signal(signal.SIGKILL)
        controller.wait()
    wait_until(lambda: str(folder) not in processes())
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["started"]


def wait_until(condition: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]  # a function without arguments
        assert time.monotonic() < deadline
        time.sleep(0.01)
