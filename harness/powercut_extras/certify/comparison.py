# SPDX-License-Identifier: Apache-2.0
"""Two certificates side by side (powercut_extras.certify.compare)."""

from __future__ import annotations

from dataclasses import dataclass

from powercut_extras.certify.certificate import CertifiedCell


@dataclass(frozen=True)
class Change:
    """A cell whose verdict differs."""

    before: CertifiedCell
    after: CertifiedCell


@dataclass(frozen=True)
class Comparison:
    """Two sets of cells side by side."""

    names: tuple[str, str]
    same: int
    """Cells that are in both with the same verdict."""

    changed: tuple[Change, ...]
    only: tuple[tuple[CertifiedCell, ...], tuple[CertifiedCell, ...]]
    """Cells that are in the first alone, and in the second alone."""

    versions: tuple[tuple[str, ...], tuple[str, ...]]
    """Hypervisors and kernels of either."""
