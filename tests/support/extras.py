# SPDX-License-Identifier: Apache-2.0
"""Extras in tests of the core: what cannot be tested without one is skipped."""

from __future__ import annotations

from types import ModuleType

import pytest


def extra(name: str) -> ModuleType:
    """The module `name` of an extra; skips the test if the extra is not there."""
    package = name.partition(".")[0]
    pytest.importorskip(f"powercut_extras.{package}", reason=f"no extra {package}")
    module: ModuleType = pytest.importorskip(f"powercut_extras.{name}")
    return module
