# SPDX-License-Identifier: Apache-2.0
"""Explores as bench.in_turn asks, and waits for its turn after every piece of work.

Run by path, with the powercut that is measured on PYTHONPATH, which may be an older one: so this
uses nothing but what every `explore` has.  The command line is a JSON object with the settings;
standard output has a line `turn` whenever it waits for one on standard input, and at the end what
came of it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreProgress, ExploreRequest
from powercut.recording.sealed import SealedTrial
from powercut.store.trial_dir import TrialDir


def main() -> None:
    """The exploration that the command line asks for."""
    asked = json.loads(sys.argv[1])
    wanted = ExploreRequest(
        budget=Budget(states=asked["states"]),
        engine=asked["engine"],
        kernel=asked["kernel"],
        seed=asked["seed"],
    )
    waited_s = 0.0

    def wait(progress: ExploreProgress) -> None:
        nonlocal waited_s
        begun = time.monotonic()
        print("turn", flush=True)
        if not sys.stdin.readline():
            sys.exit("the benchmark that asked for this exploration has ended")
        if progress.doing == "exploring":
            waited_s += time.monotonic() - begun

    result = explore(
        SealedTrial(TrialDir(Path(asked["trial"]), Path(asked["run"]))),
        wanted,
        keep=False,
        on_event=wait,
    )
    told = {
        "verdict": result.verdict.name,
        "states": result.coverage.distinct,
        "lossy": result.coverage.lossy,
        "seconds": result.seconds - waited_s,
        "processor_seconds": result.processor_seconds,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
