# SPDX-License-Identifier: Apache-2.0
"""Crash states of captured folders: found, minimised to the forgotten sync, written and entered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captured_here import (
    captured,
    one_file,
    refused,
    status,
    two_files,
)

from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.recording import state_ref
from powercut.store.folder import CaptureDir
from powercut.store.witness import Witness, read_witness
from powercut_extras.pages.browse import answer

pytestmark = pytest.mark.fuse

SAFE, LOSSY, UNTRIED = 0, 1, 3


def witness_of(directory: CaptureDir, *words: object) -> Witness:
    assert status("minimize", directory.path, *words) == 0
    witness = read_witness(directory.path)
    assert witness is not None
    return witness


def test_the_write_and_the_file_whose_sync_was_forgotten(tmp_path: Path) -> None:
    directory = two_files(tmp_path, "forgets")
    assert directory.read_result().verdict.name == "LOSSY"
    witness = witness_of(directory)
    (lost,) = witness.dropped
    assert (lost.kind, lost.path, lost.dropped) == ("write", "index", ((44, 48),))
    assert lost.why == "no sync of index came after it; the syncs that came were of values"
    assert [str(span) for span in witness.lost] == ["12"]
    assert witness.minimal
    page = (directory.path / "report.html").read_text()
    assert "bytes 44 to 47 of index" in page
    link = f"capture/{directory.path.name}/report.html"
    served = answer(tmp_path, link)
    assert served is not None
    assert served.kind == "text/html; charset=utf-8"
    asks_the_server = ((' data-windows="window.json"', ""), ("connect-src &#39;self&#39;; ", ""))
    same = served.body.decode()
    for part, without in asks_the_server:
        assert part in same
        same = same.replace(part, without)
    assert same == page

    state, out = witness.state, tmp_path / "state"
    assert status("export", directory.path, state, "--format", "state", "-o", out) == 0
    assert (out / "values").read_text().endswith(" 12\n")
    assert (out / "index").read_bytes()[40:] == b" 40\n\0\0\0\0"
    assert "exists already" in refused(
        UsageError, "export", directory.path, state, "--format", "state", "-o", out
    )
    folder = tmp_path / "folder"
    script = f"cmp {out}/index {folder}/index && echo gone > {folder}/values"
    assert status("shell", directory.path, state, "--no-terminal", typed=script) == 0
    assert (folder / "values").read_text().endswith(" 12\n"), "the folder itself is untouched"

    bundle, unpacked = tmp_path / "finding.pcb", tmp_path / "unpacked"
    assert status("export", directory.path, "-o", bundle) == 0
    assert status("verify", bundle) == UNTRIED
    assert status("verify", bundle, "--run-check") == LOSSY
    assert status("import", bundle, "-o", unpacked) == 0
    assert read_witness(CaptureDir(unpacked).path) == witness
    assert status("verify", unpacked) == UNTRIED
    assert status("verify", unpacked, "--run-check") == LOSSY


def test_the_twin_that_syncs_both_has_no_witness(tmp_path: Path) -> None:
    directory = two_files(tmp_path, "honest")
    assert directory.read_result().verdict.name == "SAFE"
    assert "no loss is known" in refused(UsageError, "minimize", directory.path)
    explored = ["explore", directory.path, "--budget", "60", "--jobs", "2"]
    assert status(*explored, "--policy", "all-but-one", "--policy", "torn") == SAFE
    result = directory.find_exploration()
    assert result is not None
    assert result.explored.policies == ("all-but-one", "torn")
    assert "says nothing of a captured folder" in refused(
        UsageError, "explore", directory.path, "--engine", "raw"
    )


@pytest.mark.parametrize(
    ("way", "promise", "kind", "text"),
    [
        ("replace-name-unsynced", "journal", "name", "the renaming of log.new to log"),
        ("replace-name-unsynced", "posix", "name", "the renaming of log.new to log"),
        ("append-name-unsynced", "posix", "name", "the creation of log"),
        ("append-last-unsynced", "journal", "write", "bytes 44 to 47 of log"),
        ("replace-contents-unsynced", "journal", "write", "bytes 0 to"),
    ],
)
def test_what_is_lost_by_a_change_of_names(
    tmp_path: Path, way: str, promise: str, kind: str, text: str
) -> None:
    witness = witness_of(one_file(tmp_path, way, promise))
    (lost,) = witness.dropped
    assert (lost.kind, witness.promise) == (kind, promise)
    assert lost.text.startswith(text)
    assert lost.why.startswith("no sync of ")


def test_states_that_are_none_of_this_recording(tmp_path: Path) -> None:
    """Among them one in which a change of names is there without the one before it."""
    directory = one_file(tmp_path, "replace-name-unsynced", "journal")
    witness = witness_of(directory, "durable@cut")
    (lost,) = witness.dropped
    name = witness.state
    value = state_ref.read_file(state_ref.path_of(directory, name))
    found = tmp_path / "state.json"

    def resolved(**changes: object) -> str:
        found.write_text(json.dumps(value | changes))
        return refused(
            DamagedRecording,
            "export",
            directory.path,
            found,
            "--format",
            "state",
            "-o",
            tmp_path / "out",
        )

    assert "is durable and needs no mention" in resolved(survivors=[0])
    assert "is no write issued before" in resolved(survivors=[10**6])
    assert "no state of such a recording" in resolved(promise="none")
    cell = [lost.request, 0, 512]
    assert "tears at" in resolved(survivors=[lost.request], torn=[cell])
    said = refused(UsageError, "minimize", directory.path, name, "--promise", "posix")
    assert "is one of the promise journal" in said
    assert "lies after the cut" in refused(
        UsageError,
        "export",
        directory.path,
        "durable@1000s",
        "--format",
        "state",
        "-o",
        tmp_path / "out",
    )
    for state in ("durable@0", "everything@-1000s"):
        assert "lies before power-on" in refused(
            UsageError,
            "export",
            directory.path,
            state,
            "--format",
            "state",
            "-o",
            tmp_path / "out",
        )
    assert "never acknowledged" in refused(
        UsageError, "export", directory.path, "ack:13", "--format", "state", "-o", tmp_path / "out"
    )
    assert not (tmp_path / "out").exists()


def test_a_check_that_has_changed_is_not_asked(tmp_path: Path) -> None:
    directory = one_file(tmp_path, "append", "journal")
    (tmp_path / "check.py").write_text("")
    for command in ("verify", "explore", "minimize"):
        assert "has changed since" in refused(HostError, command, directory.path)


def test_nothing_that_is_written_out_is_setuid(tmp_path: Path) -> None:
    """A recording may be a stranger's: root would give its program to all users of the host."""
    folder = tmp_path / "folder"
    program = (
        "import os, sys; os.chdir(sys.argv[1]); os.umask(0o22); os.mkdir('d', 0o1755); "
        "f = os.open('p', os.O_CREAT | os.O_WRONLY, 0o6755); os.write(f, b'x'); os.fsync(f); "
        "os.fsync(os.open('.', os.O_RDONLY)); os.write(3, b'? 1\\n+ 1\\n')"
    )
    check = ["-c", "import os; os.write(int(os.environ['POWERCUT_FD']), b'= 1\\n')"]
    directory = captured(tmp_path, check, ["-c", program, str(folder)], "--budget", "2")
    out = tmp_path / "out"
    assert status("export", directory.path, "everything@cut", "--format", "state", "-o", out) == 0
    modes = {path.name: path.stat().st_mode & 0o7777 for path in out.iterdir()}
    assert modes == {"d": 0o755, "p": 0o755}
