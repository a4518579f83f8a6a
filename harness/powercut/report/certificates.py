# SPDX-License-Identifier: Apache-2.0
"""Certificates: what others ask of the extra that makes them, `powercut.certificates`; and what a
list or a history of results says of one, or of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from powercut.model.errors import UsageError
from powercut.model.extras import provided
from powercut.model.verdict import Verdict

if TYPE_CHECKING:
    from powercut.store.component import Component

CERTIFICATE: Final = "certificate.json"
CERTIFICATE_ORDER: Final = "order.json"
"""It lies in the folder of a certificate from the start."""

CERTIFICATE_PAGE: Final = "certificate.html"


@dataclass(frozen=True)
class Listed:
    """A certificate in a list; without a verdict it has not come to its end, or cannot be read."""

    name: str
    started: str
    said: str
    verdict: Verdict | None = None
    as_expected: bool | None = None
    running: bool = False


CellName = tuple[str, str]
CostName = tuple[str, str, str]
"""Scenario, cell, disk model."""


@dataclass(frozen=True)
class CellThen:
    """A cell as one run found it."""

    verdict: Verdict
    as_expected: bool
    explanation: str


@dataclass(frozen=True)
class Night:
    """What one certificate or run says, as far as it can be compared with others."""

    directory: Path
    profile: str
    started: str
    seconds: float
    seed: int
    cells: Mapping[CellName, CellThen]
    costs: Mapping[CostName, float]
    """Commits a second."""
    versions: Mapping[str, str]
    """By role and name."""
    not_tested: int = 0
    whole: bool = True
    """Whether all cells were run: of a part nothing is missed."""
    problems: tuple[str, ...] = ()
    """Why a certificate does not verify."""
    beside: bool = True
    """Whether the results that a certificate was drawn up from lie beside it."""

    def count(self, verdict: Verdict) -> int:
        """How many cells have this verdict."""
        return sum(cell.verdict is verdict for cell in self.cells.values())

    @property
    def unexpected(self) -> int:
        """How many cells came out otherwise than expected."""
        return sum(not cell.as_expected for cell in self.cells.values())


class Certificates(Protocol):
    """Paths are those of a certificate.json, folders that of one or of its order."""

    verify_options: Sequence[Callable[[Any], Any]]
    """Of `verify`: what click.option() returns."""

    def show(self, path: Path, json_file: Path | None) -> None:
        """Prints it."""

    def page(self, path: Path) -> str:
        """It as HTML."""

    verify: Callable[..., int]
    """Called with a path, json_file, and what the options of `verify` say: whether it follows from
    its evidence; an exit status."""

    def listed(self, folder: Path) -> Listed:
        """What a list says of it."""

    def night(self, path: Path) -> Night:
        """What a history says of it.  Raises PowercutError if it cannot be read."""


def certificates() -> Certificates:
    """Raises UsageError where no extra has them, HostError for one that is broken."""
    if (found := provided("powercut.certificates")) is not None:
        return cast(Certificates, found)
    raise UsageError("powercut's extra `certify`, which has certificates, is not installed")


def versions_of(
    powercut: str, components: Iterable[Component], host: Mapping[str, Any]
) -> dict[str, str]:
    """By role and name."""
    versions = {"powercut": powercut}
    for component in components:
        what = f"{component.role}: {component.name}"
        said = component.version + (f" ({component.package})" if component.package else "")
        if component.sha256:
            said += f" {component.sha256[:12]}"
        # Several versions side by side are all part of what was tested.
        versions[what] = f"{versions[what]}, {said}" if what in versions else said
    return versions | {f"host: {key}": str(value) for key, value in host.items()}
