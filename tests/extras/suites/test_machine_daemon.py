# SPDX-License-Identifier: Apache-2.0
"""Which qemu-storage-daemon serves a disk: that of the QEMU which a scenario asks for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from powercut.machine.storage_daemon import daemon_of, export_argv
from powercut.model.errors import HostError
from powercut.model.machine import CacheMode, Export
from powercut_extras.suites import daemon as suites
from powercut_extras.suites.daemon import PROGRAM


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def later() -> float:
    return time.monotonic() + 60


def test_a_qemu_by_its_path_has_the_daemon_that_lies_beside_it(tmp_path: Path) -> None:
    qemu = script(tmp_path / "qemu-system-x86_64", "#!/bin/sh\n")
    with pytest.raises(HostError, match=r"there is no .*/qemu-storage-daemon") as caught:
        daemon_of(str(qemu), deadline=later())
    assert "leave machine.export out" in caught.value.hint
    own = script(tmp_path / PROGRAM, f"#!/bin/sh\necho '{PROGRAM} version 99.1.2 (own)'\n")
    found = daemon_of(str(qemu), deadline=later())
    assert found.program == own
    assert (found.part().version, found.part().role) == ("99.1.2", "disk bridge")
    argv = export_argv(
        Export.NBD,
        Path("/run/nbd"),
        Path("/run/export"),
        cache=CacheMode.NONE,
        program=str(found.program),
    )
    assert argv[0] == str(own)


def test_a_suite_has_its_own_started_with_its_libraries(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "qemu/root"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    # In place of the loader: it shows what it was asked to start.
    script(libraries / "ld-linux-x86-64.so.2", '#!/bin/sh\nshift 3; exec "$@"\n')
    binary = script(root / "usr/bin" / PROGRAM, f"#!/bin/sh\necho {PROGRAM} version 11.0.1\n")
    monkeypatch.setattr(suites, "suite_folder", lambda _: tmp_path)
    found = daemon_of("sid", deadline=later())
    assert (found.program, found.binary) == (tmp_path / "daemon" / PROGRAM, binary)
    assert found.part().version == "11.0.1"
    made_ns = found.program.stat().st_mtime_ns
    assert daemon_of("sid", deadline=later()).program.stat().st_mtime_ns == made_ns
