# SPDX-License-Identifier: Apache-2.0
"""A confined tool works on its files and gets at nothing else, in each of the sandboxes."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hostile_tries import users_of
from patience import AMPLE_S

from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.sandbox import confined, kernel
from powercut.sandbox.confined import Sandboxes, run_confined, sandboxes
from powercut.sandbox.kernel import kernel_sandbox
from powercut.sandbox.landlock import abi_version
from powercut.sandbox.users import FIRST, users_apart

ONLY = {"bubblewrap": Sandboxes("", "not asked"), "landlock": Sandboxes("not asked", "")}


@pytest.fixture(params=list(ONLY))
def sandbox(request, monkeypatch):
    """Each sandbox that works here, by itself."""
    if why := getattr(sandboxes(), request.param):
        pytest.skip(f"{request.param}: {why}")
    monkeypatch.setattr(confined, "sandboxes", lambda: ONLY[request.param])
    return request.param


def needs_landlock(sandbox, abi, what):
    if sandbox == "landlock" and abi_version() < abi:
        pytest.skip(f"Landlock has forbidden {what} since its ABI {abi}")


def shell(script, *, files=(), reads=()):
    return run_confined(["sh", "-c", script], timeout_s=AMPLE_S, files=files, reads=reads)


def test_the_tool_reads_and_writes_its_files(sandbox, tmp_path):
    image, source = tmp_path / "an image, with a comma", tmp_path / "source"
    image.write_text("old")
    source.write_text("new")
    done = shell(f"cat '{source}' > '{image}'", files=[image], reads=[source])
    assert (done.returncode, done.stderr) == (0, "")
    assert image.read_text() == "new"


WRITES = [
    "echo x > {victim}",
    "echo x >> {victim}",
    "rm {victim}",
    "mv {image} {victim}",
    "ln {victim} {image}2",
    "echo x > {folder}/new",
    "mkdir {folder}/new",
    "echo x > {source}",
]
REACHES = [
    "cat {victim}",
    "cat /etc/passwd",
    "echo x > /usr/share/x",
    "ls /home /root /dev/block",
    "mknod {folder}/disk b 254 0",
    "dd if=/dev/vda of=/dev/null count=1",
    "mount -t tmpfs none /tmp",
    "mount -t proc none /tmp && cat /tmp/1/environ",
    "cat /proc/1/environ",
    "kill -0 {parent}",
    "unshare --mount true",
    'test -n "$POWERCUT_SECRET"',
]


@pytest.mark.parametrize("attack", [*WRITES, *REACHES])
def test_nothing_else_of_the_host_is_in_reach(sandbox, tmp_path, monkeypatch, attack):
    if attack.startswith("kill"):
        needs_landlock(sandbox, 6, "signals")
    monkeypatch.setenv("POWERCUT_SECRET", "x")
    names = ("image", "source", "victim")
    paths = {name: tmp_path / name for name in names}
    for path in paths.values():
        path.write_text("precious")
    words = attack.format(**paths, folder=tmp_path, parent=os.getppid())
    done = shell(words, files=[paths["image"]], reads=[paths["source"]])
    if attack in REACHES:  # bubblewrap has an empty /tmp of its own, where writes may succeed
        assert done.returncode != 0, done.stdout
    assert "precious" not in done.stdout
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == dict.fromkeys(names, "precious")


def test_it_has_the_system_calls_of_a_check(sandbox):
    script = "import socket; socket.{}; print('made')"
    python = ["/usr/bin/python3", "-I", "-c"]
    for made, there in (("socketpair()", True), ("socket(socket.AF_ALG)", False)):
        said = run_confined([*python, script.format(made)], timeout_s=AMPLE_S).stdout
        assert (said == "made\n") is there
    calls = "import ctypes, os; ctypes.CDLL(None).unshare(0x10000000) == 0 and os.abort()"
    assert run_confined([*python, calls], timeout_s=AMPLE_S).returncode == 0


def test_it_connects_to_no_socket_but_what_it_was_given(sandbox, tmp_path):
    """Landlock leaves a program all sockets with a name, to whose peers root is uid 0."""
    script = "import socket; socket.socket(socket.AF_UNIX).connect('{}'); print('connected')"
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        for given in ([], [path]):
            argv = ["/usr/bin/python3", "-I", "-c", script.format(path)]
            said = run_confined(argv, timeout_s=AMPLE_S, files=given).stdout
            assert said == ("connected\n" if given else "")


def opened_once_read(pipe, reader):
    """The pipe, once `reader` has begun to read; an AssertionError if it ends before that."""
    while not reader.done():
        with contextlib.suppress(OSError):  # ENXIO: nobody reads yet
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "w")
        time.sleep(0.01)
    raise AssertionError(reader.result())


def test_to_the_host_root_s_tool_is_nobody_it_knows(sandbox, tmp_path):
    """Behind Landlock it is root without capabilities: only root may look where its files lie."""
    said = tmp_path / "said"
    said.touch()
    script = f"echo x > {said}; read go < {tmp_path}/go"
    os.mkfifo(tmp_path / "go")
    files = [said, tmp_path / "go"]
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(shell, script, files=files)
        with opened_once_read(tmp_path / "go", done) as go:
            while not (users := users_of(str(tmp_path / "go"))) and not done.done():
                time.sleep(0.01)  # it opens the pipe still
            go.write("x\n")
        assert done.result().returncode == 0, done.result().stderr
    apart = sandbox == "bubblewrap" and os.geteuid() == 0 and users_apart(files)
    assert users == {FIRST if apart else os.geteuid()}
    assert said.stat().st_uid == os.geteuid()


def test_there_is_no_network(sandbox):
    needs_landlock(sandbox, 4, "TCP")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        argv = ["/usr/bin/python3", "-I", "-c", script]
        done = run_confined(argv, timeout_s=AMPLE_S)
    assert done.returncode == 1, done.stderr
    assert "Error" in done.stderr


def test_the_socket_that_was_given_is_in_reach(sandbox, tmp_path):
    path = tmp_path / "nbd"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        script = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}')"
        argv = ["/usr/bin/python3", "-I", "-c", script]
        done = run_confined(argv, timeout_s=AMPLE_S, files=[path])
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tool_has_a_folder_for_what_it_needs_in_between(sandbox):
    done = shell("echo x > $TMPDIR/x && cat $TMPDIR/x && dirname $TMPDIR/x")
    assert done.stdout.startswith("x\n"), done.stderr
    left = done.stdout.split()[1]
    assert left == "/tmp" or not Path(left).exists()


def test_a_status_and_a_signal_are_told_apart(sandbox):
    assert shell("exit 3").returncode == 3
    assert shell("kill -KILL $$").returncode == -9


def test_a_tool_that_hangs_is_ended_with_its_children(sandbox, tmp_path):
    begin = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="did not end within 1 s"):
        run_confined(["sh", "-c", "sleep 60 & sleep 60"], timeout_s=1)
    assert time.monotonic() - begin < 30


def test_an_image_cannot_make_its_tool_eat_the_memory(sandbox):
    script = "bytearray(8 << 30)"
    done = run_confined(["/usr/bin/python3", "-I", "-c", script], timeout_s=60)
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


def test_a_folder_is_filled_with_anything_but_devices(sandbox, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "victim").write_text("precious")
    script = (
        f"cd {root} && mkdir a && echo x > a/b && ln -s b a/c && mv a/b a/d && rm a/d; "
        f"mknod {root}/disk b 254 0; mknod {root}/tty c 5 0; echo x > {tmp_path}/victim; "
        f"ln -s {tmp_path}/victim link; echo x > link; mkfifo fifo"
    )
    run_confined(["sh", "-c", script], timeout_s=AMPLE_S, folders=[root])
    assert sorted(path.name for path in root.iterdir()) == ["a", "fifo", "link"]
    assert [path.name for path in (root / "a").iterdir()] == ["c"]
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("filesystem", ["xfs", "ext4", "btrfs"])
def test_file_systems_are_made_in_each_sandbox(sandbox, filesystem, tmp_path):
    image = ensure_base_image(BaseImageSpec(filesystem, 128 << 20), tmp_path)
    assert image.stat().st_blocks


@pytest.fixture
def nowhere(monkeypatch):
    monkeypatch.setattr(confined, "sandboxes", lambda: Sandboxes("forbidden", "too old"))


def test_words_from_outside_are_not_run_without_a_sandbox(nowhere, tmp_path):
    with pytest.raises(HostError, match="bubblewrap: forbidden; Landlock: too old") as caught:
        ensure_base_image(BaseImageSpec("ext4", 16 << 20, ("-b", "4096")), tmp_path)
    assert "apt-get install bubblewrap" in caught.value.hint
    assert not list((tmp_path / "base").iterdir())


def test_powercut_s_own_words_are(nowhere, tmp_path):
    assert ensure_base_image(BaseImageSpec("ext4", 16 << 20), tmp_path).exists()


def test_a_tool_that_is_not_there_is_named():
    with pytest.raises(HostError, match="no-such-tool is not installed"):
        run_confined(["no-such-tool"], timeout_s=60)


@pytest.mark.personality
@pytest.mark.parametrize("forbidden", ["", "forbidden"])
def test_a_program_that_starts_itself_anew_keeps_its_personality(tmp_path, monkeypatch, forbidden):
    """Some User-Mode Linux does so for ever where each start takes ADDR_NO_RANDOMIZE away."""
    if why := sandboxes().landlock or (not forbidden and sandboxes().bubblewrap):
        pytest.skip(why)
    setarch = shutil.which("setarch")
    assert setarch is not None
    program = (setarch, "--addr-no-randomize", "/bin/cat", "/proc/self/personality")
    monkeypatch.setattr(kernel, "kernel_bubblewrap", lambda: forbidden)
    argv = [*kernel_sandbox(tmp_path, 1 << 20).argv, *program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout, 16) & 0x40000


@pytest.mark.parametrize(("program", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_folder_of_a_kernels_memory_goes_with_it(tmp_path, monkeypatch, program, status):
    """Behind Landlock, also if whoever has started it is not there to remove it."""
    if why := sandboxes().landlock:
        pytest.skip(why)
    monkeypatch.setattr(kernel, "kernel_bubblewrap", lambda: "forbidden")
    sandbox = kernel_sandbox(tmp_path, 1 << 20)
    assert sandbox.made is not None and sandbox.made.is_dir()  # noqa: PT018
    done = subprocess.run([*sandbox.argv, "/bin/sh", "-c", program], check=False, timeout=60)
    assert (done.returncode, sandbox.made.exists()) == (status, False)
