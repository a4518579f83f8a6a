# SPDX-License-Identifier: Apache-2.0
"""Stores in other languages: what a driver says becomes lines of the contract, and no more.

The driver here is planted, so that nothing must be built; `check` of the real ones is that of
bank.py, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import host_needs
import pytest
from python_script import write_script
from ruamel.yaml import YAML

from powercut.paths import ROOT, SCENARIOS
from powercut.scenario.load import expand, load_scenario

PROGRAMS = ROOT / "workloads" / "programs"
DRIVERS = PROGRAMS / "drivers"
CASES = YAML(typ="safe").load(PROGRAMS / "expected.yaml")
DRIVEN = sorted(
    path.name
    for path in PROGRAMS.iterdir()
    if path.is_file() and not path.suffix and "import driver" in path.read_text()
)

PLANTED = f"""\
import os, sys
sys.path[:0] = [{str(PROGRAMS)!r}]
import bank
fault = os.environ.get("FAULT", "")
store = sys.argv[-1] + "/rows"
rows = [int(line) for line in open(store)] if os.path.exists(store) else []
if fault:
    sys.stderr.write(fault.removeprefix("stdout ") + chr(10))
    print(fault.removeprefix("stdout ")) if fault.startswith("stdout ") else None
    sys.exit(2)
