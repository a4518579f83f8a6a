# SPDX-License-Identifier: Apache-2.0
"""What a root was made from, for a reader."""

from pathlib import Path

from powercut.rig.unpacked import _versions_of


def test_versions_are_told_as_apt_writes_them():
    files = [Path("postgresql_15%2b248_all.deb"), Path("libc6_2.36-9_amd64.deb")]
    assert _versions_of(files, ["postgresql"]) == "postgresql 15+248"
