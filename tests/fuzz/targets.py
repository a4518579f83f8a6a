# SPDX-License-Identifier: Apache-2.0
"""The readers of what comes from outside, each as a function of bytes.

A target returns, or raises a PowercutError.  Checksums are repaired first: a stranger can count
them, too, and a fuzzer would get no further than the first.  A reader is imported when it is
called: a fuzzer instruments what it imports, and that takes its time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import google_crc32c
import images
import peers
import zstandard
from shared import crc as _crc
from shared import folder as _folder
from shared import text_of as _text

from powercut.model.errors import PowercutError

Target = Callable[[bytes], object]


def scenario(data: bytes) -> object:
    """A scenario, and its plan if it is small."""
    from powercut.scenario.load import expand, parse_scenario

    parsed = parse_scenario(_text(data), Path("x.yaml"))
    return expand(parsed, seed=1) if len(data) < 4096 else parsed


def preset(data: bytes) -> object:
    """A preset."""
    from powercut.scenario.preset import parse_preset

    return parse_preset(_text(data), Path("x.yaml"))


def domain(data: bytes) -> object:
    """A domain of libvirt's, Proxmox's, KubeVirt's or oVirt's, and its scenario."""
    from powercut.scenario.load import parse_scenario
    from powercut_extras.certify.likeness import scenario_like
    from powercut_extras.libvirt.likeness import likeness_of

    return parse_scenario(scenario_like(likeness_of(_text(data), None)), Path("x.yaml"))


def _log(folder: Path, data: bytes) -> Path:
    """A log with right checksums and a payload file: two bytes say how long the log is."""
    from powercut.disk.pclog_format import EVENT_SIZE, HEADER_SIZE

    length = int.from_bytes(data[:2], "little")
    raw, payload = bytearray(data[2 : 2 + length]), data[2 + length :]
    if len(raw) >= HEADER_SIZE:
        raw[HEADER_SIZE - 4 : HEADER_SIZE] = _crc(raw[: HEADER_SIZE - 4])
    for at in range(HEADER_SIZE, len(raw) - EVENT_SIZE + 1, EVENT_SIZE):
        size = int.from_bytes(raw[at + 40 : at + 48], "little", signed=True)
        place = int.from_bytes(raw[at + 48 : at + 56], "little", signed=True)
        if 0 <= place < len(payload) and 0 <= size <= len(payload):
            raw[at + 56 : at + 60] = _crc(payload[place : place + size])
        raw[at + 60 : at + 64] = _crc(raw[at : at + 60])
    prefix = folder / "disk"
    prefix.with_suffix(".log").write_bytes(raw)
    prefix.with_suffix(".data").write_bytes(payload)
    return prefix


def disk_log(data: bytes) -> object:
    """The capture disk's log."""
    from powercut.disk.pclog import read_timeline

    with _folder() as folder:
        return read_timeline(_log(folder, data), verify_payloads=True)


def folder_log(data: bytes) -> object:
    """A captured folder's log."""
    from powercut.disk.folder_log import read_folder_log

    with _folder() as folder:
        return read_folder_log(_log(folder, data))


def logwrites(data: bytes) -> object:
    """A log of dm-log-writes or blklogwrites."""
    from powercut_extras.logs.read import read_log

    with _folder() as folder:
        (folder / "log").write_bytes(data)
        return read_log(folder / "log", disk_size=1 << 20, salvage=len(data) % 2 == 1)


def history(data: bytes) -> object:
    """What a guest sent: chunks with right checksums."""
    from powercut.channel.history_file import HEAD_BYTES, read_history

    raw, at = bytearray(data), HEAD_BYTES
    raw[at - 4 : at] = _crc(raw[: at - 4])
    while at + 16 <= len(raw):
        length = int.from_bytes(raw[at + 8 : at + 12], "little")
        length = 0 if length >= 0xFFFFFFF0 else length
        crc = google_crc32c.extend(
            google_crc32c.value(bytes(raw[at : at + 12])), bytes(raw[at + 16 : at + 16 + length])
        )
        raw[at + 12 : at + 16] = crc.to_bytes(4, "little")
        at += 16 + length
    with _folder() as folder:
        (folder / "history.bin").write_bytes(raw)
        return read_history(folder / "history.bin")


def program_lines(data: bytes) -> object:
    """What a program and its check say, and a trace of its syncs."""
    from powercut.channel import lines as channel_lines
    from powercut.model.binding import Binding
    from powercut.model.operations import Packet
    from powercut.workload.program.lines import lines_of_check, lines_of_run
    from powercut.workload.program.sync_trace import read_trace

    packets = [Packet(at, data[at : at + 31]) for at in range(0, len(data), 31)]
    with contextlib.suppress(PowercutError):
        channel_lines.unpack(channel_lines.header(Binding()) + data, Binding())
    return lines_of_run(packets), lines_of_check(data), read_trace([Packet(1, data)])


def archive(data: bytes) -> object:
    """A root file system's tar."""
    from read_here import archives_read_here

    from powercut.disk.root_image import RootTree

    with archives_read_here(), _folder() as folder, RootTree(scratch=folder) as tree:
        (folder / "root.tar").write_bytes(data)
        tree.add(folder / "root.tar")
        return tree.write(io.BytesIO())


def bundle(data: bytes) -> object:
    """A bundle: the manifest, then a tar of the rest."""
    from read_here import archives_read_here

    from powercut.campaign.bundle_file import unpack as unpack_bundle

    text, _, rest = data.partition(b"\0")
    member = tarfile.TarInfo("bundle.json")
    member.size = len(text)
    head = member.tobuf(tarfile.PAX_FORMAT) + text + bytes(-len(text) % 512)
    with archives_read_here(), _folder() as folder:
        (folder / "b").write_bytes(zstandard.compress(head + rest + bytes(1024), 1))
        return unpack_bundle(folder / "b", folder / "out")


