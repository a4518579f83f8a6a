# SPDX-License-Identifier: Apache-2.0
"""A recording whose every file a stranger may have written is judged or refused."""

from __future__ import annotations

import base64
import copy
import json
import zlib

import numpy as np
import pytest
from hostile import SLICES, fuzz, numbers, survives
from hypothesis import strategies as st
from test_hostile_disk_log import RUN_ID, honest_rows, log_of
from test_hostile_history import chunk, head_of, message

from extras import extra
from powercut.crash.exposure import exposure
from powercut.crash.legality import why_illegal
from powercut.model.errors import DamagedRecording
from powercut.recording import state_ref
from powercut.recording.disk_places import filesystem_of, places_of
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import Parameters
from powercut.store.layout import ResultDir
from powercut.store.manifest import check, seal
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.verdict.judge import judge_recording

RAW = {
    "filesystem": {"type": "raw"},
    "workload": {"layout": "raw", "capacity": 8192},
    "disk": {"atomic_unit": 512},
}


@pytest.fixture
def trial(tmp_path):
    folder = tmp_path / "cells/c/0001"
    folder.mkdir(parents=True)
    record = TrialRecord(
        powercut="0",
        scenario="s",
        cell="c",
        parameters=Parameters.model_validate(RAW),
        trial=Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)),
        run_id=RUN_ID.hex(),
    )
    made = TrialDir(folder, tmp_path)
    made.write_record(record)
    binding = made.read_binding()
    bound = {"binding": np.void(binding.digest), "seed": binding.seed, "cell": b"c"}
    rows, payloads = honest_rows()
    for name in ("disk", "recovery"):
        log_of(folder, rows, payloads=payloads, **bound)
        if name == "recovery":
            break
        for suffix in (".log", ".data"):
            (folder / f"disk{suffix}").rename(folder / f"keep{suffix}")
    for suffix in (".log", ".data"):
        (folder / f"disk{suffix}").rename(folder / f"recovery{suffix}")
        (folder / f"keep{suffix}").rename(folder / f"disk{suffix}")
    (folder / "base.img").write_bytes(bytes(64 << 10))
    acks = b"".join(message(kind, 0, lsn, 1000 + lsn, 0, b"") for lsn in (1, 2) for kind in (3, 4))
    (folder / "history.bin").write_bytes(
        head_of(binding.digest) + chunk(1004, acks) + chunk(1012, b"")
    )
    (folder / "observation.json").write_text(
        json.dumps(
            {"format": "powercut-observation/1", "recovered": True, "complete": True,
             "failure": "", "extents": [[0, 1, "intact", 1, 0]],
             "binding": binding.digest.hex(), "cell": "c", "seed": 1}
        )
    )  # fmt: skip
    return made


def everything(trial):
    """What commands do with a recording that they were given."""
    judge_recording(SealedTrial(trial))
    recording = open_trial(trial)
    exposure(recording.evidence)


def test_the_recording_is_judged(trial):
    result = judge_recording(SealedTrial(trial))
    assert result.commits_acked == 2
    assert [str(span) for span in result.lost_lsns] == ["2"]


values = st.one_of(
    numbers,
    numbers.map(lambda number: -number),
    st.text(max_size=6),
    st.sampled_from([None, True, [], {}, 1.5, "/etc/passwd", "../x", "64 MiB", "9" * 30 + "h"]),
)


