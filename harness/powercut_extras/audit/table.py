# SPDX-License-Identifier: Apache-2.0
"""Audits of many recordings as one table: a row for each flush of a call, whatever asked for it.

The table is Markdown, so that it can be pasted into a page as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console

from powercut.report import words
from powercut_extras.audit.stored import Asker, Audit, AuditedPromise, Worth

_NUMBERS = re.compile(r": \d[\d,. -]*$")
_LONGEST = 90
_START = "before the first operation"
_COLUMNS = (
    "recording", "asked by", "flush", "all", "needed", "unseen", "idle", "join", "share",
    "lost without it",
)  # fmt: skip
_LEGEND = (
    "needed: a recovered state loses something acknowledged without it; of those looked at",
    "unseen: no recovered state needed it (no proof); out of so many states, so many of which "
    "lacked only a part of what it made durable",
    "idle: made nothing durable (proved)",
    "join: unseen, and nothing was acknowledged until the next flush, which would do for both; "
    "proved where nothing was written in between",
    "share: of the time in all flushes of the recording",
)


def print_audit_table(console: Console, audits: Sequence[Audit]) -> None:
    """One table of all, then what its columns mean."""
    lines = [_COLUMNS, ("---",) * len(_COLUMNS)]
    for audit in audits:
        name = f"{audit.cell}: {words.count(audit.acknowledged, audit.counted)}"
        for asked, nth, promises in _rows(audit):
            lines.append((name, asked, nth, *_row(promises, audit)))
            name = ""
    for line in lines:
        # Unbroken and without padding: it is there to be pasted.
        console.print(f"| {' | '.join(line)} |", soft_wrap=True, markup=False, highlight=False)
    console.print()
    for told in _LEGEND:
        console.print(f"- {told}", soft_wrap=True, highlight=False)
    states, seconds = sum(one.states for one in audits), sum(one.seconds for one in audits)
    told = words.count(len(audits), "recording")
    console.print(f"{told}; {states:,} states recovered in {seconds:,.0f} s", highlight=False)


def _rows(audit: Audit) -> list[tuple[str, str, list[AuditedPromise]]]:
    """The promises by who asked and which of the call's they are; those before the first
    operation together, and last.
    """
    sites = audit.askers
    groups: dict[tuple[bool, str, int, int], list[AuditedPromise]] = {}
    for one in audit.promises:
        start = one.at_ms < 0
        askers = " or ".join(dict.fromkeys(sites[number] for number in one.sites))
        asked = _START if start else askers or _unnamed(one)
        nth, of_call = (0, 0) if start else (one.nth, one.of_call)
        groups.setdefault((start, asked, of_call, nth), []).append(one)
    first = {key: promises[0].request for key, promises in groups.items()}
    order = sorted(groups, key=lambda key: (key[0], first[key]))
    return [(key[1], _nth(nth=key[3], of_call=key[2]), groups[key]) for key in order]


def _unnamed(one: AuditedPromise) -> str:
    return "not traced" if one.asker is Asker.NOT_TRACED else one.asker.value


def _nth(nth: int, of_call: int) -> str:
    return "" if not nth else "only" if of_call == 1 else f"{nth} of {of_call}"


def _row(promises: Sequence[AuditedPromise], audit: Audit) -> tuple[str, ...]:
    """The columns after the first three."""
    needed = [one for one in promises if one.needed]
    unseen = [one for one in promises if one.worth is Worth.UNSEEN]
    looked = [one for one in unseen if one.states]
    idle = sum(one.worth is Worth.IDLE for one in promises)
    joinable = [one.until_next for one in looked if one.joinable and one.until_next]
    proved = sum(not following.writes for following in joinable)
    took_us = sum(one.took_us for one in audit.promises) or 1.0
    share = 100 * sum(one.took_us for one in promises) / took_us
    return (
        f"{len(promises):,}",
        f"{len(needed):,} of {len(needed) + len(looked):,}" if needed or looked else "-",
        _unseen(looked, len(unseen) - len(looked), promises),
        f"{idle:,}" if idle else "-",
        (f"{len(joinable):,}" if joinable else "-") + f" ({proved:,} proved)" * bool(proved),
        f"{share:.0f} %",
        _lost(needed),
    )


def _unseen(looked: Sequence[AuditedPromise], open_: int, all_of: Sequence[AuditedPromise]) -> str:
    told = []
    if looked:
        states, part = sum(one.states for one in looked), sum(one.states_in_part for one in looked)
        told.append(f"{len(looked):,} in {words.count(states, 'state')}, {part:,} of a part")
    if open_:
        told.append(f"{open_:,} not looked at")
    if undecided := sum(one.states_undecided for one in all_of):
        told.append(f"{words.count(undecided, 'state')} not judged")
    return "; ".join(told) or "-"


def _lost(needed: Iterable[AuditedPromise]) -> str:
    """What most of them lose first, without the numbers of operations."""
    said = Counter(_short(one) for one in needed)
    return "; ".join(what for what, _ in said.most_common(1))


def _short(one: AuditedPromise) -> str:
    if one.worth is Worth.CARRIES:
        return "bytes of a record"
    told = _NUMBERS.sub("", one.message.partition("\n")[0])
    told = told if len(told) <= _LONGEST else f"{told[:_LONGEST].rstrip()} ..."
    if one.missing is None:
        return told
    how = "torn" if one.missing.torn else "in part"
    return f"{told} ({how}: {', '.join(one.missing.holds)})"
