# SPDX-License-Identifier: Apache-2.0
"""Crash states of a captured folder, one after the other: made, and checked by the user's command.

States that look the same are checked once.  One that loses something is made and checked a second
time, and counts only if the check says the same again; what convicts is asked more often
(powercut.explore.confirmation).  A state that is the folder as it was at the cut convicts nobody.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from powercut.checkers.repetition import ASKED, NOT_ASKED, TWICE, loses, repeated, without_whole
from powercut.closing import Closing
from powercut.crash.folder import FolderSpace, Tree
from powercut.crash.states import CrashState
from powercut.explore.confirmation import Heard, asked_again
from powercut.explore.state_judge import Judgement
from powercut.explore.work import StateJudgement
from powercut.model.machine_identity import Boot, MachineIdentity
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory
from powercut.model.positive import WHOLE_LOSES, PositiveControl, Whole
from powercut.model.printable import printable
from powercut.model.reads import CheckReads
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, lsn_ranges
from powercut.recording.folder import FolderRecording, build_tree, fingerprint, remove_tree
from powercut.rig.reads import noting_reads
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import sighting_of
from powercut.workload.program.positive import found_in

_AGAIN: Final = b"again"

Answer = Callable[[], StateJudgement]
"""Waits for what came of a state.  Raises HostError."""


Known = dict[bytes, Future[Observation]]
"""What a check has said of folders, under either promise, by the rows that they are made of: it is
not asked again."""


class Check(Protocol):
    """Says what it finds in a folder that a cut may have left."""

    def __call__(self, state: Path, boot: Boot) -> Observation:
        """Looks once the machine of the run has booted again.  Raises HostError if nothing can be
        said."""


class FolderJudge(Closing):
    """Checks the states of one recording, up to `jobs` at a time."""

    def __init__(
        self,
        recording: FolderRecording,
        check: Check,
        scratch: Path,
        *,
        jobs: int = 1,
        known: Known | None = None,
    ) -> None:
        # A tree is made of rows by their numbers, which under another promise may be others.
        self._rows = b"" if known is None else fingerprint(recording.space.rows)
        self.space = recording.space
        self.recording = recording
        self.tests = 0
        self._check = check
        self._scratch = scratch
        self.reads: CheckReads | None = None
        self._own_words: frozenset[str] = frozenset()
        self._known: Known = {} if known is None else known
        self._asked: set[bytes] = set()
        self._whole = fingerprint(self._at_cut())
        self.jobs = jobs
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="check")

    def close(self) -> None:
        """Waits for the checks that have begun, and starts no other."""
        self._pool.shutdown(cancel_futures=True)
        for name in [name for name, one in self._known.items() if one.cancelled()]:
            del self._known[name]

    def judge(self, state: CrashState) -> Judgement:
        """What the check finds in `state`.  Raises HostError."""
        findings = self.ask(state)().findings
        required = self.recording.history.acked_before(state.instant)
        return Judgement(findings, lsn_ranges(required))

    def ask(self, state: CrashState) -> Answer:
        """Has `state` checked; whoever wants the answer calls what is returned.

        One that looks like an earlier one is decided by that.
        """
        self.tests += 1
        tree = self.space.tree(state)
        name = fingerprint(tree)
        pruned = name in self._asked
        self._asked.add(name)
        first = self._observed(self.space, tree)

        def answer() -> StateJudgement:
            known = self._rows + name + _AGAIN in self._known

            def again() -> list[Finding]:
                return self.findings(state, self._observed(self.space, tree, again=True).result())

            findings, repeats = repeated(self.findings(state, first.result()), again)
            if name == self._whole and loses(findings):
                findings = without_whole(findings)
            repeats = NOT_ASKED if known else repeats
            return StateJudgement(findings, pruned=pruned, disk=name, repeats=repeats)

        return answer

    def observe(self, space: FolderSpace, state: CrashState) -> Observation:
        """What the check says of a state of another space of the same recording."""
        return self._observed(space, space.tree(state)).result()

    def positive(self) -> PositiveControl:
        """What the check finds in the folder as it was at the cut, which lacks nothing
        (powercut.model.positive).  What was in a mapping alone was written just before, unless it
        came later still.

        What nothing could carry is not required of any state from then on.
        """
        tree, history = self._at_cut(), self.recording.history
        seen = self.checked(self.space, tree, written=self._written(tree))
        wanted = frozenset(history.acked.tolist())
        if not found_in(wanted, Whole.ISSUED, seen).missing:
            self._own_words = seen.refused
        seen = self._weighed(seen)
        control = found_in(wanted, Whole.ISSUED, seen)
        missing = frozenset(one for span in control.missing for one in span)
        wrong = {operation for operation, _ in sighting_of(seen).wrong}
        unknown = control.trouble or not control.found or wrong & missing
        if control.passed or unknown or not self.recording.nothing_written_since(missing):
            return control
        self.recording = replace(self.recording, history=history.without_acks(missing))
        return replace(control, unwritten=True)

    def _at_cut(self) -> Tree:
        cut = self.recording.record.cut_ns
        return self.space.tree(CrashState(cut, tuple(self.space.volatile(cut).tolist())))

    def confirm(self, state: CrashState, found: Finding) -> Heard:
        """As powercut.explore.confirmation.LastWord; what a second cut has left was asked so often
        when it was found."""
        if state.again is not None:
            return Heard("yes", "")
        tree = self.space.tree(state)

        def look() -> Judgement:
            return Judgement(tuple(self.findings(state, self.checked(self.space, tree))), ())

        return asked_again(look, [found], looks=ASKED - TWICE)

    def doubt(self) -> str:
        cut = CrashState(self.recording.record.cut_ns, ())
        findings = self.findings(cut, self.checked(self.space, self._at_cut()))
        if not loses(findings):
            return ""
        return f"{WHOLE_LOSES}: {'; '.join(finding.message for finding in findings)}"

    def _weighed(self, seen: Observation) -> Observation:
        """A check may print that a file system is read-only for reasons of its own.  If it said the
        same where nothing was lost, and found everything there, it was refused nothing it needs.
        """
        if not seen.refused or not seen.refused <= self._own_words:
            return seen
        return replace(seen, complete=True, failure="", refused=frozenset())

    def boot_for(self, tree: Tree, level: int) -> Boot:
        """That of the machine of the run for a check of `tree`, after `level` that were cut."""
        machine = MachineIdentity(self.recording.record.seed)
        return machine.boot_for(fingerprint(tree).hex(), level)

    def _written(self, tree: Tree) -> tuple[str, ...]:
        """The files of `tree` that hold something which the program wrote."""
        start = self.recording.start_ns
        numbers = {
            row.request.object
            for row in self.space.rows
            if row.change is None
            and row.kind is not RequestKind.FLUSH
            and row.request.submitted_ns >= start
        }
        return tuple(name for name, has in tree.files if has.number in numbers and has.size)

    def findings(
        self, state: CrashState, observation: Observation, history: OperationHistory | None = None
    ) -> list[Finding]:
        """What is wrong with what the check has seen, by default by the program's own `history`."""
        history = history or self.recording.history
        return check_operations(history, state.instant, sighting_of(observation))

    def _observed(
        self, space: FolderSpace, tree: Tree, *, again: bool = False
    ) -> Future[Observation]:
        """What the check says; with `again` what it says the second time, once for each folder."""
        name = self._rows + fingerprint(tree) + (_AGAIN if again else b"")
        if name not in self._known:
            self._known[name] = self._pool.submit(self.checked, space, tree)
        return self._known[name]

    def checked(
        self,
        space: FolderSpace,
        tree: Tree,
        *,
        written: tuple[str, ...] | None = None,
        level: int = 0,
    ) -> Observation:
        """What the check says of a folder, made for it and gone after it; `level` checks were cut
        before.

        Of the files `written` it tells in `reads` from then on which of them it did not read; None
        if that cannot be seen.  Raises HostError.
        """
        target = Path(tempfile.mkdtemp(prefix="state-", dir=self._scratch))
        target.chmod(0o755)
        try:
            build_tree(space, tree, target)
            with noting_reads(target, [target / name for name in written or ()]) as unread_files:
                seen = self._weighed(self._check(target, self.boot_for(tree, level)))
                unread = unread_files()
            if written is not None and unread is not None:
                names = tuple(printable(str(path.relative_to(target))) for path in unread)
                self.reads = CheckReads(len(written), names)
            return seen
        finally:
            remove_tree(target)
