# SPDX-License-Identifier: Apache-2.0
"""`powercut reproduce FINDING`: the script beside a page, written out and run."""

from __future__ import annotations

import ast
import shutil
import subprocess

import pytest
from click.testing import CliRunner
from findings_pages import pages

from powercut.cli.commands import cli
from powercut.model.errors import HostError, UsageError
from powercut.recover.uml.boot import xstate_library
from powercut.recover.uml.kernel import host_kernel
from powercut_extras.reproduce import finding

SAYS = "import sys\nfrom helper import STATUS\nprint('what it saw')\nsys.exit(STATUS)\n"


def reproduced(*words):
    return CliRunner().invoke(cli, ["reproduce", *words], standalone_mode=False)


@pytest.fixture
def findings(tmp_path, monkeypatch):
    """A folder of one finding whose script ends with what the helper says."""
    folder = tmp_path / "findings"
    folder.mkdir()
    (folder / "some-loss.md").write_text("a page")
    (folder / "some-loss.py").write_text(SAYS)
    (folder / "no-script.md").write_text("a page")
    (folder / "other.py").write_text("another finding's")
    (folder / "helper.py").write_text("STATUS = 1\n")
    monkeypatch.setattr(finding, "FINDINGS", folder)
    return folder


def test_a_finding_is_written_out_with_its_helpers_and_run(findings, tmp_path):
    done = reproduced("some-loss", "-o", str(tmp_path / "out"))
    assert done.return_value == 0, done.output
    assert "what it saw" in done.output
    assert "some-loss: the fault is there" in done.output
    written = {path.name for path in (tmp_path / "out").iterdir()} - {"__pycache__"}
    assert written == {"some-loss.py", "some-loss.md", "helper.py"}


def test_a_fault_that_is_not_there_is_no_success(findings):
    (findings / "helper.py").write_text("STATUS = 0\n")
    done = reproduced("some-loss")
    assert done.return_value == 1
    assert "the fault is not there" in done.output


@pytest.mark.parametrize(("status", "why"), [(77, "something is missing"), (3, "exit status 3")])
def test_a_script_that_could_not_look_says_nothing_of_the_fault(findings, status, why):
    (findings / "helper.py").write_text(f"STATUS = {status}\n")
    done = reproduced("some-loss")
    assert isinstance(done.exception, HostError)
    assert why in str(done.exception)


def test_a_name_without_a_script_is_refused(findings):
    assert "no script" in str(reproduced("no-script").exception)
    unknown = reproduced("nothing-like-it").exception
    assert isinstance(unknown, UsageError)
    assert "some-loss" in (unknown.hint or "")


def test_a_recording_needs_a_folder(tmp_path):
    assert "-o FOLDER" in str(reproduced(str(tmp_path)).exception)


def test_a_script_that_needs_root_runs_in_user_mode_linux(findings):
    (findings / "some-loss.py").unlink()
    (findings / "some-loss.sh").write_text("# sh in-uml.sh some-loss.sh\n")
    (findings / "in-uml.sh").write_text(
        'echo "booted for ${1##*/} by $UML with $UML_PRELOAD"; exit 1\n'
    )
    told = f"booted for some-loss.sh by {host_kernel().program} with {xstate_library()}"
    assert told in reproduced("some-loss").output.replace("\n", " ")


def test_every_script_of_a_page_is_found_and_can_be_read():
    named = {page.path.stem: page.reproduction for page in pages() if page.reproduction}
    assert {name: path.name for name, path in finding.scripts().items()} == named
    for script in finding.scripts().values():
        for path in finding.files_of(script):
            if path.suffix == ".py":
                ast.parse(path.read_text(), str(path))
            elif path.suffix in (".sh", ".lib"):
                done = subprocess.run([shutil.which("sh"), "-n", path], check=False)
                assert done.returncode == 0, path
