# SPDX-License-Identifier: Apache-2.0
"""What `show` and `verify` take a path for."""

from __future__ import annotations

import pytest

from powercut.campaign.bundle_file import MAGIC
from powercut.cli.lookup import Evidence, evidence_of


@pytest.mark.parametrize(
    ("files", "given", "kind"),
    [
        (["capture.json"], "", Evidence.CAPTURE),
        (["import.json"], "", Evidence.IMPORT),
        (["scenario.yaml", "verdict.json"], "", Evidence.RESULT),
        (["scenario.yaml", "verdict.json"], "verdict.json", Evidence.RESULT),
        (["certificate.json"], "", Evidence.CERTIFICATE),
        (["certificate.json"], "certificate.json", Evidence.CERTIFICATE),
        (["mine.json"], "mine.json", Evidence.CERTIFICATE),
        (["latest/certificate.json"], "", Evidence.CERTIFICATE),
        (["latest/scenario.yaml"], "", Evidence.RESULT),
        (["found.powercut"], "found.powercut", Evidence.BUNDLE),
        ([], "nowhere", Evidence.RESULT),
    ],
)
def test_a_path_is_told_by_what_lies_there(tmp_path, files, given, kind):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(MAGIC if name.endswith(".powercut") else b"{}")
    assert evidence_of(tmp_path / given) is kind
