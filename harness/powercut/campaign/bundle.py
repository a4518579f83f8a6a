# SPDX-License-Identifier: Apache-2.0
"""Makes bundles of findings, and judges them again; the format is in bundle_file.py."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import zstandard
from pydantic import BaseModel

from powercut import __version__
from powercut.campaign.bundle_file import (
    CAPTURE,
    MANIFEST,
    BundledFile,
    BundledState,
    BundleManifest,
    VerdictWord,
    unpack,
)
from powercut.campaign.verify import verify
from powercut.explore.state_judge import open_judge
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.verdict import LsnRange, Verdict, merged_ranges
from powercut.recording.consent import foreign_commands, not_repeated
from powercut.recording.folder import FolderRecording, open_capture
from powercut.recording.open_recording import find_recording, open_disk
from powercut.recording.sealed import SealedTrial
from powercut.recording.state_names import resolve_state, save_state
from powercut.recording.state_ref import path_of, save, saved
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.scratch import scratch
from powercut.store.files import host_errors
from powercut.store.folder import EXPLORATION, RECORD, REPORT, RESULT, SEALED, CaptureDir
from powercut.store.layout import ResultDir
from powercut.store.manifest import digest_of
from powercut.store.packed import evidence_size, open_evidence
from powercut.store.results import RunResult
from powercut.store.trial_dir import IMPORT_FILE, TrialDir
from powercut.store.trial_result import TrialResult
from powercut.store.witness import WITNESS, read_witness
from powercut.trial.controls import controls_for, same_run
from powercut.verdict.judge import verdict_of

_EXTRAS: Final = ("verdict.json", "witness.json", "exploration.json")
_RUN_FILES: Final = ("scenario.yaml", "environment.json")


class BundleVerdict(BaseModel):
    """What a bundle says today.

    `differences` says in what way that is not what it said when it was made, and
    `untried` what could not be repeated on this host.
    """

    manifest: BundleManifest
    run: RunResult
    state: BundledState | None = None
    differences: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """1 if something differs, 3 if something could not be repeated, else the run's."""
        if self.differences:
            return 1
        return 3 if self.untried else self.run.exit_status


def make_bundle(
    path: Path, output: Path, *, state: str | None = None, force: bool = False
) -> BundleManifest:
    """Writes the bundle of the recording at `path`, with a crash state if one is named.

    Without a name the witness goes with it, if there is one.  Raises UsageError if
    `output` exists and `force` is not given, or for a recording that has no scenario.
    """
    if output.exists() and not (force and output.is_file()):
        raise UsageError(f"{output}: exists already", hint="give another name, or --force")
    if (path / RECORD).is_file():
        folder, manifest = _of_folder(open_capture(CaptureDir(path.resolve()), state=state), state)
    else:
        folder, manifest = _of_trial(path, state)
    write_bundle(folder, manifest, output)
    return manifest


def _of_trial(path: Path, state: str | None) -> tuple[Path, BundleManifest]:
    """What goes into the bundle of a trial, and the folder below which it lies."""
    trial = find_recording(path)
    if (trial.path / IMPORT_FILE).is_file():
        raise UsageError(
            f"{trial.path}: was imported and has no scenario to be judged by",
            hint="pass on the log and its base image; `powercut import` does the rest",
        )
    trial.check_seal()
    run = ResultDir.open(trial.run)
    record = trial.read_record()
    if record.control is not None:
        raise UsageError(
            f"{trial.path}: is a control, which vouches for others and has no verdict of its own",
            hint="bundle a recording of the cell: its controls go along",
        )
    result = _judged(trial)
    controls = _controls(run, trial, result.verdict)
    bundled = _bundled_state(trial, state)
    names = [name for each in (trial, *controls) for name in _files_of(each, run)]
    names += [name for name in _RUN_FILES if (run.path / name).is_file()]
    return run.path, BundleManifest(
        powercut=__version__,
        scenario=record.scenario,
        cell=record.cell,
        trial=record.trial.number,
        recording=trial.relative,
        verdict=_name(result.verdict),
        lost=result.lost_lsns,
        state=bundled,
        files=tuple(_described(run.path, name) for name in sorted(set(names))),
    )


