# SPDX-License-Identifier: Apache-2.0
"""A cluster that loses its power with its rack: an honest one is SAFE, each planted fault is found.

Its nodes are namespaces of one kernel, each with a disk of its own, so that a cut of all is a cut
of several disks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import powercut

from powercut.disk.pclog import read_timeline
from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "clusters" / "replicated.yaml"

PROBE = """\
#!/bin/sh
# What a node and the client can see; they say it by what the one finds of itself.
case $1 in
setup) echo "$3" > "$2/name"; sync -f "$2/name"; echo "$3" > /tmp/mine;;
node)
    [ "$(cat "$2/name")" = "$3" ] || exit 11
    [ "$(hostname)" = "$3" ] || exit 12
    [ "$$" -le 3 ] || exit 13
    [ ! -e /tmp/mine ] || exit 14
    [ "$POWERCUT_NODE" = "$3" ] || exit 15
    case "$POWERCUT_NODES" in *"$3=$POWERCUT_ADDRESS"*) ;; *) exit 16;; esac
    others=$(find "$(dirname "$(dirname "$2")")" /mnt -name name 2>/dev/null | sort -u | wc -l)
    [ "$others" = 1 ] || exit 17
    echo "$3" > /tmp/mine
    {ends}
    exec sleep 1000;;
