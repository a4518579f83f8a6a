# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, so that nobody has to remember them."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from house_rooms import named

from powercut.paths import ROOT

HARNESS = ROOT / "harness"
PACKAGE = ROOT / "harness" / "powercut"

ROOMS = {
    "__init__": 0,
    "paths": 0,
    "brought": 0,
    "console": 1,
    "closing": 0,
    "documented": 0,
    "mapped": 0,
    "model": 0,
    "wal": 0,
    "wheel": 1,
    "sandbox": 1,
    "scenario": 1,
    "crash": 1,
    "checkers": 1,
    "channel": 1,
    "machine": 2,
    "disk": 2,
    "recover": 2,
    "store": 2,
    "workload": 2,
    "rig": 3,
    "recording": 4,
    "verdict": 5,
    "trial": 5,
    "explore": 5,
    "witness": 6,
    "campaign": 7,
    "report": 9,
    "doctor": 9,
    "cli": 10,
    "api": 11,
    "pytest_plugin": 12,
}
"""The rooms and their numbers (docs/whats-here.md): imports point to lower numbers only."""

LINES_MAX = 700
FUNCTION_LINES_MAX = 60
"""Of a function without its docstring."""

C_PARTS = {
    "harness/capture": set(),
    "harness/guard": set(),
    "harness/rawread": {"workloads"},
    "guests": {"workloads", "harness/guard"},
    "workloads": set(),
}
"""The parts that are written in C, and the others whose headers each may include."""

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
REGISTRIES = re.compile(r"\b(pypi\.org|pythonhosted\.org|npmjs|crates\.io|ghcr\.io|docker\.io)\b")


def tracked(*suffixes: str) -> list[Path]:
    """Files under version control, and those that are about to be."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    names = [name for name in done.stdout.split("\0") if name.endswith(suffixes or ("",))]
    return [ROOT / name for name in sorted(names) if (ROOT / name).is_file()]


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The parts of the package that `path` imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), path.name)):
        for module, taken in named(node):
            head, _, rest = f"{module}.{taken}".partition(".")
            if head == "powercut":
                first = rest.partition(".")[0]
                known = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
                found.add(first if known else "__init__")
    return found


def offences(path: Path) -> list[str]:
    own = part(path)
    return [
        f"{path.relative_to(ROOT)} (room {ROOMS[own]}) imports {other} (room {ROOMS[other]})"
        for other in sorted(imports(path) - {own})
        if ROOMS[other] >= ROOMS[own] and ROOMS[other] > 0
    ]


def test_every_room_has_its_number() -> None:
    rooms = {part(path) for path in PACKAGE.rglob("*.py")}
    assert rooms == set(ROOMS)


def test_imports_point_downwards_and_siblings_do_not_know_each_other() -> None:
    wrong = [line for path in sorted(PACKAGE.rglob("*.py")) for line in offences(path)]
    assert not wrong, "\n".join(wrong)


def test_values_know_no_other_room() -> None:
    """Rooms without a number of their own may know each other, but nothing below is WAL's."""
    for path in sorted((PACKAGE / "model").rglob("*.py")):
        assert imports(path) <= {"model"}, path


def test_the_rule_about_imports_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = PACKAGE / "disk" / "not_there.py"
    monkeypatch.setattr(Path, "read_text", lambda _: "from powercut.machine import port\n")
    assert offences(bad) == ["harness/powercut/disk/not_there.py (room 2) imports machine (room 2)"]
    monkeypatch.setattr(Path, "read_text", lambda _: "def f():\n  import powercut.verdict.judge\n")
    assert len(offences(PACKAGE / "model" / "not_there.py")) == 1


def ports(*packages: str) -> set[str]:
    """The names of all methods of protocols."""
    return {
        method.name
        for package in packages
        for path in (HARNESS / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(b) for b in node.bases)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }


