# SPDX-License-Identifier: Apache-2.0
"""Whose evidence a file is.

Evidence is convincing only with the evidence of the same run: the history of one run beside the
disk log of another acquits whatever came to its disk before the other's acks.  So each file of
a recording names the recording that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import DamagedRecording

DIGEST_BYTES: Final = 32
NOT_BOUND: Final = bytes(DIGEST_BYTES)
"""In place of a digest: it is no trial's."""


@dataclass(frozen=True)
class Binding:
    """The recording that a file belongs to.

    `digest` is over all that the trial was to do and a number that no other recording has
    (powercut.store.trial_dir); the other fields are there to be told to a person.  `run_id` has 16
    bytes.
    """

    run_id: bytes = bytes(16)
    seed: int = 0
    cell: str = ""
    digest: bytes = NOT_BOUND

    @property
    def bound(self) -> bool:
        """Whether it names a recording at all."""
        return self.digest != NOT_BOUND

    @property
    def name(self) -> str:
        """The digest in 64 hex digits; empty if it names no recording."""
        return self.digest.hex() if self.bound else ""

    def __str__(self) -> str:
        if not self.bound:
            return f"run id {self.run_id.hex()}, not bound to a recording"
        return f"cell {self.cell!r}, seed {self.seed}, run id {self.run_id.hex()}"


def check_digest(path: Path, digest: bytes, binding: Binding, says: str = "") -> None:
    """Raises DamagedRecording unless the file at `path`, bound by `digest`, is of `binding`.

    `says` is what the file says of itself besides, for the message.
    """
    if digest == binding.digest:
        return
    what = "it is of another recording" if digest != NOT_BOUND else "it is bound to no recording"
    if says:
        what += f" ({says})"
    raise DamagedRecording(
        f"{path}: {what}, and trial.json beside it is of {binding}",
        hint="put back the files that were recorded together, or record again",
    )
