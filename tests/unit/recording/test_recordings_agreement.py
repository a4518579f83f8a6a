# SPDX-License-Identifier: Apache-2.0
"""Two readers of one log: our states, and the live disk's image at each of its snapshots."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbd_client import NbdClient
from patience import AMPLE_S
from recordings_by_hand import recording_of

from powercut.crash.legality import why_illegal
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog import read_timeline
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.paths import CAPTURE_PLUGIN
from powercut.recording.materialize import materialize
from powercut.recording.state_names import resolve_state
from powercut.witness.search import items_of, state_of

S = 512
SECTORS = 64
SIZE = S * SECTORS

extents = st.tuples(st.integers(0, SECTORS - 1), st.integers(1, 16)).map(
    lambda e: (e[0] * S, min(e[1], SECTORS - e[0]) * S)
)
operations = st.one_of(
    st.tuples(st.sampled_from(["write", "write", "zero", "trim"]), extents, st.booleans()),
    st.tuples(st.sampled_from(["flush", "snapshot"]), st.just((0, 0)), st.just(False)),
)
contracts = st.builds(
    DeviceContract,
    volatile_cache=st.sampled_from([True, True, True, False]),
    flush=st.sampled_from(Honour),
    fua=st.sampled_from(Honour),
    atomic_unit=st.sampled_from([1, 512, 4096]),
    cache_size=st.sampled_from([0, 0, 4096, 16384]),
)


@pytest.fixture(autouse=True)
def _disk() -> None:
    if shutil.which("nbdkit") is None or not CAPTURE_PLUGIN.exists():
        pytest.skip("the capture disk cannot run; `powercut doctor` says why")


@settings(max_examples=60, deadline=None)
@given(
    contract=contracts,
    operations=st.lists(operations, max_size=40),
    policy=st.sampled_from(CutPolicy),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_snapshot_is_a_state_byte_for_byte(contract, operations, policy, seed) -> None:
    folder = Path(tempfile.mkdtemp(prefix="pc-states-"))
    try:
        _agree(folder, contract, operations, policy, seed)
    finally:
        shutil.rmtree(folder)


def _agree(folder: Path, contract, operations, policy, seed) -> None:
    content = np.random.default_rng(0).bytes(SIZE)
    (folder / "base").write_bytes(content)
    snapshots = 0
    with CaptureDisk(CaptureConfig(folder / "base", folder / "log", contract)) as disk:
        with NbdClient(disk.socket) as client:
            for number, (kind, (offset, length), fua) in enumerate(operations):
                match kind:
                    case "write":
                        client.write(offset, np.random.default_rng(number).bytes(length), fua=fua)
                    case "zero":
                        client.zero(offset, length, fua=fua)
                    case "trim":
                        client.trim(offset, length, fua=fua)
                    case "flush":
                        client.flush()
                    case _:
                        disk.mark(f"snapshot {snapshots}")
                        disk.snapshot(folder / f"snapshot{snapshots}")
                        snapshots += 1
        disk.cut(policy, seed, None, timeout_s=AMPLE_S)
        disk.snapshot(folder / "after")
    timeline = read_timeline(folder / "log", verify_payloads=True)
    recording = recording_of(folder / "recording", timeline, [], content)
    wanted = [(f"medium@{int(at)}", f"snapshot{n}") for n, (at, _) in enumerate(timeline.marks)]
    assert len(wanted) == snapshots
    for name, expected in [*wanted, ("cut", "after")]:
        state = resolve_state(recording, name)
        path = folder / f"ours-{expected}"
        materialize(recording, state, path)
        assert path.read_bytes() == (folder / expected).read_bytes(), name
        assert why_illegal(recording.space, state) == [] or contract.ordered
        # What a witness search makes of the state is the same disk.
        again = state_of(recording.space, state.instant, items_of(recording.space, state))
        materialize(recording, again, path, force=True)
        assert path.read_bytes() == (folder / expected).read_bytes(), name
