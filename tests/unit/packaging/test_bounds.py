# SPDX-License-Identifier: Apache-2.0
"""Both ends of what powercut's dependencies may be.

The lowest versions that pyproject.toml allows get an environment of their own, in which a telling
part of the tests runs: of each dependency the code that uses most of it.  The newest are what a new
.venv gets, so in CI every other test runs with them, the types of numpy among them; the campaign
does the same wherever a .venv has grown old.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from python_script import write_script

from powercut.paths import ROOT

TIMEOUT_S = 900.0

_PAGE = (
    "unit/report/test_certificate_page.py::test_every_cell_has_its_place_and_every_link_its_target"
)
TELLING = {
    "allpairspy": ["property/test_pairwise.py"],
    "click": ["unit/cli/test_cli_presets.py::test_presets_are_listed"],
    "google-crc32c": ["unit/channel/test_channel_wire.py"],
    "jinja2": [_PAGE],
    "numpy": ["unit/crash"],
    "pydantic": ["unit/scenario/test_scenario_load.py", "unit/store"],
    "pytest": ["unit/cli/test_pytest_plugin.py::test_each_cell_is_a_test"],
    "pytest-xdist": [],  # it shares them out
    "qemu.qmp": ["unit/machine/test_machine_hypervisor.py"],
    "rich": ["unit/report/test_report_text.py"],
    "ruamel.yaml": ["unit/scenario/test_scenario_load.py"],
    "zstandard": [
        "unit/recording/test_recordings_bundle.py::test_files_of_equal_content_come_from_one_blob"
    ],
}
"""By dependency, the tests that would fail with a version of it that is too old."""


TOOLS = ("hypothesis", "jsonschema")
"""What those tests import besides."""


def declared() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def name_of(requirement: str) -> str:
    return requirement.partition(">=")[0]


def call(*argv: str | Path) -> None:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        env={name: os.environ[name] for name in os.environ if not name.startswith("PYTEST_")},
    )
    assert done.returncode == 0, f"{shlex.join(map(str, argv))}\n{done.stdout}{done.stderr}"


def environment(folder: Path, *requirements: str) -> Path:
    """The Python of a new environment with `requirements`, and this checkout in it."""
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    call(*pip, "install", "-q", "--no-compile", *requirements, *TOOLS)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "powercut.pth").write_text(f"{ROOT / 'harness'}\n")
    plugin = site / "powercut-0.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: powercut\nVersion: 0\n")
    (plugin / "entry_points.txt").write_text("[pytest11]\npowercut = powercut.pytest_plugin\n")
    script = "from powercut.cli.main import main\nraise SystemExit(main())\n"
    write_script(folder / "bin/powercut", script, python)
    return python


def run_telling(python: Path) -> None:
    paths = dict.fromkeys(f"tests/{path}" for paths in TELLING.values() for path in paths)
    call(python, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", *paths)


def test_every_dependency_has_a_lower_bound_that_is_tested():
    assert all(">=" in requirement for requirement in declared())
    assert sorted(map(name_of, declared())) == sorted(TELLING)


@pytest.mark.nightly
@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="the lowest numpy is one for Python 3.11 and 3.12"
)
def test_the_lowest_versions_will_do(tmp_path):
    lowest = [requirement.replace(">=", "==") for requirement in declared()]
    run_telling(environment(tmp_path / "lowest", *lowest))


@pytest.mark.campaign
def test_the_newest_versions_will_do(tmp_path):
    newest = map(name_of, declared())
    python = environment(tmp_path / "newest", *newest, "mypy")
    call(python.parent / "mypy")
    run_telling(python)
