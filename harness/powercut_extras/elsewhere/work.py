# SPDX-License-Identifier: Apache-2.0
"""Records a program on a machine that is there already: bring, set up, run, cut, boot, check.

Nothing of its disk is seen, so that the recording holds lines, what the check finds, and facts.
What is said after the next boot counts only if the same file system is there again: a folder in
whose place another one is mounted, or none, has lost nothing.  The program is brought anew then,
since a disk that lies may have lost that, too.

A machine that never got as far as the workload keeps its power.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from powercut.channel.check_lines import CheckLines
from powercut.channel.line_channel import LineChannel
from powercut.channel.port import Channel, CommandResult
from powercut.machine.port import LINES, Machine
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.observation import Observation
from powercut.paths import UNSYNCED_BINARY
from powercut.rig.commands import SysfsWriteCache
from powercut.scenario.settings import GuestWriteCache, ProgramSettings
from powercut.trial.disks import TrialDisk, machine_of
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.positive import looked_again
from powercut.trial.program_lines import SHOWN, ProgramLines
from powercut.workload.port import AcksByLines, Contents

_POLL_S: Final = 0.5
_BOOT_S: Final = 60.0
_MOUNT_S: Final = 60.0  # from the first answer on

_OURS: Final = "program data unsynced"
"""What powercut makes in its folder there."""

_EMPTY: Final = f"""
mkdir -p "$1" && cd "$1" || exit 1
for one in {_OURS}; do rm -rf "./$one" || exit 1; done
[ -z "$(ls -A)" ] || {{ echo "it holds files that are not powercut's" >&2; exit 1; }}
"""
_MOUNTED: Final = """
at=$1
while [ ! -d "$at" ]; do at=$(dirname "$at"); done
cd "$at" || exit 1
df -P . | tail -n 1 | sed 's/ .*//' >&3
where=$(df -P . | tail -n 1 | sed 's/.*% *//')
awk -v at="$where" '$2 == at { kind = $3; how = $4 } END { print kind; print how }' /proc/mounts >&3
stat -f -c %i . >&3
"""
_FACTS: Final = ("device", "filesystem", "mount_options", "filesystem_id")
_NOT_KEPT: Final = frozenset({"tmpfs", "ramfs", "overlay", "rootfs", ""})
_QUEUE: Final = """
name=$(basename "$(readlink -f "$1")")
while [ -n "$name" ] && [ ! -e "/sys/block/$name/queue/write_cache" ]; do
    up=$(basename "$(dirname "$(readlink -f "/sys/class/block/$name")")")
    [ "$up" != "$name" ] && [ "$up" != block ] || break
    name=$up
done
file=/sys/block/$name/queue/write_cache
"""
_CACHE: Final = f'{_QUEUE}cat "$file" >&3\n'
_VOLATILE, _NOT_VOLATILE = SysfsWriteCache[True], SysfsWriteCache[False]
_SAY: Final = f"""{_QUEUE}
echo "$2" >"$file" && [ "$(cat "$file")" = "$2" ] ||
    {{ echo "$file cannot be set to $2: are you root there?" >&2; exit 1; }}
