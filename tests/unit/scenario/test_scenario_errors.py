# SPDX-License-Identifier: Apache-2.0
"""The errors that a disk is told to make: which of them cannot be."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from powercut.disk.capture_config import CaptureConfig, capture_argv
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import Parameters
from powercut.scenario.settings_errors import DiskError


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"on": "write", "nth": 1, "rate": 0.5}, "give one of nth, at, rate"),
        ({"on": "flush", "sectors": [0, 8]}, "a flush has no sectors"),
        ({"on": "write", "sectors": [2**31, 1]}, "beyond 1 TiB"),
        ({"on": "write", "sectors": [0, 8], "disk": "log"}, "give one, sectors or disk"),
        ({"on": "read", "then": "kept"}, "a read carries no bytes"),
        ({"on": "write", "error": "hang", "then": "kept"}, "one that hangs is in flight"),
        ({"on": "write", "error": "ENOSPC"}, "'EIO' or 'hang'"),
        ({"on": "write", "times": 0}, "greater than or equal to 1"),
        ({"on": "write", "rate": 0.0}, "greater than 0"),
    ],
)
def test_what_cannot_be_is_refused(settings, why):
    with pytest.raises(ValidationError, match=why):
        DiskError.model_validate(settings)


def refused(disk, **workload):
    program = {"kind": "program", "command": "/bin/true", "folder": "/", **workload}
    groups = {"workload": program, "filesystem": {"type": "ext4"}}
    cell = {"disk": disk} | (groups if workload.get("kind") != "wal" else {})
    return [why for key, why in refusals(Parameters.model_validate(cell)) if key == "disk.errors"]


def test_programs_meet_them_and_guests_do_not():
    errors = [{"on": "write"}]
    assert refused({"errors": errors}) == []
    assert refused({"errors": errors}, where="loop") == []
    assert refused({"errors": errors}, root="debian:sid")
    assert refused({"errors": errors}, kind="wal")
    more = [{"name": "log", "size": "16MiB", "holds": "folder"}]
    assert refused({"errors": errors, "also": more}) == []
    of_one = [{"on": "flush", "disk": "log"}]
    assert refused({"errors": of_one, "also": more}) == []
    assert refused({"errors": of_one}) == [
        "there is no disk log; there are one alone, which needs none"
    ]
    (why,) = refused({"errors": [{"on": "write", "disk": "third"}], "also": more})
    assert why == "there is no disk third; there are first, log"


def test_an_error_of_one_disk_is_told_by_its_place_on_the_whole():
    more = ({"name": "log", "size": "16MiB", "holds": "folder"},)
    errors = ({"on": "flush", "disk": "log", "times": "sticky"}, {"on": "write", "sectors": (8, 4)})
    settings = {"size": "64MiB", "also": more, "errors": errors}
    disk = Parameters.model_validate({"disk": settings}).disk
    config = CaptureConfig(
        base=Path("b"), log=None, contract=disk.contract(), parts=disk.parts, errors=disk.errors
    )  # fmt: skip
    told = [word for word in capture_argv(config, Path("d"), 3) if word.startswith("error=")]
    assert told == [
        f"error=flush:nth:1:EIO:0:lost:{(64 << 20) // 512}:{(16 << 20) // 512}",
        "error=write:nth:1:EIO:1:lost:8:4",
    ]
