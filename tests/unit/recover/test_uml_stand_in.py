# SPDX-License-Identifier: Apache-2.0
"""A distribution without User-Mode Linux gets that of a Debian suite for the host's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from powercut.model.errors import HostError
from powercut.model.versions import HOST, STAND_IN
from powercut.recover.uml import kernel as uml_kernel
from powercut.rig import recovery_kernel as by_name
from powercut.rig.recovery_kernel import recovery_kernel


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of a host that has none in PATH, and is no Debian."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(uml_kernel, "CACHE", tmp_path)
    monkeypatch.setattr(uml_kernel, "is_debian", lambda: False)
    monkeypatch.setattr(by_name, "is_debian", lambda: False)
    return tmp_path


def fetched(cache: Path) -> tuple[Path, Path, str]:
    place = cache / "suites" / STAND_IN / "uml"
    libraries = place / "root/usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    for name in ("linux.uml", "about.json"):
        (place / name).touch()
    return place / "linux.uml", place / "root/usr/lib/uml/modules", str(libraries)


def test_it_is_fetched_when_it_is_needed_and_found_after_that(cache, monkeypatch):
    monkeypatch.setattr(
        by_name, "suites", lambda: SimpleNamespace(uml=lambda *_, **__: fetched(cache))
    )
    first = recovery_kernel(HOST)
    assert first.name == STAND_IN
    monkeypatch.delattr(by_name, "suites")
    assert recovery_kernel(HOST) == uml_kernel.host_kernel() == first


def test_without_network_there_is_none_and_nothing_fails(cache, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise HostError("no network")

    monkeypatch.setattr(by_name, "suites", lambda: SimpleNamespace(uml=refuse))
    kernel = recovery_kernel(HOST)
    assert (kernel.name, kernel.program) == (HOST, Path("linux.uml"))


def test_debian_has_its_own_and_nothing_is_fetched(cache, monkeypatch):
    monkeypatch.setattr(by_name, "is_debian", lambda: True)
    monkeypatch.setattr(uml_kernel, "is_debian", lambda: True)
    monkeypatch.delattr(by_name, "suites")
    fetched(cache)
    assert recovery_kernel(HOST).name == HOST
