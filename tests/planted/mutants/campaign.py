# SPDX-License-Identifier: Apache-2.0
"""Plants mutants into a copy of this tree, one by one, and sees which tests notice them."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

from mutants.mutant import PYTEST, Mutant, Suite
from mutants.nursery import TIMED_OUT, Nursery
from mutants.place import planted

from powercut.paths import BUILD, ROOT
from powercut.store.files import write_atomic

OUTCOMES: Final = BUILD / "mutants.json"
"""What campaigns found so far, slice by slice."""

_COPIED: Final = ("bin", "capture", "guard", "rawread", "agent", "wal", "uml-init", "lib")
_CHECK_S: Final = 900
_LEAST_S: Final = 60.0
_SLOWER: Final = 5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a mutant: which test killed it, empty if none did."""

    killed_by: str


class Scratch:
    """A copy of the tree with a folder of built parts of its own."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.build = folder / "build"
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True,
        )  # fmt: skip
        for name in listed.stdout.decode().split("\0"):
            source = ROOT / name
            if name and source.is_file():
                target = self.tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        self.build.mkdir()
        for entry in BUILD.iterdir():
            target = self.build / entry.name
            if entry.is_dir() and entry.name in _COPIED:
                shutil.copytree(entry, target)
            elif entry.suffix == ".so":
                shutil.copy2(entry, target)
            else:
                target.symlink_to(entry)
        self._clean: dict[tuple[str, ...], float] = {}
        self._pytest = Nursery(self.tree, self.build)

    def _run(self, argv: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        words = [word.format(tree=self.tree, build=self.build) for word in argv]
        return subprocess.run(
            words, cwd=self.tree, capture_output=True, text=True, timeout=_CHECK_S,
            check=False,
        )  # fmt: skip

    def _put(self, file: str, text: str) -> None:
        """Writes `text`, later than anything that was built of the file: make goes by that."""
        (self.tree / file).write_text(text)

    def first_failure(self, suite: Suite) -> str:
        """The first test of the suite that fails; empty if none does.  A check has not ended if
        it takes much longer than where nothing is planted.

        Raises RuntimeError if the tree does not build, or the tests do not even begin.
        """
        for argv in suite.build:
            built = self._run(argv)
            if built.returncode:
                raise RuntimeError(f"it does not build: {built.stdout}{built.stderr}")
        for argv in suite.checks:
            if failed := self._failure(argv, _LEAST_S + _SLOWER * self._clean.get(argv, _CHECK_S)):
                return failed
        return ""

    def _failure(self, argv: tuple[str, ...], limit_s: float) -> str:
        report = self.tree.parent / "report.xml"
        report.unlink(missing_ok=True)
        if argv[0] != PYTEST:
            done = self._run(argv)
            return "" if done.returncode == 0 else _first_words(done.stdout + done.stderr)
        status = self._pytest.run([*argv[1:], f"--junitxml={report}"], limit_s)
        if status == TIMED_OUT:
            return "a test that does not end"
        if status not in (0, 1):
            raise RuntimeError(f"the tests ended with {status}: {self._pytest.said()}")
        return "" if status == 0 else _failed_case(report)

    def close(self) -> None:
        """Ends what runs the tests."""
        self._pytest.close()

    def require_clean(self, suite: Suite) -> None:
        """Raises RuntimeError unless the suite passes where nothing is planted."""
        for argv in suite.checks:
            if argv not in self._clean:
                begun = time.monotonic()
                if failed := self.first_failure(dataclasses.replace(suite, checks=(argv,))):
                    raise RuntimeError(f"{failed} fails without any mutant")
                self._clean[argv] = time.monotonic() - begun

    def try_mutant(self, mutant: Mutant) -> Outcome:
        """Plants the mutant, runs its suite, takes it out again."""
        text = (self.tree / mutant.file).read_text()
        made = planted(mutant.file, text, mutant.place, mutant.new)
        return self.try_text(mutant.file, made, mutant.suite)

    def try_text(self, file: str, made: str, suite: Suite) -> Outcome:
        """Has the file be `made`, runs the suite, and puts back what was there."""
        text = (self.tree / file).read_text()
        # Most are noticed by the first check: what is not reached need not be tried without them.
        parts = [dataclasses.replace(suite, checks=(argv,)) for argv in suite.checks]
        for part in [suite] if suite.build else parts:
            self.require_clean(part)
            self._put(file, made)
            try:
                if failed := self.first_failure(part):
                    return Outcome(failed)
            finally:
                self._put(file, text)
        return Outcome("")


def _failed_case(report: Path) -> str:
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            if not case.get("classname"):
                raise RuntimeError(f"{case.get('name')} cannot be collected: it is no program")
            module = case.get("classname", "").rpartition(".")[2]
            return f"{module}::{case.get('name', '').partition('[')[0]}"
    raise RuntimeError("pytest failed, and no test of it did")


def _first_words(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip() and "make" not in line]
    return (
        f"C: {lines[0].strip().partition(':')[0]}"
        if lines
        else "C: a check that ends with another status"
    )


def digest(mutant: Mutant) -> str:
    """Changes with the patch."""
    key = f"{mutant.file}\0{mutant.place.function}\0{mutant.place.code}\0{mutant.new}"
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def remembered() -> dict[str, dict[str, str]]:
    """Outcomes by the name of the mutant: `killed_by` and `digest`."""
    return json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}


def remember(mutant: Mutant, outcome: Outcome) -> None:
    """Adds an outcome to what is remembered."""
    with OUTCOMES.with_suffix(".lock").open("w") as lock:  # slices may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = remembered()
        known[mutant.name] = {"killed_by": outcome.killed_by, "digest": digest(mutant)}
        write_atomic(OUTCOMES, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())


TABLE: Final = ROOT / "docs/measured/mutants.md"
_BEGIN: Final = "| mutant | what is wrong then | noticed by |\n| --- | --- | --- |\n"


def row(mutant: Mutant, killed_by: str) -> str:
    """The row of a mutant in docs/measured/mutants.md."""
    told = f"equivalent: {mutant.equivalent}" if mutant.equivalent else f"`{killed_by}`"
    return f"| `{mutant.name}` | {mutant.what} | {told} |"


def write_table(mutants: tuple[Mutant, ...]) -> bool:
    """Writes the table if every mutant was looked at; says whether it did."""
    known = remembered()
    current = [m for m in mutants if known.get(m.name, {}).get("digest") == digest(m)]
    if len(current) < len(mutants):
        return False
    head = TABLE.read_text().partition(_BEGIN)[0]
    rows = [row(mutant, known[mutant.name]["killed_by"]) for mutant in mutants]
    TABLE.write_text(head + _BEGIN + "\n".join(rows) + "\n")
    return True
