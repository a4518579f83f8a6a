# SPDX-License-Identifier: Apache-2.0
"""One scenario on an honest disk and on a lying one, on every machine that powercut knows.

The machine must make no difference to the verdict.  Each row runs by the path that a user takes;
at the end the table is printed and written (docs/measured/same-verdicts.md has one).  Rows differ
from the scenario in what their machines ask for, and the table says in what:

- foreign machines and hypervisors that powercut does not start take programs alone;
- a captured folder has no disk that lies: the hypervisor drops the flushes.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import foreign_guest
import pytest
from dask_here import dask_here
from ssh_hosts import Home
from verdict_table import Side, VerdictTable

from powercut.campaign.runner import run_scenarios
from powercut.cli.extras import runs_of
from powercut.machine.port import GuestImage
from powercut.model.errors import UsageError
from powercut.paths import BUILD, ROOT
from powercut.scenario.load import load_scenario
from powercut.store.folder import CaptureResult
from powercut.store.results import RunResult

pytestmark = [pytest.mark.vm, pytest.mark.campaign]

COMMON = """powercut: 1
name: same-verdicts
filesystem: {type: ext4}
cut: {kind: power-loss, trigger: {acks: 20}}
deadline: 10min
"""
STATES = "explore: {budget: 8}\n"
STATES_OF_A_PROGRAM = "explore: {budget: 40}\n"
"""Its bytes are not recognised, so more states have to vouch for it."""
DISK = "disk: {flush_latency: 3ms}\n"
BOTH_SIDES = """cells:
  - name: honest
  - name: lying
    disk.flush: ignored
    disk.fua: ignored
    explore.budget: off
    expect: lossy
