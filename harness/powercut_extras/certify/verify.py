# SPDX-License-Identifier: Apache-2.0
"""Is a certificate what it claims to be?

1. It follows the schema, and what it says agrees with itself: counts, bounds, verdicts with
   their controls.  This needs nothing but the file.
2. It follows from its folder: drawn up again from the results there, it comes out the same,
   field by field; these results follow from their trials and controls
   (powercut_extras.certify.follows); each recording that was kept is as it was sealed.
3. With `deep`, each recording is judged again, by the checkers of today; one that is not there is
   a problem, since its verdict rests on nothing, unless `allow_missing`.
4. If it is signed, the signature fits the file and, where the reader says whom to trust, the
   signer is one of them.

What could not be looked at is said, too: a file without its folder and without a signature
proves nothing but that it is consistent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from powercut import __version__
from powercut.model.confidence import upper_bound
from powercut.model.errors import PowercutError, UsageError
from powercut.model.verdict import EvidenceLevel, Verdict
from powercut.rig.commands import is_bare
from powercut.scenario.place import place_of
from powercut.scenario.settings import Expect
from powercut.store.results import wanted_verdict
from powercut.store.trial_dir import TrialDir
from powercut.trial.controls import EXPECTED, controls_for
from powercut.workload.table import is_recognised
from powercut_extras.certify.build import all_as_expected, axes_of, certificate_of, counted
from powercut_extras.certify.certificate import Certificate, CertifiedCell, SealedRecording
from powercut_extras.certify.flat import flat, is_default
from powercut_extras.certify.follows import problems_of_runs
from powercut_extras.certify.order import (
    SIGNATURE,
    CertificateDir,
    read_certificate,
)
from powercut_extras.certify.recordings import (
    Depth,
    look_at,
    missing_problems,
)
from powercut_extras.certify.sign import check_signature
from powercut_extras.certify.words import statement_of

_SHOWN_MAX: Final = 60
_CLOSE: Final = 1e-9


@dataclass(frozen=True)
class Examination:
    """What came out of examining a certificate."""

    certificate: Certificate
    problems: tuple[str, ...]
    """What is wrong; empty if nothing is."""

    checked: tuple[str, ...]
    """What was looked at and found in order, in sentences."""

    unchecked: tuple[str, ...]
    """What could not be looked at."""

    beside: bool
    """Whether the results that it was drawn up from lie beside it."""


def examine(
    path: Path,
    *,
    deep: bool = False,
    allow_missing: bool = False,
    seals: bool = True,
    jobs: int = 1,
    allowed_signers: Path | None = None,
) -> Examination:
    """Examines the certificate at `path`, a file or its folder.

    `jobs` recordings are judged at the same time.  Without `seals` no recording is read, which
    takes a tenth of the time.
    Raises UsageError if there is none, and DamagedRecording if it does not follow the schema.
    """
    file = path / "certificate.json" if path.is_dir() else path
    certificate = read_certificate(file)
    problems = list(contradictions(certificate))
    checked: list[str] = []
    unchecked: list[str] = []
    if not problems:
        checked.append("The certificate follows its schema and agrees with itself.")
    directory = None
    try:
        directory = CertificateDir.open(file)
    except UsageError:
        unchecked.append("Its results are not beside it: nothing says where it comes from.")
        if deep:
            problems.append(f"{file.parent}: there is no evidence to judge again")
    else:
        how = Depth(deep, allow_missing, jobs, seals or deep)
        _examine_folder(certificate, directory, how, problems, checked, unchecked)
    if unseen := sum(_rests_on_bytes(cell) for cell in certificate.cells):
        unchecked.append(
            f"{unseen} cells are SAFE on a file system or an image format without a recovered "
            "crash state."
        )
    _examine_signature(file, allowed_signers, problems, checked, unchecked)
    return Examination(
        certificate,
        tuple(problems),
        tuple(checked),
        tuple(unchecked),
        beside=directory is not None,
    )


def _examine_signature(
    file: Path,
    allowed_signers: Path | None,
    problems: list[str],
    checked: list[str],
    unchecked: list[str],
) -> None:
    signature = file.with_name(SIGNATURE)
    if not signature.is_file():
        if allowed_signers is not None:
            problems.append(f"{file} is not signed: there is no {signature.name}")
        else:
            unchecked.append("It is not signed.")
        return
    outcome = check_signature(file, signature, allowed_signers)
    if not outcome.good:
        problems.append(outcome.says)
    elif outcome.trusted:
        checked.append(outcome.says)
    else:
        checked.append(outcome.says)
        unchecked.append("No trusted signer has this key: name those whom you trust.")


# --- the folder ---------------------------------------------------------------------


def _examine_folder(
    certificate: Certificate,
    directory: CertificateDir,
    how: Depth,
    problems: list[str],
    checked: list[str],
    unchecked: list[str],
) -> None:
    before = len(problems)
    try:
        again = certificate_of(directory)
    except PowercutError as error:
        problems.append(str(error))
        return
    texts = certificate.powercut == __version__
    if not any(cell.cause for cell in certificate.cells):
        again = _without_causes(again)
    problems += _compare(_plain(certificate, texts=texts), _plain(again, texts=texts))
    problems += problems_of_runs(directory)
    if not texts:
        unchecked.append(
            f"Explanations were not compared: powercut {certificate.powercut} wrote them, and "
            f"this is {__version__}."
        )
    folders = [directory.path / entry.directory for entry in evidence_of(again)]
    trials = [TrialDir(folder, directory.path) for folder in folders]
    count = len(trials)
    there = [trial for trial in trials if trial.kept]
    seen = look_at(there, how) if how.seals else ()
    problems += [line for one in seen for line in one.problems]
    unchecked += [line for one in seen for line in one.unchecked]
    told = {entry.directory for entry in evidence_of(certificate) if entry.kept}
    missing = [trial for trial in trials if not trial.kept]
    lost = [trial for trial in missing if trial.relative in told]
    if how.deep and not how.allow_missing:
        problems += missing_problems(missing, count)
    if len(problems) == before:
        checked.append("Drawn up again from the results beside it, it comes out the same.")
        checked.append("The results follow from their trials and controls.")
        if there and how.seals:
            what = "judged again with the same outcome" if how.deep else "as it was sealed"
            checked.append(f"{len(there)} of {count} recordings are there, each {what}.")
        if confirmed := sum(one.confirmed for one in seen):
            what = "confirmation was" if confirmed == 1 else "confirmations were"
            checked.append(f"{confirmed} {what} repeated, with the same outcome.")
    if dropped := len(missing) - len(lost):
        unchecked.append(f"{dropped} of {count} recordings were not kept.")
    if lost:
        unchecked.append(f"{len(lost)} recordings are gone that were there when it was drawn up.")
    if there and not how.seals:
        unchecked.append("No recording was read.")
    elif there and not how.deep:
        unchecked.append("No recording was judged again: --deep does.")


def evidence_of(certificate: Certificate) -> tuple[SealedRecording, ...]:
    """Every recording that a certificate names, once."""
    found = {
        entry.directory: entry
        for cell in certificate.cells
        for entry in (
            *cell.evidence,
            *(control.evidence for control in cell.controls if control.evidence is not None),
        )
    }
    return tuple(found.values())


def _plain(certificate: Certificate, *, texts: bool) -> dict[str, Any]:
    """As JSON, but for what may change: recordings may be dropped later, texts improved."""
    value = json.loads(certificate.model_dump_json())
    if not texts:
        for part in (value, *value["cells"]):
            part.pop("statement", None)
            part.pop("explanation", None)
            part.pop("cause", None)
    for cell in value["cells"]:
        entries = [*cell["evidence"], *(control["evidence"] for control in cell["controls"])]
        for entry in entries:
            if entry is not None:
                entry.pop("kept")
        settings = cell["settings"].items()  # at a default of then or now they say nothing
        cell["settings"] = {key: told for key, told in settings if not is_default(key, told)}
    return dict(value)


def _without_causes(certificate: Certificate) -> Certificate:
    """`certificate` as it was drawn up before causes stood apart from explanations."""
    none = {"cause": "", "cause_layer": ""}
    cells = tuple(cell.model_copy(update=none) for cell in certificate.cells)
    return certificate.model_copy(update={"cells": cells})


def _compare(given: Any, again: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ, each place in a sentence."""
    if isinstance(given, dict) and isinstance(again, dict):
        for key in dict.fromkeys((*given, *again)):
            inner = f"{place}.{key}" if place else key
            yield from _compare(given.get(key), again.get(key), inner)
    elif isinstance(given, list) and isinstance(again, list) and len(given) == len(again):
        for number, (left, right) in enumerate(zip(given, again, strict=True)):
            yield from _compare(left, right, f"{place}[{number}]")
    elif given != again:
        yield f"{place}: the certificate says {_shown(given)}, its results say {_shown(again)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


