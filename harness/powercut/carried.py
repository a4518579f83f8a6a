# SPDX-License-Identifier: Apache-2.0
"""Programs and roots that lie elsewhere than their scenario says: another host has brought them.

On a host of a cluster the paths of a scenario lead nowhere.  What they mean on the scenario's own
host was carried along (powercut.cluster.cargo), and the environment says where it lies, so that
every process of a trial finds it.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

ENVIRONMENT: Final = "POWERCUT_CARRIED"
"""The variable that has the table, in JSON."""


@dataclass(frozen=True)
class CarriedRoot:
    """A root file system that was made elsewhere: as an image, as a folder, or both.

    `sha256` says what it was made from (powercut.disk.root_image), `about` which packages.
    """

    sha256: str
    image: str = ""
    folder: str = ""
    about: str = ""


@dataclass(frozen=True)
class Carried:
    """What was carried here, by what it is called where it comes from."""

    folders: Mapping[str, str] = field(default_factory=dict)
    """Programs' folders: the path there, the path here."""

    images: Mapping[str, str] = field(default_factory=dict)
    """Images of such folders, by the digest of what they were made from."""

    roots: Mapping[str, CarriedRoot] = field(default_factory=dict)
    """By the name that the scenario gives."""

    def publish(self) -> None:
        """Tells this process and all that it starts."""
        os.environ[ENVIRONMENT] = json.dumps(asdict(self))


def folder_of(folder: Path) -> Path:
    """Where the folder of a program lies here."""
    return Path(_table().folders.get(str(folder), folder))


def image_of(sha256: str) -> Path | None:
    """The image of a program's folder that was carried here; None if none was."""
    path = _table().images.get(sha256)
    return None if path is None else Path(path)


def root_of(name: str) -> CarriedRoot | None:
    """The root that was carried here; None if none was."""
    return _table().roots.get(name)


def _table() -> Carried:
    return _read(os.environ.get(ENVIRONMENT, ""))


@functools.cache
def _read(text: str) -> Carried:
    if not text:
        return Carried()
    said = json.loads(text)
    roots = {name: CarriedRoot(**root) for name, root in said.pop("roots").items()}
    return Carried(**said, roots=roots)
