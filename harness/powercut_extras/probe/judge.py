# SPDX-License-Identifier: Apache-2.0
"""Whether sync rates can be true, given what the medium can physically do.  Pure.

A sync that returns claims that the bytes are durable.  Each medium needs some time for
that; who claims it more often is not telling the truth, or has a cache that keeps its
content without power.  For every medium there are two rates:

- up to `plausible_per_s` nothing is suspicious;
- above `impossible_per_s` the claim is too good to be true;
- in between it depends on something that cannot be seen from here: nothing is said.

What follows from the rates:

1. A method that promises durability and is faster than the medium can be is TOO_GOOD.
2. A plain O_DIRECT write promises nothing (open(2): "does not give the guarantees of the
   O_SYNC flag").  Faster than the medium it has ended in a volatile cache.  That is in
   order where the disk says that it has one; if it is known to have none, somebody
   acknowledged what was not written: TOO_GOOD.
3. On a disk that turns, only overwriting one spot is judged: that spot passes the head
   once in a turn.  Where the file system never overwrites (copy on write), even that
   follows from nothing, and a high rate is UNKNOWN.
4. What lies in memory is never durable, whatever the rate.

A slow sync proves nothing either: it may be slow and do nothing.  A probe finds suspects;
only a cut convicts or acquits.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final


class Method(enum.Enum):
    """A way to write; each but the first two promises that the bytes are durable."""

    BUFFERED = "buffered, no sync"
    DIRECT = "O_DIRECT, no sync"
    FSYNC = "fsync"
    FDATASYNC = "fdatasync"
    O_DSYNC = "O_DSYNC"
    O_SYNC = "O_SYNC"
    RWF_DSYNC = "RWF_DSYNC"
    DIRECT_FDATASYNC = "O_DIRECT + fdatasync"
    DIRECT_O_DSYNC = "O_DIRECT + O_DSYNC"

    @property
    def promises(self) -> bool:
        """Whether its return claims durability."""
        return self not in (Method.BUFFERED, Method.DIRECT)

    @property
    def direct(self) -> bool:
        """Whether it goes past the page cache."""
        return self in (Method.DIRECT, Method.DIRECT_FDATASYNC, Method.DIRECT_O_DSYNC)


class Pattern(enum.Enum):
    """Where the writes go."""

    OVERWRITE = "overwrite"  # always the same spot
    APPEND = "append"  # each behind the one before; a file grows


class Kind(enum.Enum):
    """What keeps the bytes."""

    HDD_5400 = "hdd-5400"
    HDD_7200 = "hdd-7200"
    HDD_10K = "hdd-10k"
    HDD_15K = "hdd-15k"
    HDD = "hdd"  # a disk that turns, at an unknown speed
    SATA_SSD = "sata-ssd"
    NVME = "nvme"
    MEMORY = "memory"
    UNKNOWN = "unknown"


RPM: Final = {
    Kind.HDD_5400: 5400,
    Kind.HDD_7200: 7200,
    Kind.HDD_10K: 10_000,
    Kind.HDD_15K: 15_000,
}
"""Turns a minute."""

ROTATING: Final = frozenset({*RPM, Kind.HDD})

_TOLERANCE: Final = 1.25
"""Rates are counted over a fraction of a second; disks turn at their speed within 1 %."""

_FLASH_PER_S: Final = 2000 * _TOLERANCE
"""Without power-loss protection a flush has to program flash: typically 0.5 ms and more
(0.4 to 0.9 ms on three consumer drives: M. Callaghan, "SSDs, power loss protection and
fsync latency", smalldatum.blogspot.com, 2026)."""

_FLASH_IMPOSSIBLE_PER_S: Final = 8000.0
"""No flash programs a page in much less than 0.125 ms, even in single-level mode."""

_SATA_PER_S: Final = 100_000.0
"""4 KiB take 7 µs on a link of 6 Gbit/s, before the command itself and its answer."""

_NVME_PER_S: Final = 250_000.0
"""The fastest drives ever sold answer a 4 KiB write in about 5 µs (Optane P5800X)."""


class Outcome(enum.Enum):
    """What a probe comes to; the value is the exit status."""

    PLAUSIBLE = 0
    TOO_GOOD = 1
    UNKNOWN = 3

    @staticmethod
    def worst(outcomes: Sequence[Outcome]) -> Outcome:
        """A suspicion weighs more than ignorance; nothing to go by is ignorance."""
        for outcome in (Outcome.TOO_GOOD, Outcome.UNKNOWN, Outcome.PLAUSIBLE):
            if outcome in outcomes:
                return outcome
        return Outcome.UNKNOWN


@dataclass(frozen=True)
class Rate:
    """What one method did: `per_s` operations a second, half of them within `p50_us`."""

    method: Method
    pattern: Pattern
    per_s: float
    operations: int = 0
    p50_us: float = 0.0
    p99_us: float = 0.0


@dataclass(frozen=True)
class Medium:
    """What is known about the medium.  None: unknown."""

    kind: Kind = Kind.UNKNOWN
    source: str = ""  # who says so, as in "the model name says so"
    plp: bool | None = None  # power-loss protection: a cache that survives
    write_cache: bool | None = None  # a volatile cache, as the disk declares it
    copy_on_write: bool = False


@dataclass(frozen=True)
class Limit:
    """How often a second the medium can make a write durable, one after the other."""

    plausible_per_s: float
    impossible_per_s: float
    because: str


@dataclass(frozen=True)
class Row:
    """What is to be said of one rate; `remark` is a few words for a table."""

    rate: Rate
    outcome: Outcome | None  # None: it promises nothing, or is not judged
    remark: str


@dataclass(frozen=True)
class Judgement:
    """The outcome, the limit it follows from, each rate, and reasons in sentences."""

    outcome: Outcome
    limit: Limit
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]


