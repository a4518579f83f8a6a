# SPDX-License-Identifier: Apache-2.0
"""`import powercut`: what it promises, and that docs/api.md says so and its examples run."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from handmade import Handmade
from own_pytest import run_pytest

import powercut
from powercut import api
from powercut.campaign.bundle import unpack
from powercut.cli.program_options import recording_options
from powercut.crash.legality import why_illegal
from powercut.crash.states import StateSpace
from powercut.model.errors import UsageError
from powercut.model.verdict import FindingKind
from powercut.paths import ROOT
from powercut.recording.consent import NotRepeated
from powercut.scenario.program_text import RecordOptions
from powercut.store.own import MARK

PAGE = (ROOT / "docs/api.md").read_text()
BUNDLE = ROOT / "docs/findings/ext4-fast-commit.powercut"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


# --- the names ----------------------------------------------------------------------------------


def test_an_import_loads_nothing():
    code = "import powercut, sys; print([m for m in sys.modules if m.startswith('powercut.')])"
    code += "; print({'numpy', 'pydantic', 'click'} & {*sys.modules})"
    assert python(code) == "[]\nset()\n"


def python(code: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def test_the_names_and_their_types_are_the_same():
    stub = ast.parse((ROOT / "harness/powercut/__init__.pyi").read_text())
    typed = {
        alias.name for one in stub.body if isinstance(one, ast.ImportFrom) for alias in one.names
    }
    assert set(powercut.__all__) == set(api.__all__) == typed
    assert all(getattr(powercut, name) is getattr(api, name) for name in powercut.__all__)
    assert set(powercut.__all__) <= set(dir(powercut))
    with pytest.raises(AttributeError, match="no attribute 'opens'"):
        powercut.opens  # noqa: B018


def test_no_module_takes_a_name():
    """Importing a module below powercut sets its name there, and hides what has that name."""
    assert not [one for one in powercut.__all__ if importlib.util.find_spec(f"powercut.{one}")]


def promised() -> Iterator[tuple[str, object]]:
    for name in powercut.__all__:
        value = getattr(powercut, name)
        yield name, value
        if value in (powercut.Program, powercut.Recording):
            yield from ((one, what) for one, what in vars(value).items() if one[0] != "_")


def test_each_name_is_on_the_page_and_says_what_it_does():
    for name, value in promised():
        assert re.search(rf"`(\w+\.)?{name}\b", PAGE), name
        if callable(value) or isinstance(value, property):
            assert inspect.getdoc(value), name
        if inspect.isfunction(value):
            for parameter in set(inspect.signature(value).parameters) - {"self", "cls"}:
                assert re.search(rf"[(`, ]{parameter}\b", PAGE), (name, parameter)


def test_its_usual_values_are_those_of_the_command_line():
    @click.command
    @recording_options
    def command(options):
        return options

    assert command.main([], standalone_mode=False) == RecordOptions()


# --- programs and states ------------------------------------------------------------------------


class Nothing:
    def setup(self, folder): ...
    def run(self, folder, session): ...
    def check(self, folder, session): ...


def test_what_stands_for_a_program(monkeypatch):
    given = powercut.Program(["./store", "fast"], env={"A": "1"})
    assert powercut.Program.of(given) is given
    assert powercut.Program.of(["./store", "fast"]).command == ("./store", "fast")
    assert powercut.Program.of(Path("./store one")).command == ("store one",)
    of_class = powercut.Program.of(Nothing)
    assert of_class.command[-1] == f"{__name__}:Nothing"
    assert "tests/support" in of_class.env["PYTHONPATH"]
    monkeypatch.setattr(Nothing, "__module__", "__main__")  # a script: its guard must hold
    with pytest.raises(UsageError, match="another process cannot load this class"):
        powercut.Program.of(type("Typed", (), {"__module__": "builtins"}))


def test_a_class_that_another_process_cannot_load():
    class Local(Nothing): ...

    with pytest.raises(powercut.PowercutError, match="another process cannot load this class"):
        powercut.Program.of(Local)


def test_a_script_is_loaded_under_its_own_name(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import powercut\nclass Store: ...\n"
        "if __name__ == '__main__': print(powercut.Program.of(Store).command[-2:])\n"
    )
    done = [sys.executable, "mine.py"]
    said = subprocess.run(done, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == "('mine.py', 'mine:Store')\n"


def test_crash_states_are_those_of_the_contract():
    disk = Handmade(1 << 20)
    for number in range(3):
        disk.write(number * 4096, b"x" * 4096, at=10 * number, done=10 * number + 5)
        disk.flush(at=10 * number + 6, done=10 * number + 9)
    timeline, honest = disk.timeline(), powercut.Contract(atomic_unit=4096)
    states = {
        contract: [*powercut.crash_states(timeline, contract, budget=50)]
        for contract in (honest, honest.lying())
    }
    for contract, drawn in states.items():
        space = StateSpace(dataclasses.replace(timeline, contract=contract))
        assert drawn
        assert not any(why_illegal(space, state) for state in drawn)
        assert [*powercut.crash_states(timeline, contract, budget=2)] == drawn[:2]
    lacks_all = [max(len(one.survivors) for one in drawn) for drawn in states.values()]
    assert lacks_all == [1, 3], "honoured flushes leave one write in flight, ignored ones all"


# --- recordings, as the page has them -----------------------------------------------------------


@pytest.fixture
def fast_commit(tmp_path: Path) -> Path:
    """A folder with the recording of a finding, unpacked as the page says."""
    unpack(BUNDLE, tmp_path / "fast-commit")
    return tmp_path


def test_a_state_of_a_disk(fast_commit):
    (block,) = (one for one in BLOCKS if "write_image" in one)
    said = PAGE.partition(block)[2].split("```")[2].lstrip("\n")
    assert python(block, fast_commit) == said
    recording = powercut.open(fast_commit / "fast-commit")
    assert (fast_commit / "state.img").stat().st_size == recording.timeline.disk_size
    assert (recording.exposure().exposed_ns == 0).all()
    assert recording.name(5) == "flush"
    state = next(recording.states())
    with pytest.raises(UsageError, match="exists already"):
        recording.write_image(state, fast_commit / "state.img")


@pytest.mark.fuse
def test_a_program_as_a_class_and_a_folder_of_recordings(fast_commit):
    (block,) = (one for one in BLOCKS if "class Notes" in one)
    (fast_commit / "test_notes.py").write_text(block)
    said = run_pytest(fast_commit, "test_notes.py", f"--basetemp={fast_commit / 'made'}").stdout
    assert "1 passed" in said

    recordings = fast_commit / "recordings"
    (recordings / "empty").mkdir(parents=True)
    (fast_commit / "fast-commit").rename(recordings / "fast-commit")
    (made,) = fast_commit.glob("made/*0/capture/*")
    made.rename(recordings / "notes")
    (block,) = (one for one in BLOCKS if "iterdir" in one)
    lines = python(block, fast_commit).splitlines()
    assert lines[0].startswith("empty: not judged: ")
    assert lines[1] == "fast-commit: LOSSY"
    assert lines[2].startswith(
        "    not-recovered: the system did not recover: the ext4 file system"
    )
    assert lines[3:] == ["notes: SAFE"]

    notes = powercut.open(recordings / "notes")
    durable, everything = list(notes.states(2))
    assert notes.missing(everything) == ()
    assert [notes.name(one) for one in notes.missing(durable)] == []
    assert len((notes.write_image(durable, fast_commit / "state") / "notes").read_text()) == 27
    with pytest.raises(UsageError, match="exposure"):
        notes.exposure()
    (recordings / "notes" / MARK).unlink()
    with pytest.raises(NotRepeated):
        powercut.open(recordings / "notes").verdict()


@pytest.mark.fuse
def test_the_class_without_its_sync_loses_all(tmp_path, monkeypatch):
    (block,) = (one for one in BLOCKS if "class Notes" in one)
    (tmp_path / "forgetful.py").write_text(block.replace("os.fsync(notes.fileno())", "pass"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("powercut.campaign.folder.AUTO_STATES_OF_PROGRAM", 8)
    forgetful = importlib.import_module("forgetful").Notes
    recording = powercut.record(forgetful, acks=12, seed=1, results=tmp_path)
    durable = next(recording.states(1))
    assert "bytes 0 to 1 of notes" in map(recording.name, recording.missing(durable))
    assert recording.claims.required(durable.instant).last == 12
    assert recording.verdict() is powercut.Verdict.LOSSY
    lost = [one for one in recording.findings() if one.kind is FindingKind.LOST]
    assert "12 operations are acknowledged and not there: 1-12" in lost[0].message


def test_a_disks_commands_are_not_run_without_consent(fast_commit, monkeypatch):
    monkeypatch.setattr("powercut.recording.consent.commands_of", lambda _: ("./check",))
    with pytest.raises(NotRepeated):
        powercut.open(fast_commit / "fast-commit").verdict()
    opened = powercut.open(fast_commit / "fast-commit", run_check=True)
    assert opened.verdict() is powercut.Verdict.LOSSY