# --- the certificate by itself --------------------------------------------------------


def contradictions(certificate: Certificate) -> Iterator[str]:
    """What in a certificate contradicts something else in it."""
    cells = certificate.cells
    if certificate.verdicts != counted(cells):
        yield f"verdicts: it counts {certificate.verdicts}, its cells are {counted(cells)}"
    if certificate.as_expected != all_as_expected(cells, certificate.definition):
        yield "as_expected: it is not what its cells, and the disks left out, say"
    if certificate.axes != axes_of(cells):
        yield "axes: they are not the settings that vary between its cells"
    same_words = certificate.powercut == __version__
    said = statement_of(cells, certificate.not_tested, certificate.definition)
    if same_words and certificate.statement != said:
        yield "statement: it is not what follows from the cells"
    names = [(cell.scenario, cell.cell) for cell in cells]
    if len(set(names)) != len(names):
        yield "cells: two have the same name"
    for cell in cells:
        for problem in _cell_contradictions(cell, len(certificate.components)):
            yield f"{cell.scenario}: {cell.cell}: {problem}"


def _cell_contradictions(cell: CertifiedCell, components: int) -> Iterator[str]:
    if cell.as_expected != (cell.verdict is wanted_verdict(cell.expected)):
        yield "as_expected contradicts verdict and expected"
    if cell.expected is not cell.parameters.expect:
        yield "expected is not what its parameters say"
    if not _says_what_differs(cell):
        yield "its settings are not those in which its parameters differ from the defaults"
    if not 0 <= cell.lost <= cell.acked:
        yield f"{cell.lost} of {cell.acked} records cannot be lost"
    if cell.cuts != len(cell.evidence):
        yield f"{cell.cuts} cuts with {len(cell.evidence)} recordings"
    if any(not 0 <= index < components for index in cell.components):
        yield "a component is not in the list"
    yield from _level_contradictions(cell)
    if bool(cell.explanation) != (cell.verdict is not Verdict.SAFE):
        yield "an explanation is for cells that are not safe, and for them alone"
    if cell.verdict is not Verdict.LOSSY and (cell.cause or cell.cause_layer):
        yield "a cause is for lossy cells alone"
    if cell.cause and not cell.explanation.startswith(cell.cause):
        yield "its cause is not what its explanation begins with"
    yield from _control_contradictions(cell)
    if cell.verdict is Verdict.SAFE:
        yield from _safe_contradictions(cell)
    if cell.verdict in (Verdict.SAFE, Verdict.SURVIVED):
        yield from _lossless_contradictions(cell)
    elif cell.loss_probability_upper_95 is not None:
        yield "a bound is for cells without loss alone"