def limit_of(medium: Medium) -> Limit:
    """What `medium` can do at best."""
    match medium.kind:
        case Kind.SATA_SSD:
            return _ssd(medium.plp, _SATA_PER_S, "a SATA link carries no more")
        case Kind.NVME:
            return _ssd(medium.plp, _NVME_PER_S, "no drive has answered faster")
        case Kind.MEMORY:
            return Limit(0, 0, "what lies in memory is gone when the power is")
        case Kind.UNKNOWN:
            why = "what stores the bytes is not known; the slowest disks turn 90 times a second"
            return Limit(90 * _TOLERANCE, _NVME_PER_S, why)
        case _:
            return _rotating(medium)


def _rotating(medium: Medium) -> Limit:
    if medium.plp:
        why = "a cache that survives power loss answers for the disk, but a SATA link has its limit"
        return Limit(_SATA_PER_S, _SATA_PER_S, why)
    rpm = RPM.get(medium.kind)
    if rpm is None:
        why = (
            "one spot of a disk passes the head once in a turn, 90 to 120 times a second on "
            "most, 250 times on the fastest ever sold"
        )
        return Limit(120 * _TOLERANCE, 250 * _TOLERANCE, why)
    why = (
        f"a disk of {rpm} rpm turns {rpm / 60:.0f} times a second, and one spot passes the head "
        "once in a turn"
    )
    return Limit(rpm / 60 * _TOLERANCE, rpm / 60 * _TOLERANCE, why)


def _ssd(plp: bool | None, link_per_s: float, link: str) -> Limit:
    flash = (
        "an SSD without power-loss protection has to program flash at each flush, which takes "
        "about half a millisecond"
    )
    if plp:
        protected = (
            f"with power-loss protection a flush costs the drive next to nothing, but {link}"
        )
        return Limit(link_per_s, link_per_s, protected)
    if plp is None:
        return Limit(_FLASH_PER_S, link_per_s, f"{flash}; with it, next to nothing")
    return Limit(_FLASH_PER_S, _FLASH_IMPOSSIBLE_PER_S, flash)


def judge(rates: Sequence[Rate], medium: Medium) -> Judgement:
    """What follows from `rates` on `medium`, by the rules above."""
    limit = limit_of(medium)
    rows = tuple(_row(rate, medium, limit) for rate in rates)
    promising = [row.outcome for row in rows if row.rate.method.promises and row.outcome]
    convicting = [row.outcome for row in rows if row.outcome and not row.rate.method.promises]
    # Plain O_DIRECT alone does not acquit: it may accuse, or leave in doubt.
    outcome = Outcome.worst([Outcome.worst(promising), *convicting])
    return Judgement(outcome, limit, rows, tuple(_reasons(rows, medium, limit, outcome)))


def _row(rate: Rate, medium: Medium, limit: Limit) -> Row:
    if rate.method is Method.BUFFERED:
        return Row(rate, None, "promises nothing")
    if medium.kind is Kind.MEMORY:
        return Row(rate, Outcome.TOO_GOOD if rate.method.promises else None, "lies in memory")
    if rate.pattern is Pattern.APPEND and medium.kind in ROTATING:
        return Row(rate, None, "not judged")
    if not rate.method.promises:
        return _unsynced_row(rate, medium, limit)
    return _synced_row(rate, medium, limit)


def _synced_row(rate: Rate, medium: Medium, limit: Limit) -> Row:
    """A method that promises: rule 1, and its exception in rule 3."""
    if rate.per_s <= limit.plausible_per_s:
        return Row(rate, Outcome.PLAUSIBLE, "plausible")
    if rate.per_s <= limit.impossible_per_s:
        return Row(rate, Outcome.UNKNOWN, "cannot tell")
    if medium.kind in ROTATING and medium.copy_on_write:
        return Row(rate, Outcome.UNKNOWN, "cannot tell")
    return Row(rate, Outcome.TOO_GOOD, "too good to be true")


