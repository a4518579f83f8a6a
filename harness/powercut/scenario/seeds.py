# SPDX-License-Identifier: Apache-2.0
"""Every random choice comes from one printed root seed.

The seed of a choice is the first eight bytes, big-endian and without the top bit, of

    SHA-256("powercut/1" NUL root NUL cell NUL trial NUL purpose)

with the numbers in decimal and the text in UTF-8.  So a trial can be repeated by
itself, and adding a cell or a trial changes no other.
"""

from __future__ import annotations

import hashlib
import secrets


def derive_seed(root: int, cell: str, trial: int, purpose: str = "") -> int:
    """The seed, 0 to 2**63 - 1, of one choice in trial number `trial` of `cell`."""
    text = "\0".join(("powercut/1", str(root), cell, str(trial), purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def fresh_seed() -> int:
    """A random root seed; short enough to be typed."""
    return secrets.randbelow(10**9)


def draw_between(seed: int, first: int, last: int) -> int:
    """A whole number from `first` to `last`, both included."""
    return first + seed % (last - first + 1)
