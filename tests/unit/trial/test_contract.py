# SPDX-License-Identifier: Apache-2.0
"""`try --dry-run`: the examples keep the contract, and each way to break it is told."""

import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from powercut.model.errors import HostError, UsageError
from powercut.paths import ROOT
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.trial import contract
from powercut.trial.contract import STATES, try_contract, unfinished_states
from powercut.workload.program.workload import ProgramWorkload, find_program

EXAMPLES = ["examples/append.sh", "examples/rename.py"]
PRODUCTS = ["sqlite", "lmdb", "redis", "postgresql"]
"""Those that `./powercut test` installs."""


def of(command: tuple[str, ...], folder: str) -> ProgramWorkload:
    settings = ProgramSettings(kind="program", command=command, folder=folder)
    return ProgramWorkload(Parameters(workload=settings))


@pytest.fixture
def program(tmp_path):
    """Makes a program of three pieces of shell."""

    def make(setup='[ -z "$(ls -A $2)" ]', run="exit 0", check="exit 0"):
        path = tmp_path / "program"
        path.write_text(
            f'#!/bin/sh\nsay() {{ echo "$@" >&"$POWERCUT_FD"; }}\n'
            f"case $1 in\nsetup) {setup} ;;\nrun) {run} ;;\ncheck) {check} ;;\nesac\n"
        )
        path.chmod(0o755)
        return of((str(path),), str(tmp_path))

    return make


def problems(program: ProgramWorkload, seconds: float = 20) -> list[str]:
    *_, last = try_contract(program, seed=1, seconds=seconds)
    return list(last.problems)


@pytest.mark.parametrize("name", [*EXAMPLES, *(f"programs/{name}" for name in PRODUCTS)])
def test_the_examples_keep_it(name):
    steps = list(try_contract(of((str(ROOT / "workloads" / name),), "/"), seed=1, seconds=60))
    assert [step.problems for step in steps] == [()] * 6


def test_folders_may_be_nested_deeper_than_calls(program):
    deep = "a/" * 1500
    made = program(setup=f"mkdir -p $2/{deep}", run=f"say atomic; {LINES}", check=READ)
    assert problems(made) == []


def test_the_header_makes_a_program_in_c(tmp_path):
    source = ROOT / "workloads" / "examples" / "counter.c"
    warnings = ["-std=gnu17", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *warnings, "-o", tmp_path / "counter", source], check=True)
    steps = list(try_contract(of((str(tmp_path / "counter"),), "/"), seed=1, seconds=60))
    assert [step.problems for step in steps] == [()] * 6
    told = problems(of((str(tmp_path / "counter"), "more"), "/"))
    assert told == []  # settings may stand before the verb
    silent = subprocess.run([tmp_path / "counter", "run", tmp_path], env={}, check=False)
    assert silent.returncode < 0  # without a descriptor nothing that it does could count


def test_a_run_goes_on_in_what_its_parent_has_left(program):
    """As a daemon does; who cannot say anything is not waited for."""
    daemon = f"say atomic; (sleep 0.2; {LINES}) &"
    assert problems(program(run=f"{daemon} exit 0", check=READ)) == []
    assert problems(program(run=f"sleep 99 3>&- & {daemon} exit 0", check=READ)) == []
    told, *_ = problems(program(run=f"{daemon} exit 3", check=READ))
    assert told.startswith("run ended with status 3")


WRITE = "say '? 1'; touch $2/1; say '+ 1'"
LINES = "for n in 1 2 3; do say ? $n; echo line $n >>$2/log; say + $n; done"
READ = """[ ! -e $2/log ] || while read -r word n || [ "$word" ]; do
    case $n in [1-3]) say = $n ;; *) say x 3 "half a line" ;; esac; done <$2/log"""
ITEMS = """say ready; for n in 1 2 3 4 5 6 7 8 9 10; do
    say ? $n; echo item $n >$2/$n.new; %s say + $n; done"""
RENAMED = ITEMS % "sync $2/$n.new; mv $2/$n.new $2/$n; sync $2;"
TORN = """for f in $2/*; do
    n=${f##*/}; case $n in *.new|'*') continue ;; esac
    if [ "$(tr -d '\\0' <$f)" = "item $n" ]; then say = $n; else say x $n torn; fi; done"""
ITEMS = ITEMS.replace(".new", "") % "sync $2/$n; sync $2;"
FIND = "[ ! -e $2/1 ] || say '= 1'"


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"setup": "echo no room; exit 4"}, "setup ended with status 4; it printed: no room"),
        ({"check": "say '= 1'"}, "1 operations are there and were never tried: 1"),
        ({"check": "exit 3"}, "status 3"),
        ({"run": "exit 0"}, "acknowledged nothing"),
        ({"run": "say '+ 1'"}, "never tried"),
        ({"run": "say '? 1'; say '- 1'; say '+ 1'"}, "has failed"),
        ({"run": "say '? 1'; say '+ 1'; say '+ 1'"}, "acknowledges operation 1 twice"),
        ({"run": "say '? 1'; say '+ 1'; say hello"}, "no line of the contract"),
        ({"run": WRITE, "check": "exit 0"}, "1 operation is acknowledged and not there: 1"),
        ({"run": WRITE, "check": f"{FIND}; say 'bad sums'"}, "sums"),
        ({"run": ITEMS, "check": TORN}, "Leave such an operation out"),
        (
            {"run": WRITE, "check": "case $2 in */empty) say '= 1' ;; *) " + FIND + " ;; esac"},
            "empty folder",
        ),
    ],
)
def test_what_breaks_it_is_told(program, parts, told):
    assert told in " ".join(problems(program(**parts)))