def silent(package: str, said: set[str]) -> list[str]:
    """Public methods without a docstring that is due."""
    return [
        f"{path.relative_to(ROOT)}:{method.lineno}: {node.name}.{method.name}"
        for path in sorted((HARNESS / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        and not method.name.startswith("_")
        and method.name not in said
        and ast.get_docstring(method) is None
        and "overload" not in map(ast.unparse, method.decorator_list)
    ]


def test_public_methods_say_what_they_do_unless_a_port_does() -> None:
    """What implements a port says only in what it differs; a private class speaks to its file."""
    core, extras = "powercut", "powercut_extras"
    found = [*silent(core, ports(core)), *silent(extras, ports(core, extras))]
    assert not found, "\n".join(found)


STORED = {
    "__init__",
    "paths",
    "console",
    "closing",
    "documented",
    "model",
    "wal",
    "scenario",
    "store",
    "report",
}
"""The rooms that a report may know: what is stored, and the words for it."""

BEYOND_THE_STORE = {
    "page/telling.py": {"recording"},
    "program_cut.py": {"explore"},
    "terminal/show.py": {"recording"},
}
"""Files of `report` that read more than the store, and what.  This list may only become shorter."""


def test_reports_are_made_from_the_store() -> None:
    room = PACKAGE / "report"
    beyond = {
        path.relative_to(room).as_posix(): imports(path) - STORED for path in room.rglob("*.py")
    }
    assert {name: rooms for name, rooms in beyond.items() if rooms} == BEYOND_THE_STORE


NAMES_A_BACKEND = re.compile(r"machine\.qemu[. ]|\bQemu[A-Z]|find_qemu")
"""What only the room of machines may say; the key `machine.qemu` of scenarios is none of it."""


def test_no_other_room_names_a_machine_backend() -> None:
    """But for the doctor, which examines what is installed, and the table of backends."""
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if part(path) not in ("machine", "doctor") and path != PACKAGE / "scenario/machines.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if NAMES_A_BACKEND.search(line)
    ]
    assert not named, "\n".join(named)


def test_packages_say_what_they_are_and_import_nothing() -> None:
    for path in sorted(PACKAGE.rglob("__init__.py")):
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), f"{path} has no docstring"
        assert not imports(path), f"{path} imports parts of the package"


def test_every_source_file_states_its_licence() -> None:
    for path in tracked(".py", ".c", ".h", ".sh", ".j2"):
        head = path.read_text()[:200]
        assert "SPDX-License-Identifier: Apache-2.0" in head, path


def test_nothing_is_left_unfinished() -> None:
    own = Path(__file__)
    for path in tracked(".py", ".c", ".h", ".md", ".yaml", ".sh", ".j2"):
        if path == own:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not UNFINISHED.search(line), f"{path}:{number}: {line.strip()}"


def test_no_file_names_a_package_registry() -> None:
    own = Path(__file__)
    for path in tracked():
        if path == own or path.suffix in (".img", ".zst"):
            continue
        text = path.read_bytes().decode(errors="replace")
        assert not REGISTRIES.search(text), path


def test_files_and_functions_stay_short() -> None:
    for path in tracked(".py", ".c", ".h"):
        lines = len(path.read_text().splitlines())
        if path.is_relative_to(ROOT / "tests"):
            continue
        assert lines <= LINES_MAX, f"{path} has {lines} lines"
        if path.suffix != ".py" or not path.is_relative_to(PACKAGE):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = code_lines(node)
                assert length <= FUNCTION_LINES_MAX, f"{path}: {node.name} has {length} lines"


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, but for its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is None:
        return lines
    first = node.body[0]
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1)


def test_c_functions_stay_short() -> None:
    for path in tracked(".c", ".h"):
        begin = 0
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line == "{":
                begin = number
            elif line == "}" and begin:
                length = number - begin + 1
                assert length <= FUNCTION_LINES_MAX, f"{path}:{begin}: {length} lines"
                begin = 0


def c_part(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    return next(part for part in C_PARTS if name.startswith(f"{part}/"))


def test_parts_in_c_include_only_what_they_may() -> None:
    seen = set()
    for path in tracked(".c", ".h"):
        if path.is_relative_to(ROOT / "tests"):
            continue
        own = c_part(path)
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
            header = (path.parent / name).resolve()
            assert header.is_file(), f"{path}: {name} is not there"
            other = c_part(header)
            assert other == own or other in C_PARTS[own], f"{path} includes {name}"
            seen.add((own, other))
    assert ("guests", "workloads") in seen


def test_scenarios_say_what_they_show() -> None:
    files = sorted((ROOT / "scenarios").rglob("*.yaml"))
    assert files
    for path in files:
        head = path.read_text().split("powercut: 1")[0]
        assert len(re.findall(r"^# .{20,}", head, re.MULTILINE)) >= 2, f"{path} has no header"


def test_test_files_have_unique_names() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


PARTS_OF_A_VERDICT = re.compile(
    r"\b(judge_recording|OperationsClaimed|RecordsClaimed|with_states)\b|(?<!class )CaptureResult\("
)


def judged_in_part(path: Path) -> list[str]:
    """Where a file takes a part of a verdict for the whole."""
    if part(path) == "verdict":
        return []
    return PARTS_OF_A_VERDICT.findall(path.read_text())


def test_there_is_one_way_to_a_verdict() -> None:
    """It is `verdict_of`: with the crash states, for whoever wants the verdict on a recording."""
    wrong = {path.name: found for path in PACKAGE.rglob("*.py") if (found := judged_in_part(path))}
    assert not wrong


def test_the_rule_about_verdicts_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: "result = judge_recording(trial)\n")
    assert judged_in_part(PACKAGE / "campaign" / "bundle.py") == ["judge_recording"]
    assert judged_in_part(PACKAGE / "verdict" / "judge.py") == []