def places(value, path=()):
    """The path of every leaf of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list) and inner:
            yield from places(inner, (*path, key))
        else:
            yield (*path, key)


def changed(value, changes):
    made = copy.deepcopy(value)
    for path, new in changes:
        inner = made
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = new
    return made


def each_change(value):
    one = st.tuples(st.sampled_from(sorted(places(value), key=str)), values)
    return st.lists(one, min_size=1, max_size=3)


@pytest.mark.parametrize("name", ["trial.json", "observation.json"])
@pytest.mark.parametrize("examples", SLICES)
def test_any_values_are_judged_or_refused(trial, name, examples):
    path = trial.path / name
    honest = json.loads(path.read_text())

    def look(changes):
        path.write_text(json.dumps(changed(honest, changes)))
        survives(lambda: everything(trial))

    fuzz(each_change(honest), look, examples)


@pytest.mark.parametrize("examples", SLICES)
def test_any_seal_holds_or_is_refused(trial, examples):
    seal(trial.path, ["base.img", "disk.log"])
    path = trial.path / "manifest.json"
    honest = json.loads(path.read_text())

    def look(changes):
        path.write_text(json.dumps(changed(honest, changes)))
        survives(lambda: check(trial.path))

    fuzz(each_change(honest), look, examples)


def test_a_link_in_a_recording_is_refused(trial):
    (trial.path / "base.img").unlink()
    (trial.path / "base.img").symlink_to("/etc/hostname")
    seal(trial.path, ["base.img"])
    with pytest.raises(DamagedRecording, match="is a link"):
        check(trial.path)


@pytest.mark.parametrize("relative", ["../x", "/etc", "cells/../../x", "a\0b"])
def test_results_name_no_folder_outside_of_them(tmp_path, relative):
    with pytest.raises(DamagedRecording, match="outside"):
        ResultDir(tmp_path).at(relative)


STATE = {
    "format": "powercut-state/1",
    "instant": 1010,
    "survivors": [0],
    "torn": [[2, 0, 512]],
    "moves": [[0, 2]],
    "policy": "",
    "again": {"overlay": [[0, base64.b64encode(zlib.compress(b"x" * 512)).decode()]],
              "promised": [[1, 2]], "attempted": 2},
}  # fmt: skip


@pytest.mark.parametrize("examples", SLICES)
def test_any_state_is_one_of_the_recording_s_or_refused(trial, examples):
    recording = open_trial(trial)
    path = trial.path / "state.json"

    def look(changes):
        path.write_text(json.dumps(changed(STATE, changes)))

        def use():
            state = state_ref.load(trial, str(path))
            if not why_illegal(recording.space, state):
                recording.space.image_writes(state)

        survives(use)

    fuzz(each_change(STATE), look, examples)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("moves", 0), [5, 6], "no two in order"),
        (("moves", 0), [1 << 40, 1 << 41], "no two in order"),
        (("again", "overlay", 0, 0), 1 << 40, "do not lie on the disk"),
    ],
)
def test_a_state_of_another_disk_is_none_of_this_one(trial, place, value, says):
    (trial.path / "state.json").write_text(json.dumps(changed(STATE, [(place, value)])))
    state = state_ref.load(trial, str(trial.path / "state.json"))
    assert any(says in problem for problem in why_illegal(open_trial(trial).space, state))


def test_a_state_that_unpacks_without_end_is_refused(tmp_path):
    bomb = base64.b64encode(zlib.compress(bytes(256 << 20), 9)).decode()
    value = changed(STATE, [(("again", "overlay"), [[0, bomb]])])
    (tmp_path / "state.json").write_text(json.dumps(value))
    with pytest.raises(DamagedRecording, match="a piece of more than"):
        state_ref.load(TrialDir(tmp_path, tmp_path), str(tmp_path / "state.json"))


@pytest.mark.parametrize("examples", SLICES)
def test_any_superblock_names_places_or_none(tmp_path, examples):
    path = tmp_path / "image"
    size = 128 << 10
    magics = [(0, b"XFSB"), (1080, b"\x53\xef"), ((64 << 10) + 64, b"_BHRfS_M")]

    def look(case):
        (at, magic), changes = case
        image = bytearray(size)
        image[at : at + len(magic)] = magic
        start = {0: 0, 1080: 1024}.get(at, 64 << 10)
        for offset, data in changes:
            image[start + offset : start + offset + len(data)] = data
        image[at : at + len(magic)] = magic
        path.write_bytes(bytes(image[:size]))
        filesystem_of(path)
        found = survives(lambda: places_of(path))
        if found is not None:
            survives(lambda: found.parts(0, bytes(image[:8192])))

    words = st.one_of(
        st.binary(min_size=1, max_size=8),
        numbers.map(lambda number: (number % (1 << 64)).to_bytes(8, "big")),
        numbers.map(lambda number: (number % (1 << 32)).to_bytes(4, "little")),
    )
    changes = st.lists(st.tuples(st.integers(0, 2048), words), max_size=12)
    fuzz(st.tuples(st.sampled_from(magics), changes), look, examples)


@pytest.mark.parametrize("examples", SLICES)
def test_any_signature_is_told_of(tmp_path, examples):
    signature = extra("certify.signature")

    def look(blob):
        text = base64.b64encode(b"SSHSIG" + blob).decode()
        armour = ("-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----")
        (tmp_path / signature.SIGNATURE).write_text(f"{armour[0]}\n{text}\n{armour[1]}\n")
        survives(lambda: signature.read_signature(tmp_path))

    fuzz(st.binary(max_size=64), look, examples)
