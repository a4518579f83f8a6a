# SPDX-License-Identifier: Apache-2.0
"""What a certificate says in words: what it proves, and what was not tested."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from powercut.model.confidence import percent
from powercut.model.contract import CutKind
from powercut.model.machine import Bus, CacheMode, ImageFormat
from powercut.model.verdict import Verdict
from powercut.scenario.settings import (
    ControlKind,
    Engine,
    FilesystemType,
    Parameters,
    SyncMode,
    WalSettings,
)
from powercut.workload.table import is_recognised
from powercut_extras.certify.certificate import CertifiedCell, Definition, NotTested

_AXES: Final[dict[str, type[enum.Enum]]] = {
    "machine.cache": CacheMode,
    "machine.bus": Bus,
    "machine.format": ImageFormat,
    "filesystem.type": FilesystemType,
    "workload.sync": SyncMode,
    "workload.engine": Engine,
}
"""The settings of which a reader expects every value."""


def untested(cells: Sequence[Parameters]) -> Iterator[NotTested]:
    """Values of the usual axes that no cell has."""
    logs = [cell for cell in cells if isinstance(cell.workload, WalSettings)]
    for key, values in _AXES.items():
        group, _, name = key.partition(".")
        # A program has no machine here, nor the settings of the log.
        asked = cells if group == "filesystem" else logs
        seen = {getattr(getattr(cell, group), name) for cell in asked}
        for value in values if asked else ():
            if value not in seen:
                yield NotTested(settings={key: value.value}, reason="not in this scenario")


def statement_of(
    cells: Sequence[CertifiedCell],
    not_tested: Sequence[NotTested],
    definition: Definition | None = None,
) -> str:
    """What the certificate proves and what it does not."""
    count = Counter(cell.verdict for cell in cells)
    cuts = sum(cell.cuts for cell in cells)
    kinds = {cell.parameters.cut.kind for cell in cells}
    cut = "power cut" if kinds <= {CutKind.POWER_LOSS} else "cut"
    safe = [cell for cell in cells if cell.verdict is Verdict.SAFE]
    sentences = [
        f"{_number(len(cells), 'combination')} of settings, {_number(cuts, cut)}: "
        f"{'; '.join(_found(count))}."
    ]
    if survived := [cell for cell in cells if cell.verdict is Verdict.SURVIVED]:
        sentences.append(_survived_means(survived))
    if safe:
        bounds = [cell.loss_probability_upper_95 for cell in safe]
        known = [bound for bound in bounds if bound is not None]
        sentences.append(_safe_means(safe))
        sentences += _disk_promises(safe)
        if known:
            sentences.append(
                "By itself the number of cuts only shows (95 % confidence) that fewer than "
                f"{percent(min(known))}"
                + (f" to {percent(max(known))}" if max(known) != min(known) else "")
                + " of the cuts of such a combination lose a record."
            )
    if count[Verdict.LOSSY]:
        unconfirmed = sum(cell.confirmed is False for cell in cells)
        sentences.append(
            "LOSSY is a proof by example: the recording shows the loss."
            + (
                f" In {unconfirmed} of these cells the analysis of the recording does not name "
                "the same records as the cut."
                if unconfirmed
                else ""
            )
        )
    if less := [cell for cell in safe if cell.keeps != "every"]:
        promises = " or ".join(sorted({f"`promise {cell.keeps}`" for cell in less}))
        sentences.append(
            f"In {len(less):,} of these cells the program promises less than to keep what it "
            f"acknowledges ({promises}), and no more was asked of it."
        )
    surprises = sum(not cell.as_expected for cell in cells)
    if surprises and definition is None:
        sentences.append(f"{surprises} did not get the verdict that was expected.")
    if definition is not None and (missing := definition.disks_left_out):
        disks = ", ".join(one.what for one in missing)
        sentences.append(f"It says nothing of {disks}, and so nothing of {definition.machine}.")
    left_out = sum(entry.combinations for entry in not_tested)
    sentences.append(
        "It holds for the versions named here, for this workload, and for power cuts below the "
        "captured disk, whose model of a disk stands in for a real one; nothing is said of other "
        "versions, of real media"
        + (f", or of the {left_out:,} combinations listed as not tested." if left_out else ".")
    )
    return " ".join(sentences)


def _found(count: Counter[Verdict]) -> Iterator[str]:
    """How many combinations have which verdict, without those that none has."""
    if kept := count[Verdict.SAFE]:
        they = "it" if kept == 1 else "they"
        yield f"{kept:,} kept every record that {they} had acknowledged"
    if lost := count[Verdict.LOSSY]:
        yield (
            f"{lost:,} lost acknowledged records, acknowledged some too early, or would have lost "
            "some to another cut"
        )
    if survived := count[Verdict.SURVIVED]:
        yield f"{survived:,} survived"
    if undecided := count[Verdict.INCONCLUSIVE]:
        yield f"{undecided:,} could not be decided"


def _survived_means(survived: Sequence[CertifiedCell]) -> str:
    """What was seen of the cells whose disk was not recorded, and what was not."""
    worst = max(cell.loss_probability_upper_95 or 1.0 for cell in survived)
    return (
        "SURVIVED is less than SAFE: the disk was not recorded, so that nothing but the cuts "
        "themselves was looked at. None of them lost an acknowledged record, which by itself only "
        f"shows (95 % confidence) that fewer than {percent(worst)} of such cuts lose one; of what "
        "other cuts may leave nothing is known."
    )


_SECTOR: Final = 512

_TWINS: Final = {
    ControlKind.LYING_DISK: "on a lying disk",
    ControlKind.NO_SYNC: "without sync",
}


def _safe_means(safe: Sequence[CertifiedCell]) -> str:
    """What was seen of each of the cells that are SAFE."""
    kinds = {frozenset(control.kind for control in cell.controls) for cell in safe}
    common = frozenset.intersection(*kinds)
    how = " and ".join(words for kind, words in _TWINS.items() if kind in common)
    if not how:
        how = " or ".join(_TWINS.values())
    elif len(kinds) > 1:
        how += (
            " (of some also "
            + " and ".join(words for kind, words in _TWINS.items() if kind not in common)
            + ")"
        )
    programs = [cell for cell in safe if not is_recognised(cell.parameters)]
    durable = (
        ""
        if len(programs) == len(safe)
        else "that the bytes of each were durable on the captured disk when it was acknowledged"
        + (" (not known of programs, whose bytes are not recognised), " if programs else ", ")
    )
    text = (
        f"SAFE means that no such cut lost an acknowledged record, {durable}and that runs of the "
        f"same combination {how} were seen to lose theirs."
    )
    explored = [cell.coverage for cell in safe if cell.coverage is not None]
    if explored:
        states = sum(coverage.checked + coverage.decided for coverage in explored)
        text += (
            f" Whether what leads to the bytes survives, a file system or an image format, is "
            f"shown by {_number(states, 'crash state')} recovered in "
            f"{_number(len(explored), 'cell')}, out of very many more that were legal."
        )
    mild = sum(cell.parameters.cut.kind is not CutKind.POWER_LOSS for cell in safe)
    if mild:
        text += (
            f" In {mild:,} of these cells the disk kept its power, so that what it had completed "
            "counts as durable: they say nothing of a power cut."
        )
    return text


def _disk_promises(safe: Sequence[CertifiedCell]) -> Iterator[str]:
    """What a disk has to promise for the cells that are SAFE to be so on it."""
    units = Counter(
        cell.parameters.disk.atomic_unit
        for cell in safe
        if cell.parameters.cut.kind is CutKind.POWER_LOSS
    )
    for unit, cells in sorted(units.items()):
        where = "" if len(units) == 1 else f" in {_number(cells, 'cell')}"
        if unit == 1:
            yield f"The disk has to promise nothing about torn writes{where}."
            continue
        yield (
            f"The disk has to promise{where} that it writes an aligned block of {unit:,} bytes "
            "whole or not at all when its power fails"
            + (
                "; nothing is said of one that promises less, such as sectors of 512 bytes."
                if unit > _SECTOR
                else ", as every disk with sectors does."
            )
        )


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
