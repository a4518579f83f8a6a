# SPDX-License-Identifier: Apache-2.0
"""The call sites of a trace, with names for their stacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from powercut.disk.root_image import PROGRAM, is_image
from powercut.model.errors import PowercutError
from powercut.rig import commands
from powercut.rig.unpacked import unpacked_root
from powercut.scenario.settings import Parameters
from powercut.workload.program.sync_trace import CallSite, Frame, SyncTrace
from powercut_extras.audit.code_names import name_places
from powercut_extras.audit.sync_site import CalledFrom, SyncSite

_FileOf = Callable[[str], str]
"""Where this host has a file of the root that a program ran on; empty if nowhere."""


def named_sites(trace: SyncTrace, parameters: Parameters) -> tuple[SyncSite, ...]:
    """All of them, in the order in which they were first seen; their code is that of the root on
    which a program of these `parameters` runs."""
    file_of = _files(parameters)
    here = {frame: file_of(frame.module) for site in trace.sites for frame in site.frames}
    known = name_places((file, frame.address) for frame, file in here.items() if file)
    names = {frame: known.get((file, frame.address), frame.text) for frame, file in here.items()}
    return tuple(_named(site, trace, names) for site in trace.sites)


def _files(parameters: Parameters) -> _FileOf:
    contents = commands.contents_of(parameters)
    if contents.root is None:
        return lambda module: module
    folders = {} if contents.program is None else {Path("/", PROGRAM): contents.program}
    if not (isinstance(contents.root, Path) and is_image(contents.root)):
        with suppress(PowercutError):  # one that cannot be had any more: its code has no names
            folders[Path("/")] = unpacked_root(contents.root).path

    def file_of(module: str) -> str:
        for inside, folder in folders.items():
            if Path(module).is_relative_to(inside):
                file = (folder / Path(module).relative_to(inside)).resolve()
                return str(file) if file.is_relative_to(folder.resolve()) else ""
        return ""

    return file_of


def _named(site: CallSite, trace: SyncTrace, names: dict[Frame, str]) -> SyncSite:
    return SyncSite(
        number=site.number + 1,
        key=site.key,
        call=site.call,
        path=site.file,
        calls=trace.count(site.number),
        stack=tuple(
            CalledFrom(module=frame.module, address=frame.address, name=names[frame])
            for frame in site.frames
        ),
    )
