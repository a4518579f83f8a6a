# SPDX-License-Identifier: Apache-2.0
"""A loss of a captured folder as a program for the store's maintainers, written and run.

What is written is believed only once it has run: without the lost calls the operation is gone, with
all calls it is there; and of a twin, another recording whose program syncs what this one does not,
it is there with nothing but what was durable at the ack.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.campaign.folder import check_of, minimize_capture
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget
from powercut.model.errors import HostError, UsageError
from powercut.recording.folder import FolderRecording, open_capture
from powercut.recover.native.folder import shell_in_folder
from powercut.rig.scratch import scratch
from powercut.store.files import host_errors
from powercut.store.folder import CaptureDir
from powercut.store.witness import Witness, read_witness, write_witness
from powercut_extras.reproduce.program import PROGRAM, Reproduction, write_reproduction

REPORT: Final = "REPORT.md"
TWIN: Final = "twin"

_THERE, _LOST = 0, 1
_SECONDS: Final = 300
_TOLD_MAX: Final = 2000


@dataclass(frozen=True)
class Reproduced:
    """What was written, and why the operation was lost."""

    made: Reproduction
    twin: Reproduction | None
    cause: str


def reproduce_capture(
    directory: CaptureDir,
    state: str | None,
    output: Path,
    *,
    operation: int | None = None,
    budget: Budget,
    promise: Promise | None = None,
    twin: CaptureDir | None = None,
    promised: str = "",
) -> Reproduced:
    """Writes the program into `output`, and runs it; without a state that of the witness.

    Raises UsageError if nothing is lost, or what was written shows something else; HostError.
    """
    recording = open_capture(directory, promise, state=state)
    witness = _witness(recording, state, operation, budget, promise)
    number = operation or (witness.lost[0].first if witness.lost else 0)
    if not number:
        raise UsageError(
            f"state {witness.state} contradicts itself and loses no operation by number",
            hint="name a state that loses one, or --operation",
        )
    check_of(recording, _SECONDS)
    recording = recording.under(Promise(witness.promise))
    made = write_reproduction(recording, witness.state, number, output)
    _expect(recording, made, _LOST, "")
    _expect(recording, made, _THERE, "--all")
    other = None
    if twin is not None:
        honest = open_capture(twin, Promise(witness.promise))
        check_of(honest, _SECONDS)
        other = write_reproduction(honest, f"ack:{number}", number, output / TWIN)
        _expect(honest, other, _THERE, "")
    with host_errors(output / REPORT):
        (output / REPORT).write_text(_report(recording, witness, made, other, promised))
    return Reproduced(made, other, witness.cause)


def _witness(
    recording: FolderRecording,
    state: str | None,
    operation: int | None,
    budget: Budget,
    promise: Promise | None,
) -> Witness:
    """The one that is known, if it is what was asked for."""
    known = read_witness(recording.directory.path)
    wanted = known is not None and (
        state in (None, known.state)
        and (operation is None or any(operation in lost for lost in known.lost))
        and (promise is None or promise.value == known.promise)
    )
    if known is not None and wanted:
        return known
    found = minimize_capture(recording, state, operation=operation, budget=budget)
    write_witness(recording.directory.path, found)
    return found


def _expect(recording: FolderRecording, made: Reproduction, status: int, words: str) -> None:
    """Runs what was written as its reader will, in the place of the folder that was captured."""
    folder = Path(recording.record.folder)
    with scratch() as place:
        (place / "state").mkdir()
        said = place / "said"
        command = ["timeout", "-k", "5", str(_SECONDS), sys.executable, str(made.program.resolve())]
        line = f"DIR={shlex.quote(str(folder))} {shlex.join([*command, *words.split()])}"
        found = shell_in_folder(
            place / "state", folder, f"{line} > {shlex.quote(str(said))} 2>&1\n"
        )
        told = said.read_text(errors="replace")[-_TOLD_MAX:] if said.exists() else ""
    if found != status:
        wanted = "the operation is lost" if status == _LOST else "the operation is there"
        raise HostError(
            f"{made.program} {words}: exit status {found}, where {status} was expected ({wanted}); "
            f"it says: {told.strip()}",
            hint="the check may depend on what such a program does not make (owners, attributes, "
            "times); `powercut export --format state` writes the folder as it is",
        )


def _report(
    recording: FolderRecording,
    witness: Witness,
    made: Reproduction,
    twin: Reproduction | None,
    promised: str,
) -> str:
    """What a maintainer reads."""
    program = shlex.join(recording.record.command)
    lost = "\n".join(f"    {one}" for one in made.lost) or "    nothing: it was never written"
    parts = [
        f"# Operation {made.operation} is acknowledged, and a power cut takes it away",
        f"**Promised.** {promised or 'The call returned: what it stored is durable.'}",
        f"**Lost.** {witness.cause}",
        f"**What is missing.** Of {made.calls} calls these, which no sync made durable:\n\n{lost}",
        "**How to run it.** `python3 reproduce.py` needs Python and the store, and neither root "
        "nor any other tool. It does the recorded calls without those marked LOST, as a power cut "
        "may leave them, and has the check look. Exit status 1: the operation is lost. With "
        "`--all` no call is lost, and it is there (exit status 0).",
    ]
    if twin is not None:
        parts.append(
            f"**The twin.** `python3 {TWIN}/{PROGRAM}`: the same with the sync that is missing "
            "here. Only what was durable at the ack is there, and the operation is (exit status 0)."
        )
    names = "POSIX's alone" if witness.promise == "posix" else "a journalling file system's"
    parts.append(
        f"**Recorded from** `{program}`. The promise of names is {names}. All of the above was run "
        "when this was written, with these results."
    )
    return "\n\n".join(parts) + "\n"
