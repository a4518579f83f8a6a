# SPDX-License-Identifier: Apache-2.0
"""What a certificate is to be about; everything else in its folder follows from it.

results/certify/<title>/latest -> the newest
results/certify/<title>/<utc>-<seed>/
    order.json          what was asked for: this file's `Order`
    scenarios/          the scenarios, as they were then
    runs/<scenario>/<utc>-<seed>/   their runs (powercut.store.layout)
    certificate.json  certificate.json.sig  certificate.html  junit.xml
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.report.certificates import CERTIFICATE, CERTIFICATE_ORDER
from powercut.scenario.choices import DiskModel
from powercut.store.files import host_errors, write_atomic
from powercut.store.host_load import HostLoad
from powercut.store.layout import ResultDir
from powercut.store.record import Record, read_model
from powercut_extras.certify.certificate import Certificate, Definition, NotTested
from powercut_extras.certify.issuer import Issuer, Line

ORDER_FORMAT: Final = "powercut-certify/1"
SIGNATURE: Final = "certificate.json.sig"
_SPENT: Final = "spent.json"


class Order(Record):
    """order.json."""

    format: Literal["powercut-certify/1"] = ORDER_FORMAT
    """Name and version of this format."""

    title: str
    """Name of the profile, presets or scenarios."""

    seed: int
    """Seed of every random choice, of all runs."""

    command: str
    """The command that repeats it."""

    scenarios: tuple[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")], ...]
    """Names of the scenarios, in the order in which they are run."""

    strategy: str
    """How combinations were chosen: `product`, `pairwise`, or `listed`."""

    selection: dict[str, Any]
    """How many cuts each cell gets (powercut.campaign.resume.Selection)."""

    measure: bool = True
    """Whether cost and wire are measured."""

    models: tuple[DiskModel, ...] = ()
    """Kinds of disk on which the cost is measured."""

    left_out: tuple[NotTested, ...] = ()
    """Combinations that no cell stands for, and why."""

    definition: Definition | None = None
    """The machine whose disks are certified; null if it is about settings."""

    heading: Line = ""
    """What the issuer calls the certificate; empty if nothing else than its title."""

    issuer: Issuer | None = None
    """Who hands it over; null if that is not said."""


class CertificateDir:
    """The folder of a certificate."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, results: Path, order: Order, scenarios: dict[str, str]) -> CertificateDir:
        """A new folder below `results`, with the texts of its scenarios.  Raises HostError."""
        made = cls(ResultDir.create(results / "certify", order.title, order.seed).path)
        with host_errors(made.path):
            (made.path / "scenarios").mkdir()
            (made.path / "runs").mkdir()
        for name, text in scenarios.items():
            write_atomic(made.scenario(name), text.encode())
        write_atomic(
            made.path / CERTIFICATE_ORDER, order.model_dump_json(indent=1).encode() + b"\n"
        )
        return made

    @classmethod
    def open(cls, path: Path) -> CertificateDir:
        """The folder at `path`, given directly, by a file in it, or by the one above `latest`.

        Raises UsageError if there is none.
        """
        folder = path if path.is_dir() else path.parent
        for candidate in (folder, folder / "latest"):
            if (candidate / CERTIFICATE_ORDER).is_file():
                return cls(candidate.resolve())
        raise UsageError(
            f"{path}: not a certificate's folder: there is no {CERTIFICATE_ORDER}",
            hint="give a folder such as results/certify/quick/latest",
        )

    def scenario(self, name: str) -> Path:
        """The copy of a scenario."""
        return self.path / "scenarios" / f"{name}.yaml"

    @property
    def runs(self) -> Path:
        """Where the runs lie; what `powercut run` calls results."""
        return self.path / "runs"

    @property
    def certificate(self) -> Path:
        """The certificate itself."""
        return self.path / CERTIFICATE

    def run_of(self, name: str) -> ResultDir | None:
        """The run of the scenario called `name`; None if it has not begun.

        One that was interrupted before it knew what it was about has not begun.
        """
        begun = [
            path
            for path in sorted((self.runs / name).glob("2*Z-*"))
            if (path / "environment.json").is_file()
        ]
        return ResultDir(begun[-1]) if begun else None

    def read_order(self) -> Order:
        """Reads order.json; raises DamagedRecording."""
        return read_model(self.path / CERTIFICATE_ORDER, Order)

    def spent_s(self) -> float:
        """Seconds that it took until now, interruptions not counted."""
        try:
            return float(parse_json(openable(self.path / _SPENT).read_text())["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0

    def load(self) -> HostLoad | None:
        """What else the host had to do in that time; None if it was not measured."""
        return HostLoad.over(self._loads())

    def _loads(self) -> list[HostLoad]:
        try:
            loads = parse_json(openable(self.path / _SPENT).read_text())["loads"]
            return [HostLoad.model_validate(load) for load in loads]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def add_spent(self, seconds: float, load: HostLoad | None = None) -> None:
        """Adds to both.  Raises HostError."""
        loads = [*self._loads(), *([] if load is None else [load])]
        spent = {
            "seconds": round(self.spent_s() + seconds, 3),
            "loads": [one.model_dump() for one in loads],
        }
        write_atomic(self.path / _SPENT, json.dumps(spent).encode() + b"\n")


def read_certificate(path: Path) -> Certificate:
    """Reads a certificate from its file.

    Raises UsageError if there is none, and DamagedRecording if it does not follow the schema.
    """
    try:
        return Certificate.model_validate_json(openable(path).read_bytes())
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", hint="give a certificate.json, or the folder of one"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DamagedRecording(f"{path}: {place or 'file'}: {first['msg']}") from error
