# SPDX-License-Identifier: Apache-2.0
"""`record` stands for a scenario of one cell: each option is one of its keys."""

import pytest

from powercut.model.errors import UsageError
from powercut.scenario.choices import FLUSH_LATENCY_NS, DiskModel
from powercut.scenario.load import parse_scenario
from powercut.scenario.program_text import RecordOptions, name_of, program_scenario, title_of
from powercut.scenario.settings import ProgramSettings

OPTIONS = RecordOptions(
    filesystem="btrfs", size="128MiB", atomic_unit=512, mkfs=("-O", "no-holes"),
    mount="noatime,commit=5", acks=70, seconds=2.5, budget="5m", state_timeout=9, deadline=60,
    kernel="bullseye",
)  # fmt: skip
WORDS = ("./my prog", 'a"b', "#c: {d}", "- e", "%f\\n")


def of(words=WORDS, **changes):
    program = ProgramSettings(kind="program", command=words, folder="/home/me #1")
    return program_scenario(program, RecordOptions(**(vars(OPTIONS) | changes)))


def test_every_option_is_a_key_of_the_text_that_is_kept():
    made = of()
    again = parse_scenario(made.text, made.path)
    for scenario in (made, again):
        ((_, cell),) = scenario.cells
        assert (cell.workload.command, cell.workload.folder) == (WORDS, "/home/me #1")
        assert (cell.workload.at_most, cell.workload.state_timeout) == (2_500_000_000, 9 * 10**9)
        assert cell.workload.kernel == "bullseye"
        assert (cell.disk.size, cell.disk.atomic_unit) == (128 << 20, 512)
        assert cell.disk.contract().flush_latency_ns == 0
        assert cell.filesystem.type.value == "btrfs"
        assert cell.filesystem.mkfs == ("-O", "no-holes")
        assert cell.filesystem.mount == ("noatime", "commit=5")
        assert cell.cut.trigger.acks == 70
        assert cell.explore.budget == "5min"
        assert cell.deadline == 62_500_000_000
    assert again.text == made.text


def test_a_root_of_its_own_is_written_down():
    program = ProgramSettings(
        kind="program", command=("./prog",), folder="/home/me", root="debian:sid", where="no-vm",
        packages=("redis-server", "python3"), bring="..",
    )  # fmt: skip
    ((_, cell),) = program_scenario(program, RecordOptions(**(vars(OPTIONS)))).cells
    for key in ("root", "where", "packages", "bring"):
        assert getattr(cell.workload, key) == getattr(program, key)


def test_the_disk_takes_as_long_as_its_model():
    ((_, cell),) = of(disk_model="hdd-7200").cells
    assert cell.disk.contract().flush_latency_ns == FLUSH_LATENCY_NS[DiskModel.HDD_7200]


def test_a_mistake_is_told_by_its_key():
    with pytest.raises(UsageError, match=r"disk\.size: .*64 MiB"):
        of(size="much")
    with pytest.raises(UsageError, match=r"explore\.budget: .*60s"):
        of(budget="all")


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("./mydb-test", "mydb-test"), ("/a/append.sh", "append-sh"), ("/a/My_DB", "my-db"),
        ("./…", "program"), ("x" * 99, "x" * 64),
    ],
)  # fmt: skip
def test_a_scenario_is_called_as_its_program(program, name):
    assert name_of(program) == name


ALWAYS = ("env", "PATH=/bin", "HOME=/tmp", "LANG=C", "POWERCUT_FD=9", "POWERCUT_SEED=1")
LOADED = ("/usr/bin/python3", "/x/powercut_program.py", "tests/test_a.py", "tests.test_a:TestA")


@pytest.mark.parametrize(
    ("command", "title"),
    [
        (("./a.py", "x y"), "./a.py 'x y'"),
        ((*ALWAYS, "/tools/a.py", "unsafe", "run", "/d"), "a.py unsafe run /d"),
        ((*ALWAYS, "FORGETS=a b", "/a.py", "size=3"), "a.py size=3 with 'FORGETS=a b'"),
        (LOADED, "tests.test_a:TestA"),
        ((*ALWAYS, "PYTHONPATH=/p", "B=1", *LOADED, "run"), "tests.test_a:TestA run with B=1"),
        (LOADED[:3], "/usr/bin/python3 /x/powercut_program.py tests/test_a.py"),
        (("env",), "env"),
        (("/bin/env", "A=1"), "/bin/env A=1"),
    ],
)
def test_a_title_names_the_program_first(command, title):
    assert title_of(command) == title


def test_a_class_of_a_test_file_names_its_scenario():
    assert of(LOADED).name == "tests-test-a-testa"


def test_a_command_with_a_line_break_stays_in_its_comment():
    made = of(("./x", "a\nname: b"))
    assert made.name == "x"
    ((_, cell),) = made.cells
    assert cell.workload.command == ("./x", "a\nname: b")


@pytest.mark.parametrize("name", ["true", "null", "1e3", "no"])
def test_a_program_may_be_called_what_yaml_takes_for_another_value(name):
    assert of((f"/bin/{name}",)).name == name
