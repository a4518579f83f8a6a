# SPDX-License-Identifier: Apache-2.0
"""Recordings that `record` made until 0.2, judged without a guest: what convicts, what acquits, and
what does neither.

The program is played.  Operation N writes sector N of a real capture disk and flushes, its lines go
to a real lines file, and its check says `= N` for each sector that is not empty.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import pytest
from nbd_client import NbdClient

from powercut.campaign.program import LYING, check_control, require_same_program, with_control
from powercut.channel.lines import header, pack
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog_format import EVENT
from powercut.explore.program import ProgramExplorer
from powercut.explore.request import Budget
from powercut.model.contract import CutPolicy, DeviceContract
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.recording.program import open_program
from powercut.recover.port import ImageWrite
from powercut.rig.host_files import command_sha256
from powercut.store.binding import new_recording
from powercut.store.manifest import MANIFEST
from powercut.store.program import ProgramDir, ProgramRecord, ProgramResult

SECTOR = 4096
SECTORS = 64
OPERATIONS = 40
HONEST = DeviceContract(atomic_unit=SECTOR)


@dataclass
class SectorEngine:
    """Recovers by reading: every sector that is not empty is an operation that is there.

    `mounts` says of which disks the file system mounts, `always` is what the check says besides,
    `starts` whether the engine does, and with `forgets` the first recovery of a disk misses
    operation 20.
    """

    base: Path
    mounts: Callable[[Sequence[ImageWrite]], bool] = lambda writes: True
    always: bytes = b""
    starts: bool = True
    forgets: bool = False
    _disks: set[bytes] = field(default_factory=set)

    def start(self, *, timeout_s: float) -> None:
        del timeout_s
        if not self.starts:
            raise HostError("no room")

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        del timeout_s
        if not self.mounts(writes):
            return Observation((), recovered=False, failure="bad superblock")
        image = bytearray(self.base.read_bytes())
        for write in writes:
            data = bytes(write.length) if write.data is None else write.data.tobytes()
            image[write.offset : write.offset + write.length] = data
        there = {n for n in range(SECTORS) if any(image[n * SECTOR : (n + 1) * SECTOR])}
        if self.forgets and bytes(image) not in self._disks:
            there.discard(20)
        self._disks.add(bytes(image))
        return Observation((), lines=b"".join(b"= %d\n" % n for n in sorted(there)) + self.always)


def untouched_only(writes: Sequence[ImageWrite]) -> bool:
    """A file system that mounts as long as nothing was written to it."""
    return not writes


@dataclass
class PlayedProgram:
    """One run while it is made; `operate` does what an honest program does."""

    disk: CaptureDisk
    client: NbdClient
    packets: list[Packet] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.packets.append(Packet(time.monotonic_ns(), f"{line}\n".encode()))

    def write(self, number: int) -> None:
        self.say(f"? {number}")
        self.client.write(number * SECTOR, bytes([number + 1]) * SECTOR)

    def operate(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self.write(number)
            self.client.flush()
            self.say(f"+ {number}")


def honest(program: PlayedProgram) -> None:
    program.operate(0, OPERATIONS - 1)


def one_early(program: PlayedProgram) -> None:
    """Operation 20 is acknowledged before its flush."""
    program.operate(0, 19)
    program.write(20)
    program.say("+ 20")
    program.client.flush()
    program.operate(21, OPERATIONS - 1)


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., ProgramDir]:
    made = 0

    def make(play=honest, *, into: Path | None = None, **settings: object) -> ProgramDir:
        nonlocal made
        made += 1
        directory = ProgramDir.create(into or tmp_path / f"recording{made}")
        directory.base.write_bytes(bytes(SECTORS * SECTOR))
        record = ProgramRecord(
            powercut="0", command=("/bin/program",), folder="/", filesystem="ext4",
            size=SECTORS * SECTOR, contract=HONEST, seed=5, run_id="00" * 16,
            recording=new_recording(),
        ).model_copy(update=settings)  # fmt: skip
        config = CaptureConfig(directory.base, directory.disk_log, record.contract, record.binding)
        with CaptureDisk(config) as disk, NbdClient(disk.socket) as client:
            program = PlayedProgram(disk, client)
            play(program)
            cut_ns = int(disk.cut(CutPolicy.DROP, 5, None, timeout_s=30).at)
        directory.lines.write_bytes(
            header(record.binding) + b"".join(pack(packet) for packet in program.packets)
        )
        directory.write_console("")
        directory.write_record(record.model_copy(update={"cut_ns": cut_ns}))
        directory.seal()
        return directory

    return make


def judged(
    directory: ProgramDir, *, engine: SectorEngine | None = None, budget: int = OPERATIONS * 2
) -> ProgramResult:
    explorer = ProgramExplorer(
        open_program(directory),
        engine or SectorEngine(directory.base),
        seed=5,
        state_s=10,
        listener=lambda done, lossy: None,
    )
    return explorer.judge(Budget(states=budget))


def edited(directory: ProgramDir, **changes: object) -> ProgramDir:
    directory.write_record(directory.read_record().model_copy(update=changes))
    directory.seal()
    return directory


def test_an_intact_recording_acquits_and_convicts(recorded):
    result = judged(recorded())
    assert (result.verdict, result.reasons, result.lossy_states) == ("SAFE", (), 0)
    assert (result.attempted, result.acknowledged) == (OPERATIONS, OPERATIONS)
    result = judged(recorded(one_early))
    assert (result.verdict, result.reasons) == ("LOSSY", ())
    when, requests, missing = result.findings[0].story
    assert when.startswith("operation 20 was acknowledged ")
    assert requests.startswith("before that acknowledgement: the last write")
    assert missing.startswith(("missing writes by what they hold: ", "no write that the disk"))
    assert {finding.operations for finding in result.findings} == {((20, 20),)}


def test_trouble_of_the_program_acquits_nobody_and_still_convicts(recorded):
    told = {"trouble": ("run ended with status 1",)}
    assert judged(edited(recorded(), **told)).verdict == "INCONCLUSIVE"
    assert judged(edited(recorded(one_early), **told)).verdict == "LOSSY"


def marked(words):
    def play(program):
        one_early(program)
        program.disk.mark(words)

    return play


@pytest.mark.parametrize("mark", ["failing reads: EIO", "refusing requests: ENOSPC"])
def test_a_disk_that_its_host_failed_convicts_nobody(recorded, mark):
    assert judged(recorded(marked("half time"))).verdict == "LOSSY"
    result = judged(recorded(marked(mark)))
    assert (result.verdict, result.findings) == ("INCONCLUSIVE", ())
    assert result.reasons == (f"the disk under test was failed by its host: {mark}",)


def test_lines_that_were_not_kept_convict_nobody(recorded):
    why = "the program's lines could not be kept: No space left on device"
    result = judged(edited(recorded(one_early), damage=(why,)))
    assert (result.verdict, result.findings, result.reasons) == ("INCONCLUSIVE", (), (why,))


def test_a_disk_log_that_was_not_closed_convicts_nobody(recorded):
    directory = recorded(one_early)
    log = directory.disk_log.with_suffix(".log")
    os.truncate(log, log.stat().st_size - EVENT.itemsize)
    directory.seal()
    result = judged(directory)
    assert (result.verdict, result.findings) == ("INCONCLUSIVE", ())
    assert result.reasons == ("the disk log was not closed: later requests are missing",)


@pytest.mark.parametrize(
    ("which", "by_s", "why"),
    [
        (slice(OPERATIONS, None), -60, "the clock of the program's lines went back"),
        (slice(0, OPERATIONS), -60, "they are of another clock"),
        (slice(OPERATIONS, None), 60, "whose attempt was announced later"),
    ],
    ids=["back", "another-clock", "ahead"],
)
def test_a_clock_that_jumps_convicts_nobody(recorded, which, by_s, why):
    """Half of an honest program's lines are off by so many seconds."""

    def jump(program):
        honest(program)
        program.packets[which] = [
            Packet(packet.at_ns + by_s * 10**9, packet.data) for packet in program.packets[which]
        ]

    result = judged(recorded(jump))
    assert result.verdict == "INCONCLUSIVE"
    assert why in " ".join((*result.reasons, *(one.message for one in result.findings)))


