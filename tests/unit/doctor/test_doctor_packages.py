# SPDX-License-Identifier: Apache-2.0
"""Which packages `doctor --packages` names: what apt does not offer would fail apt-get install."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.doctor.packages import KEYRING, NEEDED, OPTIONAL, install, installable, missing
from powercut.model.errors import HostError

POLICY = """#!/bin/sh
shift
for name in "$@"; do
    version=1.0
    [ "$name" != user-mode-linux ] || version="(none)"
    [ "$name" != bubblewrap ] || continue
    printf '%s:\\n  Installed: (none)\\n  Candidate: %s\\n' "$name" "$version"
done
"""


@pytest.fixture
def apt_cache(monkeypatch: pytest.MonkeyPatch, on_path: Path) -> Path:
    monkeypatch.setenv("PATH", f"{on_path}:/bin:/usr/bin")
    return on_path / "apt-cache"


def test_an_optional_package_that_apt_does_not_offer_is_left_out(apt_cache: Path) -> None:
    apt_cache.write_text(POLICY)
    apt_cache.chmod(0o755)
    names, lacking = installable()
    assert lacking == ["user-mode-linux", "bubblewrap"]
    assert names == [*(one for one in (*NEEDED, *OPTIONAL) if one not in lacking), KEYRING]


def test_an_apt_without_lists_is_asked_for_all(apt_cache: Path) -> None:
    apt_cache.write_text("#!/bin/sh\nexit 0\n")
    apt_cache.chmod(0o755)
    assert installable() == ([*NEEDED, *OPTIONAL], [])


def test_a_host_without_apt_gets_the_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installable() == ([*NEEDED, *OPTIONAL], [])


def dpkg_query(folder: Path, *lacking: str) -> None:
    """One that knows every package but these."""
    there = [name for name in (*NEEDED, *OPTIONAL, KEYRING) if name not in lacking]
    lines = "".join(f"echo {name} installed\n" for name in there)
    (folder / "dpkg-query").write_text(f"#!/bin/sh\n{lines}echo {lacking[0]} not-installed\n")
    (folder / "dpkg-query").chmod(0o755)


def test_all_that_is_missing_is_named_at_once(apt_cache: Path) -> None:
    apt_cache.write_text(POLICY)
    apt_cache.chmod(0o755)
    dpkg_query(apt_cache.parent, "nbdkit", "btrfs-progs", "bubblewrap")
    assert missing() == ["nbdkit", "btrfs-progs"]


def test_what_is_missing_is_installed_once_it_is_asked_for(
    apt_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt_cache.write_text(POLICY)
    apt_cache.chmod(0o755)
    dpkg_query(apt_cache.parent, "nbdkit", "btrfs-progs")
    for name in ("apt-get", "sudo"):
        command = apt_cache.with_name(name)
        command.write_text(f'#!/bin/sh\necho "$@" >>{apt_cache.parent}/asked\n')
        command.chmod(0o755)
    monkeypatch.setattr("powercut.doctor.packages._LISTS", apt_cache.parent / "no-lists")
    install()
    asked = (apt_cache.parent / "asked").read_text().splitlines()
    assert [line.removeprefix("apt-get ") for line in asked] == [
        "-q update",
        "-q -y install --no-install-recommends nbdkit btrfs-progs",
    ]
    apt_cache.with_name("apt-get").write_text("#!/bin/sh\nexit 100\n")
    apt_cache.with_name("sudo").write_text("#!/bin/sh\nexit 100\n")
    with pytest.raises(HostError, match="status 100"):
        install()


def test_without_an_optional_package_nothing_is_said(apt_cache: Path) -> None:
    apt_cache.write_text(POLICY)
    apt_cache.chmod(0o755)
    dpkg_query(apt_cache.parent, "btrfs-progs")
    assert missing() == []
