# SPDX-License-Identifier: Apache-2.0
"""The folder of a crash state goes, and nothing that its links lead to is touched."""

from __future__ import annotations

from pathlib import Path

from powercut.recording.folder import remove_tree


def test_what_a_link_leads_to_keeps_its_mode_and_its_files(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").write_text("kept")
    state = tmp_path / "state"
    (state / "locked" / "below").mkdir(parents=True)
    (state / "link").symlink_to(outside)
    (state / "locked" / "below" / "file").write_text("")
    (state / "locked").chmod(0o500)
    remove_tree(state)
    assert not state.exists()
    assert outside.stat().st_mode & 0o777 == 0o755
    assert (outside / "kept").read_text() == "kept"