def _unsynced_row(rate: Rate, medium: Medium, limit: Limit) -> Row:
    """O_DIRECT without a sync: rule 2."""
    over = rate.per_s > limit.impossible_per_s
    if not over or medium.write_cache or (medium.copy_on_write and medium.kind in ROTATING):
        return Row(rate, None, "ends in a cache" if over else "promises nothing")
    if medium.write_cache is None:
        return Row(rate, Outcome.UNKNOWN, "in a cache, if there is one")
    return Row(rate, Outcome.TOO_GOOD, "too good to be true")


def _reasons(rows: Sequence[Row], medium: Medium, limit: Limit, outcome: Outcome) -> list[str]:
    if medium.kind is Kind.MEMORY:
        return ["This lies in memory: every sync returns, and nothing is durable."]
    synced = _fastest(row for row in rows if row.rate.method.promises and row.outcome)
    if synced is None:
        return ["No method that promises durability could be measured."]
    reasons = []
    said = f"{synced.rate.method.value} came back {_number(synced.rate.per_s)} times a second"
    because = f"{limit.because}."
    match synced.outcome:
        case Outcome.TOO_GOOD:
            cache = "" if medium.plp else ", unless a cache that survives power loss answers for it"
            reasons.append(f"{said}; {because} Such syncs cannot be durable{cache}.")
        case Outcome.UNKNOWN:
            reasons.append(f"{said}: {because} {_missing(medium, synced.rate.per_s)}")
        case _:
            reasons.append(f"The fastest sync, {said}: {because}")
    reasons += _about_direct(rows, medium, limit)
    if outcome is not Outcome.PLAUSIBLE:
        reasons += _free_sync(rows)
    return reasons


def _missing(medium: Medium, per_s: float) -> str:
    """What would have to be known."""
    if medium.kind in (Kind.SATA_SSD, Kind.NVME):
        if medium.plp is None:
            return "Say whether it has power-loss protection with --plp yes or --plp no."
        return "That is faster than drives of its kind usually are."
    if medium.kind is Kind.HDD:
        return "Say how fast it turns with --medium."
    if medium.copy_on_write and medium.kind in ROTATING:
        return "But this file system never writes to the same spot twice."
    return f"{_impossible_on(per_s)}Say what it is with --medium."


def _impossible_on(per_s: float) -> str:
    """The media on which a rate would be too good to be true; empty if on none."""
    media = {
        "a disk that turns": Medium(Kind.HDD_15K),
        "an SSD without power-loss protection": Medium(Kind.NVME, plp=False),
    }
    names = [name for name, one in media.items() if per_s > limit_of(one).impossible_per_s]
    return f"It would be impossible on {' or '.join(names)}. " if names else ""


def _about_direct(rows: Sequence[Row], medium: Medium, limit: Limit) -> list[str]:
    direct = _fastest(row for row in rows if row.rate.method is Method.DIRECT)
    if direct is None or direct.remark in ("promises nothing", "not judged"):
        return []
    said = f"O_DIRECT alone wrote {_number(direct.rate.per_s)} times a second"
    if medium.write_cache:
        return [
            f"{said}, faster than the medium: those writes end in the volatile cache that the "
            "disk declares, so that without a sync they are not durable."
        ]
    if medium.write_cache is None:
        return [f"{said}, faster than the medium: a cache holds those writes."]
    return [
        f"{said}, although there is no volatile cache and {limit.because}: those writes were "
        "completed before they were written."
    ]


def _free_sync(rows: Sequence[Row]) -> list[str]:
    """A hint if a sync costs no more than the write that it is to make durable."""
    rates = {
        row.rate.method: row.rate.per_s for row in rows if row.rate.pattern is Pattern.OVERWRITE
    }
    bare, synced = rates.get(Method.DIRECT), rates.get(Method.DIRECT_FDATASYNC)
    if not bare or not synced or synced < 0.8 * bare:
        return []
    return [
        f"A write with fdatasync ({_number(synced)}/s) takes hardly longer than without "
        f"({_number(bare)}/s): either nothing below is volatile, or the flush does nothing."
    ]


def _fastest(rows: Iterable[Row]) -> Row | None:
    """The row that matters most: the worst outcome, then the highest rate."""
    order = {Outcome.TOO_GOOD: 2, Outcome.UNKNOWN: 1, Outcome.PLAUSIBLE: 0, None: -1}
    return max(rows, key=lambda row: (order[row.outcome], row.rate.per_s), default=None)


def _number(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.1f}"
