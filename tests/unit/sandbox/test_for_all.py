# SPDX-License-Identifier: Apache-2.0
"""Whether every user may read a file by the name that it is called by."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from powercut.sandbox.users import for_all


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with `open/file`, which all may read, and `closed`, which its owner may enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # pytest's own is closed to others
        place = Path(name)
        place.chmod(0o755)
        for folder, mode in (("open", 0o755), ("closed", 0o700)):
            (place / folder).mkdir()
            (place / folder).chmod(mode)
            (place / folder / "file").write_text("")
            (place / folder / "file").chmod(0o644)
        yield place


def test_a_file_in_an_open_folder_is_for_all_and_one_in_a_closed_one_is_not(place: Path):
    assert for_all([place / "open/file"])
    assert not for_all([place / "closed/file"])
    assert not for_all([place / "open/file", place / "closed/file"])
    (place / "open/file").chmod(0o640)
    assert not for_all([place / "open/file"])


@pytest.mark.parametrize("relative", [False, True])
def test_a_link_in_a_closed_folder_is_not_for_all_whatever_it_leads_to(place: Path, relative: bool):
    """Such as the Python of a virtual environment below the home of root."""
    target = "../open/file" if relative else place / "open/file"
    (place / "closed/link").symlink_to(target)
    assert (place / "closed/link").resolve() == place / "open/file"
    assert not for_all([place / "closed/link"])


def test_a_link_through_a_closed_folder_is_not_for_all(place: Path):
    """Its first and its last folder are open, and one between them is not."""
    (place / "closed/link").symlink_to("../open")
    (place / "open/through").symlink_to(place / "closed/link")
    assert not for_all([place / "open/through/file"])


def test_a_link_to_a_closed_folder_is_not_for_all_and_an_open_chain_is(place: Path):
    (place / "open/in").symlink_to("../closed/file")
    assert not for_all([place / "open/in"])
    (place / "open/1").symlink_to("2")
    (place / "open/2").symlink_to(f"{place}/open/../open/file")
    assert for_all([place / "open/1"])


def test_what_is_missing_is_missing_whoever_looks(place: Path):
    assert for_all([place / "closed/none"])
    (place / "open/loop").symlink_to("loop")
    assert for_all([place / "open/loop"])


def test_a_socket_is_for_all_that_may_write_to_it(place: Path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "open/socket"))
        (place / "open/socket").chmod(0o755)
        assert not for_all([place / "open/socket"])
        (place / "open/socket").chmod(0o777)
        assert for_all([place / "open/socket"])