def packed(data: bytes) -> object:
    """A recording's packed files."""
    from powercut.store.manifest import PACK
    from powercut.store.packed import evidence_bytes, packed_names

    with _folder() as folder:
        (folder / PACK).write_bytes(data)
        return [evidence_bytes(folder / name) for name in packed_names(folder)[:8]]


def certificate(data: bytes) -> object:
    """A certificate, and its page."""
    from powercut_extras.certify.order import read_certificate
    from powercut_extras.certify.page import certificate_html

    with _folder() as folder:
        (folder / "certificate.json").write_bytes(data)
        return certificate_html(read_certificate(folder / "certificate.json"), folder)


def observation(data: bytes) -> object:
    """What came back after a cut."""
    from powercut.model.binding import Binding
    from powercut.store.trial_dir import read_observation

    with _folder() as folder:
        (folder / "observation.json").write_bytes(data)
        return read_observation(folder / "observation.json", Binding())


def state(data: bytes) -> object:
    """A crash state."""
    from powercut.recording import state_ref
    from powercut.store.trial_dir import TrialDir

    with _folder() as folder:
        (folder / "state.json").write_bytes(data)
        return state_ref.load(TrialDir(folder, folder), str(folder / "state.json"))


def capture(data: bytes) -> object:
    """The record of a captured folder's recording, sealed."""
    from powercut.store.folder import RECORD, SEALED, CaptureDir
    from powercut.store.manifest import FORMAT

    with _folder() as folder:
        files = dict.fromkeys(SEALED, b"") | {RECORD: data}
        sealed = [
            {"name": name, "size": len(text), "sha256": hashlib.sha256(text).hexdigest()}
            for name, text in files.items()
        ]
        for name, text in files.items():
            (folder / name).write_bytes(text)
        (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "files": sealed}))
        return CaptureDir(folder).read_record()


def signature(data: bytes) -> object:
    """A certificate's signature."""
    from powercut_extras.certify.signature import SIGNATURE, read_signature

    with _folder() as folder:
        (folder / SIGNATURE).write_bytes(data)
        return read_signature(folder)


def logo(data: bytes) -> object:
    """An issuer's logo."""
    from powercut_extras.certify.issuer import logo_of

    with contextlib.suppress(ValueError):
        return logo_of(data)
    return None


def record(data: bytes) -> object:
    """A file of a recording, a run or a certificate: the first byte says which."""
    from powercut.report.page.run import html_report
    from powercut.store.component import read_components
    from powercut.store.exploration import read_exploration
    from powercut.store.file_map import read_file_maps
    from powercut.store.layout import ResultDir
    from powercut.store.manifest import check
    from powercut.store.record import read_model
    from powercut.store.trial_dir import TrialDir
    from powercut.store.witness import read_witness
    from powercut_extras.audit.sync_order import read_order
    from powercut_extras.certify.confirmation import read_confirmation
    from powercut_extras.certify.measurement import Measurement
    from powercut_extras.certify.order import CertificateDir

    def run(path: Path) -> object:
        return html_report(ResultDir(path), ResultDir(path).read_verdict())

    def trial(path: Path) -> TrialDir:
        return TrialDir(path, path)

    readers: tuple[tuple[str, Callable[[Path], object]], ...] = (
        ("trial.json", lambda path: (trial(path).read_binding(), trial(path).read_record())),
        ("manifest.json", check),
        ("verdict.json", lambda path: trial(path).read_verdict()),
        ("verdict.json", run),
        ("exploration.json", lambda path: read_exploration(trial(path))),
        ("confirmation.json", lambda path: read_confirmation(trial(path))),
        ("files.json", lambda path: read_file_maps(trial(path))),
        ("witness.json", lambda path: read_witness(trial(path).path)),
        ("environment.json", lambda path: ResultDir(path).options()),
        ("audit-syncs.json", lambda path: read_order(ResultDir(path))),
        ("components.json", lambda path: read_components(ResultDir(path))),
        ("order.json", lambda path: CertificateDir(path).read_order()),
        ("spent.json", lambda path: (CertificateDir(path).spent_s(), CertificateDir(path).load())),
        ("measured.json", lambda path: read_model(path / "measured.json", Measurement)),
    )
    name, read = readers[(data[0] if data else 0) % len(readers)]
    with _folder() as folder:
        (folder / name).write_bytes(data[1:])
        return read(folder)


def listened(data: bytes) -> object:
    """What `listen` has kept: listen.json and, behind a NUL, lines."""
    from powercut.channel.lines import header
    from powercut_extras.elsewhere.listened import Listened

    about, _, lines = data.partition(b"\0")
    with _folder() as folder:
        (folder / "listen.json").write_bytes(about)
        there = Listened.open(folder)
        there.lines.write_bytes(header(there.binding) + lines)
        return there.promises


TARGETS: Final[dict[str, Target]] = {
    target.__name__: target
    for target in (
        scenario, preset, domain, disk_log, folder_log, logwrites, history, program_lines, archive,
        bundle, packed, certificate, observation, state, capture, signature, logo, record,
        listened, *images.TARGETS, *peers.TARGETS,
    )
}  # fmt: skip


def outcome(target: Target, data: bytes) -> BaseException | None:
    """What a reader raised that it may not raise; None if it read, or refused."""
    try:
        target(data)
    except PowercutError:
        return None
    except Exception as error:
        return error
    return None
