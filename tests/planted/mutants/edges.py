# SPDX-License-Identifier: Apache-2.0
"""Planted at edges: a nanosecond, a state or an answer beside the right one."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import EARLY, EDGES, POSITIVE, RECORDS, STAMPED, WHOSE

_H = "harness/powercut"
edge = planter("edge", EDGES)
early = planter("early", EARLY)
stamped = planter("stamped", STAMPED)
whose = planter("whose", WHOSE)
cut = planter("cut", POSITIVE)
record = planter("record", RECORDS)

MUTANTS: tuple[Mutant, ...] = (
    *edge(
        f"{_H}/model/operations.py",
        (
            "ack-before-a-cut",
            At(
                "OperationHistory.acked_before",
                "np.searchsorted(self.ack_ns, instant, side='left')",
            ),
            "np.searchsorted(self.ack_ns, instant - 1, side='left')",
            "an ack in the nanosecond before a cut is not required",
        ),
    ),
    *edge(
        f"{_H}/explore/folder_judge.py",
        (
            "ack-before-a-state",
            At("FolderJudge.findings", "state.instant"),
            "state.instant - 1",
            "an ack in the nanosecond before a folder's state is not required of it",
        ),
        (
            "told-ack-before-a-state",
            At("FolderJudge.judge", "state.instant"),
            "state.instant - 1",
            "of a folder's state the last ack is not named as required",
        ),
        (
            "cached-second-look",
            At("FolderJudge._observed", "_AGAIN if again else b''"),
            "b''",
            "a folder's second look is the answer of the first one",
        ),
        (
            "second-look-counted-again",
            At("FolderJudge.ask.answer", "NOT_ASKED if known else repeats"),
            "repeats",
            "what a folder has said twice counts for each state that looks so",
        ),
        (
            "control-lacks-a-write",
            At("FolderJudge._at_cut", "tuple(self.space.volatile(cut).tolist())"),
            "tuple(self.space.volatile(cut).tolist()[:-1])",
            "the positive control of a folder lacks its last change",
        ),
        (
            "control-of-the-durable",
            At("FolderJudge.positive", "self._at_cut()"),
            "self.space.tree(CrashState(self.recording.record.cut_ns, ()))",
            "the positive control of a folder is what was durable at the cut",
        ),
        (
            "control-of-the-start",
            At("FolderJudge.positive", "self._at_cut()"),
            "self.space.tree(CrashState(self.recording.start_ns, ()))",
            "the positive control of a folder is what was there at first",
        ),
        (
            "doubt-of-the-durable",
            At("FolderJudge.doubt", "self._at_cut()"),
            "self.space.tree(cut)",
            "what is asked at last, as if it lacked nothing, is what was durable at the cut",
        ),
    ),
    *edge(
        f"{_H}/recording/folder.py",
        (
            "no-state-at-the-cut",
            At("FolderRecording.instants", "found <= self.cut_ns"),
            "found < self.cut_ns",
            "no state of a folder is that of the cut itself",
        ),
        (
            "state-at-the-start",
            At("FolderRecording.instants", "found > self.start_ns"),
            "found >= self.start_ns",
            "a state at the instant of `ready` is looked at, before anything was promised",
        ),
    ),
    *edge(
        f"{_H}/explore/folder_judge.py",
        (
            "known-by-numbers",
            At("FolderJudge.__init__", "fingerprint(recording.space.rows)"),
            "b''",
            "what a check said of a folder answers for one of other bytes, of the other promise",
        ),
    ),
    *edge(
        f"{_H}/workload/program/promises.py",
        (
            "ack-before-a-disk-s-state",
            At("ProgramPromises.check", "claims.instant"),
            "claims.instant - 1",
            "an ack in the nanosecond before a disk's state is not required of it",
        ),
        (
            "told-ack-before-a-disk-s-state",
            At("ProgramPromises.claims_at", "self.requirements.required(instant)"),
            "self.requirements.required(instant - 1)",
            "states with other requirements count as the same",
        ),
        (
            "mount-without-end-convicts",
            At("ProgramPromises.check", "not observation.recovered and observation.complete"),
            "not observation.recovered",
            "a mount that was not tried to its end is a loss",
        ),
    ),
    *edge(
        f"{_H}/workload/program/claims.py",
        (
            "ack-before-the-cut",
            At("_line_by_line", "line.at_ns >= cut_ns"),
            "line.at_ns >= cut_ns - 1",
            "what was acknowledged in the nanosecond before the cut is not required",
        ),
        (
            "ends-at-an-impossible-claim",
            At("_line_by_line", "if problem:\n    trouble.add(problem)\n    continue"),
            "if problem:\n    trouble.add(problem)\n    break",
            "what is acknowledged after a claim that cannot be is not required",
        ),
    ),
    *edge(
        f"{_H}/workload/program/check.py",
        (
            "attempt-before-a-cut",
            At("check_operations", "history.attempted_before(instant)"),
            "history.attempted_before(instant - 1)",
            "an attempt in the nanosecond before a cut was announced late",
        ),
        (
            "unseen-is-named-missing",
            At("difference_of", "set() if sighting.incomplete else required - there - wrong"),
            "required - there - wrong",
            "what a check that did not finish leaves out is told as missing",
        ),
        (
            "first-phantom-forgiven",
            At("_never_tried", "_phantoms(sighting.present, history.names | attempted)"),
            "_phantoms(sighting.present, history.names | attempted)[1:]",
            "operations that were never tried are none, if they are of one range",
        ),
    ),
    *edge(
        f"{_H}/recording/folder.py",
        (
            "bytes-beyond-the-size",
            At("write_contents", "os.ftruncate(descriptor, state.size)"),
            "os.ftruncate(descriptor, max(state.size, os.fstat(descriptor).st_size))",
            "a file is not cut to its size: bytes beyond it are there",
        ),
        (
            "file-not-grown",
            At("write_contents", "os.ftruncate(descriptor, state.size)"),
            "os.ftruncate(descriptor, min(state.size, os.fstat(descriptor).st_size))",
            "a file is not grown to its size: bytes that never came are not zeroes",
        ),
    ),
    *edge(
        f"{_H}/crash/folder.py",
        (
            "covers-what-had-begun",
            At("_last_completed", "rows[order[position]].request.completed_ns < instant"),
            "rows[order[position]].request.submitted_ns < instant",
            "in a journal a sync covers a change of names that had only begun",
        ),
        (
            "covers-what-completes-with-it",
            At("_last_completed", "rows[order[position]].request.completed_ns < instant"),
            "rows[order[position]].request.completed_ns <= instant",
            "in a journal a sync covers what completes as it is submitted",
        ),
        (
            "covers-until-its-end",
            At("_Syncs.cover", "(completed, self.submitted, self.done)"),
            "(completed, self.done, self.done)",
            "a sync covers what completed while it was under way",
        ),
        (
            "posix-covers-what-had-begun",
            At(
                "_sync_names_posix",
                "syncs[number].cover([rows[i].request.completed_ns for i in indices])",
            ),
            "syncs[number].cover([rows[i].request.submitted_ns for i in indices])",
            "under posix a sync covers a change of names that had only begun",
        ),
        (
            "posix-covers-modes-that-had-begun",
            At("_sync_names_posix", "done = [rows[i].request.completed_ns for i in indices]"),
            "done = [rows[i].request.submitted_ns for i in indices]",
            "under posix a sync covers a mode whose setting had only begun",
        ),
        (
            "journal-covers-until-its-end",
            At("_sync_names_journal", "request.submitted_ns"),
            "request.completed_ns",
            "in a journal a sync covers names that were changed while it was under way",
        ),
        (
            "fdatasync-forgets-the-making",
            At("_sync_names_journal", "row.change.made is not None"),
            "row.change.made is None",
            "in a journal fdatasync of a new file leaves its name for later",
        ),
        (
            "durable-from-its-submission",
            At("_sync_names_journal", "min(done[at], request.completed_ns)"),
            "min(done[at], request.submitted_ns)",
            "in a journal names are durable as soon as their sync is submitted",
        ),
        (
            "durable-after-the-cut",
            At("folder_sets", "durable >= folder.cut_ns"),
            "durable < 0",
            "what a sync makes durable that ends after the cut is durable",
        ),
        (
            "durable-at-the-cut",
            At("folder_sets", "durable >= folder.cut_ns"),
            "durable > folder.cut_ns",
            "what a sync makes durable that ends at the cut is durable",
        ),
        (
            "durable-as-the-run-begins",
            At("folder_sets", "submitted < folder.begin_ns"),
            "submitted <= folder.begin_ns",
            "what is written as the program is started was there before",
        ),
    ),
    *edge(
        f"{_H}/crash/folder_ranges.py",
        (
            "range-covers-what-completes-with-it",
            At("Covered.sync", "self._done[left] < asked"),
            "self._done[left] <= asked",
            "a sync of a range covers what completes as it is submitted",
        ),
    ),
    *edge(
        f"{_H}/crash/sets.py",
        (
            "flush-covers-what-completes-with-it",
            At("first_covering_flush_ns", "side='right'"),
            "side='left'",
            "a flush covers what completes as it is submitted",
        ),
        (
            "disk-durable-after-the-cut",
            At("durability_sets", "durable >= timeline.cut.at"),
            "durable < 0",
            "what a flush makes durable that ends after the cut is durable",
        ),
        (
            "disk-durable-at-the-cut",
            At("durability_sets", "durable >= timeline.cut.at"),
            "durable > timeline.cut.at",
            "what a flush makes durable that ends at the cut is durable",
        ),
    ),
    *early(
        f"{_H}/verdict/records.py",
        (
            "unproved-by-a-millisecond",
            At("prove_acks", "earliest_acks(evidence.history, dating, lsn) < began_ns"),
            "earliest_acks(evidence.history, dating, lsn) < began_ns - 1000000",
            "an ack is proved that may have come a millisecond before its sync began",
        ),
        (
            "unproved-by-a-microsecond",
            At("prove_acks", "earliest_acks(evidence.history, dating, lsn) < began_ns"),
            "earliest_acks(evidence.history, dating, lsn) < began_ns - 1000",
            "an ack is proved that may have come a microsecond before its sync began",
        ),
    ),
    *early(
        f"{_H}/crash/dating.py",
        (
            "earliest-a-millisecond-late",
            At("date_acks", "np.minimum(receipt, earliest)"),
            "np.minimum(receipt, earliest + 1000000)",
            "the earliest instant of an ack is a millisecond late",
        ),
        (
            "back-by-a-millisecond",
            At("_check_order", "back < 0"),
            "back < -1000000",
            "a guest's clock may go back by a millisecond",
        ),
        (
            "each-ack-alone",
            At("earliest_acks", "np.minimum.accumulate(dating.earliest_ns[order][::-1])[::-1]"),
            "dating.earliest_ns[order]",
            "the ack of a later record, which covers this one, cannot have come first",
        ),
    ),
    *early(
        f"{_H}/checkers/acks.py",
        (
            "narrow-window-proves",
            At("check_acks", "not proof.unproved"),
            "proof.window_ns <= 1000000",
            "acks that are unproved by less than a millisecond count as proved",
        ),
    ),
    *stamped(
        f"{_H}/workload/program/workload.py",
        (
            "lines-back-by-a-millisecond",
            At("bounded", "(np.diff(stamps) < 0).any()"),
            "(np.diff(stamps) < -1000000).any()",
            "lines are dated by a guest's clock that goes back by a millisecond",
        ),
    ),
    *stamped(
        f"{_H}/channel/stamped_source.py",
        (
            "stamp-of-the-future",
            At("StampedSource._made_ns", "first <= received_ns"),
            "first <= received_ns + 1000000",
            "a stamp of up to a millisecond after its receipt is believed",
        ),
        (
            "clock-set-by-a-millisecond",
            At("Distance.holds", "self._low <= self._high"),
            "self._low <= self._high + 1000000",
            "a clock that was set by a millisecond is believed",
        ),
    ),
    *edge(
        f"{_H}/workload/program/positive.py",
        (
            "wrong-is-found",
            At(
                "found_in",
                "seen.those_present(acknowledged) - {operation for operation, _ in seen.wrong}",
            ),
            "seen.those_present(acknowledged) | "
            "({operation for operation, _ in seen.wrong} & acknowledged)",
            "what is there and wrong where nothing was lost counts as found",
        ),
        (
            "there-and-wrong-is-found",
            At(
                "found_in",
                "seen.those_present(acknowledged) - {operation for operation, _ in seen.wrong}",
            ),
            "seen.those_present(acknowledged)",
            "what a check finds and calls wrong where nothing was lost counts as found",
        ),
        (
            "one-ack-less-suffices",
            At("_of_run", "len(acknowledged) >= wanted"),
            "len(acknowledged) >= wanted - 1",
            "a run without a cut shows the check although it acknowledged one operation less",
        ),
        (
            "any-run-suffices",
            At("_of_run", "not control.passed or len(acknowledged) >= wanted"),
            "True",
            "a run without a cut that acknowledged nothing shows that the check sees all",
        ),
        (
            "one-ack-wanted",
            At("_each", "len(acknowledged)"),
            "1",
            "a run without a cut has to show one operation and no more",
        ),
    ),
    *edge(
        "harness/powercut_extras/elsewhere/judge.py",
        (
            "few-heard-operations",
            At("verdict_of_listened", "too_few_operations(promises.acked)"),
            "''",
            "a run of which few operations were heard survives",
        ),
        (
            "not-announced-is-phantom",
            At("_found", "one.kind is not FindingKind.NEVER_ATTEMPTED"),
            "True",
            "an operation whose announcement went with the power was never tried",
        ),
    ),
    *edge(
        f"{_H}/model/confidence.py",
        (
            "nine-operations",
            At("", "OPERATIONS_MIN: Final = 10"),
            "OPERATIONS_MIN: Final = 9",
            "nine operations prove something",
        ),
        (
            "ten-operations-are-few",
            At("too_few_operations", "acknowledged >= OPERATIONS_MIN"),
            "acknowledged > OPERATIONS_MIN",
            "ten operations prove nothing",
        ),
    ),
    *record(
        f"{_H}/explore/recovery_timeline.py",
        (
            "end-not-asked-for",
            At("timeline_of_record", "not entries or entries[-1].name != _END"),
            "not entries",
            "a recovery whose record is cut off is taken for all of it",
        ),
        (
            "fua-is-known",
            At("", "_FLUSH | _DISCARD | _METADATA"),
            "_FLUSH | _DISCARD | _METADATA | 2",
            "a recovery with FUA writes, whose order is not known, is believed",
        ),
        (
            "flush-is-no-request",
            At("_entries", "yield _Entry(number)"),
            "pass",
            "what a recovery flushed is not durable: states are legal that never were",
        ),
        (
            "data-of-the-entry",
            At("_entries", "data_at = place + sector_size"),
            "data_at = place",
            "a recovery's writes are laid over a disk with the bytes before them",
        ),
    ),
    *whose(
        f"{_H}/explore/worker.py",
        (
            "host-speaks-for-the-guest",
            At("LocalWorker._was_short", "self._second is not None and self._second.was_short"),
            "False",
            "what the host decided of a state is told as what the guest said",
        ),
        (
            "equal-disk-speaks-for-the-guest",
            At("LocalWorker._judge", "disk in self._short if again else self._was_short"),
            "self._was_short and (not again)",
            "what the host decided of an equal disk is what the guest said of it",
        ),
        (
            "forgets-whose-answer",
            At("LocalWorker._judge", "self._short.add(disk)"),
            "None",
            "of an equal disk nobody knows that the host decided it",
        ),
        (
            "guest-need-not-repeat",
            At("LocalWorker._look_again", "second, found(self._states.look_again(writes))"),
            "second, second",
            "what the guest loses instead of what the host lost convicts at one look",
        ),
        (
            "doubts-of-the-host-untold",
            At(
                "LocalWorker._new_doubts",
                "self._second is None or self._second.doubts == self._doubts",
            ),
            "True",
            "that the guest contradicts the host is told to nobody",
        ),
    ),
    *whose(
        f"{_H}/explore/confirmation.py",
        (
            "unknown-confirms",
            At("asked_again", "told != 'yes' or not same"),
            "told == 'no' or not same",
            "a recorded kernel that cannot say has confirmed what another one lost",
        ),
    ),
    *cut(
        f"{_H}/verdict/judge.py",
        (
            "phantoms-forgiven",
            At("OperationsClaimed.checkers", "_after_cut(promises, seen, live=live)"),
            "_after_cut(promises, seen, live=True)",
            "what was never tried may be there after the cut of a recorded disk",
        ),
        (
            "wrong-was-never-written",
            At("_unwritten", "lost - issued.those_present(lost) - wrong"),
            "lost - issued.those_present(lost)",
            "an operation that is there and wrong with every write was never written",
        ),
    ),
    *cut(
        f"{_H}/verdict/reading.py",
        (
            "host-failed-recovery",
            At("observation_of", "host_failures(during)"),
            "()",
            "what was found on a disk that its host failed in recovery counts",
        ),
    ),
    *cut(
        f"{_H}/disk/pclog.py",
        (
            "failing-syncs-forgiven",
            At("", "('refusing requests', 'failing reads', 'failing syncs')"),
            "('refusing requests', 'failing reads')",
            "a disk whose host fails its syncs is believed",
        ),
    ),
)
