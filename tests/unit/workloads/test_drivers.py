# SPDX-License-Identifier: Apache-2.0
"""Stores in other languages: what a driver says becomes lines of the contract, and no more.

The driver here is planted, so that nothing must be built; `check` of the real ones is that of
bank.py, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
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

PLANTED = f"""#!{sys.executable}
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


class Driven:
    """The program `bbolt` with another driver, and what it says on its descriptor."""

    def __init__(self, folder: Path) -> None:
        self.driver = folder / "driver"
        self.driver.write_text(PLANTED)
        self.driver.chmod(0o755)
        self.data = folder / "data"

    def call(self, verb: str, **environment: str) -> tuple[int, list[str], str]:
        read, write = os.pipe()
        done = subprocess.run(
            [PROGRAMS / "bbolt", f"binary={self.driver}", verb, self.data],
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
    assert lines == ["ready", *(f"{sign} {n}" for n in range(1, 40) for sign in "?+")]
    assert driven.call("check") == (0, ["= 1-39"], "")
    # It continues behind the last that is there.
    (driven.data / "store" / "rows").write_text("1\n2\n4\n")
    assert driven.call("check") == (0, ["= 1-2", "= 4-4"], "")
    assert driven.call("run")[1][:3] == ["ready", "? 5", "+ 5"]


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


def test_what_builds_them_is_clean_shell_and_knows_no_other():
    if shutil.which("shellcheck") is not None:
        subprocess.run(["shellcheck", PROGRAMS / "build.sh"], check=True)
    done = subprocess.run(
        [PROGRAMS / "build.sh", "cobol"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "build.sh: cobol: there is no such driver\n")
