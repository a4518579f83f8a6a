# SPDX-License-Identifier: Apache-2.0
"""Each reader of what comes from outside: its corpus in the suite, a fuzzer in a campaign.

`POWERCUT_FUZZ_S` is the time for each target of a campaign, by default half an hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import bounded
from parts import built

from powercut.paths import ROOT

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
ATHERIS = "atheris==3.0.0"
sys.path.insert(0, str(HERE))

from targets import TARGETS, outcome  # noqa: E402

SEEDS = sorted(CORPUS.glob("*/*"))


def test_each_target_has_a_corpus():
    assert {seed.parent.name for seed in SEEDS} == set(TARGETS)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.parent.name}-{seed.name}")
def test_what_was_found_stays_found(seed: Path):
    """Seeds of every kind, and each input that once raised something else (crash-*)."""
    with bounded():
        error = outcome(TARGETS[seed.parent.name], seed.read_bytes())
    assert error is None, repr(error)
    if not seed.name.startswith("crash"):
        TARGETS[seed.parent.name](
            seed.read_bytes()
        )  # honest: a refused seed leads a fuzzer nowhere


def test_what_was_found_in_c_stays_found(tmp_path: Path):
    """The same of readers in C, with ASan and UBSan."""
    built("tests/fuzz/c", tmp_path, "replay")


@pytest.fixture(scope="session")
def atheris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the fuzzer lies; a campaign alone needs it."""
    folder = tmp_path_factory.mktemp("atheris")
    argv = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), ATHERIS]
    subprocess.run(argv, check=True)
    return folder


@pytest.mark.campaign
@pytest.mark.parametrize("name", TARGETS)
def test_a_fuzzer_finds_nothing_more(name: str, atheris: Path, tmp_path: Path):
    seconds = int(os.environ.get("POWERCUT_FUZZ_S", "1800"))
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), name, str(seconds), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(atheris)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + 600,
    )
    assert not list(tmp_path.glob("crash-*")), done.stderr[-5000:]
    assert done.returncode == 0, done.stderr[-5000:]
    assert "stat::number_of_executed_units" in done.stderr


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["fuzz_reader", "fuzz_slots", "fuzz_words", "fuzz_frames"])
def test_readers_in_c_under_sanitizers(name: str):
    """Readers in C: libFuzzer with ASan and UBSan."""
    runs = 2000 * int(os.environ.get("POWERCUT_FUZZ_S", "1800"))
    subprocess.run(["make", "-C", "tests/fuzz/c", name, f"RUNS={runs}"], cwd=ROOT, check=True)
