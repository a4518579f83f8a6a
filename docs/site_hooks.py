# SPDX-License-Identifier: Apache-2.0
"""For mkdocs: the site has docs/ alone, so a link to a file beside it becomes the file's name.

A link to a file that is not there stays as it is, and `mkdocs build --strict` refuses it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)\s]*)?\)")


_WIDE = re.compile("<(table|pre><code)(?=[ >])")
"""Blocks that scroll on a narrow screen: a keyboard scrolls what it can reach."""


def on_page_content(html: str, **_: Any) -> str:
    """Has wide blocks take the focus, and no empty cell for a heading (axe-core)."""
    return _WIDE.sub(r'<\1 tabindex="0"', html).replace("<th></th>", "<td></td>")


def on_post_page(output: str, **_: Any) -> str:
    """Names the theme's parts for who hears the page."""
    one = output.replace('<div role="contentinfo">', "<div>")
    return one.replace("<footer>", '<footer role="contentinfo">').replace(
        '<div class="rst-versions" role="note"', '<div class="rst-versions" role="complementary"'
    )


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Replaces links that lead out of docs/ to files of the repository."""
    docs = Path(config["docs_dir"]).resolve()
    folder = (docs / page.file.src_uri).parent

    def named(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(docs) or not target.exists():
            return match[0]
        return f"{match[1]} (`{target.relative_to(docs.parent)}`)"

    return _LINK.sub(named, markdown)
