# SPDX-License-Identifier: Apache-2.0
"""What axe-core (https://github.com/dequelabs/axe-core, MPL 2.0, from npm) finds in a page.

`axe.min.js` lies here as its package brings it, so that the test asks no registry.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from chromium_page import Page

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
_FILE = Path(__file__).with_name("axe.min.js")


def violations(page: Page) -> list[dict[str, Any]]:
    """Of each its rule, what is wrong, and the first elements that have it."""
    text = _FILE.read_bytes()
    assert hashlib.sha256(text).hexdigest() == SHA256, f"{_FILE} is not axe-core {VERSION}"
    page(f"(() => {{ {text.decode()} }})(), true")
    found: list[dict[str, Any]] = json.loads(
        page("axe.run(document).then(found => JSON.stringify(found.violations))")
    )
    return [
        {
            "rule": one["id"],
            "help": one["help"],
            "where": [n["html"][:200] for n in one["nodes"]][:3],
        }
        for one in found
    ]
