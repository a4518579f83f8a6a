# SPDX-License-Identifier: Apache-2.0
"""Explores a recording and tells what each state was, what its disk held and what came of it.

Run by path, with the powercut that is compared on PYTHONPATH, which may be an older one.  The
command line is a JSON object with the settings; standard output has a line for each state, in no
order: what the state is, a digest of its whole disk, and its findings.  The digest is made here,
page by page, from what that powercut lays over the base image, so it is the same however the
powercut itself tells disks apart.  What a recovery wrote has the time in it: of a cut of a
recovery no disk is told, only the state and its findings.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest
from powercut.explore.worker import LocalWorker
from powercut.recording.sealed import SealedTrial
from powercut.recover.port import ImageWrite
from powercut.recover.state_image import StateImage
from powercut.recover.uml.origin import Origin
from powercut.store.trial_dir import TrialDir


class _Disk:
    """What a disk holds, in 32 bytes: the exclusive or of one digest for each page."""

    def __init__(self, base: Path) -> None:
        self._origin = Origin(base)
        self._pages: dict[int, int] = {}
        self._whole = 0

    def digest(self, writes: Sequence[ImageWrite]) -> str:
        """That of the base image with `writes` over it."""
        changed = self._origin.advance(writes)
        for page, data in zip(changed.tolist(), self._origin.content(changed), strict=True):
            made = hashlib.sha256(page.to_bytes(8, "little") + data.tobytes()).digest()
            number = int.from_bytes(made)
            self._whole ^= self._pages.get(page, 0) ^ number
            self._pages[page] = number
        # A page that is again as in the base image counts as one that never changed.
        back = changed[~self._origin.not_as_base(changed)]
        for page in back.tolist():
            self._whole ^= self._pages.pop(page)
        return f"{self._whole:064x}"


def main() -> None:
    """The exploration that the command line asks for."""
    asked = json.loads(sys.argv[1])
    trial = TrialDir(Path(asked["trial"]), Path(asked["run"]))
    disk = _Disk(trial.base_image)
    judge = (
        LocalWorker._judge
    )  # all that is judged, first recoveries and second ones, goes this way

    second, nested = LocalWorker.judge_second, [False]

    def of_recovery(self: Any, *args: Any, **named: Any) -> Any:
        nested[0] = True
        try:
            return second(self, *args, **named)
        finally:
            nested[0] = False

    def told(self: Any, writes: Sequence[ImageWrite], claims: Any) -> Any:
        judged = judge(self, writes, claims)
        state = writes.state if isinstance(writes, StateImage) else None
        line = {
            "state": repr(state),
            "disk": "of a recovery" if nested[0] else disk.digest(writes),
            "findings": sorted(repr(found) for found in judged.findings),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        return judged

    LocalWorker._judge = told  # type: ignore[method-assign]
    LocalWorker.judge_second = of_recovery  # type: ignore[method-assign]
    budget = Budget(states=asked["states"])
    wanted = ExploreRequest(budget=budget, seed=asked["seed"], after=asked["after"])
    explore(SealedTrial(trial), wanted, keep=False)


if __name__ == "__main__":
    main()
