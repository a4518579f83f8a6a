# SPDX-License-Identifier: Apache-2.0
"""The history with the pages that it leads to, as a folder that needs nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from certificate_maker import cell_of, certificate_of_cells
from click.testing import CliRunner

from powercut.cli.commands import cli
from powercut.model.verdict import Verdict
from powercut_extras.pages.history_page import _plain


def test_every_link_of_a_published_history_leads_into_its_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        night = tmp_path / f"results/certify/some/2026010{number}T000000Z-1"
        night.mkdir(parents=True)
        made = certificate_of_cells([cell_of("a", Verdict.SAFE)])
        (night / "certificate.json").write_text(made.model_dump_json())
    (night / "certificate.html").write_text("<p>the last one</p>")
    public = tmp_path / "public/nightly"
    also = tmp_path / "history.html"
    words = ["history", str(tmp_path / "results"), "--publish", str(public), "--html", str(also)]
    for _ in range(2):  # a nightly job writes into the same folder again
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
    assert "certify/some/20260102T000000Z-1/certificate.html" in also.read_text()
    page = (public / "index.html").read_text()
    links = [unquote(one) for one in re.findall(r'href="([^"#]+)"', page)]
    assert len(links) == 1
    assert (public / links[0]).resolve().is_relative_to(public)
    assert (public / links[0]).read_text() == "<p>the last one</p>"
    assert "not kept" in page
    files = sorted(one.name for one in public.rglob("*") if one.is_file())
    assert files == ["certificate.html", "index.html"]


def test_a_name_of_a_result_leads_nowhere_else() -> None:
    assert [_plain(one) for one in ("..", "../../etc", "a b/c", "quick", "", "." * 300)] == [
        "_", "__.._etc", "a_b_c", "quick", "_", "_",
    ]  # fmt: skip
