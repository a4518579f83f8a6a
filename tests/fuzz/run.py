# SPDX-License-Identifier: Apache-2.0
"""Fuzzes one target under Atheris (libFuzzer for Python): run.py TARGET SECONDS FOLDER

Keeps an input for each place in which something else than a PowercutError was raised, as
FOLDER/crash-*; what takes more than 10 s or 1 GiB ends it.  Status 1 if there is any.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from pathlib import Path

import atheris  # type: ignore[import-not-found]

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
with atheris.instrument_imports(include=["powercut.model"]):
    from targets import TARGETS, outcome

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Runs until the time is over."""
    name, seconds, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    target, seen = TARGETS[name], set[str]()
    with atheris.instrument_imports(include=["powercut"], enable_loader_override=False):
        for seed in sorted((CORPUS / name).iterdir()):
            outcome(target, seed.read_bytes())

    def one(data: bytes) -> None:
        error = outcome(target, data)
        if error is None:
            return
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} {at.filename}:{at.lineno}"
        if place not in seen:
            seen.add(place)
            kept = folder / f"crash-{name}-{hashlib.sha256(data).hexdigest()[:12]}"
            kept.write_bytes(data)
            traceback.print_exception(error)
            sys.stderr.flush()

    (folder / name).mkdir(parents=True, exist_ok=True)
    options = ["-max_total_time=" + seconds, "-timeout=10", "-rss_limit_mb=1024", "-max_len=32768"]
    os.environ.pop("PYTHONPATH", None)
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={folder}/crash-{name}-", "-print_final_stats=1",
         "-verbosity=0", str(folder / name), str(CORPUS / name)],
        one,
    )  # fmt: skip
    atheris.Fuzz()


if __name__ == "__main__":
    main()
