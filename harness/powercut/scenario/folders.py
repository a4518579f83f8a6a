# SPDX-License-Identifier: Apache-2.0
"""Where a scenario's programs are: below its own folder, written down.

What is kept of a run is the text of its scenario, in another folder.  So the text says where
the programs start before anything else is done with it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

FOLDER: Final = "folder"
_KIND: Final = "kind"
_PROGRAM: Final = "program"


def with_folders(text: str, document: CommentedMap, path: Path) -> str:
    """`text`, in which every program says where it starts: by default in the folder of `path`.

    `document` is what was read from it, and says so afterwards, too.  A text without programs is
    the same as before.
    """
    places = list(_places(document))
    if not places:
        return text
    for mapping, key in places:
        mapping[key] = str(path.absolute().parent)
    out = io.StringIO()
    yaml = YAML(typ="rt")
    yaml.width = 1000
    yaml.dump(document, out)
    return out.getvalue()


def _places(document: CommentedMap) -> Iterator[tuple[Any, str]]:
    workload = document.get("workload")
    if isinstance(workload, dict) and workload.get(_KIND) == _PROGRAM and FOLDER not in workload:
        yield workload, FOLDER
    cells = document.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        key = f"workload.{FOLDER}"
        if isinstance(cell, dict) and cell.get(f"workload.{_KIND}") == _PROGRAM and key not in cell:
            yield cell, key
