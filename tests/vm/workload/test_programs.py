# SPDX-License-Identifier: Apache-2.0
"""`powercut record`: real programs in User-Mode Linux, honest, lossy and misbehaving ones."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import plain_word, powercut
from terminal import START_S, Terminal

from powercut.campaign.runner import run_scenarios
from powercut.cli.lookup import find_trials
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Verdict
from powercut.paths import ROOT
from powercut.recording.sealed import open_trial
from powercut.recover.uml.boot import UmlProcess, unavailable
from powercut.recover.uml.proof import uml_proof
from powercut.scenario.load import load_scenario

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
EXAMPLES = ROOT / "workloads" / "examples"
LIMITS = ["--acks", "20", "--seconds", "300", "--budget", "32", "--seed", "7"]
"""As few states as SAFE takes."""

LOSING = ["--acks", "20", "--seconds", "300", "--budget", "8", "--seed", "7"]


def recorded(tmp_path: Path, *command, limits=LIMITS):
    """The exit status, the only cell of the run, and what its trial left."""
    return told(tmp_path, "record", *limits, "--", *command)


def told(tmp_path: Path, verb: str, *words):
    done = powercut(verb, "--json", "-", "--results", tmp_path / "results", *words)
    assert done.stdout, done.stderr
    ((run,), shown) = json.loads(done.stdout)["runs"], done.stderr
    (cell,) = run["cells"]
    assert cell["verdict"].upper() in shown  # a person is told the same
    return done.returncode, cell, Path(run["result_directory"])


def program(tmp_path: Path, run: str, check: str = "exit 0", setup: str = "") -> Path:
    path = tmp_path / "program"
    path.write_text(
        '#!/bin/sh\nsay() { echo "$@" >&"$POWERCUT_FD"; }\n'
        f"case $1 in\nsetup) {setup} ;;\nrun) {run} ;;\ncheck) {check} ;;\nesac\n"
    )
    path.chmod(0o755)
    return path


# XFS: test_several_disks.  f2fs may lose (docs/file-system-promises.md).
def test_a_script_that_syncs_is_safe_and_its_control_is_not(tmp_path):
    status, cell, folder = recorded(tmp_path, EXAMPLES / "append.sh")
    assert (status, cell["verdict"], cell["reasons"]) == (0, "safe", [])
    (control,) = cell["controls"]
    assert (control["kind"], control["verdict"]) == ("lying-disk", "lossy")
    assert cell["commits_acked"] >= 20
    (trial,) = find_trials(folder / "cells")
    requests = open_trial(trial).timeline.requests
    flushes = int((requests.kind == RequestKind.FLUSH).sum())
    assert flushes >= cell["commits_acked"]  # they do arrive at the disk
    states = cell["states"]
    assert (states["states"], states["lossy"]) == (32, 0)
    assert states["by_policy"]["durable-only"] >= 10
    a_check_shows_that_it_sees_where_nothing_was_lost(cell, folder, "cut")


def a_check_shows_that_it_sees_where_nothing_was_lost(cell, folder, where):
    (trial,) = cell["trials"]
    positive, acked = trial["positive"], trial["commits_acked"]
    assert positive["where"] == where
    assert (positive["found"], positive["acknowledged"]) == (acked, acked)
    again = powercut("verify", folder)
    assert cell["verdict"].upper() in again.stdout
    assert again.returncode == (cell["verdict"] == "lossy"), again.stdout + again.stderr


def test_a_verdict_with_its_control_boots_four_kernels(tmp_path, monkeypatch):
    """One for `setup`, one for each run, and one that recovers whatever they left."""
    booted = []
    begin = UmlProcess.__init__

    def counted(self, *given, **named):
        booted.append("recovers" if named.get("outside") is None else "runs")
        begin(self, *given, **named)

    scenario = tmp_path / "boots.yaml"
    scenario.write_text(
        "powercut: 1\nname: boots\nexplore: {budget: 32}\ncut: {trigger: {acks: 20}}\n"
        f"workload: {{kind: program, command: {plain_word(EXAMPLES)}/append.sh, at_most: 300s}}\n"
    )
    assert uml_proof().ok  # once for a host, and not for a verdict
    monkeypatch.setattr(UmlProcess, "__init__", counted)
    (run,) = run_scenarios([scenario], seed=7, results=tmp_path / "results").runs
    (cell,) = run.cells
    assert [control.verdict for control in cell.controls] == [Verdict.LOSSY]
    assert sorted(booted) == ["recovers", "runs", "runs", "runs"]
    bases = {path.stat().st_ino for path in tmp_path.glob("results/*/*/c*/*/*/base.img")}
    assert len(bases) == 1


def test_a_rename_without_sync_loses_operations(tmp_path):
    status, cell, folder = recorded(tmp_path, EXAMPLES / "rename.py", "unsafe", limits=LOSING)
    assert (status, cell["verdict"]) == (1, "lossy")
    (trial,) = cell["trials"]
    assert trial["lost_lsns"]  # which of them depends on when the kernel wrote back by itself
    assert cell["controls"] == []  # its honest twin is the same run: what it loses is its own
    # A state may have an older value, or a torn one, which the check calls bad: as above.
    assert "lost" in [found["kind"] for found in trial["findings"]]
    written = load_scenario(folder / "scenario.yaml").settings.workload
    assert (written.command[1:], written.at_most) == (("unsafe",), 300 * 10**9)
    a_loss_is_told_with_files(folder, trial)
    a_shell_has_the_state_and_the_program(folder)
    next(folder.glob("cells/*/*/lines.bin")).write_bytes(b"PCLINES1")
    again = powercut("verify", folder)
    assert again.returncode not in (0, 1)
    assert "lines.bin" in again.stderr


def a_loss_is_told_with_files(folder, trial):
    """Operations by name, the check against what was acknowledged, and the file; no WAL words."""
    lost = [found["difference"] for found in trial["findings"] if found["kind"] == "lost"]
    difference = lost[-1]
    assert difference["missing"]
    assert difference["complete"]
    shown = powercut("show", folder).stdout
    assert "the check misses" in shown
    assert "What the program's check found after the cut:" in shown
    for word in ("history.bin", "slot", "LSN", "record "):
        assert word not in shown
    # What the program had renamed without a sync was on its way when the power went.
    names = {file["path"] for one in file_maps(folder) for file in one["files"]}
    assert any(name.startswith("data/") for name in names)


def file_maps(folder):
    (maps,) = folder.glob("cells/*/*/files.json")
    return json.loads(maps.read_text())["maps"]


def a_shell_has_the_state_and_the_program(folder):
    """The state's folder, the program's own check, the host's tools; nothing of it is kept."""
    (cell,) = folder.glob("cells/*/*/lines.bin")
    before = {path.name: path.read_bytes() for path in cell.parent.glob("*.json")}
    argv = [sys.executable, "-m", "powercut.cli.main", "shell", str(cell.parent), "cut"]
    refused = subprocess.run(argv, input="", capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "standard input is no terminal" in refused.stderr
    check = f"'{EXAMPLES}/rename.py' unsafe check /mnt/data"
    commands = f"pwd; ls; echo new > own && cat own\n{check} && echo checked\ntouch /usr/x\n"
    done = subprocess.run(
        [*argv, "--no-terminal"],
        input=commands, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "/mnt/data"
    assert {"new", "checked"} <= set(lines)
    assert "Read-only file system" in done.stdout
    assert {path.name: path.read_bytes() for path in cell.parent.glob("*.json")} == before
    ctrl_c_interrupts_a_command(argv)


def ctrl_c_interrupts_a_command(argv):
    """What runs there is interrupted, and the shell stays."""
    terminal = Terminal(argv)
    try:
        terminal.wait_for(b"powercut:")
        terminal.type(b"sh -c 'echo be''gun; exec sleep 1000'\n")
        terminal.wait_for(b"begun")  # it has the terminal then
        terminal.type(b"\x03")
        terminal.wait_for(b"powercut:")
        terminal.type(b"echo a''live; exit\n")
        terminal.wait_for(b"alive")
        assert terminal.process.wait(START_S) == 0
    finally:
        terminal.close()


@pytest.mark.nightly
def test_a_database_with_honest_settings_and_with_none(tmp_path):
    sqlite = ROOT / "workloads" / "programs" / "sqlite"
    assert recorded(tmp_path / "full", sqlite)[1]["verdict"] == "safe"
    status, cell, _ = recorded(tmp_path / "off", sqlite, "synchronous=off", limits=LOSING)
    assert (status, cell["verdict"]) == (1, "lossy")
    assert cell["lost_lsns"]


LOG = "[ ! -e $2/log ] || sed -n 's/^[0-9][0-9]*$/= &/p' $2/log >&$POWERCUT_FD"
"""A neighbour's commit may keep the size of what is not synced yet: zeroes stand there then."""

APPEND = (
    'n=1; while [ $n -le 80 ]; do say "? $n"; echo $n >>$2/log; sync $2/log $2; '
    'say "+ $n"; n=$((n + 1)); done'
)
HALF = "after a run that ended without a power cut, where nothing was lost; not found: 2, 4, 6, 8"
KEEPS_IT = (
    'n=1; while :; do say "? $n"; kept="$kept $n"; say "+ $n"; n=$((n + 1)); '
    '[ $n -lt 20000000 ] || echo "$kept" >>$2/log; done'
)
# The values lie where room was made for them, and are never synced; names are.
BY_NAME = (
    "head -c 99000 /dev/zero >$2/all; sync $2/all; "
    'n=1; while [ $n -le 80 ]; do say "? $n"; '
    "echo $n | dd of=$2/all bs=999 seek=$n conv=notrunc status=none; "
    ': >$2/n$n; sync $2; say "+ $n"; n=$((n + 1)); done'
)
NAMES = 'for f in $2/n*; do [ ! -e "$f" ] || say "= ${f##*/n}"; done'
# The name is never synced: fdatasync of the file does not make a rename durable.
RENAMED = "head -c 999 /dev/zero >$2/t; sync $2/t $2; mv $2/t $2/all"
IN_PLACE = (
    'n=1; while [ $n -le 80 ]; do say "? $n"; printf "%09d\\n" $n | '
    'dd of=$2/all bs=10 seek=$n conv=notrunc,fdatasync status=none; say "+ $n"; n=$((n + 1)); done'
)
PLACES = "[ ! -e $2/all ] || tr -d '\\0' <$2/all | sed 's/^0*/= /' >&$POWERCUT_FD"
CREATED = "a power cut at the first ack loses all that `setup` made (data/all)"
# The same beside a file that is durable.
BESIDE = f"echo 1 >$2/other; sync $2/other $2; {RENAMED}"
MISSED = "a power cut at the first ack loses what was acknowledged ("
# What was synced is overwritten, of the same size, without a sync; and `run` syncs another file.
OVERWRITTEN = (
    "head -c 999 /dev/zero >$2/all; sync $2/all $2; "
    "tr '\\0' x <$2/all | dd of=$2/all conv=notrunc status=none"
)
STALE = f"{APPEND}; :"
# As a tablespace: DIR has a link to where the values are.
OUTSIDE = APPEND.replace("sync $2/log", "sync $2/log /var/tmp/t")
OUTSIDE = f"mkdir /var/tmp/t; ln -s /var/tmp/t/log $2/log; sync $2; {OUTSIDE}"
# The same for each value, and the check finds the links alone.
LINKED = (
    'n=1; while [ $n -le 80 ]; do say "? $n"; echo $n >/dev/shm/$n; ln -s ../../dev/shm/$n $2/n$n; '
    'sync $2; say "+ $n"; n=$((n + 1)); done'
)
LINKS = 'for f in $2/n*; do [ ! -L "$f" ] || say "= ${f##*/n}"; done'
# No link leads there, and of each value there is an empty file in DIR.
APART = LINKED.replace("ln -s ../../dev/shm/$n ", ": >")


@pytest.mark.parametrize(
    ("run", "check", "reason"),
    [
        (f"say ready; say nonsense; {APPEND}; sleep 300", LOG, "no line of the contract"),
        (IN_PLACE, PLACES, CREATED),
        (STALE, LOG, CREATED),
        (f"{IN_PLACE}; :", PLACES, MISSED),
        (APPEND, f"{LOG}; exit 3", "ended with status 3"),
        (APPEND, LOG.replace("sed", "sed -n 1~2p $2/log | sed").replace(" $2/log >", " >"), HALF),
        (BY_NAME, NAMES, "the check has read none of the files that were written (data/all)"),
        (OUTSIDE, LOG, "outside of DIR the program wrote /var/tmp/t/log, which no crash state has"),
        (LINKED, LINKS, "data/n1 leads to /dev/shm/1, outside of /mnt: what the program"),
        (APART, NAMES, "outside of DIR, and no file in DIR that holds anything"),
        (KEEPS_IT, LOG, "operations after a run that ended without a power cut"),
        (f"{APPEND.replace('80', '10')}; cat /dev/zero >$2/zeroes || exit 5", LOG, "status 5"),
        ("getent hosts example.org || exit 6", "exit 0", "ended with status 6"),
        (f"(setsid sh -c 'exec sleep 9' &) ; {APPEND.replace('80', '5')}", LOG, "5 operations"),
    ],
    ids=[
        "garbage", "creation", "stale", "creation-of-one", "check-fails", "check-half",
        "check-of-names", "outside", "linked", "apart", "acks-what-it-keeps", "full", "network",
        "forks-away",
    ],
)  # fmt: skip
def test_a_program_that_misbehaves_is_never_safe(tmp_path, run, check, reason):
    """What needs a kernel to misbehave; lines that break the contract are tests/unit's."""
    limits = ["--acks", "20", "--seconds", "300", "--budget", "4", "--seed", "7"]
    limits += ["--filesystem", "ext4", "--size", "32MiB"]  # one is filled
    setup = {IN_PLACE: RENAMED, STALE: OVERWRITTEN, f"{IN_PLACE}; :": BESIDE}.get(run, "")
    status, cell, _ = recorded(tmp_path, program(tmp_path, run, check, setup), limits=limits)
    told = " ".join(cell["reasons"])
    assert (status, cell["verdict"]) == (3, "inconclusive")
    assert reason in told


# What is acknowledged is written four operations later, as by a thread of its own.
LATER = (
    'n=1; while :; do say "? $n"; [ $n -le 4 ] || echo $((n - 4)) >>$2/log; say "+ $n"; '
    "n=$((n + 1)); sleep .1; done"
)


def test_a_check_shows_that_it_sees_what_was_never_synced(tmp_path):
    """The kernel writes back when it likes: it must not have come up to the last ack."""
    never = program(tmp_path, APPEND.replace("sync $2/log $2; ", ""), LOG)
    scenario = tmp_path / "never.yaml"
    scenario.write_text(
        "powercut: 1\nname: never\nexplore: {budget: 8}\ncut: {trigger: {acks: 20}}\n"
        f"workload: {{kind: program, command: {plain_word(never)}, at_most: 300s,"
        " writeback: usual}\n"
    )
    _, cell, folder = told(tmp_path, "run", "--seed", "7", scenario)
    assert cell["verdict"] == "lossy"
    a_check_shows_that_it_sees_where_nothing_was_lost(cell, folder, "ended")


def test_a_check_shows_that_it_sees_what_is_written_later(tmp_path):
    _, cell, folder = recorded(tmp_path, program(tmp_path, LATER, LOG), limits=LOSING)
    assert cell["verdict"] == "lossy"
    a_check_shows_that_it_sees_where_nothing_was_lost(cell, folder, "ended")


FORGETFUL = APPEND.replace("sync $2/log $2;", '[ "$LEDGER_FORGETS" ] || sync $2/log $2;')


@pytest.mark.parametrize(
    ("passed", "verdict"), [(LIMITS, "safe"), ([*LOSING, "--env", "LEDGER_FORGETS"], "lossy")]
)
def test_a_variable_reaches_the_program_or_is_named(tmp_path, monkeypatch, passed, verdict):
    monkeypatch.setenv("LEDGER_FORGETS", "1")
    # What `setup` left undone `run` does before the first ack.
    run = f"echo $$ >/tmp/pid; ln -s /tmp/pid.new /tmp/new; sync $2/of-setup $2; {FORGETFUL}"
    later = program(tmp_path, run, LOG, "echo 1 >$2/of-setup; mkdir $2/tmp")
    _, cell, folder = recorded(tmp_path, later, limits=passed)
    (trial,) = cell["trials"]
    setup, *others = trial["untested"]
    assert setup.startswith("a power cut during `setup`")
    assert any("LEDGER_FORGETS" in one for one in others) == (verdict == "safe")
    assert cell["verdict"] == verdict
    if verdict == "safe":  # a file in memory is no doubt of an honest program
        (outside,) = [one for one in others if "outside of DIR" in one]
        assert "wrote outside of DIR: /tmp/new, /tmp/pid (declare" in outside
    shown = powercut("show", folder, "--cell", cell["cell"]).stdout
    assert "Not tested: a power cut during `setup`" in shown


def test_a_check_that_hangs_is_stopped(tmp_path):
    limits = ["--acks", "20", "--seconds", "300", "--budget", "2", "--state-timeout", "2"]
    hangs = program(tmp_path, APPEND, f"[ ! -e $2/log ] || sleep 300; {LOG}")
    status, cell, _ = recorded(tmp_path, hangs, limits=limits)
    assert (status, cell["verdict"], cell["commits_lost"]) == (3, "inconclusive", 0)
    assert "program did not end within 2 s" in str(cell["reasons"])


def test_killing_the_controller_leaves_nothing(tmp_path):
    # Nothing but the kill can end it: these limits take an hour to reach.
    endless = ["--acks", "1000000", "--seconds", "3600"]
    command = [sys.executable, "-m", "powercut.cli.main", "record", *endless]
    command += ["--results", tmp_path, "--", EXAMPLES / "append.sh"]
    with subprocess.Popen(command) as controller:
        try:
            below = wait_until(lambda: program_at_work(controller, tmp_path))
        finally:
            controller.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(alive(pid) for pid in below))


def program_at_work(controller: subprocess.Popen, folder: Path) -> dict[int, str]:
    """What runs below the controller once the program's lines arrive; nothing before."""
    assert controller.poll() is None, "it ended before it was killed"
    below = descendants(controller.pid)
    at_work = any("linux.uml" in name for name in below.values())
    return below if at_work and list(folder.glob("*/*/cells/*/*/lines.bin")) else {}


def wait_until(condition, timeout_s=120.0):
    """What `condition` says as soon as it is true."""
    end = time.monotonic() + timeout_s
    while not (said := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)
    return said


def descendants(pid: int) -> dict[int, str]:
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):  # a process that ends meanwhile has none
        for child in Path(f"/proc/{pid}/task").glob("*/children"):
            for one in map(int, child.read_text().split()):
                found |= descendants(one)
                found[one] = Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ")
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
