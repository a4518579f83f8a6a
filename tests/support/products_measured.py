# SPDX-License-Identifier: Apache-2.0
"""Measures the rows of docs/products.md, and writes the page.

.venv/bin/python tests/support/products_measured.py [--only NAME ...] [--on files posix xfs ...]

`files` captures a row's adapter in a folder, and has the same states judged by a journal's promise;
`posix` judges that recording by POSIX's.  The others record it on a disk with that file system.  A
row is written as soon as it is measured; without --on all five are.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from products_page import FIGURES, PAGE, SCENARIOS, cells, page

from powercut.paths import ROOT

STATES = "48"
ACKS = "24"
SECONDS = 900
FILE_SYSTEMS = {"ext4": "disk", "xfs": "xfs", "btrfs": "btrfs"}


def said(*words: str | Path) -> dict[str, Any]:
    """What one command writes as JSON, whatever its verdict."""
    with tempfile.NamedTemporaryFile() as file:
        command = [ROOT / "powercut", words[0], "--json", file.name, *words[1:]]
        subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
        found: dict[str, Any] = json.loads(Path(file.name).read_text())
        return found


def lost(explored: Mapping[str, Any]) -> set[int]:
    """The acknowledged operations that some state does not have."""
    return {
        number
        for finding in explored["findings"]
        for one in finding["lsns"]
        if finding["verdict"] == "lossy"
        for number in range(one["first"], one.get("last", one["first"]) + 1)
    }


def on_files(words: list[str], posix: bool) -> tuple[dict[str, Any], str]:
    """The columns of captured files, and why they say nothing."""
    with tempfile.TemporaryDirectory() as top:
        folder, results = Path(top, "folder"), Path(top, "results")
        folder.mkdir()
        subprocess.run(
            [*words, "setup", folder], env={"POWERCUT_FD": "2", "PATH": "/usr/bin:/bin"},
            check=True, capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        check = shlex.join([*words, "check", str(folder)])
        seen = said(
            "capture", folder, "--check", check, "--acks", ACKS, "--budget", STATES, "--seed", "1",
            "--results", results, "--", *words, "run", folder,
        )  # fmt: skip
        explored = seen["explored"]
        found = {
            "files": seen["verdict"].upper(), "control": seen["control"],
            "acknowledged": seen["acknowledged"], "lost": len(lost(explored)),
            "states": explored["coverage"]["distinct"], "syncs": seen["syncs"],
            "losing": max((one["states"] for one in explored["findings"]), default=0),
        }  # fmt: skip
        if posix:
            recording = next((results / "capture").iterdir())
            named = ("--promise", "posix", "--budget", STATES)
            found["posix"] = said("explore", recording, *named)["verdict"].upper()
        why = [one["examples"][0]["message"] for one in explored["findings"]]
        return found, why[0] if seen["verdict"] == "inconclusive" and why else ""


def on_a_disk(words: list[str], file_system: str) -> tuple[str, str]:
    """The verdict on a recorded disk, with its controls, and why it is none."""
    with tempfile.TemporaryDirectory() as top:
        seen = said(
            "record", "--filesystem", file_system, "--acks", ACKS, "--budget", "40", "--seed", "1",
            "--results", top, "--", *words,
        )  # fmt: skip
    (cell,) = seen["runs"][0]["cells"]
    found = [one["message"] for trial in cell["trials"] for one in trial["findings"]]
    why = [*cell["reasons"], *found, "no reason given"][0]
    return cell["verdict"].upper(), why if cell["verdict"] == "inconclusive" else ""


def kept(name: str, found: Mapping[str, Any], why: Mapping[str, str]) -> None:
    """Writes what was found of a row, and the page with it."""
    figures = json.loads(FIGURES.read_text())
    row = figures.setdefault(name, {})
    reasons = {**row.pop("why", {}), **why}
    row.update(found)
    if reasons := {column: reason for column, reason in reasons.items() if reason}:
        row["why"] = reasons
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(page())


def main() -> None:
    """Measures what the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=[cell["name"] for cell in cells()])
    parser.add_argument("--on", nargs="+", default=["files", "posix", *FILE_SYSTEMS])
    options = parser.parse_args()
    for cell in cells():
        if cell["name"] not in options.only:
            continue
        program, *rest = cell["workload.command"].split()
        words = [str((SCENARIOS / program).resolve()), *rest]
        if {"files", "posix"} & set(options.on):
            found, why = on_files(words, posix="posix" in options.on)
            kept(cell["name"], found, {"files": why})
        for file_system, column in FILE_SYSTEMS.items():
            if file_system in options.on:
                verdict, why = on_a_disk(words, file_system)
                kept(cell["name"], {column: verdict}, {column: why})


if __name__ == "__main__":
    main()
