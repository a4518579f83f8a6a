# SPDX-License-Identifier: Apache-2.0
"""The scripts of pages: part of the page, and the only ones that may run in it.

A page says which script it has by the hash of it, to the browser (Content Security Policy), so
that nothing that a recording smuggles into the page would run.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Final

from markupsafe import Markup

TIMELINE: Final = "timeline.js"
PICTURES: Final = "pictures.js"
BROWSE: Final = "browse.js"


@cache
def script(name: str) -> Markup:
    """The script called `name`, as it stands between its tags."""
    text = files("powercut_extras.pages").joinpath("templates", name).read_text(encoding="utf-8")
    if "</" in text or "<!--" in text:
        raise ValueError(f"{name}: a page would end it early")
    return Markup(text)


@cache
def policy(*names: str, served: bool = False) -> str:
    """What a page with these scripts may do: run them, and ask the server that it is from."""
    hashes = (b64encode(hashlib.sha256(script(name).encode()).digest()).decode() for name in names)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    asks = "connect-src 'self'; " if served else ""
    return (
        f"default-src 'none'; script-src {allowed}; {asks}"
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
