# SPDX-License-Identifier: Apache-2.0
"""The board that a guest keeps when it moves to a QEMU of another version."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from powercut.machine.port import GuestImage, NbdDisk
from powercut.machine.qemu.argv import build_argv
from powercut.machine.qemu.backend import board_between
from powercut.machine.qemu.build import QemuBuild
from powercut.machine.qemu.machine import QemuMachine
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.template import template_key
from powercut.model.errors import HostError

BOARDS = {
    "7.2.22": "pc {}(alias of pc-i440fx-7.2)\npc-i440fx-7.2 {}(default)\npc-i440fx-6.2 {}",
    "10.0.13": "pc {}(alias of pc-i440fx-10.0)\npc-i440fx-10.0 {}(default)\npc-i440fx-7.2 {}",
    "2.0": "none                 empty machine\npc-i440fx-2.0 {}",
}


def made(folder: Path, version: str) -> QemuBuild:
    """A program that says which boards it has, as QEMU does."""
    said = "Supported machines are:\n" + BOARDS[version].format(*["Standard PC "] * 3)
    program = folder / f"qemu-{version}"
    program.write_text(f'#!/bin/sh\n[ "$*" = "-machine help" ] || exit 1\ncat <<E\n{said}\nE\n')
    program.chmod(0o755)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    return QemuBuild(program, program, version, "", digest)


def test_a_guest_keeps_the_board_of_its_first_qemu(tmp_path):
    older, newer = made(tmp_path, "7.2.22"), made(tmp_path, "10.0.13")
    assert board_between(older, newer) == "pc-i440fx-7.2"
    assert board_between(newer, newer) == "pc-i440fx-10.0"


def test_no_qemu_has_the_board_of_a_newer_one(tmp_path):
    older, newer = made(tmp_path, "7.2.22"), made(tmp_path, "10.0.13")
    with pytest.raises(HostError, match=r"QEMU 7\.2\.22 has no pc-i440fx-10\.0") as refused:
        board_between(newer, older)
    assert "to a newer QEMU" in str(refused.value.hint)


def test_a_qemu_that_does_not_say_which_board_it_has_moves_no_guest(tmp_path):
    with pytest.raises(HostError, match="does not say which board"):
        board_between(made(tmp_path, "2.0"), made(tmp_path, "7.2.22"))
    gone = replace(made(tmp_path, "7.2.22"), program=tmp_path / "gone")
    with pytest.raises(HostError, match="does not say which boards it has"):
        board_between(gone, gone)


def test_both_are_started_with_the_same_board(tmp_path):
    older, newer = made(tmp_path, "7.2.22"), made(tmp_path, "10.0.13")
    plain = QemuSpec(
        guest=GuestImage(Path("/g/kernel"), Path("/g/initramfs"), "6.1", "digest"),
        disk=NbdDisk(tmp_path / "nbd"),
        channel=tmp_path / "ctl",
        qmp=tmp_path / "qmp",
        qemu=older,
    )
    spec = replace(plain, qemu_after_move=newer, board=board_between(older, newer))
    machine = QemuMachine(spec, tmp_path)
    assert machine._next_qemu == newer.program
    for program in (older.program, newer.program):
        argv = build_argv(spec, program)
        assert argv[argv.index("-M") + 1] == "pc-i440fx-7.2"
    keys = {template_key(each, older.program, 1 << 20) for each in (spec, plain)}
    assert len(keys) == 2, "a template is of one board"