@pytest.mark.parametrize("name", ["disk.log", "disk.data", "lines.bin", "base.img"])
def test_a_file_with_a_hole_is_refused(recorded, name):
    """Also where the seal was renewed: each file is checked for itself, but for the base image."""
    directory = recorded(one_early)
    path = directory.path / name
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 512] = b"\xa5" * 512
    path.write_bytes(bytes(data))
    with pytest.raises(DamagedRecording):
        open_program(directory)
    if name in ("disk.log", "disk.data"):
        directory.seal()
        with pytest.raises(DamagedRecording):
            open_program(directory)


@pytest.mark.parametrize("name", ["disk.log", "lines.bin"])
def test_a_file_of_another_recording_is_refused(recorded, name):
    """The same program with the same seed, which was honest that time."""
    lossy, other = recorded(one_early), recorded()
    shutil.copy(other.path / name, lossy.path / name)
    lossy.seal()
    with pytest.raises(DamagedRecording, match="of another recording"):
        open_program(lossy)


def test_another_contract_than_that_of_the_disk_is_refused(recorded):
    """The header of its log was changed, checksum included, and names the right recording."""
    directory = recorded()
    log = directory.disk_log.with_suffix(".log")
    raw = bytearray(log.read_bytes())
    raw[28] ^= 2  # PCLOG_FLUSH_HONOURED of `contract`, in harness/capture/log_format.h
    raw[252:256] = google_crc32c.value(bytes(raw[:252])).to_bytes(4, "little")
    log.write_bytes(raw)
    directory.seal()
    with pytest.raises(DamagedRecording, match="flush: ignored, and honoured"):
        open_program(directory)