def _of_folder(recording: FolderRecording, state: str | None) -> tuple[Path, BundleManifest]:
    """The same of a captured folder: all that is known of it, and the states that are kept, among
    them `state`.

    It is not judged: its check is a command of this host, with its user's rights, and a bundle may
    come from a stranger.
    """
    directory = recording.directory
    if state is not None:
        save_state(recording, resolve_state(recording, state))
    kept = [path_of(directory, name).relative_to(directory.path) for name in saved(directory)]
    found = [RESULT, EXPLORATION, WITNESS, REPORT]
    names = [*SEALED, "manifest.json", *(one for one in found if (directory.path / one).is_file())]
    names += [path.as_posix() for path in kept]
    result, witness = directory.find_result(), read_witness(directory.path)
    lossy = [] if result is None else result.explored.findings
    spans = [span for one in lossy if one.verdict is Verdict.LOSSY for span in one.lsns]
    shown = None
    if witness is not None:
        shown = BundledState(
            name=witness.state,
            verdict="LOSSY",
            lost=witness.lost,
            message=witness.message,
            engine=witness.engine,
        )
    return directory.path, BundleManifest(
        powercut=__version__,
        scenario=CAPTURE,
        cell=recording.title,
        trial=1,
        recording=RECORD,
        verdict=_name(Verdict.INCONCLUSIVE if result is None else result.verdict),
        lost=merged_ranges(spans),
        state=shown,
        files=tuple(_described(directory.path, name) for name in sorted(names)),
        kind="capture",
    )


def write_bundle(folder: Path, manifest: BundleManifest, output: Path) -> None:
    """Writes the files of `folder` that the manifest names; durable on return.

    Raises HostError.
    """
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    with host_errors(output):
        try:
            with unfinished.open("xb") as file:
                _write(file, folder, manifest)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(output)
        finally:
            unfinished.unlink(missing_ok=True)


def _judged(trial: TrialDir) -> TrialResult:
    """The verdict on `trial`, crash states included, as the recipient of the bundle will repeat it.

    Raises HostError if it cannot be judged here, and was when it was recorded.
    """
    with EngineShelf() as shelf:
        result = verdict_of(SealedTrial(trial), RecoveredStates(shelf, again=True))
    if result.verdict is not Verdict.INCONCLUSIVE:
        return result
    with suppress(DamagedRecording):
        then = trial.read_verdict()
        if then.verdict is not Verdict.INCONCLUSIVE:
            why = next((one.message for one in result.findings), "it does not say why")
            raise HostError(
                f"{trial.path}: it was {then.verdict.name} and cannot be judged here: {why}",
                hint="bundle it on the host that recorded it",
            )
    return result


def _controls(run: ResultDir, trial: TrialDir, verdict: Verdict) -> list[TrialDir]:
    record = trial.read_record()
    wanted = {same_run(c.parameters) for c in controls_for(record.parameters, verdict)}
    controls: dict[str, TrialDir] = {}
    for other in run.trials():
        key = same_run(other.read_record().parameters)
        if key in wanted and key not in controls and other.path != trial.path:
            other.check_seal()
            controls[key] = other
    return list(controls.values())


def _bundled_state(trial: TrialDir, name: str | None) -> BundledState | None:
    if name is None:
        witness = read_witness(trial.path)
        if witness is None:
            return None
        name = witness.state
    recording = open_disk(trial.path)
    state = resolve_state(recording, name)
    with open_judge(recording) as judge:
        judgement = judge.judge(state)
        return BundledState(
            name=save(trial, state),
            verdict=_name(judgement.verdict),
            lost=judgement.lost,
            message=judgement.message,
            engine=judge.choice.name,
            engine_reason=judge.choice.reason,
        )


def _name(verdict: Verdict) -> VerdictWord:
    match verdict:
        case Verdict.SAFE:
            return "SAFE"
        case Verdict.SURVIVED:
            return "SURVIVED"
        case Verdict.LOSSY:
            return "LOSSY"
    return "INCONCLUSIVE"


