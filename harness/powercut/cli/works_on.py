# SPDX-License-Identifier: Apache-2.0
"""Which verb works on which recording, and why one does not: docs/what-works-on-what.md is made of
this table, and the verbs refuse by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from powercut.cli.lookup import Evidence, evidence_of
from powercut.model.errors import UsageError

KINDS: Final[Mapping[Evidence, str]] = {
    Evidence.RESULT: "recorded disk",
    Evidence.CAPTURE: "captured folder",
    Evidence.IMPORT: "imported log",
    Evidence.BUNDLE: "bundle",
}
"""What a recording can be, in words."""

_UNPACK: Final = "it is one file; `powercut import` unpacks it first"
_BUNDLED: Final[Mapping[Evidence, str]] = {Evidence.BUNDLE: _UNPACK}

REFUSED: Final[Mapping[str, Mapping[Evidence, str]]] = {
    "show": {},
    "verify": {},
    "explore": _BUNDLED,
    "minimize": _BUNDLED,
    "reproduce": {
        Evidence.RESULT: "its loss is one of a disk; `powercut try` and `capture` record the "
        "program's files, and `export --format state` writes the disk",
        Evidence.IMPORT: "its loss is one of a disk; pass on the log and its base image",
        **_BUNDLED,
    },
    "audit acks": {
        Evidence.CAPTURE: "no write of it is known to be that of an operation; "
        "`powercut explore` finds acks that came too early",
        **_BUNDLED,
    },
    "audit flushes": {
        Evidence.CAPTURE: "it has syncs of files, and no disk whose flushes could be left out; "
        "`powercut audit syncs` runs a program without each of its syncs",
        Evidence.IMPORT: "it has no workload of which a flush could keep something",
        **_BUNDLED,
    },
    "shell": _BUNDLED,
    "export --format bundle": {
        Evidence.IMPORT: "it has no scenario by which it could be judged; pass on the log and its "
        "base image, and `powercut import` does the rest",
        Evidence.BUNDLE: "it is one already",
    },
    "export --format state": _BUNDLED,
    "export --format dm-log-writes": {
        Evidence.CAPTURE: "it has no disk; `--format state` writes crash states",
        Evidence.IMPORT: "its log is there already, in log.dmlw",
        **_BUNDLED,
    },
}
"""By verb the recordings that it does not take, each with the reason; it takes all others."""


def require_works_on(verb: str, recording: Path) -> None:
    """Raises UsageError with the reason, unless `verb` works on the recording."""
    kind = evidence_of(recording)
    if why := REFUSED[verb].get(kind):
        raise UsageError(
            f"{recording}: `powercut {verb}` takes no {KINDS[kind]}: {why}",
            hint="docs/what-works-on-what.md has what each verb takes",
        )


def page() -> str:
    """The page of the documentation."""
    lines = [
        "# What works on what",
        "",
        "Each verb that takes a recording, and what it does with each kind. A verb refuses with",
        "the reason that is here. This page is made of `harness/powercut/cli/works_on.py`; a test",
        "keeps it so.",
        "",
        f"| `powercut` | {' | '.join(KINDS.values())} |",
        f"| --- |{' --- |' * len(KINDS)}",
    ]
    for verb, refused in REFUSED.items():
        cells = [f"no: {refused[kind]}" if kind in refused else "yes" for kind in KINDS]
        lines.append(f"| {verb} | {' | '.join(cells)} |")
    lines += [
        "",
        "A recorded disk is a run, a cell or a trial, of `run`, `record`, `try` or `listen`.",
        "`show` and `verify` take certificates, too. `serve` and `history` take a folder of",
        "results, and list its runs, captured folders and certificates. `certify` takes no",
        "recording: it makes its own.",
        "",
    ]
    return "\n".join(lines)
