# SPDX-License-Identifier: Apache-2.0
"""Random workloads: the disk, its snapshot, the log's replay and a model agree byte for byte.

The model is written from the definition (design: issued, durable, survivors), one
sector at a time, and knows neither the plugin's tables nor the reader's.
"""

import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from nbd_client import NbdClient, NbdError
from patience import AMPLE_S
from surviving import surviving_image

from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog import read_timeline
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER

S = 512
SECTORS = 64
SIZE = S * SECTORS

extents = st.tuples(st.integers(0, SECTORS - 1), st.integers(1, 16)).map(
    lambda e: (e[0], min(e[1], SECTORS - e[0]))
)
operations = st.one_of(
    st.tuples(st.just("write"), extents, st.booleans()),
    st.tuples(st.just("write"), extents, st.booleans()),
    st.tuples(st.just("zero"), extents, st.booleans()),
    st.tuples(st.just("trim"), extents, st.booleans()),
    st.tuples(st.just("flush"), st.none(), st.none()),
)
contracts = st.builds(
    DeviceContract,
    volatile_cache=st.sampled_from([True, True, True, False]),
    flush=st.sampled_from(Honour),
    fua=st.sampled_from(Honour),
    atomic_unit=st.sampled_from([1, 512, 4096]),
    cache_size=st.sampled_from([0, 0, 4096, 16384]),
)


class Model:
    """What is in each sector of a disk whose requests come one after the other."""

    def __init__(self, contract, base):
        self.contract = contract
        self.seen = bytearray(base)
        self.medium = bytearray(base)
        self.newest = [-1] * SECTORS  # number of the write that the medium shows
        self.cache = []
        self.number = -1

    def reach_medium(self, write):
        number, first, data = write
        for i in range(len(data) // S):
            if self.newest[first + i] < number:
                self.newest[first + i] = number
                at = (first + i) * S
                self.medium[at : at + S] = data[i * S : i * S + S]

    def write(self, first, data, cost, *, fua):
        self.number += 1
        self.seen[first * S : first * S + len(data)] = data
        write = (self.number, first, data)
        honoured = self.contract.fua is Honour.HONOURED
        if not self.contract.volatile_cache or (fua and honoured):
            self.reach_medium(write)
            return
        self.cache.append((write, cost))
        limit = self.contract.cache_size
        while limit and sum(cost for _, cost in self.cache) > limit:
            self.reach_medium(self.cache.pop(0)[0])

    def flush(self):
        self.number += 1
        if self.contract.flush is Honour.HONOURED:
            for write, _ in self.cache:
                self.reach_medium(write)
            self.cache.clear()


def apply(client, model, number, operation):
    kind, extent, fua = operation
    if kind == "flush":
        client.flush()
        model.flush()
        return
    first, count = extent
    if kind == "write":
        data = np.random.default_rng(number).bytes(count * S)
        client.write(first * S, data, fua=fua)
        model.write(first, data, count * S, fua=fua)
    else:
        (client.zero if kind == "zero" else client.trim)(first * S, count * S, fua=fua)
        model.write(first, bytes(count * S), S, fua=fua)


@settings(max_examples=60, deadline=None)
@given(
    contract=contracts,
    rounds=st.lists(st.lists(operations, max_size=30), min_size=1, max_size=3),
    policy=st.sampled_from(CutPolicy),
    seed=st.integers(0, 2**64 - 1),
)
def test_four_witnesses_agree(contract, rounds, policy, seed):
    folder = Path(tempfile.mkdtemp(prefix="pc-agree-"))
    try:
        agree(folder, contract, rounds, policy, seed)
    finally:
        shutil.rmtree(folder)


def agree(folder, contract, rounds, policy, seed):
    content = np.random.default_rng(0).bytes(SIZE)
    (folder / "base").write_bytes(content)
    config = CaptureConfig(folder / "base", folder / "log0", contract)
    with CaptureDisk(config) as disk:
        for turn, operations in enumerate(rounds):
            model = Model(contract, content)
            with NbdClient(disk.socket) as client:
                for number, operation in enumerate(operations):
                    apply(client, model, 1000 * turn + number, operation)
                assert client.read_all() == model.seen
            disk.snapshot(folder / f"before{turn}")
            assert (folder / f"before{turn}").read_bytes() == model.medium
            disk.cut(policy, seed, folder / f"log{turn + 1}", timeout_s=AMPLE_S)
            timeline = read_timeline(folder / f"log{turn}", verify_payloads=True)
            assert timeline.complete
            assert len(timeline.requests) == len(operations)
            (folder / f"base{turn}").write_bytes(content)
            content = surviving_image(timeline, folder / f"base{turn}").tobytes()
            disk.snapshot(folder / f"after{turn}")
            assert (folder / f"after{turn}").read_bytes() == content
            with NbdClient(disk.socket) as client:
                assert client.read_all() == content
            if policy is CutPolicy.DROP:
                assert content == model.medium
            if policy is CutPolicy.KEEP:
                assert content == model.seen


def hammer(path, seed, connected, stop):
    """Keeps several requests in flight until the power goes."""
    rng = np.random.default_rng(seed)
    with suppress(NbdError, ConnectionError), NbdClient(path) as client:
        connected.wait(timeout=120)
        while not stop.is_set():
            handles = []
            for _ in range(8):
                first = int(rng.integers(0, SECTORS - 8))
                data = rng.bytes(S * int(rng.integers(1, 9)))
                handles.append(
                    client.begin_write(first * S, data, fua=bool(rng.integers(0, 4) == 0))
                )
                if rng.integers(0, 6) == 0:
                    handles.append(client.begin_flush())
            for handle in handles:
                client.finish(handle)


def test_the_log_explains_the_medium_under_concurrency(tmp_path):
    """Cuts in the midst of 3 connections with 8 overlapping requests each in flight."""
    content = np.random.default_rng(1).bytes(SIZE)
    (tmp_path / "base").write_bytes(content)
    contract = DeviceContract(
        cache_size=32 << 10, flush_latency_ns=200_000, fua_latency_ns=50_000, atomic_unit=1
    )
    in_flight = 0
    with CaptureDisk(CaptureConfig(tmp_path / "base", tmp_path / "log0", contract)) as disk:
        for turn in range(20):
            stop, connected = threading.Event(), threading.Barrier(4)
            threads = [
                threading.Thread(target=hammer, args=(disk.socket, 10 * turn + i, connected, stop))
                for i in range(3)
            ]
            for thread in threads:
                thread.start()
            connected.wait(timeout=120)  # who connects after the cut writes to the next log
            while disk.statistics().flushes < 10:
                pass
            policy = list(CutPolicy)[turn % 4]
            disk.cut(policy, turn, tmp_path / f"log{turn + 1}", timeout_s=AMPLE_S)
            stop.set()
            for thread in threads:
                thread.join()
            timeline = read_timeline(tmp_path / f"log{turn}", verify_payloads=True)
            assert timeline.complete
            requests = timeline.requests
            assert {r.request for r in timeline.survived}.isdisjoint(
                r.request for r in timeline.destaged
            )
            in_flight += int((requests.completed_ns == NEVER).sum())
            assert (requests.kind != RequestKind.ZERO).all()
            (tmp_path / "start").write_bytes(content)
            content = surviving_image(timeline, tmp_path / "start").tobytes()
            with NbdClient(disk.socket) as client:
                assert client.read_all() == content
    assert in_flight > 0, "no cut met a request in flight: this tests less than it says"
