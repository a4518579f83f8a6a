# SPDX-License-Identifier: Apache-2.0
"""Planted in captured folders: their recorder, their crash model, and what asks their check."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import (
    CONTRACT,
    FOLDERS,
    HONEST,
    INODES,
    LONGER,
    NOTED,
    REACHED,
    RECORDER,
    TRIED,
)

_P = "harness/powercut/crash"
_H = "harness/powercut"
_C = "harness/capture"
folder = planter("folder", FOLDERS)
reached = planter("reached", REACHED)
recorder = planter("recorder", RECORDER)
honest = planter("honest", HONEST)
contract = planter("contract", CONTRACT)
longer = planter("longer", LONGER)
noted = planter("noted", NOTED)
inodes = planter("inodes", INODES)
tried = planter("tried", TRIED)

MUTANTS: tuple[Mutant, ...] = (
    *reached(
        f"{_H}/recording/reached.py",
        (
            "folder-before-the-run",
            At("reached_in_folder", "calls.add(request, counts=request.submitted_ns > start_ns)"),
            "calls.add(request, counts=True)",
            "files that were there before the run count as made in it",
        ),
        (
            "growth-is-truncation",
            At("_Calls.add", "request.size < sizes[number]"),
            "request.size != sizes[number]",
            "a file that was made longer counts as truncated",
        ),
        (
            "disk-before-the-run",
            At("reached_on_disk", "requests.is_write & (requests.submitted_ns > start)"),
            "requests.is_write",
            "what setup wrote counts as the run's",
        ),
    ),
    *reached(
        f"{_H}/model/reached.py",
        (
            "silent-of-what-was-not-met",
            At("FilesMet.words", "many == 0"),
            "False",
            "a run without a rotation does not say so",
        ),
    ),
    *reached(
        f"{_H}/campaign/folder.py",
        (
            "new-kinds-end-nothing",
            At("Further.is_enough", "2 * operations_before_newest(read_folder_log(self._log))"),
            "operations_before_newest(read_folder_log(self._log))",
            "a run ends soon after its first rotation",
        ),
        (
            "room-without-end",
            At("Further.is_enough", "self._log.with_suffix('.data').stat().st_size >= _ROOM"),
            "False",
            "a run that goes on fills its disk",
        ),
    ),
    *honest(
        f"{_C}/folder_names.c",
        (
            "no-pipes",
            At("op_of_kind", "if (S_ISFIFO(mode))"),
            "if (S_ISCHR(mode))",
            "no named pipe can be made in a captured folder",
        ),
    ),
    *honest(
        f"{_P}/folder.py",
        (
            "pipes-are-gone",
            At("FolderSpace._walk", "made.op is not FolderOp.MKDIR"),
            "made.op not in MAKING",
            "a named pipe or a socket is in no state",
        ),
    ),
    *honest(
        f"{_H}/explore/folder_judge.py",
        (
            "any-refusal-is-harmless",
            At("FolderJudge._weighed", "not seen.refused <= self._own_words"),
            "not self._own_words <= seen.refused",
            "a check that was refused what it needs for a state is believed",
        ),
    ),
    *honest(
        "harness/guard/check.c",
        (
            "daemon-ends",
            At("reap", "wanted.whole && status == 0"),
            "wanted.whole && status != 0",
            "a daemon ends with the parent that has begun it",
        ),
    ),
    *longer(
        f"{_H}/rig/folder_acks.py",
        (
            "time-is-time",
            At("FolderAcks.too_few", "self._counter.acks < OPERATIONS_MIN"),
            "self._counter.acks < 0",
            "on a busy host a run is cut before it proves anything",
        ),
    ),
    *noted(
        f"{_H}/rig/reads.py",
        (
            "undated-reads-unseen",
            At("noting_reads", "path not in noted and _is_dated_back(path)"),
            "_is_dated_back(path)",
            "a check that reads with O_NOATIME has read nothing",
        ),
        (
            "mappings-unseen",
            At("noting_reads", "path not in noted and _is_dated_back(path)"),
            "path not in noted",
            "a check that maps its files has read nothing",
        ),
    ),
    *inodes(
        f"{_H}/campaign/folder.py",
        (
            "own-number-counts",
            At("kept_inodes", "numbers - {own}"),
            "numbers",
            "a file that holds its own inode number is taken for a registry of others",
        ),
    ),
    *tried(
        f"{_H}/store/files_tried.py",
        (
            "unjudged-is-a-pass",
            At("FilesTried.counted_rows", "bool(self.recording) or self.journal is not None"),
            "self.journal is not None",
            "files that were recorded and could not be judged do not count",
        ),
        (
            "posix-never-counts",
            At("FilesTried.counted_rows", "(POSIX, self.posix, self.portable)"),
            "(POSIX, self.posix, False)",
            "what POSIX alone loses counts for no portable program",
        ),
    ),
    *tried(
        f"{_H}/store/results.py",
        (
            "files-forgiven",
            At("RunResult.of", "(files.counted if files else ())"),
            "()",
            "a run whose files lose something is SAFE by its disk",
        ),
        (
            "cause-of-what-does-not-count",
            At(
                "RunResult.cause",
                "self.files is not None and self.files.loses and self.files.cause",
            ),
            "self.files is not None and self.files.cause",
            "what POSIX alone loses is told as the cause of a run without a loss",
        ),
    ),
    *tried(
        f"{_H}/report/junit.py",
        (
            "files-untold",
            At("_suite", "[] if run.files is None else [*run.files.counted_rows]"),
            "[]",
            "a CI hears nothing of captured files",
        ),
    ),
    *tried(
        f"{_H}/campaign/files.py",
        (
            "missing-files-forgiven",
            At(
                "judge_files",
                "FILES in environment or earlier is not None or there",
            ),
            "FILES in environment and there",
            "a run whose recording of files is gone is judged by its disk",
        ),
        (
            "damage-is-a-reason",
            At("judge_files", "again and isinstance(error, DamagedRecording)"),
            "False",
            "a recording of files that was changed is no damage to `verify`",
        ),
    ),
    *contract(
        f"{_H}/trial/contract.py",
        (
            "parent-ends",
            At("_Verbs._wait", "status or reader is None or not reader.is_alive()"),
            "status is not None",
            "on trial a daemon is killed with the parent that has begun it",
        ),
    ),
    *folder(
        f"{_P}/folder.py",
        (
            "truncation-forgotten",
            At("FolderSpace.legal", "[last, *beyond]"),
            "[last]",
            "what is written beyond a truncation survives without it",
        ),
        (
            "truncated-block-moves",
            At("FolderSpace.legal", "block_end(size)"),
            "size",
            "a write into the block that a truncation leaves needs the truncation",
        ),
        (
            "attributes-stay",
            At("FolderSpace.tree", "changed_to.over(attributes[number])"),
            "attributes[number].over(changed_to)",
            "a mode that was set is that of the making for ever",
        ),
        (
            "write-keeps-the-time",
            At("FolderSpace._touch", "times.update(dict.fromkeys(changed, at))"),
            "None",
            "a write leaves a file's time as it was",
        ),
        (
            "journal-unordered",
            At("FolderSpace.legal", "self._ordered <= last"),
            "self._ordered > last",
            "of a journal's changes later ones survive without earlier ones",
        ),
        (
            "size-shrinks",
            At("FolderSpace.tree", "max(sizes[file], size) if at_least else size"),
            "size",
            "a file that grew is cut to the size of the last change that survived",
        ),
        (
            "old-name-stays",
            At(
                "FolderSpace.tree",
                (
                    "entries[parent].pop(name, None)\n"
                    "if number is not None:\n"
                    "    entries[parent][name] = number"
                ),
            ),
            ("if number is not None:\n    entries[parent][name] = number"),
            "a file that was removed is there",
        ),
    ),
    *folder(
        f"{_P}/folder_rows.py",
        (
            "no-size-row",
            At("folder_rows", "end > live.sizes[request.object]"),
            "end > live.sizes[request.object] + (1 << 40)",
            "a write that makes its file longer is there without its size",
        ),
        (
            "tail-not-zeroed",
            At("folder_rows", "tail > 0"),
            "tail > _BLOCK",
            "a truncation within a block zeroes nothing before its size is there",
        ),
        (
            "rename-halved",
            At("name_changes", "promise is Promise.POSIX and to != parent"),
            "to != parent",
            "a rename of a journal is two changes",
        ),
        (
            "truncation-may-wait",
            At("is_ordered", "not row.change.at_least"),
            "False",
            "a truncation has no place in a journal's order",
        ),
    ),
    *folder(
        f"{_P}/folder.py",
        (
            "fdatasync-takes-attributes",
            At("_syncs", "whole and request.data_only"),
            "whole and (not request.object)",
            "under posix fdatasync makes a mode durable",
        ),
        (
            "sync-of-one-for-all",
            At("_syncs", "[request.object] if request.object else everyone"),
            "everyone",
            "an fsync makes every file durable",
        ),
        (
            "sizes-never-durable",
            At("_sync_contents", "syncs[number].cover(completed)"),
            "np.where([rows[at].change is not None for at in indices], int(NEVER), "
            "syncs[number].cover(completed))",
            "no sync makes a size durable",
        ),
        (
            "folder-sync-not-needed",
            At("_sync_names_posix", "row.change.entries[0][0]"),
            "row.request.other",
            "under posix an fsync of the file makes its name durable",
        ),
        (
            "fdatasync-takes-all",
            At("_sync_names_journal", "request.data_only or row.kind is not RequestKind.FLUSH"),
            "False",
            "fdatasync makes a rename durable",
        ),
    ),
    *folder(
        f"{_P}/folder_ranges.py",
        (
            "sync-of-a-range-for-all",
            At("reach_of", "request.offset // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE"),
            "0, 1 << 60",
            "msync of one page, or a write with O_DSYNC, makes the whole file durable",
        ),
        (
            "bytes-and-no-pages",
            At("reach_of", "request.offset // _PAGE * _PAGE, -(-end // _PAGE) * _PAGE"),
            "request.offset, end",
            "what else lies in a page that is synced is not durable",
        ),
        (
            "written-as-one",
            At("_cut", "not places"),
            "True",
            "of a write that was synced in part all may be lost",
        ),
        (
            "synced-too-early",
            At("Covered.sync", "self._done[left] < asked"),
            "self._done[left] < done",
            "a sync of a range covers what was written while it was under way",
        ),
    ),
    *folder(
        f"{_H}/explore/folder.py",
        (
            "check-believed",
            At("_doubts_of_check", "doubts_before(seen, where=where, of=of)"),
            "()",
            "a check that finds operations before they were tried is believed",
        ),
    ),
    *folder(
        f"{_H}/explore/folder_judge.py",
        (
            "loss-told-once",
            At(
                "FolderJudge.ask.answer",
                "repeated(self.findings(state, first.result()), again)",
            ),
            "tuple(self.findings(state, first.result()))",
            "a loss that the check does not tell again counts",
        ),
    ),
    *folder(
        f"{_H}/recording/folder.py",
        (
            "truncation-keeps-bytes",
            At(
                "write_contents",
                "if isinstance(part, int):\n    os.ftruncate(descriptor, part)\n    continue",
            ),
            "if isinstance(part, int):\n    continue",
            "a file that was truncated and has grown again has its old bytes",
        ),
        (
            "size-not-cut",
            At("write_contents", "os.ftruncate(descriptor, state.size)"),
            "None",
            "a truncated file keeps its bytes",
        ),
        (
            "marks-forgiven",
            At("open_capture", "failing_marks(folder.marks)"),
            "()",
            "a recorder that its host failed is believed",
        ),
    ),
    *recorder(
        f"{_C}/folder_sync.c",
        (
            "pages-stay",
            At("sync_all", "press_write_out(paged, &count)"),
            "(count = 0)",
            "sync is done before the pages of mappings are written",
        ),
        (
            "no-sync-of-pages",
            At("sync_all", "request_complete(&each[i], 0);"),
            "(void)i;",
            "the pages that a sync has written are not durable with it",
        ),
    ),
    *recorder(
        f"{_C}/folder_range.c",
        (
            "msync-of-all",
            At("range_of_sync", "call.way == WAY_MAPPED"),
            "false",
            "msync of one page makes the whole file durable, or is no known sync",
        ),
        (
            "written-range-of-all",
            At("range_of_sync", "*end = last.end;"),
            "*end = 0;",
            "a write with O_DSYNC makes the whole file durable",
        ),
        (
            "written-for-ever",
            At("range_of_sync", "call.way == WAY_WHOLE ||"),
            "",
            "fsync covers no more than the synchronous write before it",
        ),
    ),
    *recorder(
        f"{_C}/folder_wait.c",
        (
            "no-latency",
            At("latency_ns", "return (200 + part % 800) * US;"),
            "return 0;",
            "half of all syncs take no time",
        ),
    ),
    *recorder(
        f"{_C}/folder_press.c",
        (
            "never-early",
            At("press_on", "wanted && way < 3"),
            "wanted && way > 3",
            "no page is written back before its sync",
        ),
    ),
    *recorder(
        f"{_C}/folder_attributes.c",
        (
            "mode-unlogged",
            At("set_others", "if (!error && mask)"),
            "if (!error && !mask)",
            "attributes that are set are in no log",
        ),
        (
            "inherited-forgotten",
            At("attributes_log_made", "getxattr(path, INHERITED[i], NULL, 0) >= 0"),
            "getxattr(path, INHERITED[i], NULL, 0) == 0",
            "lists of access control that a folder hands down are in no log",
        ),
    ),
)
