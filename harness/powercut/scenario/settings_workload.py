# SPDX-License-Identifier: Apache-2.0
"""The settings of the workload: a union, told apart by `workload.kind`.

`wal` is meant where nothing says what runs, in scenarios and in recordings alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Discriminator, Tag

from powercut.scenario.settings_base import Settings
from powercut.scenario.settings_program import ProgramSettings
from powercut.scenario.settings_wal import WalSettings

KINDS: Final[dict[str, type[Settings]]] = {"wal": WalSettings, "program": ProgramSettings}
"""The settings of each kind of workload, the usual one first."""

USUAL: Final = "wal"
"""The kind of a workload that does not say which it is."""


def kind_of(workload: Any) -> Any:
    """The kind of a workload, as written in a scenario or as settings."""
    if isinstance(workload, Mapping):
        return workload.get("kind", USUAL)
    return getattr(workload, "kind", USUAL)


def _tag(workload: Any) -> str:
    kind = kind_of(workload)
    return kind if isinstance(kind, str) and kind in KINDS else "unknown"


_CHOICES: Final = ", ".join(f"'{kind}'" for kind in KINDS)

WorkloadSettings = Annotated[
    Annotated[WalSettings, Tag("wal")] | Annotated[ProgramSettings, Tag("program")],
    Discriminator(
        _tag,
        custom_error_type="workload_kind",
        custom_error_message=f"kind should be one of {_CHOICES}",
    ),
]
