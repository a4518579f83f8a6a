# SPDX-License-Identifier: Apache-2.0
"""Overlays whose copy-on-write loses data, and one whose does not: exact records, without a guest.

The records go through QEMU's own driver into an overlay over a backing image that holds an earlier
log.  A planted writer does what a driver with that fault would do to each cluster.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from powercut.checkers.wal import check_log
from powercut.disk.backing import EARLIER_RUN, NAME, backing_of, ensure_backing_image
from powercut.disk.image_format import ensure_formatted_image
from powercut.model.errors import DamagedRecording
from powercut.model.machine import BackingImage
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.rig import commands
from powercut.rig.host_reader import read_on_host
from powercut.scenario.settings import Parameters
from powercut.wal.record import record_bytes

RUN = bytes(range(16))
RECORD = 4096
CLUSTER = 1 << 16
IN_CLUSTER = CLUSTER // RECORD
RECORDS = 40

pytestmark = pytest.mark.skipif(shutil.which("qemu-io") is None, reason="no qemu-utils")

Writer = Callable[[bytes, bytes, int], tuple[int, bytes]]
"""Of the bytes of the backing image and of all records, and an LSN: what a driver writes, where."""


def in_place(below: bytes, records: bytes, lsn: int) -> tuple[int, bytes]:
    """The record alone: QEMU copies what is missing of the cluster."""
    del below
    at = (lsn - 1) * RECORD
    return at, records[at : at + RECORD]


def anew(below: bytes, records: bytes, lsn: int) -> tuple[int, bytes]:
    """The planted fault: the rest of the cluster comes from below each time, also over records."""
    at = (lsn - 1) * RECORD
    begin = at // CLUSTER * CLUSTER
    copied = bytearray(below[begin : begin + CLUSTER])
    copied[at - begin : at - begin + RECORD] = records[at : at + RECORD]
    return begin, bytes(copied)


def nothing(below: bytes, records: bytes, lsn: int) -> tuple[int, bytes]:
    """The planted fault: nothing is copied from below."""
    del below
    begin = (lsn - 1) * RECORD // CLUSTER * CLUSTER
    return begin, records[begin : lsn * RECORD].ljust(CLUSTER, b"\0")


def cell(image_format: str, below: str) -> Parameters:
    return Parameters.model_validate(
        {
            "disk": {"size": "4MiB"},
            "filesystem": {"type": "raw"},
            "machine": {
                "format": image_format,
                "aio": "threads",
                "backing_image": below,
            },
            "workload": {"layout": "raw", "record": RECORD, "align": RECORD, "capacity": "2MiB"},
        }
    )


def findings_after(folder: Path, parameters: Parameters, writer: Writer):
    """What the checker says once `RECORDS` records have gone through the overlay."""
    cache, base = folder / "cache", commands.base_image(parameters)
    layout, kind = commands.earlier_log(parameters), parameters.machine.backing_image
    assert layout is not None
    overlay = folder / "overlay"
    made = ensure_formatted_image(base, commands.image_format(parameters), cache)
    subprocess.run(["cp", "--no-preserve=mode", str(made), str(overlay)], check=True)
    below = ensure_backing_image(base, kind, layout, cache)
    plain = folder / "plain"
    convert = ["qemu-img", "convert", "-O", "raw"]
    subprocess.run([*convert, "-f", kind.value, str(below), str(plain)], check=True)
    before = plain.read_bytes()
    assert before.count(EARLIER_RUN) == layout.earlier == 256
    records = b"".join(
        record_bytes(
            RUN,
            0,
            lsn,
            prev_lsn=lsn - 1,
            generation=0,
            position=(lsn - 1) * RECORD,
            record_size=RECORD,
        )
        for lsn in range(1, RECORDS + 1)
    )
    node = {
        "driver": parameters.machine.format.value,
        "file": {"driver": "file", "filename": str(overlay)},
        "backing": {
            "driver": kind.value,
            "read-only": True,
            "file": {"driver": "file", "filename": str(below)},
        },
    }
    image = f"json:{json.dumps(node)}"
    words = []
    for lsn in range(1, RECORDS + 1):
        at, data = writer(before, records, lsn)
        piece = folder / f"{lsn}"
        piece.write_bytes(data)
        words += ["-c", f"write -s {piece} {at} {len(data)}"]
    subprocess.run(["qemu-io", *words, image], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*convert, image, str(plain)], check=True)
    seen = read_on_host(parameters, RUN, plain, timeout_s=60)
    return check_log(LsnRange(1, RECORDS), RECORDS, seen, layout)


@pytest.mark.parametrize("below", ["raw", "qcow2"])
@pytest.mark.parametrize("image_format", ["qcow2", "qed"])
def test_qemu_keeps_what_it_copies(tmp_path: Path, image_format: str, below: str) -> None:
    assert findings_after(tmp_path, cell(image_format, below), in_place) == []


def test_copies_over_records_lose_all_but_the_last_of_each_cluster(tmp_path: Path) -> None:
    (found,) = findings_after(tmp_path, cell("qcow2", "raw"), anew)
    assert found.verdict is Verdict.LOSSY
    assert found.kind is FindingKind.STALE  # the earlier log's stand in their place
    assert found.lsns == (LsnRange(1, 15), LsnRange(17, 31), LsnRange(33, 39))


def test_what_is_not_copied_is_missed_in_its_very_slots(tmp_path: Path) -> None:
    (found,) = findings_after(tmp_path, cell("qcow2", "raw"), nothing)
    assert (found.verdict, found.kind, found.lsns) == (Verdict.LOSSY, FindingKind.CORRUPT, ())
    assert found.detail == {"slots": "40-47"}
    assert "records of the earlier log in the backing image are gone" in found.message


def test_a_backing_image_that_names_a_file_of_the_host_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(bytes(1 << 20))
    hostile = tmp_path / NAME
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", "victim", "-F", "raw"]
    subprocess.run([*argv, str(hostile)], check=True, cwd=tmp_path)
    with pytest.raises(DamagedRecording, match="names a backing file"):
        backing_of(tmp_path / "base.img", BackingImage.QCOW2)
    # Of raw bytes nothing is read but the bytes.
    assert backing_of(tmp_path / "base.img", BackingImage.RAW) == hostile
    assert backing_of(tmp_path / "base.img", BackingImage.NONE) is None
