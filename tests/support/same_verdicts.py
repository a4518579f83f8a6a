# SPDX-License-Identifier: Apache-2.0
"""Holds this checkout against an earlier one: same recordings, same seeds, same findings.

    python tests/support/same_verdicts.py EARLIER RESULTS [--budget N] [--again SCENARIO ...]

EARLIER is another checkout that is ready to run, RESULTS a folder of results that it made.  Each
recording in it is explored by both, state for state the same; what they say is compared field by
field, but for times.  Each run and each certificate is verified by this checkout.  Then each
SCENARIO is run anew by this one, with the seed of RESULTS, and its verdicts are compared.
Prints what differs; the exit status is 1 if anything does, or if something came to nothing on
either side and so could not be compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
TIMES = {"seconds", "seconds_in_all", "processor_seconds", "engine_boots", "powercut"}


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def powercut(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(checkout / ".venv" / "bin" / "powercut"), *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=checkout, check=False)


def explored(checkout: Path, trial: Path, budget: int) -> Any:
    """What exploring says, without times; the last words if it comes to nothing."""
    words = (
        "explore",
        str(trial),
        "--budget",
        str(budget),
        "--seed",
        "7",
        "--no-confirm",
        "--jobs",
        "1",
    )
    done = powercut(checkout, *words, "--json", "-")
    try:
        (said,) = json.loads(done.stdout)["explorations"]
    except ValueError:
        return (done.stderr or done.stdout).strip()[-300:]
    return {key: value for key, value in said.items() if key not in TIMES}


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Every field in which two outcomes differ; a field that only the newer one has may."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line for key in one for line in differences(one[key], other.get(key), f"{place}.{key}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for at, (a, b) in pairs for line in differences(a, b, f"{place}[{at}]")]
    return [] if one == other else [f"{place}: {one!r} -> {other!r}"]


def verdicts(run: Path) -> dict[str, tuple[Any, ...]]:
    """By cell and control: what was found."""
    found = {}
    for file in sorted(run.glob("**/verdict.json")):
        said = json.loads(file.read_text())
        kinds = sorted({finding["kind"] for finding in said.get("findings", [])})
        found[str(file.parent.relative_to(run))] = (said.get("verdict"), kinds)
    return found


def same_findings(earlier: Path, results: Path, budget: int) -> int:
    wrong = 0
    trials = sorted(path.parent for path in results.glob("*/2*/**/trial.json"))
    with tempfile.TemporaryDirectory() as scratch:
        copies = [Path(scratch) / name for name in ("earlier", "now")]
        for copy in copies:
            shutil.copytree(results, copy, symlinks=True)
        for trial in trials:
            place = trial.relative_to(results)
            one = explored(earlier, copies[0] / place, budget)
            other = explored(HERE, copies[1] / place, budget)
            lines = differences(one, other)
            outcome = "DIFFERS" if lines else "the same"
            if not (isinstance(one, dict) and isinstance(other, dict)):
                # Two that came to nothing, with equal words even, say nothing of any verdict.
                said = one if isinstance(one, str) else other
                tell(f"{place}: NOT COMPARED: {said.splitlines()[0][:70] if said else 'silence'}")
                wrong += 1
                continue
            states, findings = one["coverage"]["distinct"], len(one["findings"])
            tell(f"{place}: {one['verdict']}, {states} states, {findings} findings: {outcome}")
            for line in lines[:8]:
                tell(f"    {line[:200]}")
            wrong += bool(lines)
    return wrong


def still_verified(results: Path) -> int:
    wrong = 0
    runs = [("verify", path.parent) for path in sorted(results.glob("*/2*/environment.json"))]
    runs += [("certificate verify --deep", path) for path in results.rglob("certificate.json")]
    for words, path in runs:
        done = powercut(HERE, *words.split(), str(path))
        said = (done.stdout.strip() or done.stderr.strip() or "nothing").splitlines()[-1]
        tell(f"{words} {path.relative_to(results)}: status {done.returncode}; {said[:120]}")
        wrong += done.returncode != 0
    return wrong


def same_verdicts(scenario: Path, results: Path, folder: Path) -> int:
    name = (
        next(
            line.split(":", 1)[1].strip()
            for line in scenario.read_text().splitlines()
            if line.startswith("name:")
        )
        if "\nname:" in scenario.read_text()
        else scenario.stem
    )
    before = verdicts((results / name / "latest").resolve())
    powercut(HERE, "run", str(scenario), "--seed", "7", "--results", str(folder))
    after = verdicts((folder / name / "latest").resolve())
    lines = differences(before, after) + [f"new: {key}" for key in after if key not in before]
    if not before or not after:
        lines = [f"{len(before)} verdicts before, {len(after)} now: nothing to compare"]
    tell(f"run {name}: {len(before)} verdicts: {'DIFFER' if lines else 'the same'}")
    for line in lines:
        tell(f"    {line[:200]}")
    return bool(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("earlier", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--again", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    wrong = same_findings(given.earlier.resolve(), given.results.resolve(), given.budget)
    wrong += still_verified(given.results.resolve())
    with tempfile.TemporaryDirectory() as folder:
        for scenario in given.again:
            wrong += same_verdicts(scenario, given.results.resolve(), Path(folder))
    tell(f"{wrong} differences" if wrong else "no difference")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
