# SPDX-License-Identifier: Apache-2.0
"""What long benchmarks have measured so far: a line of JSON for each trial, in build/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kept:
    """A folder with a file of lines.  Remove it to begin anew."""

    folder: Path

    @property
    def file(self) -> Path:
        """The lines."""
        return self.folder / "trials.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        """Those of all earlier runs."""
        text = self.file.read_text() if self.file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def add(self, told: Mapping[str, Any]) -> None:
        """Another line, at once: the benchmark may be interrupted at any time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(json.dumps(told) + "\n")