def _level_contradictions(cell: CertifiedCell) -> Iterator[str]:
    """What cuts alone cannot show, a cell whose disk was not recorded does not claim."""
    recorded = cell.evidence_level is EvidenceLevel.RECORDED
    if (cell.confirmed is None) != (cell.verdict is not Verdict.LOSSY or not recorded):
        yield "confirmed is for lossy cells whose disk was recorded, and for them alone"
    level = place_of(cell.parameters).evidence_level
    if cell.evidence_level is not level:
        yield f"it is {cell.evidence_level.value}, and its machine leaves what is {level.value}"
    if not recorded and cell.verdict is Verdict.SAFE:
        yield "it is safe, and its disk was not recorded"
    if recorded and cell.verdict is Verdict.SURVIVED:
        yield "it survived, which is for disks that were not recorded"
    if not recorded and not (cell.exposure is None and cell.acks is None and cell.coverage is None):
        yield "its disk was not recorded, and it says what the recording shows"


def _says_what_differs(cell: CertifiedCell) -> bool:
    """Whether its settings are its parameters, but for those at their default."""
    parameters = flat(cell.parameters)
    told = {key: value for key, value in cell.settings.items() if key in parameters}
    return cell.settings == told == {key: parameters[key] for key in told} and all(
        is_default(key, value) for key, value in parameters.items() if key not in told
    )