def _files_of(trial: TrialDir, run: ResultDir) -> Iterator[str]:
    """Everything sealed, and what follows from it: every state among it that a finding names."""
    paths = [trial.path / name for name in (*trial.check_seal(), "manifest.json")]
    paths += [trial.path / name for name in _EXTRAS if (trial.path / name).is_file()]
    paths += [path_of(trial, name) for name in saved(trial)]
    for path in paths:
        yield path.relative_to(run.path).as_posix()


def _described(folder: Path, name: str) -> BundledFile:
    path = folder / name
    with host_errors(path):
        return BundledFile(path=name, size=evidence_size(path), sha256=digest_of(path))


def _write(file: IO[bytes], folder: Path, manifest: BundleManifest) -> None:
    compressor = zstandard.ZstdCompressor(level=10, write_checksum=True)
    with (
        compressor.stream_writer(file, closefd=False) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        text = manifest.model_dump_json(indent=1).encode() + b"\n"
        tar.addfile(_member(MANIFEST, len(text)), io.BytesIO(text))
        done: set[str] = set()
        for each in manifest.files:
            if each.sha256 in done:
                continue
            done.add(each.sha256)
            with open_evidence(folder / each.path) as content:
                tar.addfile(_member(f"blobs/{each.sha256}", each.size), content)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o644, 0
    return member


@contextmanager
def unpacked(bundle: Path) -> Iterator[tuple[BundleManifest, Path]]:
    """What is in `bundle`, in a folder that is gone afterwards.  Raises what `unpack` raises."""
    with scratch() as folder:
        root = folder / "run"
        yield unpack(bundle, root), root


def verify_unpacked(bundle: Path, manifest: BundleManifest, root: Path) -> BundleVerdict:
    """Judges everything again in the bundle of a trial that was unpacked into `root`."""
    run = verify(root, cells=(manifest.cell,), whole=False)
    trial = TrialDir(root / manifest.recording, root)
    result = _result_of(run, manifest)
    untried = not_repeated(foreign_commands(ResultDir(root).trials()))
    differences: list[str] = []
    if not untried or result.verdict is not Verdict.INCONCLUSIVE:  # what was not asked differs not
        verdict, lost = _name(result.verdict), result.lost_lsns
        what = "the recording"
        differences += _differences(what, manifest.verdict, manifest.lost, verdict, lost)
    state: BundledState | None = None
    if manifest.state is not None:
        try:
            state = _bundled_state(trial, manifest.state.name)
        except HostError as error:
            untried = (f"state {manifest.state.name}: {error}", *untried)
    if state is not None and manifest.state is not None:
        what = f"state {state.name}"
        then = manifest.state
        differences += _differences(what, then.verdict, then.lost, state.verdict, state.lost)
    shown = {
        "result_directory": str(bundle),
        "scenario_file": "scenario.yaml",
        "reproduce": f"powercut verify {bundle}",
    }
    return BundleVerdict(
        manifest=manifest,
        run=run.model_copy(update=shown),
        state=state,
        differences=tuple(differences),
        untried=untried,
    )


def _result_of(run: RunResult, manifest: BundleManifest) -> TrialResult:
    """What the recording that the bundle is about came to.  Raises DamagedRecording."""
    for cell in run.cells:
        for trial in cell.trials:
            if trial.result_directory == manifest.recording:
                return trial
    raise DamagedRecording(
        f"its {MANIFEST} is about {manifest.recording}, which is no recording of "
        f"cell {manifest.cell!r} in it"
    )


def _differences(
    what: str,
    verdict: str,
    lost: Iterable[LsnRange],
    verdict_now: str,
    lost_now: Iterable[LsnRange],
) -> Iterator[str]:
    if verdict != verdict_now:
        yield f"{what} was {verdict} and is {verdict_now}"
    then, now = (", ".join(map(str, ranges)) or "nothing" for ranges in (lost, lost_now))
    if then != now:
        yield f"{what} had lost {then} and loses {now}"
