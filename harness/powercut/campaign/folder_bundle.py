# SPDX-License-Identifier: Apache-2.0
"""A captured folder's recording as one file, and back; the format is in bundle_file.py.

What is in such a bundle is not judged before it is unpacked: its check is a command of this host,
with its user's rights, and a bundle may come from a stranger.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from powercut import __version__
from powercut.campaign.bundle import write_bundle
from powercut.campaign.bundle_file import (
    CAPTURE,
    BundledFile,
    BundledState,
    BundleManifest,
    VerdictWord,
)
from powercut.model.errors import UsageError
from powercut.model.verdict import LsnRange, Verdict, merged_ranges
from powercut.recording.folder import open_capture
from powercut.recording.state_names import resolve_state, save_state
from powercut.recording.state_ref import path_of, saved
from powercut.store.files import host_errors
from powercut.store.folder import (
    EXPLORATION,
    RECORD,
    REPORT,
    RESULT,
    SEALED,
    CaptureDir,
    CaptureResult,
)
from powercut.store.manifest import digest_of
from powercut.store.packed import evidence_size
from powercut.store.witness import WITNESS, read_witness

_WORDS: Final[dict[Verdict, VerdictWord]] = {
    Verdict.SAFE: "SAFE",
    Verdict.SURVIVED: "SURVIVED",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.LOSSY: "LOSSY",
}


def make_folder_bundle(
    directory: CaptureDir, output: Path, *, state: str | None, force: bool
) -> BundleManifest:
    """Writes the bundle: the recording, its verdict, and the states that are kept beside it.

    A `state` that is named is kept, too.  Raises UsageError if `output` exists and `force` is not
    given, DamagedRecording, HostError.
    """
    if output.exists() and not (force and output.is_file()):
        raise UsageError(f"{output}: exists already", hint="give another name, or --force")
    recording = open_capture(directory, state=state)
    if state is not None:
        save_state(recording, resolve_state(recording, state))
    states = [path_of(directory, name).relative_to(directory.path) for name in saved(directory)]
    found = [RESULT, EXPLORATION, WITNESS, REPORT]
    names = [*SEALED, "manifest.json", *(one for one in found if (directory.path / one).is_file())]
    names += [path.as_posix() for path in states]
    result = directory.find_result()
    manifest = BundleManifest(
        powercut=__version__,
        scenario=CAPTURE,
        cell=recording.title,
        trial=1,
        recording=RECORD,
        verdict="INCONCLUSIVE" if result is None else _WORDS[result.verdict],
        lost=_lost(result),
        state=_state(directory),
        files=tuple(_described(directory.path, name) for name in sorted(names)),
        kind="capture",
    )
    write_bundle(directory.path, manifest, output)
    return manifest


def _lost(result: CaptureResult | None) -> tuple[LsnRange, ...]:
    if result is None:
        return ()
    lossy = [one for one in result.explored.findings if one.verdict is Verdict.LOSSY]
    return merged_ranges([span for finding in lossy for span in finding.lsns])


def _state(directory: CaptureDir) -> BundledState | None:
    witness = read_witness(directory.path)
    if witness is None:
        return None
    return BundledState(
        name=witness.state,
        verdict="LOSSY",
        lost=witness.lost,
        message=witness.message,
        engine="check",
    )


def _described(folder: Path, name: str) -> BundledFile:
    path = folder / name
    with host_errors(path):
        return BundledFile(path=name, size=evidence_size(path), sha256=digest_of(path))
