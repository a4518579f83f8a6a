# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it, above all when something is wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from command_line import powercut

from powercut.cli import commands as cli
from powercut.cli import process, scenarios
from powercut.cli.commands import SECTIONS
from powercut.cli.main import main
from powercut.model.errors import HostError, UsageError
from powercut.model.extras import registered
from powercut.paths import SCENARIOS


def started(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "powercut.cli.main", *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def status_of(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr(sys, "argv", ["powercut", *argv])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_every_command_has_a_line_in_the_summary():
    lines = [line for section in SECTIONS.values() for line in section.items()]
    assert {name for name, _ in lines} >= set(cli.COMMANDS)
    shown = started("--help", COLUMNS="80").stdout
    there = cli.cli.list_commands(click.Context(cli.cli))
    width = max(map(len, there))
    for name, said in (line for line in lines if line[0] in there):
        assert f"  {name:<{width}}  {said}\n" in shown


def all_commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from all_commands(command)


def test_every_option_is_explained():
    for name, one in all_commands(cli.cli):
        options = (option for option in one.params if isinstance(option, click.Option))
        assert [option.opts for option in options if not option.help] == [], name


def test_a_name_of_an_option_takes_one_kind_of_value():
    kinds: dict[str, set[tuple[object, ...]]] = {}
    for _, one in all_commands(cli.cli):
        for option in one.params:
            if isinstance(option, click.Option):
                kind = (option.is_flag, option.nargs)
                kinds.setdefault(option.opts[0], set()).add(kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_what_serves_contributors_is_not_shown_where_powercut_is_installed(monkeypatch):
    monkeypatch.setattr(cli, "INSTALLED", True)
    assert "bench" not in cli.cli.list_commands(click.Context(cli.cli))
    assert cli.cli.get_command(click.Context(cli.cli), "bench") is not None


@pytest.mark.parametrize(
    ("words", "part", "found"),
    [
        (["run"], "first-l", "first-light"),
        (["run", "--preset"], "virtualbox-i", "virtualbox-ide"),
        (["run", "first-light", "--only"], "ly", "lying"),
        (["shell", "/nowhere"], "durable", "durable@cut"),
    ],
)
def test_names_are_completed(words, part, found):
    shell = ShellComplete(cli.cli, {}, "powercut", "_POWERCUT_COMPLETE")
    assert found in [item.value for item in shell.get_completions(words, part)]


def test_help_and_version():
    done = started("--help")
    assert done.returncode == 0
    for command in (
        "run",
        "verify",
        "show",
        "doctor",
        "test",
        "bench",
        *registered("powercut.commands"),
    ):
        assert f"\n  {command} " in done.stdout
    assert started("--version").stdout.startswith("powercut, version ")


def test_help_imports_nothing_heavy():
    code = (
        "import io, sys\n"
        "from contextlib import redirect_stdout\n"
        "from powercut.cli.commands import cli\n"
        "with redirect_stdout(io.StringIO()):\n"
        "    cli.main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'pydantic', 'rich', 'jinja2', 'ruamel.yaml', 'pytest', 'qemu'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["runn"], "No such command 'runn'. Did you mean run?"),
        (["audit", "flsh"], "Did you mean flushes?"),
        (["export", "x", "--format", "state", "-o", "y"], "--format state needs a STATE"),
        (["export", "x", "--as-seen", "-o", "y"], "--as-seen says nothing of --format bundle"),
        (["import", "x", "-o", "y"], "add --base IMAGE"),
        (["verify", "x", "--jobs", "2"], "--jobs says nothing of a result"),
        (["run", "--brief"], "--brief says nothing without --dry-run"),
        (["run", "--sed", "3"], "No such option"),
        (["run", "--seed", "-1"], "Invalid value"),
        (["run", "--dry-run", "frist-light"], "did you mean first-light"),
        (["run", "--dry-run", "first-light", "--brief", "--only", "lyin"], "did you mean lying?"),
        (["certify", "quick"], "write --profile quick"),
        (["audit", "cost", "frist-light"], "did you mean first-light"),
        (["audit", "cost", "--disk", "tape"], "Invalid value"),
        (
            ["audit", "syncs", "--root", "debian", "--test", "true", "--", "/usr/bin/prog"],
            "--test runs on this host",
        ),
        (["show", "/nowhere"], "No such file or directory"),
        (["verify", "/"], "not a result of powercut"),
    ],
)
def test_mistakes_exit_with_2_and_without_a_traceback(argv, message):
    done = powercut(*argv)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_every_mistake_in_a_scenario_is_shown(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("powercut: 1\nname: x\ntrials: 0\nworkload: {snc: none}\n")
    done = powercut("run", str(bad))
    assert done.returncode == 2
    assert f"{bad}:3:1: trials: " in done.stderr
    assert f"{bad}:4:12: workload.snc: unknown key; did you mean sync?" in done.stderr
    assert "hint: see docs/scenario-reference.md" in done.stderr


def test_plan_shows_cells_and_seeds_and_is_the_same_for_the_same_seed():
    argv = [
        "run",
        "--dry-run",
        "all-sync-modes",
        "--brief",
        "--seed",
        "9",
        "--only",
        "raw,*,cache=none",
    ]
    first, second = started(*argv), started(*argv)
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert first.stdout.startswith(
        "all-sync-modes: 10 cells, 50 power cuts and 11 for controls, seed 9\n"
    )


def test_scenarios_by_name_file_and_folder(tmp_path):
    assert scenarios.find_scenarios([]) == [SCENARIOS / "first-light.yaml"]
    assert scenarios.find_scenarios(["one-lie"]) == [SCENARIOS / "lying" / "one-lie.yaml"]
    found = scenarios.find_scenarios(
        [str(SCENARIOS / "lying"), str(SCENARIOS / "first-light.yaml")]
    )
    assert found == [*sorted((SCENARIOS / "lying").glob("*.yaml")), SCENARIOS / "first-light.yaml"]
    with pytest.raises(UsageError, match="no scenario"):
        scenarios.find_scenarios([str(tmp_path)])


def raising(error: BaseException):
    def command(*_: object, **__: object) -> None:
        raise error

    return command


def test_trouble_with_the_host_is_3_with_its_hint(monkeypatch, capsys):
    monkeypatch.setattr(
        scenarios, "find_scenarios", raising(HostError("disk full", hint="free some"))
    )
    assert status_of(monkeypatch, "run") == 3
    assert capsys.readouterr().err == "powercut: disk full\nhint: free some\n"


def test_a_full_host_is_3_and_no_bug(monkeypatch, capsys):
    full = OSError(
        errno.ENOSPC, "No space left on device", "/tmp/powercut-x/base", None, "/tmp/base"
    )
    monkeypatch.setattr(scenarios, "find_scenarios", raising(full))
    assert status_of(monkeypatch, "run") == 3
    said = capsys.readouterr().err
    assert said.startswith(
        "powercut: /tmp/base: No space left on device; nothing was proved\nhint: "
    )
    assert "bug" not in said


def test_a_bug_in_powercut_is_3_and_never_1(monkeypatch, capsys):
    monkeypatch.setattr(scenarios, "find_scenarios", raising(ZeroDivisionError("oops")))
    assert status_of(monkeypatch, "run") == 3
    said = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in said
    assert "this is a bug in powercut; nothing was proved" in said


def test_an_interrupt_is_130_and_never_1(monkeypatch, capsys):
    # It ends the process if other threads run, and pytest's own may have some.
    monkeypatch.setattr(process, "_leave_at_once", lambda: None)
    monkeypatch.setattr(scenarios, "find_scenarios", raising(KeyboardInterrupt()))
    assert status_of(monkeypatch, "run") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_module_of_every_command_is_there():
    """Commands import late; a wrong name would show only when the command is used."""
    text = Path(process.__file__).read_text()
    for line in text.splitlines():
        if line.startswith("    from powercut."):
            exec(line.strip(), {})


def test_an_option_that_capture_does_not_know_is_not_run(monkeypatch, capsys, tmp_path):
    assert status_of(monkeypatch, "capture", str(tmp_path), "--state", "45", "--", "true") == 2
    assert "No such option '--state'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a\ncut", "a\x1b[2Jb", "a\u202eb"])
def test_results_in_a_folder_whose_name_is_no_line_are_refused(monkeypatch, capsys, tmp_path, name):
    assert status_of(monkeypatch, "run", "first-light", "--results", str(tmp_path / name)) == 2
    assert "characters that cannot be printed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["try"], ["record"], ["audit", "syncs"], ["capture", "folder"]], ids=" ".join
)
def test_a_mistyped_option_is_no_program(command):
    ended = powercut(*command, "--secons", "3", "--", "/bin/true")
    assert ended.returncode == 2
    assert "--secons" in ended.stderr
    assert "--seconds" in ended.stderr
    own = powercut(*command, "/bin/true", "--qqq")
    assert own.returncode == 2
    assert " -- PROGRAM --qqq" in " ".join(own.stderr.split())


@pytest.mark.parametrize(("given", "goes_on"), [((), True), (("--acks", "500"), False)])
def test_a_run_of_try_goes_on_unless_its_operations_were_given(monkeypatch, given, goes_on):
    asked = []

    def tried(order, _progress):
        asked.append((order.options.acks, order.goes_on))
        raise UsageError("it was not recorded")

    monkeypatch.setattr("powercut.campaign.program_try.require_contract", lambda order: None)
    monkeypatch.setattr("powercut.campaign.program_try.try_program", tried)
    status_of(monkeypatch, "try", *given, "--", "/bin/true")
    assert asked == [(500, goes_on)]
