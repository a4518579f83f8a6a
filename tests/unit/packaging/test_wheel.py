# SPDX-License-Identifier: Apache-2.0
"""The wheel: what it carries, where it runs, and that nothing in it needs the checkout."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from powercut.cli.init import FILES, STARTER, recipe
from powercut.doctor.packages import NEEDED, OPTIONAL
from powercut.paths import ROOT
from powercut.report.reference import published

TIMEOUT_S = 300.0
SHIPPED = "powercut/_shipped"


def call(*argv: str | Path, **more) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, **more
    )
    assert done.returncode == 0, f"{shlex.join(map(str, argv))}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of what is under version control or about to be, as docs/installation.md makes it.

    The Python has no package of its own, as a user's: all that the build needs is what pip installs
    apart for it.
    """
    source = tmp_path_factory.mktemp("source")
    listed = call("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard").stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/findings")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).symlink_to(ROOT / name)
    target = tmp_path_factory.mktemp("wheel")
    bare = tmp_path_factory.mktemp("bare")
    call(sys.executable, "-m", "venv", "--without-pip", bare)
    pip = [sys.executable, "-m", "pip", "--python", bare / "bin/python", "wheel", "-q", "--no-deps"]
    call(*pip, "-w", target, source, env=dict(os.environ, MAKEFLAGS="-j2"))
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    call(*pip, "--target", folder, wheel)
    return folder


def powercut(installed: Path, cwd: Path, *argv: str, **environment: str) -> str:
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("POWERCUT_")}
    path = {"PYTHONPATH": str(installed), "HOME": str(cwd / "home"), **environment}
    program = [sys.executable, "-m", "powercut.cli.main", *argv]
    return call(*program, cwd=cwd, env={**inherited, **path}).stdout


def test_it_says_for_which_hosts_it_is(wheel):
    glibc = platform.libc_ver()[1].replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-manylinux_{glibc}_{platform.machine()}.whl")