def test_a_check_that_reads_nothing_of_what_was_written_is_told(program):
    value = "say '? 1'; echo value >$2/1; say '+ 1'"
    index = "say '? 1'; echo value >$2/value; echo 1 >$2/1; say '+ 1'"
    told = problems(program(run=value, check=FIND))
    assert told == [
        "the check has read none of the files that were written (1): it cannot see whether what "
        "they hold was lost"
    ]
    reads = "[ ! -e $2/1 ] || { read -r word <$2/1; say '= 1'; }"
    assert problems(program(run=value, check=reads)) == []
    steps = list(try_contract(program(run=index, check=reads), seed=1, seconds=20))
    assert steps[3].what.endswith("2 files that were written hold: the check did not read value")
    assert not any(step.problems for step in steps)


def test_an_item_that_was_synced_before_it_got_its_name_is_never_torn(program):
    """Whichever operation is under way when the run is cut, and whatever file is the newest."""
    for seed in range(4):
        steps = list(try_contract(program(run=RENAMED, check=TORN), seed=seed, seconds=20))
        assert [step.problems for step in steps] == [()] * 6
        assert steps[4].what.endswith(f": {STATES} states of a cut")


def test_each_unfinished_state_lacks_what_a_cut_may_take_of_an_operation_under_way(tmp_path):
    """Of a store that makes each file under its name: one is empty, or holds zeroes."""
    script = tmp_path / "run"
    script.write_text(f'#!/bin/sh\nsay() {{ echo "$@" >&"$POWERCUT_FD"; }}\n{ITEMS}\n')
    folder, beside = tmp_path / "folder", tmp_path / "beside"
    for one in (folder, beside):
        one.mkdir()
    command = ("sh", str(script), "run", str(folder))
    torn = []
    for state in unfinished_states(command, folder, beside, acks=99, seconds=20, seed=1):
        (number,) = state.operations
        files = {path.name: path.read_bytes() for path in state.folder.iterdir()}
        whole = {str(n): b"item %d\n" % n for n in range(1, number)}
        assert whole.items() <= files.items(), "what was acknowledged is there"
        assert set(files) - set(whole) <= {str(number)}
        torn.append(number)
        assert files.get(str(number), b"").strip(b"\0") == b""
    assert len(set(torn)) == len(torn) == STATES
    assert not list(beside.glob("state"))


def test_where_no_folder_can_be_captured_that_is_said_and_nothing_else(program, monkeypatch):
    def fails(*_, **__):
        raise HostError("no /dev/fuse")

    monkeypatch.setattr(contract, "CapturedFolder", fails)
    steps = list(try_contract(program(run=ITEMS, check=TORN), seed=1, seconds=20))
    assert not any(step.problems for step in steps)
    assert steps[4].what.endswith("not tested, since no folder can be captured here: no /dev/fuse")


def test_a_program_that_promises_whole_operations_is_not_asked_for_half_of_one(program):
    assert problems(program(run=f"say atomic; {LINES}", check=READ)) == []
    assert problems(program(run=f"say atomic; {ITEMS}", check=TORN)) == []
    assert problems(program(run=ITEMS, check=TORN.replace("say x $n torn", ":"))) == []


def test_what_hangs_is_stopped_and_what_it_left_is_gone(program, tmp_path):
    hanging = program(run=f"sleep 300 & echo $! >'{tmp_path}/pid'; sleep 300")
    assert "acknowledged nothing" in problems(hanging, seconds=1)[0]
    child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"
    assert "did not end within 1 s" in problems(program(check="sleep 300"), seconds=1)[0]


def test_a_daemon_that_forks_away_is_found_and_ended(program, tmp_path):
    file = tmp_path / "pid"
    daemon = (
        f"setsid sh -c 'echo $$ >\"{file}\"; exec sleep 300' & until [ -s '{file}' ]; do :; done"
    )
    assert problems(program(run=f"{daemon}; {WRITE}", check=FIND)) == []
    assert not Path(f"/proc/{file.read_text().strip()}").exists()


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_setting_that_does_not_exist_is_named(name):
    bank = of((str(ROOT / "workloads" / "programs" / name), "nosuch=1"), "/")
    assert "nosuch=1: no setting; there are " in problems(bank)[0]


def test_each_setting_with_a_known_verdict_is_one_of_its_program():
    programs = ROOT / "workloads" / "programs"
    for one in YAML(typ="safe").load(programs / "expected.yaml"):
        text = (programs / one["program"]).read_text()
        assert [
            word for word in one["settings"].split() if f"{word.split('=')[0]}=" not in text
        ] == []
        assert (one["expect"] == "LOSSY") == ("words" in one) == ("source" in one)


def test_what_is_no_program():
    with pytest.raises(UsageError, match="there is no such program"):
        find_program(("/nowhere/prog",))
    with pytest.raises(UsageError, match="is not executable"):
        find_program((__file__,))
    assert find_program((sys.executable, "-c")).command[1:] == ("-c",)


@pytest.mark.parametrize(
    ("verbs", "words"),
    [
        ({"run": "say ready; exec yes '! x' >&$POWERCUT_FD"}, "run said more than 100,000 lines"),
        (
            {"run": "say '? 1'; exec yes '+ 1' >&$POWERCUT_FD"},
            "the program acknowledges operation 1 twice",
        ),
        ({"setup": "exec yes >&$POWERCUT_FD"}, "setup said more than 64 MiB of lines"),
        ({"check": "exec yes '= 1' >&$POWERCUT_FD"}, "it said more than 64 MiB of lines"),
        ({"setup": "sleep 10000"}, "setup did not end within 2 s"),
    ],
)
def test_what_has_no_end_is_ended_and_named(program, verbs, words):
    """Well before its time is over, unless it says nothing."""
    seconds = 2 if "sleep" in str(verbs) else 3600
    assert words in "; ".join(problems(program(**verbs), seconds=seconds))
