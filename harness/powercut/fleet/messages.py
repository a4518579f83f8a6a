# SPDX-License-Identifier: Apache-2.0
"""What this host and a worker on another one say to each other: JSON, a message a line.

    here  -> there   {"opening": {...}}, then {"order": {...}}..., and {"beat": {}} now and then
    there -> here    {"hello": {...}}, then {"phase": {...}}, {"done": {...}}, {"trouble": {...}},
                     and {"beat": {}} now and then

For an exploration {"study": {...}} takes the place of the opening, {"states": {...}} that of
orders, and {"judged": {...}} that of what is done.

It is data and nothing but data: whatever a host sends, nothing of it runs here.  Each side takes
the other for gone once it has heard nothing for `silence_s`.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from powercut.crash.states import Model
from powercut.explore.request import Prune
from powercut.model.events import Phase
from powercut.scenario.plan import Trial
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.certify_order import RunComponents
from powercut.store.trial_result import FindingRecord

LINE_MAX: Final = 32 << 20
"""Bytes of a line."""

BEATS: Final = 10
"""Beats within `silence_s`."""

RESULT_FILES: Final = ("trial.json", "manifest.json", "verdict.json", "exploration.json")
"""What of a recording comes back at once."""


class Message(BaseModel):
    """Frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PartKind(enum.Enum):
    """What a part of a program is: the folder that it lies in, the image of that folder, or its
    root as an image or as a folder."""

    PROGRAM = "program"
    PROGRAM_IMAGE = "program image"
    ROOT_IMAGE = "root image"
    ROOT_FOLDER = "root folder"

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no image."""
        return self in (PartKind.PROGRAM, PartKind.ROOT_FOLDER)


class Part(Message):
    """What a program needs, and was carried there (powercut.fleet.cargo)."""

    kind: PartKind
    name: str
    """As the scenario's host calls it."""

    folder: str
    """Where it lies below the fleet's folder; its name is the digest."""

    sha256: str = ""
    """What an image or a root was made from."""

    about: str = ""
    """Which packages a root was made from."""

    @property
    def title(self) -> str:
        """For a reader."""
        return f"{self.kind.value} {self.name}"


class Opening(Message):
    """A run begins there."""

    folder: str
    """Its folder below that of the fleet."""

    scenario: str
    cells: dict[str, Parameters]
    jobs: int
    room: int
    silence_s: float
    parts: tuple[Part, ...] = ()


class Study(Message):
    """The exploration of one recording begins there."""

    recording: str
    """Its folder below that of the fleet; its name is the digest of the recording's manifest."""

    engine: str
    kernel: str
    """Which User-Mode Linux recovers, as `explore --recovery-kernel` names it."""

    prune: Prune
    seed: int
    policies: tuple[str, ...]
    model: Model
    jobs: int
    silence_s: float
    parts: tuple[Part, ...] = ()


class Hello(Message):
    """What the host is."""

    code: str
    """Digest of powercut's files (powercut.fleet.wheels)."""

    processor: str
    machines: dict[str, Any]
    """What each backend says of its environment."""

    components: RunComponents
    parts: dict[str, str] = {}
    """By which digest it has each part that was carried there."""


class Order(Message):
    """One trial, to be made and judged."""

    id: int
    name: str
    """Of the cell, or the control."""

    control: ControlKind | None
    parameters: Parameters
    trial: Trial
    scenario_sha256: str


class StateOrder(Message):
    """A batch of crash states, to be recovered and judged."""

    id: int
    states: tuple[dict[str, Any], ...]
    """As powercut.recording.state_ref writes them."""


class JudgedState(Message):
    """What came of one state; see powercut.explore.work."""

    findings: tuple[FindingRecord, ...] = ()
    pruned: bool = False
    rerun: bool = False
    same_files: bool = False
    disk: Annotated[str, Field(pattern="^([0-9a-f]{32})?$")] = ""


class Judged(Message):
    """A batch was judged."""

    id: int
    states: tuple[JudgedState, ...]
    boots: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PhaseOf(Message):
    """A trial has got that far."""

    id: int
    phase: Phase


class Done(Message):
    """A trial was made and judged."""

    id: int
    folder: str
    files: dict[str, str]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Trouble(Message):
    """A trial could not be made there."""

    id: int
    why: Annotated[str, Field(max_length=4000)]


def line_of(kind: str, message: Message | None = None) -> bytes:
    """A message as it is sent."""
    body = "{}" if message is None else message.model_dump_json()
    return f'{{"{kind}": {body}}}\n'.encode()