run)
    [ -z "$(find "$2" -type f)" ] || exit 21
    [ -z "$POWERCUT_NODE" ] || exit 22
    for node in $POWERCUT_NODES; do
        ping=${{node#*=}}
        python3 -IS -c "import socket,sys,time
s = socket.socket(); s.settimeout(2)
try: s.connect((sys.argv[1], 9))
except ConnectionRefusedError: pass" "$ping" || exit 23
    done
    echo ready >&$POWERCUT_FD; sleep 1000;;
esac
"""


def run(
    tmp_path: Path, *cells: str, node_cuts: Sequence[str] = (), **changed: Any
) -> dict[str, dict[str, Any]]:
    """The cells of these names, and what became of each; `changed` are keys of the scenario."""
    scenario = yaml.safe_load(SCENARIO.read_text()) | changed
    scenario["workload"]["node_cuts"] = list(node_cuts)
    program = str((SCENARIO.parent / scenario["workload"]["command"].split()[0]).resolve())
    scenario["workload"]["command"] = [program]  # whatever folder this is
    scenario["cells"] = [one for one in scenario["cells"] if one["name"] in cells]
    for cell in scenario["cells"]:
        if command := cell.get("workload.command"):
            cell["workload.command"] = [program, *command.split()[1:]]
    return results_of(tmp_path, scenario)


def results_of(tmp_path: Path, scenario: dict[str, Any]) -> dict[str, dict[str, Any]]:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    done = powercut("run", path, "--seed", "7", "--json", "-", "--results", tmp_path / "results")
    assert done.stdout, done.stderr
    ((of_scenario,),) = (json.loads(done.stdout)["runs"],)
    return {cell["cell"]: cell for cell in of_scenario["cells"]}


def kinds_of(cell: dict[str, Any]) -> set[str]:
    (trial,) = cell["trials"]
    return {one["kind"] for one in trial["findings"] if one["verdict"] == "lossy"}


def test_a_log_that_most_nodes_have_synced_is_safe(tmp_path: Path) -> None:
    """Its control is on disks all of which lie: one that lies alone loses nothing."""
    cell = run(tmp_path, "honest", explore={"budget": 40})["honest"]
    assert (cell["verdict"], kinds_of(cell)) == ("safe", set())
    assert [(one["kind"], one["verdict"]) for one in cell["controls"]] == [("lying-disk", "lossy")]
    (trial,) = cell["trials"]
    assert trial["positive"]["missing"] == []
    assert trial["states"]["lossy"] == 0


def node_cuts_of(
    folder: Path, name: str, cuts: Sequence[str], budget: int
) -> tuple[str, list[str]]:
    """The verdict, and whose power went before the rack's by the disk's own log."""
    cell = run(folder, name, explore={"budget": budget}, node_cuts=cuts)[name]
    (log,) = folder.glob(f"results/replicated/2*/cells/{name}/*/disk.log")
    timeline = read_timeline(log.with_suffix(""), verify_payloads=True)
    said = [mark.split(": ") for _, mark in timeline.marks]
    page = folder / "page.html"
    powercut("show", log.parent, "--html", page)
    assert "What an ack waits for" in page.read_text()
    assert f"began again: {cuts[0]} at " in page.read_text()
    return cell["verdict"], [words[1] for words in said if words[0] == "lost its power"]


def test_nodes_that_lose_their_power_come_back_while_the_client_goes_on(tmp_path: Path) -> None:
    """One, then most of them, then the rack.  The recording says which disks went."""
    verdict, gone = node_cuts_of(tmp_path, "honest", ["b", "majority"], 34)
    assert (verdict, gone[0], len(gone)) == ("safe", "b", 3)


# How far other nodes lag behind the ack decides what is lost, and so how busy the host is.
@pytest.mark.campaign
def test_a_node_that_loses_its_power_takes_what_it_alone_has(tmp_path: Path) -> None:
    assert node_cuts_of(tmp_path, "early", ["a"], 12) == ("lossy", ["a"])


# A busy host makes other nodes lag behind the ack; then "early" loses though no disk has lost
# anything, and a check that misses something there is not believed: INCONCLUSIVE.
@pytest.mark.campaign
def test_acks_before_most_nodes_have_or_have_synced_an_entry_are_lossy(tmp_path: Path) -> None:
    found = run(tmp_path, "early", "unsynced", explore={"budget": 12}, controls="none")
    assert {name: cell["verdict"] for name, cell in found.items()} == {
        "early": "lossy",
        "unsynced": "lossy",
    }
    assert all("lost" in kinds_of(cell) for cell in found.values())


@pytest.mark.campaign
def test_each_fault_of_the_scenario_is_found_and_no_twin_alarms(tmp_path: Path) -> None:
    """`epoch` is lost in no state that treats all nodes alike."""
    names = [one["name"] for one in yaml.safe_load(SCENARIO.read_text())["cells"]]
    found = run(tmp_path, *names)
    honest = {"honest", "usual", "epoch-synced"}
    assert {name: cell["verdict"] for name, cell in found.items()} == {
        name: "safe" if name in honest else "lossy" for name in names
    }
    assert "not-recovered" in kinds_of(found["vote"])


@pytest.mark.parametrize(
    ("ends", "says"), [("", ""), ('[ "$3" != b ] || exit 9', "node b ended with status 9")]
)
def test_each_node_has_its_own_and_one_that_ends_is_trouble(
    tmp_path: Path, ends: str, says: str
) -> None:
    program = tmp_path / "probe"
    program.write_text(PROBE.format(ends=ends))
    program.chmod(0o755)
    scenario = {
        "powercut": 1,
        "name": "probe",
        "workload": {"kind": "cluster", "command": [str(program)], "nodes": 3, "at_most": "3s"},
        "filesystem": {"type": "ext4"},
        "controls": "none",
        "explore": {"budget": "off"},
    }
    (cell,) = results_of(tmp_path, scenario).values()
    (trial,) = cell["trials"]
    told = " ".join(one["message"] for one in trial["findings"])
    assert cell["verdict"] == "inconclusive"
    assert "0 operations were acknowledged" in told, told
    assert ("ended with status" in told) == bool(says), told
    assert says in told


def test_a_node_that_is_killed_in_a_check_makes_its_word_worth_nothing(tmp_path: Path) -> None:
    """Whatever the client says then: here that all is gone, with status 0."""
    program = tmp_path / "killed"
    program.write_text(
        f"""\
#!/bin/sh
replicated={ROOT}/build/bin/replicated
case $1 in
node) if [ -e "$2/was" ]; then kill -9 $$; fi; : > "$2/was"; sync -f "$2/was";;
check) sleep 1; exit 0;;
esac
exec "$replicated" "$@"
""".replace(str(ROOT), f"'{ROOT}'")
    )
    program.chmod(0o755)
    scenario = {
        "powercut": 1,
        "name": "killed",
        "workload": {"kind": "cluster", "command": [str(program)], "nodes": 3},
        "filesystem": {"type": "ext4"},
        "cut": {"trigger": {"acks": 20}},
        "controls": "none",
        "explore": {"budget": "off"},
    }
    (cell,) = results_of(tmp_path, scenario).values()
    (trial,) = cell["trials"]
    told = " ".join(one["message"] for one in trial["findings"])
    assert (cell["verdict"], cell["commits_lost"]) == ("inconclusive", 0)
    assert "ended with status 125" in told, told
