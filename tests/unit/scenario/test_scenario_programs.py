# SPDX-License-Identifier: Apache-2.0
"""Scenarios of programs: what is meant, where it starts, and what cannot be."""

from pathlib import Path

import pytest

from powercut.disk.root_image import RootImage
from powercut.model.contract import Honour
from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict
from powercut.paths import DRIVERS, EXAMPLES
from powercut.rig.commands import recovery_plan
from powercut.rig.engine_choice import choose_engine
from powercut.rig.host_files import executable_of
from powercut.scenario.load import parse_scenario
from powercut.scenario.machines import LOOP, UML
from powercut.scenario.place import Files, Place, place_of
from powercut.scenario.settings import (
    ControlKind,
    Parameters,
    ProgramSettings,
    WalSettings,
)
from powercut.trial.controls import controls_for, same_run
from powercut.workload.port import Run, SuitePackages
from powercut.workload.program.sync_trace import TRACER
from powercut.workload.table import workload_of

HEAD = "powercut: 1\nname: mine\n"
PROGRAM = "workload: {kind: program, command: ./prog --fast}\n"
PATH = Path("/scenarios/mine.yaml")


def cells(text: str, path: Path = PATH) -> list[Parameters]:
    return [parameters for _, parameters in parse_scenario(HEAD + text, path).cells]


def program(text: str = PROGRAM) -> Parameters:
    (parameters,) = cells(text)
    return parameters


def test_wal_is_meant_where_nothing_says_what_runs():
    (plain,), (named,) = cells(""), cells("workload: {kind: wal}\n")
    assert isinstance(plain.workload, WalSettings)
    assert plain == named
    # As it was stored before there was another kind.
    assert "kind" not in plain.model_dump(mode="json")["workload"]
    assert Parameters.model_validate_json(plain.model_dump_json()) == plain


def test_a_program_starts_in_the_folder_of_its_scenario_and_has_room():
    made = program()
    assert isinstance(made.workload, ProgramSettings)
    assert (made.workload.command, made.workload.folder) == (("./prog", "--fast"), "/scenarios")
    assert made.disk.size == 512 << 20
    assert program("disk: {size: 64 MiB}\n" + PROGRAM).disk.size == 64 << 20
    assert Parameters.model_validate_json(made.model_dump_json()) == made


def test_what_is_kept_of_a_run_says_where_its_programs_start():
    scenario = parse_scenario(
        f"{HEAD}{PROGRAM}matrix:\n  workload.command: [./a, [./b, -x]]\n", PATH
    )
    elsewhere = parse_scenario(scenario.text, Path("/results/mine/1/scenario.yaml"))
    assert elsewhere.cells == scenario.cells
    assert {cell.workload.folder for _, cell in elsewhere.cells} == {"/scenarios"}
    assert [cell.workload.command for _, cell in scenario.cells] == [("./a",), ("./b", "-x")]
    assert parse_scenario(HEAD, PATH).text == HEAD  # others are kept as they were written


