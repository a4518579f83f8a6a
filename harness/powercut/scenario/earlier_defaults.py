# SPDX-License-Identifier: Apache-2.0
"""Defaults that were others in earlier versions, for evidence that was made under them.

A scenario that leaves a setting out means the default of the powercut that ran it.  Its
recordings name every setting, so they are judged as they were made; but whoever plans the same
scenario today gets today's defaults.
"""

from __future__ import annotations

from typing import Any, Final

from powercut.scenario.flat import DEFAULTS, flat
from powercut.scenario.settings import Parameters

EARLIER: Final[dict[str, tuple[Any, ...]]] = {
    "disk.atomic_unit": (512,),
    "disk.model": ("none",),
    "explore.budget": ("none",),
}
"""By setting, the values that once were its default."""

_NONE: Final = object()


def was_default(key: str, value: object) -> bool:
    """Whether `value` is the default of a setting, or once was."""
    return value == DEFAULTS.get(key, _NONE) or value in EARLIER.get(key, ())


def under_earlier_defaults(planned: Parameters, recorded: Parameters) -> Parameters:
    """`planned` under the defaults of `recorded`, if that is all in which they differ.

    Where they differ in a setting that the plan does not leave to its default, or the recording
    has a value that never was the default, they are of different scenarios: `planned` as it is.
    """
    wanted, made = flat(planned), flat(recorded)
    differing = [key for key in wanted if wanted[key] != made[key]]
    if all(wanted[key] == DEFAULTS[key] and was_default(key, made[key]) for key in differing):
        return _take(planned, recorded, differing)
    return planned


def _take(planned: Parameters, recorded: Parameters, keys: list[str]) -> Parameters:
    """`planned` with the values that `recorded` has for `keys`."""
    for key in keys:
        group, _, name = key.rpartition(".")
        part, other = (getattr(side, group) if group else side for side in (planned, recorded))
        part = part.model_copy(update={name: getattr(other, name)})
        planned = planned.model_copy(update={group: part}) if group else part
    return planned
