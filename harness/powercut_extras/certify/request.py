# SPDX-License-Identifier: Apache-2.0
"""From what a person asks of `powercut certify` to what is certified."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut.campaign.selection import Selection
from powercut.model.errors import UsageError
from powercut.paths import SCENARIOS, command
from powercut.scenario.axes import with_axes
from powercut.scenario.choices import DiskModel
from powercut.scenario.choose import Strategy
from powercut.scenario.load import Scenario, load_scenario, preset_scenario
from powercut.scenario.plan import fresh_seed
from powercut_extras.certify.certificate import NotTested
from powercut_extras.certify.certifier import Request
from powercut_extras.certify.issuer import Issuer, one_line, read_logo

PROFILES: Final = {
    "quick": ("quick", None),
    "nightly": ("nightly", None),
    "full": ("nightly", "product"),
}
"""Profiles: a folder of scenarios/certify, and how to choose combinations if not as it says."""

USUAL: Final = "quick"
"""The default profile."""

_TITLE_MAX: Final = 60
_DISK: Final = "sata-ssd"
"""The disk whose cost is measured by default: the least that a server has."""


@dataclass(frozen=True)
class CertifyOptions:
    """The options that say what to certify, as they were given."""

    scenarios: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    profile: str | None = None
    qemu: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    strategy: str | None = None
    seed: int | None = None
    disks: tuple[str, ...] = ()
    no_cost: bool = False
    heading: str = ""
    issuer: str = ""
    contact: str = ""
    logo: Path | None = None
    domain: tuple[str, ...] = ()
    """Options that name a machine, of whose definition the scenario was made."""

    def command(self, seed: int, more: Sequence[str]) -> str:
        """The command that asks for the same."""
        argv = ["certify", *(self.domain or self.scenarios)]
        for option, value in (("--profile", self.profile), ("--strategy", self.strategy)):
            argv += [] if value is None else [option, value]
        for option, values in (
            ("--preset", self.presets),
            ("--qemu", self.qemu),
            ("--kernel", self.kernel),
            ("--disk", self.disks),
        ):
            argv += [part for value in values for part in (option, value)]
        argv += ["--no-cost"] if self.no_cost else []
        for option, value in (
            ("--title", self.heading),
            ("--issuer", self.issuer),
            ("--contact", self.contact),
            ("--logo", "" if self.logo is None else str(self.logo)),
        ):
            argv += [option, value] if value else []
        return f"{command()} {shlex.join([*argv, '--seed', str(seed), *more])}"


NOTHING: Final = CertifyOptions()


def request_of(asked: CertifyOptions, selection: Selection, named: Sequence[Path]) -> Request:
    """What is to be certified; `named` are the files that `asked.scenarios` means.

    Raises UsageError for what cannot be asked for, or a mistake in a scenario.
    """
    if asked.no_cost and asked.disks:
        raise UsageError("--no-cost and --disk contradict each other")
    if not (asked.profile or asked.scenarios or asked.presets):
        asked = replace(asked, profile=USUAL)
    scenarios, left_out = _scenarios(asked, named)
    seed = fresh_seed() if asked.seed is None else asked.seed
    return Request(
        title=_title(asked, scenarios),
        scenarios=tuple(scenarios),
        seed=seed,
        command=asked.command(seed, selection.options),
        selection=selection,
        measure=not asked.no_cost,
        models=tuple(DiskModel(disk) for disk in asked.disks or (_DISK,)),
        left_out=tuple(left_out),
        heading=_line("--title", asked.heading),
        issuer=_issuer(asked),
    )


def _line(option: str, text: str) -> str:
    try:
        return one_line(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _issuer(asked: CertifyOptions) -> Issuer | None:
    """Who hands the certificate over, as far as that is said.  Raises UsageError."""
    if not (asked.issuer or asked.contact or asked.logo):
        return None
    return Issuer(
        name=_line("--issuer", asked.issuer),
        contact=_line("--contact", asked.contact),
        logo="" if asked.logo is None else read_logo(asked.logo),
    )


def _scenarios(
    asked: CertifyOptions, named: Sequence[Path]
) -> tuple[list[Scenario], list[NotTested]]:
    """All that is asked for: of the profile, by name, and of presets; and what they leave out."""
    folder, strategy = PROFILES[asked.profile] if asked.profile else (None, None)
    strategy = asked.strategy or strategy
    chosen = None if strategy is None else Strategy(strategy)
    profile = sorted((SCENARIOS / "certify" / folder).rglob("*.yaml")) if folder else []
    loaded = [load_scenario(path, strategy=chosen) for path in (*profile, *named)]
    if asked.presets:
        loaded.append(preset_scenario(asked.presets))
    axes = {"machine.qemu": list(asked.qemu), "machine.kernel": list(asked.kernel)}
    versions = max(len(asked.qemu), 1) * max(len(asked.kernel), 1)
    left_out = [
        NotTested(
            settings=dict(entry.settings),
            reason=f"{scenario.name}: {entry.reason}",
            combinations=entry.combinations * versions,
        )
        for scenario in loaded
        for entry in scenario.left_out
    ]
    made = [replace(with_axes(scenario, axes), strategy=scenario.strategy) for scenario in loaded]
    return made, left_out


def _title(asked: CertifyOptions, scenarios: Sequence[Scenario]) -> str:
    """The name of the certificate, and of its folder."""
    parts = [*([asked.profile] if asked.profile else []), *asked.presets]
    if not asked.profile:
        parts += [scenario.name for scenario in scenarios if scenario.name not in ("presets",)]
    named = [part.replace("/", "-") for part in dict.fromkeys(parts)]
    if asked.presets and not asked.profile and not asked.scenarios:
        named = [name.replace("/", "-") for name in asked.presets]
    title = "+".join(named)
    return title if len(title) <= _TITLE_MAX else f"{named[0]}-and-{len(named) - 1}-more"
