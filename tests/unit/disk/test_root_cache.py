# SPDX-License-Identifier: Apache-2.0
"""Which root file systems stay in the cache: by their last use, and up to a bound."""

import os

import pytest
from click.testing import CliRunner

from powercut.cli.cache import cache
from powercut.disk import root_cache
from powercut.disk.root_cache import IN_USE_S, cached_roots, packages_size, prune

KIB = 1 << 10
NOW = 1_500_000_000.0


def entry(folder, name: str, age_s: float, *, kib: int = 64, as_folder: bool = False):
    path = folder / name
    if as_folder:
        path.mkdir(parents=True)
        (path / "file").write_bytes(os.urandom(kib * KIB))
    else:
        folder.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(kib * KIB))
    os.utime(path, (NOW - age_s, NOW - age_s))
    return path


@pytest.fixture
def roots(tmp_path, monkeypatch):
    """Room for two of them."""
    monkeypatch.setattr(root_cache, "KEPT_BYTES", 150 * KIB)
    return tmp_path / "roots"


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_those_unused_for_the_longest_time_go_first(roots):
    entry(roots, "old.img", 9 * IN_USE_S)
    entry(roots, "older", 10 * IN_USE_S, as_folder=True)
    entry(roots, "new.img", 2 * IN_USE_S)
    assert [one.path.name for one in cached_roots(roots)] == ["older", "old.img", "new.img"]
    assert prune(roots, now_s=NOW) == 64 * KIB
    assert names(roots) == {"old.img", "new.img"}
    assert prune(roots, now_s=NOW) == 0


def test_what_is_in_use_and_the_packages_stay_whatever_they_take(roots):
    for number in range(4):
        entry(roots, f"used{number}.img", IN_USE_S / 2)
    entry(roots, "kept.img", 3 * IN_USE_S)
    entry(roots, "packages", 30 * IN_USE_S, as_folder=True, kib=512)
    entry(roots, ".new-1", 30 * IN_USE_S, as_folder=True)
    before = names(roots)
    assert prune(roots, keep=roots / "kept.img", now_s=NOW) == 0
    assert names(roots) == before
    assert prune(roots, now_s=NOW) == 64 * KIB
    assert names(roots) == before - {"kept.img"}


def test_on_a_new_host_there_is_nothing(roots):
    assert (list(cached_roots(roots)), packages_size(roots), prune(roots, now_s=NOW)) == ([], 0, 0)


def test_a_person_sees_them_and_drops_them(tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.paths.CACHE", tmp_path)
    entry(tmp_path / "roots", "0123456789abcdef.img", 10 * IN_USE_S, kib=2048)
    (tmp_path / "roots/packages").mkdir()
    shown = CliRunner().invoke(cache, standalone_mode=False).output
    assert "2.0 MiB  used 2017-07-04 02:40 UTC  image 0123456789ab\n" in shown
    assert "kept: 2.0 MiB of root file systems\n" in shown
    dropped = CliRunner().invoke(cache, ["--drop-roots", "0s"], standalone_mode=False).output
    assert "kept: 0.0 MiB of root file systems; dropped: 2.0 MiB\n" in dropped
    assert names(tmp_path / "roots") == {"packages"}


def test_what_a_killed_process_left_goes_and_what_is_being_made_stays(tmp_path):
    left = entry(tmp_path, ".new-left", 3600, as_folder=True)
    (left / "files").mkdir(mode=0o500)
    os.utime(left, (NOW - 3600, NOW - 3600))
    young = entry(tmp_path, ".new-young", 1, as_folder=True)  # made, and not locked yet
    (tmp_path / ".new-link").symlink_to(tmp_path)
    with root_cache.unfinished(tmp_path) as making:
        os.utime(making, (NOW - 3600, NOW - 3600))
        root_cache.drop_unfinished(tmp_path, now_s=NOW)
        assert names(tmp_path) == {young.name, making.name, ".new-link"}
    assert names(tmp_path) == {young.name, ".new-link"}
