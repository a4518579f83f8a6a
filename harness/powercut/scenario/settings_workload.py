# SPDX-License-Identifier: Apache-2.0
"""The settings of the workload: the union of those of all rows, told apart by `workload.kind`.

`wal` is meant where nothing says what runs, in scenarios and in recordings alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Union

from pydantic import Discriminator, Tag

from powercut.scenario.settings_base import OfWorkload
from powercut.scenario.settings_program import ProgramSettings
from powercut.scenario.settings_wal import WalSettings
from powercut.scenario.workloads import USUAL, WORKLOADS, load


def _settings_of(place: str) -> type[OfWorkload]:
    settings = load(place)
    if not (isinstance(settings, type) and issubclass(settings, OfWorkload)):
        raise TypeError(f"{place} has to be derived from {OfWorkload.__module__}:OfWorkload")
    return settings


KINDS: Final[dict[str, type[OfWorkload]]] = {
    kind: _settings_of(row.settings) for kind, row in WORKLOADS.items()
}
"""The settings of each kind of workload, the usual one first."""


def kind_of(workload: Any) -> Any:
    """The kind of a workload, as written in a scenario or as settings."""
    if isinstance(workload, Mapping):
        return workload.get("kind", USUAL)
    return getattr(workload, "kind", USUAL)


def _tag(workload: Any) -> str:
    kind = kind_of(workload)
    return kind if isinstance(kind, str) and kind in KINDS else "unknown"


_CHOICES: Final = ", ".join(f"'{kind}'" for kind in KINDS)

if TYPE_CHECKING:
    WorkloadSettings = WalSettings | ProgramSettings
else:
    _MEMBERS = tuple(Annotated[settings, Tag(kind)] for kind, settings in KINDS.items())
    WorkloadSettings = Annotated[
        Union[_MEMBERS],  # noqa: UP007  # of as many as there are rows
        Discriminator(
            _tag,
            custom_error_type="workload_kind",
            custom_error_message=f"kind should be one of {_CHOICES}",
        ),
    ]
