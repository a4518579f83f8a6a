# SPDX-License-Identifier: Apache-2.0
"""What a host says of a trial, and how far it is believed.

1. A claim is a trial.json, a manifest and a verdict.  They have to be of the trial that was
   ordered and of one recording (`accept`).  That shows nothing of the evidence, which stays there.
2. The manifest, or its digest, is kept as it came (`keep`, `row_of`).  What is fetched later has to
   be what it names, so a host cannot change its mind (`fetch`, `fetch_row`).
3. A fetched recording is judged again here, and has to come to the same (`judge_again`).

What would a lying host do?  Call a loss SAFE: found in each recording that is judged again, and the
drawing of those is by a seed that no host knows.  Send another recording than it judged: found by
its manifest.  Make up a recording from beginning to end: not found, by any judge.  So each host
also owes the controls of the cells it has a part in (powercut.cluster.run), and certificates name
every host.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from powercut.cluster.messages import RESULT_FILES, Done
from powercut.cluster.roster import ClusterHost, FalseClaim
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import DamagedRecording, HostError, PowercutError
from powercut.model.json_text import parse_json
from powercut.model.verdict import Verdict
from powercut.rig.engine_shelf import EngineShelf
from powercut.store.binding import binding_of
from powercut.store.exploration import ExploreResult
from powercut.store.files import host_errors, link_or_copy, remove_tree
from powercut.store.manifest import MANIFEST, adopt, entries_of
from powercut.store.own import MARK
from powercut.store.place import PLACE, Place, read_place, write_place
from powercut.store.record import parse_model
from powercut.store.rows import Row
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import same_run
from powercut.trial.job import TrialJob
from powercut.verdict.judge import verdict_of

_NONE_CARRIED: Final[Mapping[str, str]] = {}
_EXPLORATION: Final = "exploration.json"
_NAME: Final = re.compile(r"(states/)?[A-Za-z0-9_][A-Za-z0-9._@:+-]{0,200}")
_SIZE_MAX: Final = 4 << 30
_UNSEALED: Final = ("verdict.json", _EXPLORATION, PLACE, MARK)


def accept(
    done: Done,
    expected: str,
    job: TrialJob,
    trial: TrialDir,
    programs: Mapping[str, str] = _NONE_CARRIED,
) -> TrialResult:
    """The verdict of a claim.  Raises FalseClaim if it is of anything else than the trial.

    `expected` is the folder there in which the trial was to be made, `programs` the digests of a
    program that was carried there.
    """
    try:
        result = _claimed(done.files, job)
        _require_program(done.files["trial.json"], programs)
        if done.folder != expected or set(done.files) - set(RESULT_FILES):
            raise DamagedRecording("its folder, or a file, has another name")
        if result.result_directory != trial.relative:
            raise DamagedRecording("verdict.json names another folder")
        if done.outcomes != (result.verdict.name,):
            told = ", then ".join(done.outcomes)[:80] or "nothing"
            raise DamagedRecording(f"one trial has one outcome, and it had {told}")
    except DamagedRecording as error:
        raise FalseClaim(f"it sent what is not of the trial: {error}") from None
    return result


def _require_program(record: str, programs: Mapping[str, str]) -> None:
    """Raises DamagedRecording if another program made a trial."""
    made = parse_json(record).get("versions", {})
    for name, digest in programs.items():
        if made.get(name) != digest:
            told = str(made.get(name, ""))[:16] or "none"
            raise DamagedRecording(f"{name} is {told}, and {digest[:16]} was carried there")


def keep(done: Done, trial: TrialDir, host: str) -> None:
    """Puts an accepted claim where the trial belongs.  Raises HostError."""
    new = _new(trial)
    with host_errors(trial.path):
        for name, text in done.files.items():
            (new.path / name).write_text(text, encoding="utf-8")
    write_place(
        new.path, Place(host=host, folder=done.folder, seconds=done.seconds, tries=done.tries)
    )
    with host_errors(trial.path):
        remove_tree(trial.path)
        new.path.rename(trial.path)
    adopt(trial.path)  # it names the commands that were ordered, and no others: `accept`


def row_of(done: Done, result: TrialResult, host: str) -> Row:
    """The same as a row, for one that lost nothing."""
    manifest = hashlib.sha256(done.files[MANIFEST].encode()).hexdigest()
    return Row.of(host, done.seconds, manifest, result, done.files.get(_EXPLORATION, ""))


def _new(trial: TrialDir) -> TrialDir:
    """A new folder beside that of the trial, which it is to take the place of."""
    new = TrialDir(trial.path.with_name(f".{trial.path.name}"), trial.run)
    remove_tree(new.path)
    with host_errors(trial.path):
        new.path.mkdir(parents=True)
    return new


def _claimed(files: Mapping[str, str], job: TrialJob) -> TrialResult:
    """The verdict that a claim gives.  Raises DamagedRecording."""
    for name in RESULT_FILES:
        if name not in files and name != _EXPLORATION:
            raise DamagedRecording(f"{name} is missing")
    text = files["trial.json"].encode()
    sealed = {name: told for name, *told in entries_of(files[MANIFEST], MANIFEST)}
    if sealed.get("trial.json") != [len(text), hashlib.sha256(text).hexdigest()]:
        raise DamagedRecording("trial.json is not the one that was sealed")
    record = parse_model(text, TrialRecord, "trial.json")
    result = parse_model(files["verdict.json"], TrialResult, "verdict.json")
    if _EXPLORATION in files:
        parse_model(files[_EXPLORATION], ExploreResult, _EXPLORATION)
    wanted = job.as_record(record.recording)
    for name in sorted(wanted.model_fields_set):
        if getattr(record, name) != getattr(wanted, name):
            raise DamagedRecording(f"trial.json has another {name}")
    if (result.trial, result.seed) != (job.trial.number, job.trial.seed):
        raise DamagedRecording("verdict.json is of another trial")
    if not record.recording or result.binding != binding_of(parse_json(text)).name:
        raise DamagedRecording("verdict.json is of another recording than trial.json")
    return result


def fetch(host: ClusterHost, trial: TrialDir) -> None:
    """Brings the evidence of a claim here, which has to be what its manifest names.

    Raises FalseClaim, HostError.
    """
    place = read_place(trial.path)
    if place is None or trial.kept:
        return
    known = _known_base(trial)
    mine = (*RESULT_FILES, PLACE, MARK)
    new = _new(trial)
    with host_errors(trial.path):
        for name in mine:
            if (trial.path / name).is_file():
                link_or_copy(trial.path / name, new.path / name)
    left_out = (*mine, *((trial.base_image.name,) if known is not None else ()))
    _bring(host, place.folder, new, left_out)
    try:
        if known is not None:
            link_or_copy(known, new.base_image)
        new.check_seal()
    except DamagedRecording as error:
        remove_tree(new.path)
        raise FalseClaim(f"the recording is not the one that it judged: {error}") from None
    _take_place(new, trial, known)


def fetch_row(host: ClusterHost, trial: TrialDir, folder: str, row: Row) -> None:
    """Brings the recording of a row here, in a folder of its own.  Raises FalseClaim, HostError."""
    new = _new(trial)
    _bring(host, folder, new, _UNSEALED)
    try:
        manifest = new.path / MANIFEST
        found = hashlib.sha256(manifest.read_bytes()).hexdigest() if manifest.is_file() else ""
        if found != row.manifest:
            raise DamagedRecording("it has another manifest")
        new.check_seal()
    except DamagedRecording as error:
        remove_tree(new.path)
        raise FalseClaim(f"the recording is not the one that it judged: {error}") from None
    adopt(new.path)  # a row is made of an accepted claim
    new.write_verdict(row.result)
    if row.exploration:
        new.write_text(_EXPLORATION, row.exploration)
    write_place(new.path, Place(host=row.host, folder=folder, seconds=row.seconds))
    _take_place(new, trial, None)


def _bring(host: ClusterHost, folder: str, new: TrialDir, left_out: Collection[str]) -> None:
    """Writes the files of a recording on a host into `new`; whose names and sizes may be anything.

    Raises FalseClaim, HostError.
    """
    try:
        listed = host.files(folder)
        wanted = {name: size for name, size in listed.items() if name not in left_out}
        for name in wanted:
            if _NAME.fullmatch(name) is None:
                raise FalseClaim(f"it sends {name[:80]!r}")
        if sum(wanted.values()) > _SIZE_MAX:
            raise FalseClaim(f"{folder}: a recording of {sum(wanted.values()) >> 20} MiB")
        for name, size in wanted.items():
            target = new.path / name
            with host_errors(target):
                target.parent.mkdir(exist_ok=True)
                if host.folder is not None:
                    link_or_copy(host.folder / folder / name, target)
                    continue
                with target.open("xb") as file:
                    for data in host.read(f"{folder}/{name}", size):
                        file.write(data)
    except BaseException:
        remove_tree(new.path)
        raise


def _take_place(new: TrialDir, trial: TrialDir, known_base: Path | None) -> None:
    if known_base is None and new.base_image.is_file():
        brought = new.base_image.rename(new.path / ".base")
        new.adopt_base(brought)
        brought.unlink()
    old = trial.path.with_name(f".{trial.path.name}.claim")
    with host_errors(trial.path):
        if trial.path.exists():
            trial.path.rename(old)
        new.path.rename(trial.path)
    remove_tree(old)


def judge_again(trial: TrialDir, shelf: EngineShelf) -> None:
    """Judges a fetched recording here.  Raises FalseClaim if it comes to something else.

    Raises HostError if this host cannot judge it: that shows nothing of the other one.
    """
    said = trial.read_verdict()
    try:
        result = verdict_of(trial, RecoveredStates(shelf, again=True))
    except DamagedRecording as error:
        raise FalseClaim(f"the recording cannot be judged: {error}") from None
    if result.verdict is Verdict.INCONCLUSIVE and said.verdict is not Verdict.INCONCLUSIVE:
        why = next((one.message for one in result.findings), "it does not say why")
        raise HostError(f"{trial.relative} cannot be judged here: {why}")
    own = (result.verdict, result.commits_acked, result.lost_lsns)
    if own != (said.verdict, said.commits_acked, said.lost_lsns):
        raise FalseClaim(
            f"{trial.relative} is {said.verdict.name} with {said.commits_lost} of "
            f"{said.commits_acked} records lost, it says; judged here it is "
            f"{result.verdict.name} with {result.commits_lost} of {result.commits_acked}"
        )
    place = read_place(trial.path)
    if place is not None:
        write_place(trial.path, place.model_copy(update={"judged_here": True}))


def same_trial(trial: TrialDir, job: TrialJob) -> bool:
    """Whether the claim in a folder is of this trial, so that a resumed run need not repeat it."""
    try:
        record = trial.read_record()
        paths = [trial.path / name for name in RESULT_FILES]
        _claimed({path.name: path.read_text() for path in paths if path.is_file()}, job)
    except (PowercutError, OSError, UnicodeDecodeError):
        return False
    return same_run(record.parameters) == same_run(job.parameters)


def _known_base(trial: TrialDir) -> Path | None:
    """The base image that the manifest names, if another trial of the run has brought it."""
    digest = trial.sealed_digest(trial.base_image.name)
    path = trial.run / "bases" / f"{digest}.img"
    return path if digest and re.fullmatch("[0-9a-f]{64}", digest) and path.is_file() else None