"""
APPEND = ROOT / "workloads/examples/append.sh"
GROWING = ROOT / "workloads/programs/growing_image.py"
GUEST = ROOT / "tests/support/growing_guest.py"
WAYS = [
    *(("none", aio) for aio in ("threads", "native", "io_uring")),
    *(("writeback", aio) for aio in ("threads", "io_uring")),
]
"""Cache and aio of a file; Linux AIO needs O_DIRECT, which writeback has not."""

Row = Callable[..., None]


@pytest.fixture(scope="module")
def table() -> Iterator[VerdictTable]:
    made = VerdictTable()
    yield made
    made.write(BUILD / "same-verdicts.md")
    sys.stdout.write("\n" + made.text)


@pytest.fixture
def row(table: VerdictTable) -> Row:
    """Adds a row, and asserts that it is as those of all others."""
    began = time.monotonic()

    def add(name: str, honest: Side, lying: Side, best: str = "SAFE, recorded") -> None:
        table.add(name, honest, lying, time.monotonic() - began)
        assert (honest.told, honest.lost) == (best, 0), honest.reasons
        assert (lying.verdict, lying.lost) == ("LOSSY", lying.acked), lying.reasons
        assert min(honest.acked, lying.acked) >= 20

    return add


def skip(table: VerdictTable, name: str, why: str) -> None:
    table.add_missing(name, why)
    pytest.skip(why)


def sides(run: RunResult) -> tuple[Side, Side]:
    honest, lying = run.cells
    return Side.of_cell(honest), Side.of_cell(lying)


def run_here(folder: Path, text: str, results: Path) -> RunResult:
    path = folder / "same-verdicts.yaml"
    path.write_text(text)
    (done,) = run_scenarios([load_scenario(path)], seed=7, results=results).runs
    return done


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Side, Side]]:
    """Both sides of the scenario, with what is different about it."""

    def run_it(text: str, states: str = STATES) -> tuple[Side, Side]:
        whole = COMMON + DISK + states + text + BOTH_SIDES
        return sides(run_here(tmp_path, whole, tmp_path / "results"))

    return run_it


def test_qemu(run, row):
    row("QEMU, NBD", *run(""))


@pytest.mark.parametrize(("cache", "aio"), WAYS)
def test_qemu_on_a_captured_file(run, row, cache, aio):
    name = f"QEMU, captured file, {cache}, {aio}"
    row(name, *run(f"machine: {{cache: {cache}, aio: {aio}}}\n"))


def test_linux_aio_with_the_hosts_page_cache_is_refused(run):
    with pytest.raises(UsageError, match="native"):
        run("machine: {cache: writeback, aio: native}\n")


@pytest.mark.parametrize(("aio", "name"), [("nbd", "NBD"), ("threads", "captured file")])
def test_libvirt(run, row, table, request, aio, name):
    name = f"libvirt, {name}"
    try:
        uri = request.getfixturevalue("libvirt_uri")
    except pytest.skip.Exception as skipped:
        skip(table, name, str(skipped))
    row(name, *run(f'machine: {{backend: libvirt, connect: "{uri}", aio: {aio}}}\n'))


# --- programs -------------------------------------------------------------------------------


def test_qemu_with_the_program_of_the_foreign_machine(run, row, table, tmp_path):
    busybox = shutil.which("busybox")
    name = "QEMU, NBD, append.sh"
    if busybox is None:
        skip(table, name, "no busybox: apt-get install busybox-static")
    shutil.copy(APPEND, tmp_path)
    programs = tmp_path / "root" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(busybox, programs)
    for word in ("mkdir", "sed", "sh", "sync", "wc"):
        (programs / word).symlink_to("busybox")
    text = "workload: {kind: program, command: ./append.sh, root: root}\n"
    row(name, *run(text, STATES_OF_A_PROGRAM))


def on_foreign_guest(folder: Path, home: Home, *, lies: bool) -> Side:
    """Both sides are machines of their own."""
    brought = folder / "program"  # the whole folder goes there
    brought.mkdir(parents=True)
    shutil.copy(APPEND, brought)
    with foreign_guest.ForeignGuest(folder, home, lies=lies) as guest:
        power = {word: guest.switch.command(word) for word in ("off", "on", "status")}
        machine = {"backend": "foreign", "host": "machine", "folder": "/data/pc", "power": power}
        text = COMMON + (
            f"machine: {json.dumps(machine)}\n"
            "workload: {kind: program, command: ./append.sh}\n"
            f"expect: {'lossy' if lies else 'survived'}\n"
        )
        (cell,) = run_here(brought, text, folder / "results").cells
    return Side.of_cell(cell)


def test_foreign_machine(row, table, monkeypatch):
    name = "foreign machine over ssh, append.sh"
    if why := foreign_guest.unavailable():
        skip(table, name, why)
    with tempfile.TemporaryDirectory(prefix="pc-") as scratch:
        found = []
        for lies in (False, True):
            home = Home.make(Path(scratch, f"home-{lies}"))
            monkeypatch.setenv("HOME", str(home.path))
            found.append(on_foreign_guest(Path(scratch, str(lies)), home, lies=lies))
    row(name, *found, best="SURVIVED, live-only")


# --- a hypervisor that powercut does not know of ----------------------------------------------


def captured(folder: Path, kernel: Path, drive: str) -> Side:
    """`powercut capture` of QEMU as a user starts it; `drive` as its -drive has it."""
    images = folder / "images"
    images.mkdir(parents=True)
    subprocess.run([sys.executable, GROWING, "setup", "raw", images], check=True)
    words = ["capture", images, "--acks", "24", "--seconds", "600", "--budget", "40"]
    words += ["--state-timeout", "600", "--seed", "7", "--results", folder / "results"]
    words += ["--json", folder / "result.json"]
    words += [
        "--check",
        shlex.join(map(str, [sys.executable, GROWING, "check", "raw", images])),
        "--",
    ]
    words += [sys.executable, GUEST, kernel, "raw", images, drive]
    program = Path(sys.executable).with_name("powercut")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    result = CaptureResult.model_validate_json((folder / "result.json").read_text())
    return Side.of_capture(result)


@pytest.mark.parametrize(("cache", "aio"), WAYS)
def test_plain_qemu_in_a_captured_folder(row, tmp_path, guest_image: GuestImage, cache, aio):
    drive = f"{cache},aio={aio}"
    honest = captured(tmp_path / "honest", guest_image.kernel, drive)
    lying = captured(tmp_path / "lying", guest_image.kernel, f"{drive},cache.no-flush=on")
    row(f"plain QEMU in a captured folder, {cache}, {aio}", honest, lying)


# --- a cluster ------------------------------------------------------------------------------


def test_two_workers_of_a_cluster(row, tmp_path):
    scenario = tmp_path / "same-verdicts.yaml"
    scenario.write_text(COMMON + DISK + STATES + BOTH_SIDES)
    with (
        dask_here(tmp_path, "", "", machines=True) as dask,
        runs_of(str(dask.file)) as run_of,
    ):
        (done,) = run_scenarios(
            [load_scenario(scenario)], seed=7, results=tmp_path / "results", run_of=run_of
        ).runs
    row("two workers of a cluster", *sides(done))
