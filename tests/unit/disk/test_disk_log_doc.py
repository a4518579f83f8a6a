# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/formats/disk-log.md is what the disk does."""

import re
import tempfile
from pathlib import Path

import google_crc32c
import numpy as np
from nbd_client import NbdClient
from patience import AMPLE_S

from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog_format import EVENT, EventType
from powercut.model.contract import CutPolicy
from powercut.model.timeline import RequestKind
from powercut.paths import ROOT

TEXT = (ROOT / "docs/formats/disk-log.md").read_text()


def test_the_bytes_of_the_event():
    rows = re.findall(r"^    01[4-7]0 ((?: [0-9a-f]{2}){16})$", TEXT, re.MULTILINE)
    raw = bytes.fromhex("".join(rows))
    event = np.frombuffer(raw, dtype=EVENT)[0]
    assert google_crc32c.value(raw[:60]) == event["crc"] == 0x3E095ECC
    assert (event["type"], event["op"], event["sequence"]) == (1, 1, 1)
    assert (event["offset"], event["length"], event["time_ns"]) == (0x1000, 0x200, 0x476BAF8EC3E)
    assert event["data_crc"] == google_crc32c.value(b"a" * 512) == 0x6F32A61F


def described(row):
    kind = EventType(row["type"]).name
    number, offset, length, data = (int(row[f]) for f in ("request", "offset", "length", "data"))
    if kind == "CONNECT":
        return [kind]
    if kind == "CUT":
        return [kind, "random", str(number)]
    if kind == "END":
        return [kind, str(number)]
    if kind == "SURVIVE":
        return [kind, str(number), str(offset), str(length)]
    op = RequestKind(row["op"])
    words = [kind, op.name.lower(), str(number)]
    if op is RequestKind.WRITE:
        words += [str(offset), str(length)]
        words += [str(data)] if kind == "SUBMIT" else []
    return words


def test_the_events():
    lines = re.findall(r"^ {8}(\d)  ([A-Z].*)$", TEXT, re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="pcdisk-test-") as name:
        folder = Path(name)
        (folder / "base").write_bytes(bytes(1 << 20))
        config = CaptureConfig(folder / "base", folder / "disk")
        with CaptureDisk(config) as disk, NbdClient(disk.socket) as client:
            client.write(4096, b"a" * 512)
            client.flush()
            client.write(8192, b"b" * 1024)
            disk.cut(CutPolicy.RANDOM, 2, None, timeout_s=AMPLE_S)
        events = np.fromfile(folder / "disk.log", dtype=EVENT, offset=256)
        assert (folder / "disk.data").stat().st_size == 1536
    assert [described(row) for row in events] == [words.split() for _, words in lines]
    assert [int(number) for number, _ in lines] == list(range(10))