def test_what_programs_in_python_import_is_a_module_of_its_own(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = ("powercut_program.py", f"{SHIPPED}/workloads/examples/powercut_program.py")
        assert len({archive.read(name) for name in names}) == 1


def test_type_checkers_find_the_types_of_its_api(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert {"powercut/py.typed", "powercut/__init__.pyi"} <= set(archive.namelist())


def test_nothing_in_it_needs_a_newer_glibc_than_it_says(wheel, tmp_path):
    said = tuple(map(int, platform.libc_ver()[1].split(".")))
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{SHIPPED}/parts/")]
        assert len(names) == 19
        for name in names:
            needed = {
                tuple(map(int, match.split(b".")))
                for match in re.findall(rb"GLIBC_(\d+\.\d+)", archive.read(name))
            }
            assert max(needed, default=(0,)) <= said, name
            assert archive.getinfo(name).external_attr >> 16 & 0o111, f"{name} cannot be executed"


def test_guest_programs_are_static(installed):
    for name in ("agent", "wal", "dmlog", "uml-init", "powercut-client", "replicated"):
        path = installed / SHIPPED / "parts/bin" / name
        assert "INTERP" not in call("readelf", "--program-headers", "--wide", path).stdout


def test_what_stands_before_a_check_is_found_and_runs(installed, tmp_path):
    code = "from powercut.sandbox.users import guard_binary; print(guard_binary())"
    environment = {"PYTHONPATH": str(installed), "HOME": str(tmp_path), "PATH": "/usr/bin"}
    found = call(sys.executable, "-c", code, cwd=tmp_path, env=environment).stdout.strip()
    assert found == str(installed / SHIPPED / "parts/bin/check-guard")
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    assert call(*alone, found, "--", "/bin/echo", "run").stdout == "run\n"


def test_it_has_every_schema_as_the_code_makes_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name, text in published().items():
            assert archive.read(f"{SHIPPED}/docs/{name}").decode() == text


def test_it_has_every_module_and_every_scenario_of_the_checkout(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder, prefix in ((ROOT / "harness/powercut", "powercut"), (ROOT / "scenarios", "")):
        files = {path.relative_to(folder) for path in folder.rglob("*.py")}
        files |= {path.relative_to(folder) for path in folder.rglob("*.yaml")}
        files |= {path.relative_to(folder) for path in folder.rglob("*.j2")}
        assert files
        inside = prefix or f"{SHIPPED}/scenarios"
        assert {f"{inside}/{name}" for name in files} <= names
    assert not [name for name in names if name.startswith(("tests/", "build/"))]


def test_any_folder_will_do(wheel, installed, tmp_path):
    here = tmp_path / "mine"
    here.mkdir()
    said = powercut(installed, here, "init")
    for name in FILES:
        assert f"written        {name}\n" in said
        assert (here / name).is_file()
    (packed,) = (here / "vendor").iterdir()
    with zipfile.ZipFile(packed) as again, zipfile.ZipFile(wheel) as first:
        own = {name for name in again.namelist() if not name.endswith("RECORD")}
        assert own == {name for name in first.namelist() if not name.endswith("RECORD")}
        assert all(again.read(name) == first.read(name) for name in own)
    (here / "test_power_cuts.py").write_text("mine\n")
    assert "there already  test_power_cuts.py" in powercut(installed, here, "init")
    assert (here / "test_power_cuts.py").read_text() == "mine\n"
    assert (here / ".gitignore").read_text() == "/results/\n"

    code = (
        "from powercut import paths, __file__\n"
        "from powercut.cli.scenarios import find_scenarios\n"
        "print(paths.INSTALLED, paths.RESULTS, paths.BUILD, paths.command(), __file__)\n"
        "print(*find_scenarios([]), *find_scenarios(['one-lie']))\n"
    )
    environment = {"PYTHONPATH": str(installed), "HOME": str(tmp_path), "PATH": "/usr/bin"}
    first, second = call(sys.executable, "-c", code, cwd=here, env=environment).stdout.splitlines()
    cache = tmp_path / ".cache/powercut"
    program = shlex.quote(f"{Path(sys.executable).parent}/powercut")  # not on this PATH
    assert first == f"True results {cache} {program} {installed}/powercut/__init__.py"
    assert second == (
        f"{here}/scenarios/first-light.yaml {installed}/{SHIPPED}/scenarios/lying/one-lie.yaml"
    )
    assert "first-light: 3 cells" in powercut(installed, here, "run", "--dry-run", "--brief")
    assert not (here / "home/.cache").exists(), "a plan writes nothing"


def test_bench_says_that_it_is_run_from_a_checkout(wheel, installed, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "bench/" in name]
    program = [sys.executable, "-m", "powercut.cli.main", "bench"]
    environment = {"PYTHONPATH": str(installed), "HOME": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run(
        program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "in a checkout of powercut: ./powercut bench" in done.stderr


def github_lines() -> list[str]:
    text = recipe((STARTER / "github.yml.in").read_text(), packages="", build="")
    (job,) = YAML(typ="safe").load(text)["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_recipes_say_the_same():
    text = recipe((STARTER / "gitlab.yml.in").read_text(), packages="", build="")
    (job,) = YAML(typ="safe").load(text).values()
    assert [line.replace(" git ", " ") for line in github_lines()] == job["script"]
    container = " ".join((STARTER / "Containerfile.in").read_text().split())
    assert "COPY vendor /vendor" in container
    for command in ("pip install --no-cache-dir /vendor/powercut-*.whl", "doctor --packages"):
        assert f"/opt/powercut/bin/{'powercut ' * ('doctor' in command)}{command}" in container


@pytest.mark.nightly
def test_the_recipe_runs_as_written(installed, tmp_path):
    """But for apt-get, which is recorded, and guests: pytest only collects here."""
    here = tmp_path / "mine"
    here.mkdir()
    powercut(installed, here, "init")
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "apt-get").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/apt\n')
    (stubs / "apt-get").chmod(0o755)
    site = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {
        "PATH": f"{stubs}:/usr/bin:/bin:/usr/sbin",
        "HOME": str(tmp_path),
        "PYTHONPATH": site,  # the dependencies
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_IGNORE_INSTALLED": "1",  # the checkout is on the path, too
        "PYTEST_ADDOPTS": "--collect-only",
        "POWERCUT_BUILD": str(tmp_path / "build"),
    }
    lines = [line for line in github_lines() if not line.endswith("powercut doctor")]
    script = "\n".join(["set -e", *lines])
    sandbox = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/opt", "--chdir", here]
    said = call(*sandbox, "sh", "-c", script, env=environment).stdout
    assert "4 tests collected" in said
    for test in ("honest", "lying", "no-sync", "test_no_acknowledged_record_is_lost"):
        assert test in said
    apt = (tmp_path / "apt").read_text().splitlines()
    assert apt[-1].split()[3:] == [*NEEDED, *OPTIONAL]
    assert (here / "power-cuts.xml").exists()


def test_the_launcher_installs_what_the_doctor_names():
    text = (ROOT / "powercut").read_text()
    lists = dict(re.findall(r'^(packages\w*)="([^"]*)"', text, re.MULTILINE))
    assert tuple(lists["packages"].split()) == NEEDED
    assert tuple(lists["packages_optional"].split()) == OPTIONAL
