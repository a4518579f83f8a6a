# SPDX-License-Identifier: Apache-2.0
"""Presets: how a real product's default disk treats a guest's flush, as settings.

A preset is a YAML file in the folder presets beside this module.  It says what a product
does by default, in which version, who says so, and which settings of a scenario do the same.
Where the default loses acknowledged records it also has a remedy: what an operator changes,
and the settings that follow.  `NAME` stands for the product as it comes, `NAME/remedy` for
the product after that change.

Nothing here runs the product: a preset is a claim about it, put into terms that powercut
can run.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from powercut.model.errors import UsageError
from powercut.scenario.choices import Expect
from powercut.scenario.expand import merge
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import Parameters, setting_paths
from powercut.scenario.settings_base import Settings
from powercut.scenario.yaml_file import (
    Fault,
    KeyPath,
    did_you_mean,
    fault_of,
    parse_yaml,
    plain,
    read_text,
    report,
)

PRESETS: Final = Path(__file__).parent / "presets"
REMEDY: Final = "remedy"
_HINT: Final = "see docs/presets.md"

Text = Annotated[str, StringConstraints(min_length=1)]


class FlushReaches(enum.Enum):
    """How far a flush of the guest gets before it is reported done."""

    STABLE_MEDIA = "stable media"
    DRIVE_CACHE = "drive cache"
    NOTHING = "nothing"

    @property
    def expect(self) -> Expect:
        """What a power loss makes of it."""
        return Expect.SAFE if self is FlushReaches.STABLE_MEDIA else Expect.LOSSY


class SourceStatus(enum.Enum):
    """Whether the claim was read in the source or documentation of the named version."""

    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"


class Source(Settings):
    """Who says so."""

    title: Text
    """Title of a document, or project and file of the source."""

    where: Text
    """Its address, or the symbol in the file."""

    version: Text
    """The version that was read: a release, or a date."""

    says: Text
    """What it says, in other words."""


class Remedy(Settings):
    """The honest twin of a default that loses records."""

    does: Text
    """What an operator changes, as a command or a sentence."""

    settings: dict[str, Any]
    """Dotted settings of a scenario in which the product then differs from its default."""


class Preset(Settings):
    """How a real product's default disk treats a flush."""

    format: Annotated[Literal[1], Field(alias="powercut-preset")]
    """Version of this format: 1.  Also marks the file as a preset."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,47}$")]
    """Name of the preset and of its file: lower case, digits, hyphens."""

    title: Text
    """What is configured how, in a few words."""

    product: Text
    """The product."""

    versions: Text
    """The versions of it that the claim is about."""

    claim: Text
    """What becomes of a guest's flush, in one sentence."""

    flush_reaches: FlushReaches
    """Where the data are when a flush of the guest is reported done: on `stable media`, in a
    volatile `drive cache`, or wherever they were before (`nothing` was done)."""

    expect: Expect
    """The verdict that follows: `safe` if a flush reaches stable media, else `lossy`."""

    status: SourceStatus
    """Whether somebody read the claim in the sources below (`confirmed`) or not."""

    open_question: str = ""
    """What is not confirmed, and why; empty for a confirmed preset."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    """Where it can be read."""

    stands_for: str = ""
    """Where the settings only come close to the product: what stands for what."""

    settings: dict[str, Any]
    """Dotted settings of a scenario that reproduce the product's default."""

    remedy: Remedy | None = None
    """What an operator changes, where the default loses acknowledged records."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.expect is not self.flush_reaches.expect:
            wanted = self.flush_reaches.expect.value
            raise ValueError(
                f"a flush that reaches {self.flush_reaches.value} makes {wanted}: "
                "flush_reaches and expect contradict each other"
            )
        if (self.status is SourceStatus.UNCONFIRMED) != bool(self.open_question):
            raise ValueError("an unconfirmed preset, and no other, has an open_question")
        if self.remedy is not None and self.expect is Expect.SAFE:
            raise ValueError("a default that is safe needs no remedy")
        return self

    def cell_settings(self, *, remedied: bool = False) -> dict[str, Any]:
        """Dotted settings of the product as it comes, or after the remedy."""
        if not remedied:
            return {**self.settings, "expect": self.expect.value}
        assert self.remedy is not None
        return {**self.settings, **self.remedy.settings, "expect": Expect.SAFE.value}


def preset_names() -> tuple[str, ...]:
    """Every name that `preset:` may take: each preset and, where it has one, its remedy."""
    names = []
    for preset in all_presets():
        names.append(preset.name)
        if preset.remedy is not None:
            names.append(f"{preset.name}/{REMEDY}")
    return tuple(names)


def all_presets(folder: Path = PRESETS) -> tuple[Preset, ...]:
    """All presets, by name.  Raises UsageError for a mistake in one of the files."""
    return tuple(load_preset(path) for path in sorted(folder.glob("*.yaml")))


class UnknownPreset(UsageError):
    """There is no preset of that name."""


def find_preset(name: str, folder: Path = PRESETS) -> Preset:
    """The preset `name`.

    Raises UnknownPreset if there is none, and UsageError for a mistake in its file.
    """
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in known:
        raise UnknownPreset(
            f"there is no preset {name!r}{did_you_mean(name, known)}",
            hint="`powercut list presets` lists them",
        )
    return load_preset(folder / f"{name}.yaml")


def named_settings(name: str, folder: Path = PRESETS) -> dict[str, Any]:
    """The dotted settings that `NAME` or `NAME/remedy` stands for.

    Raises UnknownPreset if there is no such preset, and UsageError if it has no remedy.
    """
    base, slash, twin = name.partition("/")
    preset = find_preset(base, folder)
    if not slash:
        return preset.cell_settings()
    if twin != REMEDY:
        raise UnknownPreset(
            f"there is no {name!r}: a preset is NAME or NAME/{REMEDY}",
            hint=f"`powercut list presets {base}` explains it",
        )
    if preset.remedy is None:
        raise UsageError(
            f"{base} has no {REMEDY}: it is safe as it comes", hint="leave `/remedy` out"
        )
    return preset.cell_settings(remedied=True)


@lru_cache(maxsize=256)
def _parsed(text: str, path: Path) -> Preset:
    return parse_preset(text, path)


def load_preset(path: Path) -> Preset:
    """Reads and checks one preset.

    Raises UsageError with every mistake in the file, each with its place.
    """
    return _parsed(read_text(path, "preset", _HINT), path)


def parse_preset(text: str, path: Path) -> Preset:
    """Checks the text of a preset; `path` serves for messages, and for the name.

    Raises UsageError with every mistake in it.
    """
    document = parse_yaml(
        text, path, ("a preset is a mapping", "it begins with `powercut-preset: 1`")
    )
    data = plain(document)
    faults: list[Fault] = []
    preset: Preset | None = None
    try:
        preset = Preset.model_validate(data)
    except ValidationError as error:
        faults += [fault_of(item, (), _keys_beside) for item in error.errors()]
    if preset is not None:
        if preset.name != path.stem:
            faults.append(
                Fault(("name",), f"should be {path.stem!r}, as its file is called", preset.name)
            )
        faults += _setting_faults(preset)
    if faults or preset is None:
        raise UsageError(report(path, document, faults), hint=_HINT)
    return preset


def _keys_beside(loc: KeyPath) -> tuple[str, ...]:
    models: dict[str, type[Settings]] = {"sources": Source, "remedy": Remedy}
    model = models.get(str(loc[0]), Preset)
    fields = (Preset if len(loc) == 1 else model).model_fields
    return tuple(field.alias or name for name, field in fields.items())


def _setting_faults(preset: Preset) -> list[Fault]:
    places: dict[str, KeyPath] = {key: ("settings", key) for key in preset.settings}
    faults = _key_faults(preset.settings, ("settings",))
    twins = [preset.cell_settings()]
    if preset.remedy is not None:
        faults += _key_faults(preset.remedy.settings, ("remedy", "settings"))
        twins.append(preset.cell_settings(remedied=True))
        if twins[1] | {"expect": ""} == twins[0] | {"expect": ""}:
            faults.append(Fault(("remedy", "settings"), "the remedy changes nothing"))
    if faults:
        return faults
    for number, settings in enumerate(twins):
        if number and preset.remedy is not None:
            places |= {key: ("remedy", "settings", key) for key in preset.remedy.settings}
        faults += [fault for fault in _value_faults(settings, places) if fault not in faults]
    return faults


def _key_faults(settings: Mapping[str, Any], place: KeyPath) -> list[Fault]:
    """A preset describes a disk and the machine above it, and nothing else."""
    known = tuple(key for key in setting_paths() if key.startswith(("machine.", "disk.")))
    return [
        Fault((*place, key), "no setting of the machine or of the disk", near=known)
        for key in settings
        if key not in known
    ]


def _value_faults(settings: Mapping[str, Any], places: Mapping[str, KeyPath]) -> list[Fault]:
    try:
        parameters = Parameters.model_validate(merge({}, settings))
    except ValidationError as error:
        faults = []
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"][:2])
            place = (*places.get(key, ("settings",)), *item["loc"][2:])
            faults.append(fault_of(item, place, _keys_beside))
        return faults
    return [
        Fault(places.get(key, ("settings",)), reason if key in places else f"{key}: {reason}")
        for key, reason in refusals(parameters)
    ]