def test_a_cell_may_be_a_program_beside_a_log():
    log, mine = cells(
        "cells:\n- name: log\n- {name: mine, workload.kind: program, workload.command: ./prog}\n"
    )
    assert isinstance(log.workload, WalSettings)
    assert isinstance(mine.workload, ProgramSettings)
    assert (log.disk.size, mine.disk.size) == (64 << 20, 512 << 20)
    assert mine.workload.folder == "/scenarios"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("workload: {kind: programm, command: x}\n", "workload.kind: should be one of wal, p"),
        ("workload: {kind: program}\n", "the key 'command' is missing"),
        ("workload: {kind: program, command: ''}\n", "workload.command: give a program"),
        ("workload: {kind: program, command: 'a \"b'}\n", "workload.command: not a command line"),
        ("workload: {kind: program, command: x, record: 512}\n", "workload.record: unknown key"),
        ("workload: {command: x}\n", "workload.command: unknown key"),
        (PROGRAM + "filesystem: {type: raw}\n", "filesystem.type: a program keeps its data"),
        (PROGRAM + "machine: {bus: nvme}\n", "machine.bus: with `root: host`"),
        (PROGRAM + "cut: {kind: vm-kill}\n", "cut.kind: a program is cut by power-loss"),
        (PROGRAM + "cut: {trigger: {flushes: 3}}\n", "cut.trigger: a program is cut after acks"),
        (PROGRAM + "explore: {engine: guest}\n", "explore.engine: a program's check"),
        ("workload: {kind: program, command: x, folder: here}\n", "workload.folder: a program st"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_place(text, says):
    with pytest.raises(UsageError) as caught:
        cells(text)
    assert f"{PATH}:" in str(caught.value)
    assert says in str(caught.value)


def test_the_control_of_a_safe_program_is_the_same_on_a_disk_that_lies():
    cell = program()
    (control,) = controls_for(cell, Verdict.SAFE)
    assert (control.kind, control.expected) == (ControlKind.LYING_DISK, Verdict.LOSSY)
    assert control.parameters.workload == cell.workload
    assert control.parameters.disk.flush is Honour.IGNORED
    assert same_run(control.parameters) != same_run(cell)


def test_a_program_that_loses_on_an_honest_disk_has_no_honest_twin():
    assert controls_for(program(), Verdict.LOSSY) == ()
    lying = program(PROGRAM + "disk: {flush: ignored}\n")
    (control,) = controls_for(lying, Verdict.LOSSY)
    assert (control.kind, control.expected) == (ControlKind.HONEST, Verdict.SAFE)
    assert control.parameters.disk.flush is Honour.HONOURED


ROOTED = "workload: {kind: program, command: ./prog --fast, root: ../root}\n"


def test_a_program_in_a_root_of_its_own_has_a_machine():
    made = program(f"machine: {{bus: nvme, cache: writeback, format: qcow2}}\n{ROOTED}")
    contents = workload_of(made).contents(Run(bytes(16), 5))
    assert place_of(made) == Place("qemu", Files.IMAGE)
    assert (contents.root, contents.program) == (Path("/root"), Path("/scenarios"))
    assert workload_of(made).reader(Run(bytes(16)))[0] == "/opt/powercut/prog"
    plan = recovery_plan(made, bytes(16), 5)
    assert (plan.host, plan.mount_point) == (None, "/root/mnt")
    assert plan.root is not None
    assert workload_of(made).contents(Run(bytes(16))).tool is None
    words = plan.root.command("/x", "check")
    assert words[:3] == ("program", "/", "6")
    assert words[3 + 6 :] == ("/x", "check")
    assert choose_engine(made, "auto").name == "guest"
    inside = program(ROOTED.replace("./prog", "/usr/bin/prog"))
    assert workload_of(inside).contents(Run(bytes(16))).program is None
    assert workload_of(inside).reader(Run(bytes(16)))[0] == "/usr/bin/prog"


def test_a_traced_one_has_the_tracer_in_its_root():
    made = program(ROOTED.replace("root:", "syncs: traced, root:"))
    workload = workload_of(made)
    assert workload.contents(Run(bytes(16))).tool == TRACER
    assert workload.reader(Run(bytes(16)))[0] == "/opt/powercut/prog"
    words = workload.writer(Run(bytes(16)))
    assert words[:4] == ("/run/powercut/synctrace", "dir=/mnt/data", "--", "/opt/powercut/prog")
    plan = recovery_plan(made, bytes(16), 5)
    assert plan.root is not None
    shown = plan.root.showing("synctrace", words[0])
    assert shown == ("show", "/bin/synctrace", "/root/run/powercut/synctrace")


def test_on_this_host_one_sees_its_folders_and_the_module_that_programs_import():
    """Wherever they lie: in a checkout below /tmp the module would be hidden else."""
    seen = recovery_plan(program("workload: {kind: program, command: ./prog}\n"), bytes(16), 5).host
    assert set(seen.visible) - {str(DRIVERS)} == {"/scenarios", str(EXAMPLES)}
    assert (EXAMPLES / "powercut_program.py").is_file()


def test_a_traced_one_on_this_host_sees_the_tracer_and_nothing_else_by_it():
    text = "workload: {kind: program, command: ./prog, syncs: traced}\n"
    traced, plain = (program(one) for one in (text, text.replace("traced", "kept")))
    seen, kept = (recovery_plan(one, bytes(16), 5).host for one in (traced, plain))
    assert (seen.tools, kept.tools) == (str(TRACER.parent), "")
    assert seen.visible == kept.visible


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ROOTED.replace("./prog", "prog"), "workload.command"),
        (f"machine: {{bus: nvdimm}}\n{ROOTED}", "machine.bus"),
        (f"machine: {{backend: libvirt}}\n{ROOTED}", "machine.backend"),
        (f"explore: {{engine: uml}}\n{ROOTED}", "explore.engine"),
        (f"machine: {{format: qcow2}}\nexplore: {{depth: 1}}\n{ROOTED}", "second cuts"),
        (f"cut: {{kind: vm-kill}}\n{ROOTED}", "power-loss"),
        (ROOTED.replace("root:", "packages: [python3], root:"), "`root: debian` alone"),
        (ROOTED.replace("../root", "debian:woody"), "no Debian suite 'woody'"),
        (ROOTED.replace("../root", "'debian:'"), "no Debian suite ''"),
        (ROOTED.replace("../root", "host, bring: .."), "workload.bring"),
        (ROOTED.replace("root:", "where: loop, root:"), "workload.where"),
        (ROOTED.replace("root:", "kernel: sid, root:"), "workload.kernel"),
        (ROOTED.replace("../root", "host, where: loop, kernel: sid"), "workload.kernel"),
        (ROOTED.replace("./prog", "/prog").replace("root:", "bring: .., root:"), "workload.bring"),
        *(
            (
                ROOTED.replace("../root", f"debian, packages: ['{name}']"),
                "no name of a Debian package",
            )
            for name in ("-oDir=/", "mysql-", "../x", "?essential", "a b", "a=1", "a/sid", "", "A1")
        ),
    ],
)
def test_what_a_root_of_its_own_does_not_go_with(text, says):
    with pytest.raises(UsageError, match=says):
        cells(text)


