# SPDX-License-Identifier: Apache-2.0
"""Is a sync here as slow as it must be?  Measures, compares, and says so.

A probe runs where a cut cannot be made: on any machine, host or guest, without root.  It
raises suspicion or finds none; it proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from powercut.console import PlainConsole
from powercut.model.errors import UsageError
from powercut.store.files import write_output
from powercut_extras.probe.judge import (
    Judgement,
    Kind,
    Medium,
    Method,
    Outcome,
    Pattern,
    Row,
    judge,
)
from powercut_extras.probe.measure import ProbeRates, measure
from powercut_extras.probe.medium import Place, look_up

FORMAT: Final = "powercut-probe/1"
_SIZE_MAX: Final = 1 << 20

_NAMES: Final = {
    Outcome.PLAUSIBLE: "plausible",
    Outcome.TOO_GOOD: "too-good-to-be-true",
    Outcome.UNKNOWN: "cannot-tell",
}
_HEADLINES: Final = {
    Outcome.PLAUSIBLE: ("Nothing suspicious.", "bold green"),
    Outcome.TOO_GOOD: ("Too good to be true.", "bold red"),
    Outcome.UNKNOWN: ("Cannot tell.", "bold yellow"),
}
NOT_A_PROOF: Final = (
    "A probe finds suspects, no more: a fast sync may have an honest reason, and a slow one may "
    "do nothing. Only a cut proves that a write was durable, or that it was not."
)


@dataclass(frozen=True)
class Request:
    """What to probe.  None: look it up."""

    path: Path
    size: int = 4096  # bytes of each write
    seconds: float = 10.0  # for all ways of writing together
    kind: Kind | None = None
    plp: bool | None = None
    write_cache: bool | None = None
    destructive: bool = False


@dataclass(frozen=True)
class Result:
    """What was found, measured, and made of it."""

    request: Request
    place: Place
    measured: ProbeRates
    judgement: Judgement

    @property
    def exit_status(self) -> int:
        """0 nothing suspicious, 1 too good to be true, 3 cannot tell."""
        return self.judgement.outcome.value

    def as_json(self) -> dict[str, Any]:
        """Everything, in the format that docs/probe.md describes."""
        medium, judgement = self.place.medium, self.judgement
        return {
            "format": FORMAT,
            "outcome": _NAMES[judgement.outcome],
            "reasons": list(judgement.reasons),
            "path": self.place.path,
            "block_bytes": self.request.size,
            "filesystem": self.place.filesystem,
            "mount_point": self.place.mount_point,
            "stack": list(self.place.stack),
            "disks": [asdict(disk) | {"kind": disk.kind.value} for disk in self.place.disks],
            "virtual": self.place.virtual,
            "medium": asdict(medium) | {"kind": medium.kind.value},
            "limit": asdict(judgement.limit),
            "loop_overhead_us": self.measured.loop_overhead_us,
            "rates": [_row_as_json(row) for row in judgement.rows],
            "refused": {way.value: why for way, why in self.measured.refused.items()},
        }


def _row_as_json(row: Row) -> dict[str, Any]:
    return asdict(row.rate) | {
        "method": row.rate.method.value,
        "pattern": row.rate.pattern.value,
        "outcome": None if row.outcome is None else _NAMES[row.outcome],
        "remark": row.remark,
    }


def probe(request: Request, on_step: Callable[[Method, Pattern], None] = lambda *_: None) -> Result:
    """Looks up, measures and judges.

    A directory is left as it was.  Raises UsageError for a path or a size that cannot be
    probed, and HostError if the medium is full or fails.
    """
    block_device = _check(request)
    place = look_up(request.path)
    place = replace(place, medium=_as_told(place, request))
    measured = measure(
        request.path,
        size=request.size,
        seconds=request.seconds,
        block_device=block_device,
        on_step=on_step,
    )
    return Result(request, place, measured, judge(measured.rates, place.medium))


def _check(request: Request) -> bool:
    """Whether the path is a block device; raises UsageError if it is of no use."""
    path = request.path
    if request.size % 512 or not 512 <= request.size <= _SIZE_MAX:
        raise UsageError(
            f"--write-size {request.size}: a write is a multiple of 512 bytes, and 1 MiB at most"
        )
    if path.is_dir():
        return False
    if path.is_block_device():
        if not request.destructive:
            raise UsageError(
                f"{path} is a block device, and probing it overwrites its first 64 MiB",
                hint="probe a folder on it, or say --destructive if its content may go",
            )
        return True
    if path.exists():
        raise UsageError(f"{path} is neither a folder nor a block device", hint="give a folder")
    raise UsageError(f"{path}: there is nothing of this name")


def _as_told(place: Place, request: Request) -> Medium:
    """The medium, where the user knows better; memory stays memory."""
    medium = place.medium
    if request.kind is not None and medium.kind is not Kind.MEMORY:
        medium = replace(medium, kind=request.kind, source="as you say")
    if request.plp is not None:
        medium = replace(medium, plp=request.plp)
    if request.write_cache is not None:
        medium = replace(medium, write_cache=request.write_cache)
    return medium


def run(request: Request, json_file: Path | None) -> int:
    """Probes and prints; the exit status of the command."""
    to_stdout = json_file == Path("-")
    console = PlainConsole(stderr=to_stdout)
    with console.status("measuring ...") as status:

        def show_step(method: Method, pattern: Pattern) -> None:
            status.update(f"measuring {method.value}, {pattern.value} ...")

        result = probe(request, show_step)
    print_result(console, result)
    if json_file is not None:
        text = json.dumps(result.as_json(), indent=1, ensure_ascii=False) + "\n"
        if to_stdout:
            PlainConsole(soft_wrap=True).out(text, end="", highlight=False)
        else:
            write_output(json_file, text.encode())
    return result.exit_status


def print_result(console: Console, result: Result) -> None:
    """What a person wants to know: what it is, what it did, what that means."""
    place, judgement = result.place, result.judgement
    console.print(
        f"{escape(place.path)}: {escape(' on '.join(place.stack))}", highlight=False, soft_wrap=True
    )
    about = Table.grid(padding=(0, 1))
    about.add_column(justify="right", no_wrap=True, style="dim")
    about.add_column()
    for name, value in _about(place):
        about.add_row(f"{name}:", escape(value))
    console.print(about)
    console.print(_table(result))
    for method, why in result.measured.refused.items():
        console.print(f"{method.value} is not on offer here: {why}", style="dim")
    headline, style = _HEADLINES[judgement.outcome]
    text = Text.assemble((headline, style), " ", " ".join(judgement.reasons))
    console.print(text, highlight=False)
    console.print(NOT_A_PROOF, style="dim", highlight=False)


def _about(place: Place) -> list[tuple[str, str]]:
    medium = place.medium
    facts = [("medium", f"{medium.kind.value} ({medium.source})")]
    if place.virtual:
        facts.append(("this machine", f"a virtual one: {place.virtual}"))
    models = ", ".join(disk.model for disk in place.disks if disk.model)
    if models:
        facts.append(("model", models))
    if medium.kind is not Kind.MEMORY:
        told = {True: "yes", False: "no", None: "not known"}
        facts.append(("volatile cache", told[medium.write_cache]))
        facts.append(("power-loss protection", told[medium.plp]))
    return facts


def _table(result: Result) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"a write of {_bytes(result.request.size)}", no_wrap=True)
    table.add_column("same spot\na second", justify="right", no_wrap=True)
    table.add_column("growing file\na second", justify="right", no_wrap=True)
    table.add_column("takes\nmostly", justify="right", no_wrap=True)
    table.add_column("is that possible?")
    styles = {Outcome.TOO_GOOD: "red", Outcome.UNKNOWN: "yellow", Outcome.PLAUSIBLE: "green"}
    for method in Method:
        rows = {r.rate.pattern: r for r in result.judgement.rows if r.rate.method is method}
        spot, growing = rows.get(Pattern.OVERWRITE), rows.get(Pattern.APPEND)
        if spot is None or growing is None:
            continue
        said = _worse(spot, growing)
        style = "dim" if said.outcome is None else styles[said.outcome]
        table.add_row(
            method.value,
            f"{spot.rate.per_s:,.0f}",
            f"{growing.rate.per_s:,.0f}",
            _time(spot.rate.p50_us),
            Text(said.remark, style),
        )
    return table


def _worse(one: Row, other: Row) -> Row:
    order = {Outcome.TOO_GOOD: 3, Outcome.UNKNOWN: 2, Outcome.PLAUSIBLE: 1, None: 0}
    return max(one, other, key=lambda row: order[row.outcome])


def _bytes(size: int) -> str:
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def _time(microseconds: float) -> str:
    if microseconds >= 1000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds:.0f} µs" if microseconds >= 10 else f"{microseconds:.1f} µs"