def test_another_instant_of_the_cut_is_refused(recorded):
    directory = recorded()
    edited(directory, cut_ns=directory.read_record().cut_ns - 1)
    with pytest.raises(DamagedRecording, match="not that of this cut"):
        open_program(directory)


@pytest.mark.parametrize(
    ("play", "why"),
    [
        (lambda program: program.operate(0, 8), "9 operations were acknowledged"),
        (lambda program: [honest(program), program.say("+ 0")], "acknowledges operation 0 twice"),
    ],
    ids=["few", "impossible"],
)
def test_what_keeps_a_run_from_being_safe(recorded, play, why):
    result = judged(recorded(play))
    assert (result.verdict, result.lossy_states) == ("INCONCLUSIVE", 0)
    assert why in " ".join(result.reasons)


def test_few_states_acquit_nobody(recorded):
    result = judged(recorded(), budget=8)
    assert (result.verdict, result.states) == ("INCONCLUSIVE", 8)
    assert result.reasons == ("only 8 states were recovered",)


def test_a_check_that_finds_operations_after_setup_alone_is_not_believed(recorded):
    directory = recorded()
    engine = SectorEngine(directory.base, always=b"= 63\n")
    result = judged(directory, engine=engine)
    assert (result.verdict, result.states) == ("INCONCLUSIVE", 0)
    assert "on the disk on which only `setup` has run" in result.reasons[0]


def test_an_engine_that_fails_acquits_nobody(recorded):
    directory = recorded()
    result = judged(directory, engine=SectorEngine(directory.base, starts=False))
    assert (result.verdict, result.states) == ("INCONCLUSIVE", 0)
    assert result.reasons[0] == "recovery: no room"


def test_a_loss_that_does_not_repeat_itself_convicts_nobody(recorded):
    directory = recorded()
    result = judged(directory, engine=SectorEngine(directory.base, forgets=True))
    assert (result.verdict, result.lossy_states) == ("INCONCLUSIVE", 0)
    assert any("recovered twice" in finding.message for finding in result.findings)


