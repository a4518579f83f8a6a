# SPDX-License-Identifier: Apache-2.0
"""The log of a captured folder: what is refused of one that somebody else has made."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from powercut.disk.folder_log import read_folder_log
from powercut.disk.pclog import read_timeline
from powercut.disk.pclog_format import EVENT, HEADER, HEADER_SIZE, MAGIC, VERSION, LogKind
from powercut.model.errors import DamagedRecording
from powercut.model.folder import Attributes, FolderOp, FolderTimeline
from powercut.recording.folder import open_capture
from powercut.store.folder import CaptureDir, CaptureRecord

SUBMIT, COMPLETE, CUT, MARK, END, BEGIN, LINES = 1, 2, 4, 6, 9, 10, 11
FILE, SUB, LINK = 2, 3, 4


class Log:
    """Writes a log as the recorder does, and whatever it is told besides."""

    def __init__(self) -> None:
        self.events: list[dict[str, int]] = []
        self.data = b""
        self.requests = 0

    def event(self, kind: int, payload: bytes = b"", **fields: int) -> Log:
        event = {"type": kind, "length": len(payload), "data": len(self.data)} | fields
        if payload:
            event["data_crc"] = google_crc32c.value(payload)
            self.data += payload + bytes(-len(payload) % 512)
        self.events.append(event)
        return self

    def submit(self, op: int, target: int, payload: bytes = b"", **fields: int) -> Log:
        number = self.requests
        self.requests += 1
        self.event(SUBMIT, payload, op=op, connection=target, request=number, **fields)
        return self

    def done(self, op: int, target: int, payload: bytes = b"", **fields: int) -> Log:
        self.submit(op, target, payload, **fields)
        return self.event(COMPLETE, op=op, connection=target, request=self.requests - 1)

    def end(self) -> Log:
        return self.event(CUT, op=1).event(END, request=self.requests)

    def read(self, folder: Path) -> FolderTimeline:
        prefix = folder / "folder"
        header = np.zeros(1, dtype=HEADER)
        header["magic"], header["version"], header["header_size"] = MAGIC, VERSION, HEADER_SIZE
        header["atomic_unit"], header["contract"], header["kind"] = 4096, 7, LogKind.FOLDER
        raw = header.tobytes()[:-4]
        text = raw + struct.pack("<I", google_crc32c.value(raw))
        for sequence, event in enumerate(self.events):
            row = np.zeros(1, dtype=EVENT)
            row["sequence"], row["time_ns"] = sequence, 100 + sequence
            for name, value in event.items():
                row[name] = value
            raw = row.tobytes()[:-4]
            text += raw + struct.pack("<I", google_crc32c.value(raw))
        prefix.with_suffix(".log").write_bytes(text)
        prefix.with_suffix(".data").write_bytes(self.data)
        return read_folder_log(prefix)


def begun() -> Log:
    """A folder with a file, a folder and a link in it."""
    log = Log().done(FolderOp.CREATE, 1, b"file", offset=FILE)
    log.done(FolderOp.MKDIR, 1, b"sub", offset=SUB)
    log.done(FolderOp.SYMLINK, 1, b"link\0file", offset=LINK)
    return log.event(BEGIN)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    log = (
        begun().event(LINES, b"ready\n? 1\n").done(FolderOp.WRITE, FILE, b"abc", offset=5, flags=1)
    )
    log.submit(FolderOp.RENAME, 1, b"file\0new", offset=SUB).end()
    found = log.read(tmp_path)
    assert found.complete
    assert found.cut_ns is not None
    assert [packet.data for packet in found.said] == [b"ready\n? 1\n"]
    made, _, link, write, rename = found.requests
    assert (made.names, made.other) == (("file",), FILE)
    assert link.names == ("link", "file")
    assert (write.offset, write.at_once, found.payload(write).tobytes()) == (5, True, b"abc")
    assert (rename.object, rename.other, rename.names) == (1, SUB, ("file", "new"))
    assert rename.completed_ns > found.cut_ns  # never


def attributes(mask: int, xattr: bytes = b"", mode: int = 0o640, time_ns: int = 7) -> bytes:
    return struct.pack("<IIIIqq", mask, mode, 0xFFFFFFFF, 33, time_ns, -time_ns) + xattr


def test_attributes_are_read(tmp_path: Path) -> None:
    log = begun().done(FolderOp.ATTRIBUTES, FILE, attributes(15), flags=32)
    log.done(FolderOp.ATTRIBUTES, 1, attributes(17, b"user.a\0b\0c"))
    log.done(FolderOp.ATTRIBUTES, LINK, attributes(32, b"user.a\0")).end()
    born, set_, removed = log.read(tmp_path).requests[3:]
    assert (born.object, born.born, set_.object, set_.born) == (FILE, True, 1, False)
    assert born.attributes == Attributes(0o640, (-1, 33), 7, -7)
    assert set_.attributes == Attributes(mode=0o640, xattrs=(("user.a", b"b\0c"),))
    assert removed.attributes == Attributes(xattrs=(("user.a", None),))
    assert removed.attributes.over(set_.attributes).over(born.attributes) == Attributes(
        0o640, (-1, 33), 7, -7, (("user.a", None),)
    )


@pytest.mark.parametrize(
    ("payload", "target", "message"),
    [
        (attributes(1), 9, "which was never made"),
        (attributes(1)[:-1], FILE, "cut off"),
        (attributes(1, mode=0o10000), FILE, "none"),
        (attributes(16, b"user.a"), FILE, "none: b'user.a'"),
        (attributes(16, b"\0value"), FILE, "none: b''"),
        (attributes(16, b"security.capability\0x"), FILE, "keeps for no file"),
    ],
)
def test_attributes_that_are_none(
    tmp_path: Path, payload: bytes, target: int, message: str
) -> None:
    with pytest.raises(DamagedRecording, match=message):
        begun().done(FolderOp.ATTRIBUTES, target, payload).end().read(tmp_path)


def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    found = begun().done(FolderOp.WRITE, FILE, b"abc").read(tmp_path)
    assert not found.complete
    assert found.cut_ns is None
    assert len(found.requests) == 4


def test_neither_log_is_taken_for_the_other(tmp_path: Path) -> None:
    begun().end().read(tmp_path)
    with pytest.raises(DamagedRecording, match="a captured folder, not of a disk or several"):
        read_timeline(tmp_path / "folder", verify_payloads=True)


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"../out", b"/abs", b"n" * 256])
@pytest.mark.parametrize("op", [FolderOp.CREATE, FolderOp.MKDIR, FolderOp.UNLINK, FolderOp.RENAME])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, op: FolderOp, name: bytes) -> None:
    payload = b"file\0" + name if op is FolderOp.RENAME else name
    log = begun().done(op, 1, payload, offset=1 if op is FolderOp.RENAME else 9).end()
    with pytest.raises(DamagedRecording, match=r"event 7 has (a name that is none|another number)"):
        log.read(tmp_path)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (begun().done(FolderOp.CREATE, 1, b"x", offset=FILE), "makes object 2, which is there"),
        (begun().done(FolderOp.CREATE, 1, b"x", offset=1 << 40), "which is there, or no number"),
        (begun().done(FolderOp.CREATE, FILE, b"x", offset=9), "object 2, which is no folder"),
        (begun().done(FolderOp.LINK, 1, b"x", offset=SUB), "links object 3, which is no file"),
        (begun().done(FolderOp.RENAME, 1, b"a\0b", offset=FILE), "object 2, which is no folder"),
        (begun().done(FolderOp.RENAME, 1, b"a", offset=1), "another number of names"),
        (begun().done(FolderOp.WRITE, SUB, b"x"), "changes object 3, which is no file"),
        (
            begun().done(FolderOp.PIPE, 1, b"x", offset=9).done(FolderOp.TRUNCATE, 9),
            "9, which is no file",
        ),
        (begun().done(FolderOp.SOCKET, 1, b"x", offset=FILE), "makes object 2, which is there"),
        (begun().done(FolderOp.WRITE, 77, b"x"), "changes object 77, which is no file"),
        (begun().done(FolderOp.WRITE, FILE, b"x", offset=1 << 60), "beyond the end of any file"),
        (begun().done(FolderOp.TRUNCATE, FILE, length=-1 % 2**63), "beyond the end of any file"),
        (begun().done(FolderOp.FLUSH, 77), "syncs object 77, which was never made"),
        (begun().done(99, FILE), "submits an unknown request"),
        (begun().event(BEGIN), "begins for the second time"),
        (begun().event(COMPLETE, op=1, request=0), "completes a request that is not under way"),
        (begun().event(COMPLETE, op=1, request=50), "completes a request that is not under way"),
        (begun().submit(1, FILE, b"x").event(COMPLETE, op=2, request=3), "another kind"),
        (begun().event(5), "is of an unknown type"),
        (begun().event(END, request=1), "ends a log of other than 3 requests"),
        (Log(), "first contents are not all"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, log: Log, why: str) -> None:
    if not any(event["type"] == END for event in log.events):
        log.end()
    with pytest.raises(DamagedRecording, match=why):
        log.read(tmp_path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 12 * 64 + HEADER_SIZE - 1), value=st.integers(0, 255))
def test_no_byte_of_a_log_can_be_changed(tmp_path: Path, place: int, value: int) -> None:
    log = begun().done(FolderOp.WRITE, FILE, b"abc").end()
    good = log.read(tmp_path)
    file = tmp_path / "folder.log"
    raw = bytearray(file.read_bytes())
    if place >= len(raw) or raw[place] == value:
        return
    raw[place] = value
    file.write_bytes(raw)
    try:
        found = read_folder_log(tmp_path / "folder")
    except DamagedRecording:
        return
    # Only the last event can be damaged without a word: then the log was not closed.
    assert not found.complete
    assert found.requests == good.requests


@pytest.mark.parametrize(
    "mark", ["failing syncs: pages", "failing reads: EIO", "refusing requests"]
)
def test_a_recorder_that_its_host_fails_decides_nothing(tmp_path: Path, mark: str) -> None:
    """Neither a loss nor a SAFE may rest on it; a mark that says nothing of that is none."""
    log = begun().event(LINES, b"ready\n? 1\n").done(FolderOp.WRITE, FILE, b"abc")
    log.event(LINES, b"+ 1\n").event(MARK, mark.encode())
    log.event(MARK, b"a name").event(CUT, op=1).event(END, request=log.requests)
    found = log.read(tmp_path)
    directory = CaptureDir(tmp_path)
    directory.console.write_text("")
    assert found.cut_ns is not None
    directory.write_record(
        CaptureRecord(
            powercut="0", folder="/d", where="/", command=("run",), atomic_unit=4096, seed=1,
            cut_ns=int(found.cut_ns), status=0,
        )
    )  # fmt: skip
    recording = open_capture(directory)
    assert recording.doubts == (f"the recorder: {mark}",)
    assert recording.gaps == recording.doubts
