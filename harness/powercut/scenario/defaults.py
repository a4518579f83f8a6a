# SPDX-License-Identifier: Apache-2.0
"""Defaults that have changed, so that a result keeps the meaning that it was made with.

A run keeps the text of its scenario, which leaves defaults out.  So it also keeps the values that
it took for the settings named here (`powercut.campaign.resume.Selection`); a result that keeps none
is older than the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from powercut.scenario.settings_disk import DiskSettings

DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "disk.atomic_unit": DiskSettings().atomic_unit,
        "disk.model": DiskSettings().model.value,
    }
)
"""Today's, by dotted setting."""

EARLIER_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {"disk.atomic_unit": 512, "disk.model": "none"}
)
"""Those of results that do not say."""
