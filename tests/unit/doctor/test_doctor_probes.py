# SPDX-License-Identifier: Apache-2.0
"""The doctor's answers: complete, true to what is there, and with a remedy for each lack."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from powercut.cli import doctor as answers
from powercut.cli.doctor import table
from powercut.doctor import host as doctor
from powercut.doctor.host import NAMES, Probe, can_run, examine, requirement
from powercut.machine.qemu.accelerator import Proof
from powercut.model.errors import HostError
from powercut.model.extras import registered
from powercut.model.machine import Accelerator

ALL = [*NAMES, *registered("powercut.doctor")]


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> dict[Accelerator, Proof]:
    """What guests would have shown: tests/vm boots them."""
    found = {
        Accelerator.KVM: Proof(False, "a probe guest said nothing within 10 s", 10.0),
        Accelerator.TCG: Proof(True, "a probe guest said hello after 0.90 s", 0.9),
    }
    monkeypatch.setattr(doctor, "accelerator_proof", lambda kind, *, fresh: found[kind])
    return found


def test_every_probe_answers_and_every_lack_has_a_remedy(
    proofs: dict[Accelerator, Proof],
) -> None:
    probes = examine()
    assert [probe.name for probe in probes] == ALL
    for probe in probes:
        assert probe.found
        if not probe.ok:
            assert probe.limit
            assert probe.remedy


def test_on_a_host_without_anything(
    proofs: dict[Accelerator, Proof], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_ROOT_TOOLS", "")
    monkeypatch.setattr(doctor, "CAPTURE_PLUGIN", tmp_path / "plugin.so")
    probes = {probe.name: probe for probe in examine()}
    for name in ("nbdkit", "uml", "xfsprogs", "e2fsprogs", "btrfs-progs", "f2fs-tools"):
        assert not probes[name].ok
        assert probes[name].remedy.startswith("apt-get install ")
    assert probes["nbdkit"].limit == "no nbdkit"
    assert not probes["qemu"].ok
    assert "apt-get install qemu-system-x86" in probes["qemu"].remedy
    assert not probes["capture disk"].ok
    assert not can_run(probes.values())


def test_tool_that_is_there_but_fails(monkeypatch: pytest.MonkeyPatch, on_path: Path) -> None:
    broken = on_path / "nbdkit"
    broken.write_text("#!/bin/sh\necho first\necho cannot load library >&2\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{on_path}:/usr/bin:/bin")
    probe = requirement("nbdkit")
    assert not probe.ok
    assert probe.limit == "nbdkit fails with status 9: cannot load library"


@pytest.mark.fuse
def test_fuse_without_a_mount_namespace(monkeypatch: pytest.MonkeyPatch, on_path: Path) -> None:
    for tool, script in {"nbdfuse": "exit 0", "unshare": "echo refused >&2; exit 1"}.items():
        (on_path / tool).write_text(f"#!/bin/sh\n{script}\n")
        (on_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{on_path}:/bin")
    fuse = requirement("fuse")
    assert not fuse.ok
    assert fuse.limit.startswith("unshare fails with status 1: refused: no disk can be a file")
    assert "user namespaces" in fuse.remedy


@pytest.mark.parametrize(
    ("script", "limit", "remedy"),
    [
        ("#!/nowhere/sh\n", "not found", "/dev/fuse"),
        (
            "#!/bin/sh\necho no libfuse3.so.9 >&2\nexit 127\n",
            "no libfuse3.so.9: ",
            "fuse",
        ),
        (None, "is not built", "powercut"),
    ],
)
def test_a_recorder_of_folders_that_does_not_start(script, limit, remedy, monkeypatch, tmp_path):
    recorder = tmp_path / "powercut-folder"
    if script is not None:
        recorder.write_text(script)
        recorder.chmod(0o755)
    monkeypatch.setattr("powercut.rig.folder.RECORDER", recorder)
    probe = requirement("captured folder")
    assert not probe.ok
    assert not probe.needed
    assert limit in probe.limit
    assert remedy in probe.remedy


def test_plugin_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.so"
    plugin.write_bytes(b"no library")
    monkeypatch.setattr(doctor, "CAPTURE_PLUGIN", plugin)
    probe = requirement("capture disk")
    assert not probe.ok
    assert probe.found == "does not load"


def test_accelerators_quote_the_proof(proofs: dict[Accelerator, Proof]) -> None:
    assert requirement("kvm").limit.startswith("a probe guest said nothing within 10 s; ")
    assert requirement("tcg").found == "a probe guest said hello after 0.90 s"
    proofs[Accelerator.KVM] = Proof(False, "no permission", 0.0, "join the group")
    assert requirement("kvm").remedy == "join the group"


def test_emulation_that_is_slow_stops_no_run_where_kvm_works(
    proofs: dict[Accelerator, Proof],
) -> None:
    silent = Proof(False, "a probe guest said nothing within 60 s", 60.0, silent=True)
    proofs[Accelerator.TCG] = silent
    alone = requirement("tcg")
    assert (alone.found, alone.needed) == ("not usable", True)
    proofs[Accelerator.KVM] = Proof(True, "a probe guest said hello after 12.00 s", 12.0)
    beside = requirement("tcg")
    assert (beside.found, beside.needed) == ("slow", False)
    assert "guests run with KVM" in beside.limit
    assert beside.remedy == "powercut doctor --patience SECONDS"


def test_error_of_the_probe_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: Accelerator, *, fresh: bool) -> Proof:
        raise HostError("the guest's programs are not built", hint="./powercut")

    monkeypatch.setattr(doctor, "accelerator_proof", fail)
    probe = requirement("tcg")
    assert (probe.ok, probe.limit, probe.remedy) == (
        False,
        "the guest's programs are not built",
        "./powercut",
    )


def test_unknown_requirement() -> None:
    with pytest.raises(KeyError):
        requirement("warp drive")


@pytest.mark.parametrize(("needed", "ok", "runs"), [(1, 0, False), (0, 0, True), (1, 1, True)])
def test_only_what_is_needed_stops_a_run(needed: int, ok: int, runs: bool) -> None:
    assert can_run([Probe("a", bool(ok), "x", needed=bool(needed))]) is runs


def test_table_says_everything() -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(
        table(
            [
                Probe("tcg", True, "booted [1]"),
                Probe("kvm", False, "nothing", "too old", "buy one"),
                Probe("nbdkit", False, "gone", "no nbdkit", "apt-get", needed=True),
            ]
        )
    )
    text = console.file.getvalue()
    assert "booted [1]" in text  # not taken for markup
    assert "too old" in text
    assert "remedy: buy one" in text
    assert [word for word in text.split() if word in ("ok", "without", "MISSING")] == [
        "ok",
        "without",
        "MISSING",
    ]


def test_json_for_programs(
    proofs: dict[Accelerator, Proof], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = answers.main(tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())["probes"]
    assert [entry["name"] for entry in found] == ALL
    assert set(found[0]) == {field.name for field in dataclasses.fields(Probe)}
    assert status == (0 if all(e["ok"] for e in found if e["needed"]) else 3)
    assert "nbdkit" in capsys.readouterr().out
    answers.main(Path("-"))
    captured = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(captured.out)["probes"]] == ALL
    assert "nbdkit" in captured.err
