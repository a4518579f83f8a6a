# SPDX-License-Identifier: Apache-2.0
"""What a program needs, carried to a host: found there by digest, and by nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hosts_here import ClusterHere, EngineHere

from powercut import carried
from powercut.cluster.cargo import Cargo
from powercut.cluster.hold import Hold
from powercut.cluster.identity import differences, hello_of
from powercut.cluster.own import refuse_own
from powercut.cluster.roster import ClusterHost
from powercut.disk.root_image import ensure_program_image
from powercut.model.errors import HostError, UsageError
from powercut.paths import CACHE
from powercut.rig.rig import Rig
from powercut.rig.unpacked import unpacked_root
from powercut.scenario.load import expand, parse_scenario
from powercut.workload.port import Run
from powercut.workload.table import workload_of

TITLES = ("program", "root folder", "root image", "program image")
SCENARIO = """
powercut: 1
name: carried
filesystem: {type: ext4}
disk: {model: none}
workload: {kind: program, command: [program/keep, program/settings], root: root}
cells:
  - {name: unpacked, workload.where: no-vm}
  - {name: guest}
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("root/bin", "program"):
        (tmp_path / "mine" / name).mkdir(parents=True)
    for name in ("root/bin/tool", "program/keep", "program/settings"):
        (tmp_path / "mine" / name).write_text(f"{name} of {os.urandom(4).hex()}\n")
        (tmp_path / "mine" / name).chmod(0o755)
    (tmp_path / "mine/root/bin/link").symlink_to("tool")
    return tmp_path / "mine"


@pytest.fixture
def plan(folder):
    return expand(parse_scenario(SCENARIO, folder / "carried.yaml"), seed=7, trials=1)


@pytest.fixture
def host(tmp_path):
    return ClusterHere(tmp_path / "there", lambda _: Rig())


@pytest.fixture
def cargo(plan, host):
    """Carried to the host."""
    with Cargo(Rig(CACHE), (cell.parameters for cell in plan.cells)) as made:
        with EngineHere({"there": host}) as engine:
            made.bring(ClusterHost(engine, engine.workers[0], 1))
        yield made


def where(hold, title):
    (path,) = (path for part, path in hold._paths.items() if part.kind.value == title)
    return path


def changed(path: Path) -> Path:
    """The file of a part that gets another last byte."""
    if path.is_dir():
        (path,) = (one for one in sorted(path.rglob("*")) if one.name in ("settings", "tool"))
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    return path


def test_every_part_lies_there_by_the_digest_of_here(cargo, host):
    assert sorted(part.kind.value for part in cargo.parts) == sorted(TITLES)
    hold = Hold(host.root, cargo.parts)
    assert hold.digests == cargo.digests
    assert hold.is_sound
    hold.check()
    assert (where(hold, "root folder") / "bin/link").readlink() == Path("tool")
    again = Hold(host.root, cargo.parts)  # the next run finds it
    assert again.digests == cargo.digests


@pytest.mark.parametrize("title", TITLES)
def test_a_part_that_was_changed_there_is_named(cargo, host, title):
    hold = Hold(host.root, cargo.parts)
    changed(where(hold, title))
    with pytest.raises(HostError, match=f"^{title} .* was changed: it has digest [0-9a-f]{{16}},"):
        hold.check()
    found = Hold(host.root, cargo.parts)
    assert not found.is_sound
    here = hello_of(cargo.digests)
    (told,) = differences(here, hello_of(found.digests))
    assert told.startswith(f"{title} ")
    assert "was carried there" in told


def test_parts_with_new_times_and_the_same_bytes_stay(cargo, host):
    hold = Hold(host.root, cargo.parts)
    for title in TITLES:
        os.utime(where(hold, title))
    hold.check()


def test_a_part_that_is_gone_is_an_error_that_names_it(cargo, host):
    hold = Hold(host.root, cargo.parts)
    where(hold, "root image").unlink()
    with pytest.raises(HostError, match="cannot be read: No such file or directory"):
        hold.check()


def test_what_was_carried_is_used_in_place_of_what_the_scenario_names(
    cargo, host, plan, folder, monkeypatch
):
    unpacked, guest = (cell.parameters for cell in plan.cells)
    digests = [unpacked_root(folder / "root").sha256, Rig(CACHE).program_image(guest).sha256]
    monkeypatch.setenv(carried.ENVIRONMENT, "")
    hold = Hold(host.root, cargo.parts)
    hold.publish()
    (folder).rename(folder.with_name("gone"))
    program = where(hold, "program")
    workload = workload_of(unpacked)
    assert workload.problems() == ()
    assert workload.contents(Run(bytes(16))).program == program
    assert workload.files_of_command == (program / "settings",)
    assert workload.reader(Run(bytes(16)))[0] == "/opt/powercut/keep"
    root = unpacked_root(folder / "root")
    assert (root.path, root.sha256) == (where(hold, "root folder"), digests[0])
    ensure_program_image.cache_clear()
    image = Rig(CACHE).program_image(guest)
    assert (image.path, image.sha256) == (where(hold, "program image"), digests[1])
    assert Rig(CACHE).root_image(guest).path == where(hold, "root image")


def test_a_program_on_the_files_of_this_host_is_refused_in_words(folder):
    text = SCENARIO.partition("cells:")[0].replace("root: root", "root: host")
    plan = expand(parse_scenario(text, folder / "carried.yaml"), seed=7, trials=1)
    with pytest.raises(UsageError, match="runs on all files of this host") as error:
        refuse_own(plan)
    assert "`root: debian`" in error.value.hint
