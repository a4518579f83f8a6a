# SPDX-License-Identifier: Apache-2.0
"""JSON that somebody else wrote."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes | bytearray) -> Any:
    """The value in `text`.  Raises ValueError for what is no JSON, or too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets within brackets, too many to read") from None