def test_a_file_system_that_does_not_mount_is_a_finding(recorded):
    directory = recorded()
    result = judged(directory, engine=SectorEngine(directory.base, mounts=untouched_only))
    assert result.verdict == "LOSSY"
    assert {finding.kind for finding in result.findings} == {"not-recovered"}


def controlled(recorded, **settings) -> ProgramDir:
    main = recorded()
    into = main.control(LYING).path
    wanted = {"control": LYING, "contract": HONEST.lying()} | settings
    recorded(into=into, **wanted)
    return main


def test_the_control_is_the_same_on_a_disk_that_lies(recorded):
    main = controlled(recorded)
    check_control(main)
    control = judged(main.control(LYING))
    assert control.verdict == "LOSSY"
    result = with_control(judged(main), control)
    assert (result.verdict, result.controls) == ("SAFE", {LYING: "LOSSY"})


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({"contract": HONEST}, "contract"),
        ({"control": ""}, "control"),
        ({"command": ("/bin/another",)}, "command"),
        ({"filesystem": "xfs"}, "filesystem"),
        ({"mount_options": "nobarrier"}, "mount_options"),
        ({"seed": 6}, "seed"),
        ({"run_id": "11" * 16}, "run_id"),
    ],
)
def test_the_control_of_another_program_is_none(recorded, settings, differs):
    """A program that does not sync loses everything on any disk."""
    main = controlled(recorded, **settings)
    with pytest.raises(DamagedRecording, match=f"not the control of .*another {differs}$"):
        check_control(main)


def test_the_control_on_another_disk_is_none(recorded):
    main = controlled(recorded)
    base = main.control(LYING).base
    base.write_bytes(b"\1" + base.read_bytes()[1:])
    (main.control(LYING).path / MANIFEST).unlink()
    main.control(LYING).seal()
    with pytest.raises(DamagedRecording, match=r"another base\.img"):
        check_control(main)


def test_a_control_that_only_does_not_mount_says_nothing_of_the_check(recorded):
    """A disk that lies leaves file systems that do not mount: no check has noticed anything."""
    main = controlled(recorded)

    directory = main.control(LYING)
    control = judged(directory, engine=SectorEngine(directory.base, mounts=untouched_only))
    assert control.verdict == "LOSSY"
    others = [one for one in control.findings if one.kind != "lost"]
    unnoticed = control.model_copy(update={"findings": tuple(others)})
    result = with_control(judged(main), unnoticed)
    assert result.verdict == "INCONCLUSIVE"
    assert "the check missed nothing" in " ".join(result.reasons)


def test_a_control_that_its_host_failed_acquits_nobody(recorded):
    main = controlled(recorded)
    edited(main.control(LYING), damage=("the lines could not be kept",))
    result = with_control(judged(main), judged(main.control(LYING)))
    assert result.verdict == "INCONCLUSIVE"
    assert "the control: the lines could not be kept" in result.reasons


def test_a_program_that_has_changed_since_is_not_asked(recorded, tmp_path):
    """Its check may read the same files in another way, which would be no finding."""
    program, script = tmp_path / "program", tmp_path / "script"
    program.write_text("first")
    script.write_text("first")
    command = (str(program), "script", "no-such-file")
    digest = command_sha256(command, str(tmp_path))
    told = {"command": command, "folder": str(tmp_path), "program_sha256": digest}
    main = recorded(**told)
    require_same_program(main)
    for changed in (script, program):
        changed.write_text("second")
        with pytest.raises(HostError, match=f"{program} has changed since the recording was made"):
            require_same_program(main)
        changed.write_text("first")
    require_same_program(main)


def test_recordings_from_before_programs_had_digests_keep_their_binding(recorded):
    record = recorded().read_record()
    assert record.program_sha256 == ""
    assert record.binding != record.model_copy(update={"program_sha256": "11" * 32}).binding
    before = record.model_dump(
        mode="json", exclude={"cut_ns", "trouble", "damage", "program_sha256"}
    )
    text = json.dumps(before, sort_keys=True, separators=(",", ":")).encode()
    assert record.binding.digest == hashlib.sha256(text).digest()