def _rests_on_bytes(cell: CertifiedCell) -> bool:
    """Whether it is SAFE although nothing shows that recovery finds its way to the bytes."""
    seen = cell.coverage is not None and cell.coverage.checked
    bytes_are_all = is_bare(cell.parameters) and is_recognised(cell.parameters)
    return cell.verdict is Verdict.SAFE and not seen and not bytes_are_all


def _is_exposed(cell: CertifiedCell) -> bool:
    """Whether bytes were acknowledged too early, or perhaps so although they are recognised."""
    if cell.exposure is None:
        return is_recognised(cell.parameters)
    return cell.exposure.records > 0


def _safe_contradictions(cell: CertifiedCell) -> Iterator[str]:
    """SAFE asks for the most: also nothing exposed, and no crash state that loses anything."""
    if _is_exposed(cell):
        yield "it is safe, and bytes were acknowledged too early, or whether they were is not known"
    if cell.coverage is not None and cell.coverage.lossy:
        yield "it is safe, and crash states lose records"


def _lossless_contradictions(cell: CertifiedCell) -> Iterator[str]:
    """SAFE and SURVIVED: nothing lost, controls that behaved, and a bound by the number of cuts."""
    said = "it is safe" if cell.verdict is Verdict.SAFE else "it survived"
    if cell.lost or cell.lost_lsns:
        yield f"{said} and has lost records"
    wanted = [control.name for control in controls_for(cell.parameters, cell.verdict)]
    if not wanted or sorted(wanted) != sorted(control.name for control in cell.controls):
        yield f"{said} without the controls that vouch for it"
    if not all(control.behaved for control in cell.controls):
        yield f"{said}, and a control misbehaved"
    bound = cell.loss_probability_upper_95
    possible = [upper_bound(0, cuts) for cuts in range(1, cell.cuts + 1)]
    if bound is None:
        if cell.acked:
            yield f"{said}, and no bound is given"
    elif not any(abs(bound - value) < _CLOSE for value in possible):
        yield f"no number of its {cell.cuts} cuts gives the bound {bound}"


def _control_contradictions(cell: CertifiedCell) -> Iterator[str]:
    for control in cell.controls:
        wanted = EXPECTED[control.kind]
        if control.expected is not (Expect.SAFE if wanted is Verdict.SAFE else Expect.LOSSY):
            yield f"control {control.name} must be {wanted.name}, not what it expects"
        if control.behaved != (control.verdict is wanted):
            yield f"control {control.name}: behaved contradicts its verdict"
        if control.evidence is None and control.behaved:
            yield f"control {control.name} behaved without a recording"
