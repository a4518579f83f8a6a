# SPDX-License-Identifier: Apache-2.0
"""What `audit syncs` keeps of an interrupted one, and what it says where there is none."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from powercut.model.errors import DamagedRecording, UsageError
from powercut.scenario.program_text import RecordOptions
from powercut.scenario.settings import ProgramSettings
from powercut.store.layout import ResultDir
from powercut_extras.audit.stored_syncs import Noticed, WithoutSync
from powercut_extras.audit.sync_order import SYNC_ORDER, SyncOrder, read_order, write_order
from powercut_extras.audit.syncs_verb import syncs

ORDER = SyncOrder(
    program=ProgramSettings(kind="program", command=("./p", "x y"), folder="/", syncs="traced"),
    record=RecordOptions("xfs", "512MiB", 512, ("-m", "crc=1"), "noatime", 12, 2.5, "40", 60, 120),
    test=("./t",), test_s=60.0, sites_max=24, jobs=2, seed=7, results="r", without="r/p-syncs/1",
    tests={3: WithoutSync(noticed=Noticed.NO, dropped=4, says="passes")},
)  # fmt: skip


def test_what_is_kept_comes_back(tmp_path):
    directory = ResultDir.create(tmp_path, "p", 7)
    write_order(directory, ORDER)
    assert read_order(directory) == ORDER


def test_a_folder_without_one_says_so(tmp_path):
    directory = ResultDir.create(tmp_path, "p", 7)
    with pytest.raises(UsageError, match="no `powercut audit syncs` began here"):
        read_order(directory)
    directory.write_file(SYNC_ORDER, b'{"seed": 1}')
    with pytest.raises(DamagedRecording, match=r"audit-syncs\.json"):
        read_order(directory)


@pytest.mark.parametrize(
    "words", [[], ["--resume", "x", "--", "./p"], ["--resume", "x", "--seed", "1"]]
)
def test_either_a_program_or_a_folder(words):
    done = CliRunner().invoke(syncs, words, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "either a program or --resume DIR" in str(done.exception)