ON_LOOP = "workload: {kind: program, command: ./prog, where: loop}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"filesystem: {{type: btrfs}}\n{ON_LOOP}", "by its UUID"),
        (f"filesystem: {{type: f2fs}}\n{ON_LOOP}", "come without f2fs"),
        *(
            (f"filesystem: {{mount: ['{option}']}}\n{ON_LOOP}", "name no other device")
            for option in (
                "journal_path=/dev/sda", "logdev=/dev/sda", "device=/dev/sda", "loop=/dev/loop3",
                "bind", "remount", "errors=panic", "fatal_errors=panic", "data=/dev/sda", "suid",
            )
        ),
    ],
)  # fmt: skip
def test_what_the_hosts_own_kernel_is_not_asked_for(text, says):
    with pytest.raises(UsageError, match=says):
        cells(text)
    mounted = program(f"filesystem: {{mount: [noatime, commit=1]}}\n{ON_LOOP}")
    assert place_of(mounted) == Place(LOOP, Files.HOST)


def test_a_root_of_debians_packages_names_its_suite():
    text = ROOTED.replace("../root", "debian, packages: [python3, g++, libc6]")
    contents = workload_of(program(text)).contents(Run(bytes(16)))
    assert contents.root == SuitePackages("trixie", ("python3", "g++", "libc6"))
    other = workload_of(program(ROOTED.replace("../root", "debian:sid"))).contents(Run(bytes(16)))
    assert other.root == SuitePackages("sid")
    folder = workload_of(program(ROOTED.replace("../root", "./debian"))).contents(Run(bytes(16)))
    assert folder.root == Path("/scenarios/debian")


def test_a_program_brings_the_folder_that_it_is_told():
    text = ROOTED.replace("./prog", "bin/prog").replace("../root", "debian, bring: .")
    workload = workload_of(program(text))
    contents = workload.contents(Run(bytes(16)))
    assert contents.program == Path("/scenarios")
    assert workload.reader(Run(bytes(16)))[0] == "/opt/powercut/bin/prog"


def test_engines_that_cannot_do_it_are_refused():
    with pytest.raises(UsageError, match="engine uml does not have"):
        choose_engine(program(ROOTED), "uml")
    with pytest.raises(UsageError, match="the repair of a qcow2 image is not recorded"):
        choose_engine(program(f"machine: {{format: qcow2}}\n{ROOTED}"), "auto", depth=1)
    several = program(f"disk: {{also: [{{name: b, size: 64MiB, holds: folder}}]}}\n{ROOTED}")
    with pytest.raises(UsageError, match="a recovery of several is not recorded"):
        choose_engine(several, "auto", depth=1)
    assert choose_engine(several, "auto", after=4).name == "guest"
    assert choose_engine(program(ROOTED), "auto", depth=1).name == "guest"
    assert choose_engine(program(ROOTED), "auto", after=4).name == "guest"


WITHOUT_VM = ROOTED.replace("../root", "debian:bookworm, where: no-vm")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f"machine: {{bus: nvme}}\n{WITHOUT_VM}",
            "with `where: no-vm` a program runs",
        ),
        (f"explore: {{engine: guest}}\n{WITHOUT_VM}", "runs in User-Mode Linux"),
        ("workload: {kind: program, command: ./prog, where: no-vm}\n", "goes with a root of its"),
        (WITHOUT_VM.replace("./prog --fast", "prog"), "named by its path there"),
    ],
)
def test_what_a_root_without_a_virtual_machine_does_not_go_with(text, says):
    with pytest.raises(UsageError, match=says):
        cells(text)


def test_a_root_without_a_virtual_machine_is_unpacked_on_the_host(tmp_path, monkeypatch):
    root = RootImage(tmp_path, "0" * 64)
    monkeypatch.setattr("powercut.rig.commands.unpacked_root", lambda _: root)
    monkeypatch.setattr("powercut.rig.host_files.unpacked_root", lambda _: root)
    parameters = program(WITHOUT_VM)
    plan = recovery_plan(parameters, bytes(16))
    assert plan.root is None
    assert plan.host is not None
    assert (plan.host.base, plan.host.program) == (str(tmp_path), "/scenarios")
    assert plan.reader[0] == "/opt/powercut/prog"
    assert executable_of(parameters) == Path("/scenarios/prog")
    own = program(WITHOUT_VM.replace("./prog", "/usr/bin/prog"))
    assert executable_of(own) == tmp_path / "usr/bin/prog"
    assert place_of(parameters) == Place(UML, Files.UNPACKED)
