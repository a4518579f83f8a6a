# SPDX-License-Identifier: Apache-2.0
"""What the controller and a worker say to each other: JSON, in the text of a call and its answer.

    call      text of the call            text of its answer
    hello     Opening or Study            Hello
    trials    TrialOrders                 TrialAnswers
    states    StateOrder                  Judged
    has       Paths                       Paths, those of them that are there
    list      Paths, one folder           Listing
    write     Chunk                       nothing
    read      Wanted                      Chunk

Any call may be answered by Trouble instead.  It is data and nothing but data: whatever a host
sends, nothing of it runs here.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from powercut.crash.states import Model
from powercut.explore.request import Prune
from powercut.scenario.plan import Trial
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.certify_order import RunComponents
from powercut.store.trial_result import FindingRecord

RESULT_FILES: Final = ("trial.json", "manifest.json", "verdict.json", "exploration.json")
"""What of a recording comes back at once."""

FOLDER: Final = "POWERCUT_HOST_FOLDER"
"""The variable that names powercut's folder on a host."""

ROOM: Final = "POWERCUT_HOST_ROOM"
"""The variable that says how many bytes stay free there."""

CHUNK: Final = 4 << 20
"""Bytes of a file in one call."""


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
    """What a program needs, and was carried there (powercut.cluster.cargo)."""

    kind: PartKind
    name: str
    """As the scenario's host calls it."""

    folder: str
    """Where it lies below powercut's folder there; its name is the digest."""

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
    """Its folder below that of powercut on the host."""

    scenario: str
    cells: dict[str, Parameters]
    room: int
    """Bytes that stay free there, if the host has no setting of its own."""

    parts: tuple[Part, ...] = ()


class Study(Message):
    """The exploration of one recording begins there."""

    recording: str
    """Its folder below that of powercut; its name is the digest of the recording's manifest."""

    engine: str
    kernel: str
    """Which User-Mode Linux recovers, as `explore --recovery-kernel` names it."""

    prune: Prune
    seed: int
    policies: tuple[str, ...]
    model: Model
    parts: tuple[Part, ...] = ()


class Begin(Message):
    """One of the two."""

    opening: Opening | None = None
    study: Study | None = None


class Hello(Message):
    """What the host is."""

    code: str
    """Digest of powercut's files (powercut.cluster.wheels)."""

    processor: str
    machines: dict[str, Any]
    """What each backend says of its environment."""

    components: RunComponents
    parts: dict[str, str] = {}
    """By which digest it has each part that was carried there."""


class Order(Message):
    """One trial, to be made and judged."""

    name: str
    """Of the cell, or the control."""

    control: ControlKind | None
    parameters: Parameters
    trial: Trial
    scenario_sha256: str


class TrialOrders(Message):
    """Trials of one cell, to be made one after the other."""

    context: str
    """Digest of the text of the hello that has begun the run."""

    orders: tuple[Order, ...]


class Done(Message):
    """A trial was made and judged."""

    kind: Literal["done"] = "done"
    folder: str
    files: dict[str, str]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tries: Annotated[int, Field(ge=1)]
    """How often it was begun there: again after a worker died in the midst of it."""

    outcomes: tuple[str, ...]
    """What each try came to that was judged; a second one is a trial that was repeated."""


class Trouble(Message):
    """It could not be done there."""

    kind: Literal["trouble"] = "trouble"
    why: Annotated[str, Field(max_length=4000)]


class TrialAnswers(Message):
    """What became of each order."""

    answers: tuple[Annotated[Done | Trouble, Field(discriminator="kind")], ...]


class StateOrder(Message):
    """A batch of crash states, to be recovered and judged."""

    context: str
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

    states: tuple[JudgedState, ...]
    boots: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Paths(Message):
    """Files or folders, below powercut's folder there."""

    paths: tuple[str, ...]


class Listing(Message):
    """The files below a folder, by name, and their sizes."""

    files: Annotated[dict[str, Annotated[int, Field(ge=0)]], Field(max_length=100_000)]


class Wanted(Message):
    """A part of a file: `length` bytes from `offset` at most."""

    path: str
    offset: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(ge=1, le=CHUNK)] = CHUNK


class Chunk(Message):
    """A part of a file, in base64.  `size`: of the whole; the last part puts it in its place."""

    path: str
    offset: Annotated[int, Field(ge=0)]
    size: Annotated[int, Field(ge=0)]
    data: Annotated[str, Field(max_length=CHUNK * 4 // 3 + 8)]
    mode: int = 0o644


def context_of(text: str) -> str:
    """What a run or exploration is called that a hello has begun."""
    return hashlib.sha256(text.encode()).hexdigest()
