# SPDX-License-Identifier: Apache-2.0
"""What of a folder goes along with a program, and by which digest a recording knows it again."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from functools import partial
from pathlib import Path

import pytest

from powercut.brought import brought, mark_results
from powercut.disk.root_image import (
    ensure_program_image,
    ensure_root_folder,
    ensure_root_image,
)
from powercut.model.errors import HostError
from powercut.rig import rig
from powercut.rig.program_files import _of_folder, program_files
from powercut.rig.rig import require_recorded_program
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.layout import ResultDir
from powercut_extras.elsewhere.channel import _packed


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in brought(folder)}


def in_tar(folder: Path) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(_packed(folder)))) as tar:
        return set(tar.getnames())


def program(folder: Path) -> Path:
    """What a user has beside a program."""
    (folder / "parts/empty").mkdir(parents=True)
    (folder / "prog").write_text("#!/bin/sh\n")
    (folder / "prog").chmod(0o755)
    (folder / "parts/table").write_text("1")
    (folder / "also").symlink_to("prog")
    return folder


PROGRAM = {"prog", "parts", "parts/empty", "parts/table", "also"}


@pytest.mark.parametrize("results", ["results", "deep/er/results", "."])
def test_results_stay(tmp_path, results):
    folder = program(tmp_path / "mine")
    before = ensure_program_image(folder, tmp_path / "cache").sha256
    run = ResultDir.create(folder / results, "renames", 1)
    (run.trial("a", 1).path / "disk.log.data").write_bytes(bytes(4096))
    (run.path.parent.parent / "history.html").write_text("of all of them")
    there = {"history.html"} if results == "." else set()
    assert files(folder) == in_tar(folder) == PROGRAM | there
    if not there:
        ensure_program_image.cache_clear()
        assert ensure_program_image(folder, tmp_path / "cache").sha256 == before


def test_what_is_no_result_goes_along(tmp_path):
    """Also what lies beside results in a folder of the user's."""
    folder = program(tmp_path)
    (folder / "src").mkdir()
    (folder / "src/one.py").write_text("")
    ResultDir.create(folder, "src", 1)
    mark_results(folder)  # whoever brings a folder of results means it
    assert files(folder) == in_tar(folder) == PROGRAM | {"src", "src/one.py"}


def test_records_of_a_checkout_and_compiled_modules_stay(tmp_path):
    folder = program(tmp_path)
    for name in (".git", "parts/.git", "__pycache__", "parts/__pycache__"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("")
    assert files(folder) == in_tar(folder) == PROGRAM | {"parts/.git", "parts/.git/x"}


def test_an_empty_folder_is_packed(tmp_path):
    assert in_tar(tmp_path) == set()


@pytest.mark.parametrize("ensure", [ensure_program_image, ensure_root_folder, ensure_root_image])
def test_a_copy_has_the_same_digest(tmp_path, ensure):
    cache, one = tmp_path / "cache", program(tmp_path / "one")
    two = shutil.copytree(one, tmp_path / "two", symlinks=True)
    for path in (two, *two.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o020)  # another umask
        os.utime(path, (1, 1), follow_symlinks=False)
    assert ensure(one, cache) == ensure(two, cache)
    for change in (
        lambda folder: (folder / "parts/table").write_text("2"),
        lambda folder: (folder / "prog").chmod(0o644),
        lambda folder: (folder / "more").touch(),
        lambda folder: (folder / "parts/empty").rmdir(),
    ):
        other = shutil.copytree(one, tmp_path / "other", symlinks=True)
        change(other)
        ensure.cache_clear()
        assert ensure(other, cache).sha256 != ensure(one, cache).sha256
        shutil.rmtree(other)


def test_files_in_a_root_have_one_time(tmp_path):
    root = ensure_root_folder(program(tmp_path / "one"), tmp_path / "cache")
    assert (root.path / "prog").stat().st_mtime == 946_684_800


def folder_of_program(folder: Path) -> Path:
    folder.mkdir()
    (folder / "test.sh").write_text("one")
    (folder / "test.sh").chmod(0o755)
    for path in (folder / "test.sh", folder):
        os.utime(path, (0, 0))
    return folder


@pytest.fixture
def cell(tmp_path, monkeypatch):
    """A cell with a root that is a tar, and the program's folder of `folder_of_program`."""
    folder = folder_of_program(tmp_path / "mine")
    with tarfile.open(tmp_path / "mine.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("lib"))
    monkeypatch.setattr(rig, "Rig", partial(rig.Rig, tmp_path / "cache"))
    settings = ProgramSettings(
        kind="program",
        command=("./test.sh",),
        root=str(tmp_path / "mine.tar"),
        folder=str(folder),
    )
    return Parameters(workload=settings), folder


def test_a_recording_is_known_again_or_refused(cell, tmp_path):
    parameters, folder = cell
    cache = tmp_path / "cache"
    versions = {
        "root_sha256": ensure_root_image(tmp_path / "mine.tar", cache).sha256,
        "program_folder_sha256": ensure_program_image(folder, cache).sha256,
    }
    require_recorded_program(parameters, versions, {})
    ResultDir.create(folder / "results", "renames", 1)
    forget()
    require_recorded_program(parameters, versions, {})
    for key in versions:
        with pytest.raises(HostError, match="has changed since the recording"):
            require_recorded_program(parameters, versions | {key: "0" * 64}, {})
    with pytest.raises(HostError, match="has changed since the recording"):
        require_recorded_program(parameters, {}, {})
    (folder / "test.sh").write_text("two")
    forget()
    with pytest.raises(HostError, match="has changed since the recording"):
        require_recorded_program(parameters, versions, {})


def test_of_a_folder_those_that_changed_are_named(cell, tmp_path):
    """A handful of them: changed, new, gone, no longer executable; of links where they lead."""
    parameters, folder = cell
    for name in ("a", "b", "c", "d", "e", "f", "same"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to("a")
    forget()
    kept = program_files(parameters)
    versions = {
        "root_sha256": ensure_root_image(tmp_path / "mine.tar", tmp_path / "cache").sha256,
        "program_folder_sha256": ensure_program_image(folder, tmp_path / "cache").sha256,
    }
    require_recorded_program(parameters, versions, kept)
    (folder / "test.sh").chmod(0o644)
    forget()
    with pytest.raises(HostError, match=r"recording was made: test\.sh differs$"):
        require_recorded_program(parameters, versions, kept)
    (folder / "a").unlink()
    (folder / "new").write_text("")
    (folder / "link").unlink()
    (folder / "link").symlink_to("b")
    for name in ("b", "c", "d"):
        (folder / name).write_text("another")
    forget()
    told = "a is gone; b differs; c differs; d differs; link differs; and 2 more"
    with pytest.raises(HostError, match=f"recording was made: {told}$"):
        require_recorded_program(parameters, versions, kept)


def forget() -> None:
    """What this process has seen of folders that are about to change."""
    for each in (ensure_program_image, ensure_root_image, ensure_root_folder):
        each.cache_clear()
    _of_folder.cache_clear()


@pytest.fixture(autouse=True)
def _forget():
    forget()
    yield
    forget()