print("ok", flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    if word == "create":
        open(store, "w").close()
    if word == "move":
        rows.append(int(numbers[0]))
    if word == "read":
        found = [bank.transfer(number) for number in rows]
        kept = found[: len(found) - int(os.environ.get("BALANCES_LACK", "0"))]
        for number in range(bank.ACCOUNTS):
            change = sum((one.taker == number) - (one.giver == number) for one in kept)
            print("account", number, bank.BALANCE + change)
        for one in found:
            print("transfer", *one)
    if word == "run":
        for number in range(int(numbers[0]), 40):
            os.write(int(os.environ["POWERCUT_FD"]), b"? %d\\n" % number)
            with open(store, "a") as file:
                print(number, file=file)
            os.write(int(os.environ["POWERCUT_FD"]), b"+ %d\\n" % number)
        sys.exit(0)
    print("ok", flush=True)
"""


NODE = """\
import os, sys
os.execv(sys.argv[1], sys.argv[1:])
"""

PLANTED_LEVEL = """
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
export class ClassicLevel {
  constructor (folder, { writeBufferSize }) {
    if (writeBufferSize !== 65536) throw new Error('another buffer')
    this.rows = `${folder}/rows`
    this.kept = existsSync(this.rows) ? JSON.parse(readFileSync(this.rows)) : {}
  }

  async open () {
    if (!process.env.FAULT) return
    const cause = new Error('the words of LevelDB\\n: No such file')
    throw new Error('not open', { cause: Object.assign(cause, { code: process.env.FAULT }) })
  }

  async get (key) {
    await new Promise(setImmediate)
    return this.kept[key]
  }

  async batch (puts, { sync }) {
    await new Promise(setImmediate)
    if (puts.length === 3 && Object.keys(this.kept).length >= 16 + 40) throw new Error('enough')
    for (const { key, value } of puts) this.kept[key] = value
    writeFileSync(this.rows, JSON.stringify(this.kept))
    writeFileSync(`${this.rows}.sync`, String(sync))
  }

  async * iterator () { yield * Object.entries(this.kept).sort() }
  async close () {}
}
"""


class Driven:
    """The program `bbolt` with another driver, and what it says on its descriptor."""

    def __init__(self, folder: Path, program: str = "bbolt") -> None:
        self.program = program
        self.driver = folder / "driver"
        write_script(self.driver, PLANTED)
        self.data = folder / "data"

    def call(self, verb: str, *words: str, **environment: str) -> tuple[int, list[str], str]:
        read, write = os.pipe()
        done = subprocess.run(
            [sys.executable, PROGRAMS / self.program,
             f"binary={self.driver}", *words, verb, self.data],
            env={**os.environ, "POWERCUT_FD": str(write), **environment},
            pass_fds=[write], capture_output=True, text=True, check=False,
        )  # fmt: skip
        os.close(write)
        with os.fdopen(read) as lines:
            return done.returncode, lines.read().splitlines(), done.stderr


@pytest.fixture
def driven(tmp_path) -> Driven:
    driven = Driven(tmp_path)
    assert driven.call("setup") == (0, [], "")
    return driven


def test_a_driver_s_transfers_are_reported_and_found(driven):
    status, lines, _ = driven.call("run")
    assert status == 1  # it stopped making transfers
    assert lines == ["atomic", "ready", *(f"{sign} {n}" for n in range(1, 40) for sign in "?+")]
    assert driven.call("check") == (0, ["= 1-39"], "")
    # It continues behind the last that is there.
    (driven.data / "store" / "rows").write_text("1\n2\n4\n")
    assert driven.call("check") == (0, ["= 1-2", "= 4-4"], "")
    assert driven.call("run")[1][:4] == ["atomic", "ready", "? 5", "+ 5"]


def test_a_store_that_contradicts_itself_is_bad(driven):
    (driven.data / "store" / "rows").write_text("1\n2\n")
    status, lines, _ = driven.call("check", BALANCES_LACK="1")
    assert status == 0
    assert "bad the balances are not those" in lines[-1]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("stdout damaged the root page is 0", "bad the root page is 0"),
        ("panic: page 3 already freed", "bad bbolt says: panic: page 3 already freed"),
    ],
)
def test_what_a_store_says_of_itself_counts_against_it(driven, fault, said):
    assert driven.call("check", FAULT=fault)[:2] == (0, [said])


@pytest.mark.parametrize(
    "fault",
    [
        "stdout trouble no space left on device",
        "panic: mmap: cannot allocate memory",
        "fatal error: runtime: out of memory",
        "Killed",
    ],
)
def test_trouble_of_a_driver_says_nothing_about_its_store(driven, fault):
    status, lines, told = driven.call("check", FAULT=fault)
    assert (status, lines) == (1, [])
    assert fault.removeprefix("stdout trouble ") in told


def test_a_driver_that_is_not_built_says_what_builds_it(driven):
    driven.driver.unlink()
    status, lines, told = driven.call("check")
    assert (status, lines) == (1, [])
    assert "is not installed; remedy: workloads/programs/build.sh bbolt" in told


def test_a_driver_that_is_no_program_by_itself_is_run_by_another(tmp_path):
    driven = Driven(tmp_path, "level")
    tools = tmp_path / "tools"
    tools.mkdir()
    status, lines, told = driven.call("setup", PATH=str(tools))
    assert (status, lines) == (1, [])
    assert told == f"level: node is not installed, and runs {driven.driver}\n"
    node = tools / "node"
    write_script(node, NODE)
    shutil.rmtree(driven.data)
    assert driven.call("setup", PATH=str(tools)) == (0, [], "")
    assert driven.call("run", PATH=str(tools))[1][:4] == ["atomic", "ready", "? 1", "+ 1"]
    crash = "node: ../deps/leveldb/leveldb-1.20/db/db_impl.cc:1: Assertion `x' failed."
    _, lines, _ = driven.call("check", PATH=str(tools), FAULT=crash)
    assert lines == [f"bad level says: {crash.removeprefix('node: ../deps/')}"]


@pytest.fixture
def level(tmp_path) -> Driven:
    """The driver of classic-level with a planted store."""
    host_needs.require("node")
    driven = Driven(tmp_path, "level")
    driven.driver = tmp_path / "level"
    shutil.copytree(DRIVERS / "node" / "level", driven.driver)
    package = driven.driver / "node_modules" / "classic-level"
    package.mkdir(parents=True)
    (package / "index.js").write_text(PLANTED_LEVEL)
    (package / "package.json").write_text('{"type": "module", "main": "index.js"}')
    assert driven.call("setup") == (0, [], "")
    return driven


@pytest.mark.parametrize(("words", "sync"), [((), "true"), (("sync=off",), "false")])
def test_the_driver_of_classic_level_makes_transfers(level, words, sync):
    status, lines, told = level.call("run", *words)
    assert (status, told) == (1, "level: enough\n")
    tried = [line for line in lines if line[0] == "?"]
    done = [line for line in lines if line[0] == "+"]
    assert tried == [f"? {number}" for number in range(1, len(tried) + 1)]
    assert len(done) <= 40 < len(tried)
    assert lines[:6] == ["atomic", "ready", "? 1", "? 2", "? 3", "? 4"]
    assert (level.data / "store" / "rows.sync").read_text() == sync
    rows = json.loads((level.data / "store" / "rows").read_text())
    there = sorted(int(key[1:]) for key in rows if key.startswith("t"))
    assert len(there) == 40
    assert {int(line[2:]) for line in done} <= set(there)
    rows["a00000003"] = str(int(rows["a00000003"]) + 1)
    (level.data / "store" / "rows").write_text(json.dumps(rows))
    assert "bad the balances are not those" in level.call("check", *words)[1][-1]


def test_the_driver_of_classic_level_opens_what_it_made(level):
    assert level.call("check") == (0, [], "")
    assert level.call("check", "sync=sometimes")[:2] == (1, [])
    assert level.call("check") == (0, ["= 1-1"], "")


@pytest.mark.parametrize("code", ["LEVEL_CORRUPTION", "LEVEL_IO_ERROR"])
def test_damage_that_leveldb_names_counts_against_it(level, code):
    said = "bad not open: the words of LevelDB : No such file"
    assert level.call("check", FAULT=code) == (0, [said], "")


@pytest.mark.parametrize("code", ["LEVEL_LOCKED", "ENOENT"])
def test_trouble_of_classic_level_says_nothing_about_its_store(level, code):
    status, lines, told = level.call("check", FAULT=code)
    assert (status, lines) == (1, [])
    assert told == "level: not open: the words of LevelDB : No such file\n"


@pytest.mark.parametrize("name", DRIVEN)
def test_a_driven_program_is_documented_expected_and_has_its_scenario(name):
    assert f"\n| `{name}` |" in (PROGRAMS / "README.md").read_text()
    assert re.search(rf"\b{name}\b.*\) \w+_driver ", (PROGRAMS / "build.sh").read_text())
    cases = {case["settings"]: case for case in CASES if case["program"] == name}
    assert {case["expect"] for case in cases.values()} == {"SAFE", "LOSSY"}
    plan = expand(load_scenario(SCENARIOS / "databases" / f"{name}.yaml"), seed=1)
    shown = {}
    for cell in plan.cells:
        command = cell.parameters.workload.command
        shown[" ".join(command[1:])] = str(cell.expect.value).upper()
    assert shown == {settings: case["expect"] for settings, case in cases.items()}
    text = " ".join((SCENARIOS / "databases" / f"{name}.yaml").read_text().split())
    for case in cases.values():
        assert (case["expect"] == "LOSSY") == ("words" in case)
        assert f'"{case.get("words", "")}' in text


def test_modules_of_go_are_pinned_by_version_and_checksum():
    sums = (DRIVERS / "go" / "go.sum").read_text().splitlines()
    known = {tuple(line.split()[:2]) for line in sums}
    wanted = re.findall(r"^(?:require |\t)(\S+) (v\S+)", (DRIVERS / "go/go.mod").read_text(), re.M)
    assert wanted
    assert set(wanted) <= known


def test_packages_of_npm_are_pinned_by_version_and_checksum():
    for lock in DRIVERS.glob("node/*/package-lock.json"):
        wanted = json.loads(lock.with_name("package.json").read_text())["dependencies"]
        packages = json.loads(lock.read_text())["packages"]
        root = packages.pop("")
        assert root["dependencies"] == wanted
        for name, version in wanted.items():
            assert packages[f"node_modules/{name}"]["version"] == version  # exact, no range
        for package in packages.values():
            assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
            assert package["integrity"].startswith("sha512-")
            assert "resolved" not in package  # it would name a registry


def test_crates_of_rust_are_pinned_by_version_and_checksum():
    crates = sorted(path for path in (DRIVERS / "rust").iterdir() if path.is_dir())
    assert [crate.name for crate in crates] == ["redb"]
    for crate in crates:
        lock = (crate / "Cargo.lock").read_text()
        pinned = re.findall(r'^name = "(.+)"\nversion = "(.+)"\nchecksum = "\w{64}"$', lock, re.M)
        manifest = (crate / "Cargo.toml").read_text().partition("[dependencies]\n")[2]
        wanted = re.findall(r'^(\S+) = "=(.+)"$', manifest.partition("\n[")[0], re.M)
        assert wanted
        assert set(wanted) <= set(pinned)
        assert len(pinned) == lock.count("[[package]]") - 1  # all but the driver itself
        assert "source =" not in lock  # build.sh takes the host's own registry


def test_jars_are_pinned_by_version_and_checksum():
    lines = (DRIVERS / "java" / "jars.sha256").read_text().splitlines()
    pins = [re.fullmatch(r"[0-9a-f]{64}  (\w+)-\d[0-9.]*\.jar", line) for line in lines]
    text = (PROGRAMS / "build.sh").read_text()
    built = re.findall(r"^ +(\w+)\) java_driver ", text, re.MULTILINE)
    assert built
    assert all(pins)
    assert [pin[1] for pin in pins] == built


def test_what_builds_them_is_clean_shell_and_knows_no_other():
    if shutil.which("shellcheck") is not None:
        subprocess.run(["shellcheck", PROGRAMS / "build.sh"], check=True)
    done = subprocess.run(
        [PROGRAMS / "build.sh", "cobol"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "build.sh: cobol: there is no such driver\n")