"""
"""Until the next boot the kernel believes this of its disk, and so sends it flushes or none
(Documentation/ABI/stable/sysfs-block)."""


@runtime_checkable
class TakesFiles(Protocol):
    """A channel to a system that files of this host can be brought to."""

    def bring(self, path: Path, to: str, *, timeout_s: float) -> None:
        """Brings a file of this host, or all that is in a folder, to the folder `to` there.

        Raises HostError.
        """


class ForeignWork:
    """What the stages of a recording do for a program on a machine of somebody else's."""

    def __init__(self, run: RecordingInProgress) -> None:
        self._run = run
        self._lines = ProgramLines(run)
        self._flushes_withheld = False

    def prepared(self) -> None:
        """The machine has its disk."""

    @property
    def _files(self) -> Contents:
        return self._run.workload.contents(self._run.run)

    def _in_root(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return self._writing(argv, unsynced=False)

    def _writing(self, argv: tuple[str, ...], *, unsynced: bool) -> tuple[str, ...]:
        files = self._files
        helper = (f"{files.folder}/unsynced/{UNSYNCED_BINARY.name}",) if unsynced else ()
        enter = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", files.start)
        return (*enter, "env", *files.environment, *helper, *argv)

    def set_up(self, machine: Machine, channel: Channel, folder: Path) -> None:
        """Up to a folder that holds what `setup` made, durable as far as sync(1) goes."""
        del machine
        hello = channel.wait_hello(timeout_s=self._run.deadline.remaining_s)
        try:
            self._sh(channel, _EMPTY, self._files.folder)
            self._run.facts = {**hello, **self._mounted(channel, folder)}
            self._refuse_place()
            self._bring(channel)
            self._sh(channel, 'mkdir -p "$1"', self._files.data)
            self._run_verb(channel, self._run.workload.preparation(self._run.run))
            self._sh(channel, "sync")
            self._run.directory.write_untouched(self._checked(channel, folder, used_again=True))
            self._withhold_flushes(channel)
        except PowercutError:
            self._clean(channel)
            raise
        self._lines.hear(
            LineChannel.on_port(folder / LINES, self._run.directory.lines, self._run.binding)
        )

    def run_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""
        del machine
        workload = self._run.workload
        assert isinstance(workload, AcksByLines)
        argv = workload.writer(self._run.run)
        channel.start(*self._writing(argv, unsynced=workload.drops_syncs))
        self._lines.wait_trigger(channel, argv, disk)

    def _withhold_flushes(self, channel: Channel) -> None:
        """For the control that shows whether a cut takes the disk's own cache."""
        if self._run.job.parameters.machine.guest_write_cache is not GuestWriteCache.WRITE_THROUGH:
            return
        facts = self._run.facts
        if facts["write_cache"] != _VOLATILE:
            raise HostError(
                f"{facts['device']} there says of its cache: {facts['write_cache']}; so "
                "it is sent no flush anyway, and there is no cache to be lost"
            )
        self._flushes_withheld = True
        self._sh(channel, _SAY, self._run.facts["device"], _NOT_VOLATILE)

    def _refuse_place(self) -> None:
        found, named = self._run.facts["filesystem"], self._run.job.parameters.filesystem.type.value
        where = f"{self._files.folder} there"
        if found in _NOT_KEPT:
            raise HostError(
                f"{where} is on {found or 'no file system'}, which no power cut leaves anything of",
                hint="machine.folder: a folder on the disk under test",
            )
        if found != named:
            raise HostError(
                f"{where} is on {found}, and the scenario says {named}",
                hint=f"say filesystem.type: {found}, if powercut knows it",
            )

    def _bring(self, channel: Channel) -> None:
        files, settings = self._files, self._run.workload.settings
        assert isinstance(channel, TakesFiles), "a machine with a system of its own takes files"
        assert isinstance(settings, ProgramSettings)
        timeout_s = self._run.deadline.at_least(GRACE_S)
        if files.program is not None:
            channel.bring(files.program, files.brought, timeout_s=timeout_s)
        if settings.syncs == "dropped":
            to = f"{files.folder}/unsynced"
            channel.bring(UNSYNCED_BINARY, to, timeout_s=timeout_s)
            self._sh(channel, f'"$1"/{UNSYNCED_BINARY.name} true', to)

    def _sh(self, channel: Channel, script: str, *words: str) -> None:
        self._run_verb(channel, ("sh", "-c", script, "sh", *words), enter=False)

    def _run_verb(
        self, channel: Channel, argv: tuple[str, ...], *, enter: bool = True
    ) -> CommandResult:
        """Raises HostError if it fails."""
        line = self._in_root(argv) if enter else argv
        done = channel.run(*line, timeout_s=self._run.deadline.remaining_s)
        if done.status:
            said = " / ".join(done.texts[-SHOWN:]) or "it printed nothing"
            what = " ".join(argv) if enter else self._files.folder
            raise HostError(f"{what} failed there, status {done.status}: {said}")
        return done

    def _mounted(self, channel: Channel, folder: Path) -> dict[str, str]:
        """On which file system the folder lies, and how."""
        where = self._files.folder
        told = self._said(channel, folder, ("sh", "-c", _MOUNTED, "sh", where))
        found = dict(zip(_FACTS, told.splitlines(), strict=False))
        device = found.get("device", "")
        cache = self._said(channel, folder, ("sh", "-c", _CACHE, "sh", device))
        return {**dict.fromkeys(_FACTS, ""), **found, "write_cache": cache.strip() or "not known"}

    def _said(self, channel: Channel, folder: Path, argv: tuple[str, ...]) -> str:
        with CheckLines.on_port(folder / LINES) as lines:
            channel.run(*argv, timeout_s=self._run.deadline.at_least(GRACE_S))
            return lines.wait_end(GRACE_S).decode(errors="replace")

    def _checked(self, channel: Channel, folder: Path, *, used_again: bool = False) -> Observation:
        """What the program's check says; it writes nothing of its own to a folder `used_again`.

        There is no copy of that folder: what one check writes, the next would find.
        """
        after = ("env", "POWERCUT_AFTER=0") if used_again else ()
        with CheckLines.on_port(folder / LINES) as lines:
            argv = self._in_root((*after, *self._run.workload.reader(self._run.run)))
            done = channel.run(*argv, timeout_s=self._run.workload.recovery_s)
            said = lines.wait_end(GRACE_S)
        failure = f"check ended with status {done.status}" if done.status else ""
        printed = " / ".join(done.texts[-SHOWN:])
        told = f"{failure}: {printed}" if failure and printed else failure
        return Observation((), complete=not failure, failure=told, lines=said)

    def last_words(self, machine: Machine) -> None:
        """Its lines are said when they have come; nothing stands between."""

    def hear_the_rest(self) -> None:
        self._lines.hear_the_rest()

    def read(self, disk: TrialDisk, sockets: Path) -> None:
        """What the program's check finds after the next boot, as often as it is asked.

        No other state of its disk can be looked at than what the cut has left.
        """
        self.hear_the_rest()
        assert isinstance(self._run.workload, AcksByLines)
        folder = sockets / "recovery"
        folder.mkdir()
        with self._run.rig.backend_of(self._run.job.parameters).open(
            machine_of(self._run, disk), folder
        ) as (machine, channel):
            try:
                machine.start(timeout_s=self._run.deadline.at_least(_BOOT_S))
                self._run.recovery_facts = channel.wait_hello(timeout_s=GRACE_S)
                self._wait_mounted(channel, folder)
                self._bring(channel)
                self._sh(channel, 'mkdir -p "$1"', self._files.data)
                seen = self._checked(channel, folder, used_again=True)
                seen = looked_again(
                    self._run,
                    seen,
                    lambda last: self._checked(channel, folder, used_again=not last),
                    "asked again after the cut, the check did not say the same",
                )
                self._clean(channel)
            finally:
                self._run.directory.write_text("recovery-console.txt", machine.diagnosis)
        self._run.directory.write_observation(seen)

    def _wait_mounted(self, channel: Channel, folder: Path) -> None:
        """Until the file system is there again on which the folder was.

        Raises DeadlineExceeded: whether it is lost, or merely not mounted, is not known.
        """
        facts = self._run.facts
        end = time.monotonic() + _MOUNT_S
        key = ("filesystem", "filesystem_id")
        while True:
            now = self._mounted(channel, folder)
            if all(now[one] == facts[one] for one in key):
                return
            if time.monotonic() >= end:
                raise DeadlineExceeded(
                    f"{self._files.folder} there is not on the file system that it was on before "
                    f"the cut ({facts['filesystem']} on {facts['device']}), but on "
                    f"{now['filesystem'] or 'none'}: what came back is not known",
                    hint="does the machine mount it at boot?",
                )
            time.sleep(_POLL_S)

    def _clean(self, channel: Channel) -> None:
        """Takes away what was brought and made."""
        try:
            if self._flushes_withheld:
                self._sh(channel, _SAY, self._run.facts["device"], _VOLATILE)
            self._sh(channel, f'cd "$1" && rm -rf {_OURS}', self._files.folder)
        except PowercutError as error:
            self._run.recovery_facts["left_behind"] = f"{self._files.folder}: {error}"
