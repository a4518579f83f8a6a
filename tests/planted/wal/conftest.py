# SPDX-License-Identifier: Apache-2.0
"""The `wal` program, built once a session, and the helpers around it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load_driver(path: Path) -> ModuleType:
    """wal_driver.py as a module: test folders are no packages."""
    if "wal_driver" in sys.modules:
        return sys.modules["wal_driver"]
    spec = importlib.util.spec_from_file_location("wal_driver", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wal_driver"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


driver = load_driver(Path(__file__).parents[2] / "unit" / "wal_c" / "wal_driver.py")


@pytest.fixture(scope="session")
def wal(tmp_path_factory):
    return driver.build(tmp_path_factory.mktemp("wal-build"))
