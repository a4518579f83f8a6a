# SPDX-License-Identifier: Apache-2.0
"""Planted in the judge, the checkers, recovery and the controls."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import AFTER, CERTIFY, CONTROLS, DEFINED, JUDGE, RECOVERY

_P = "harness/powercut"
judge = planter("judge", JUDGE)
checkers = planter("checkers", JUDGE)
run = planter("run", RECOVERY)
controls = planter("controls", CONTROLS)
certify = planter("certify", CERTIFY)
defined = planter("defined", DEFINED)
after = planter("after", AFTER)

MUTANTS: tuple[Mutant, ...] = (
    *checkers(
        f"{_P}/checkers/acks.py",
        (
            "receipts-do",
            At("check_acks", "[_incomplete(_unknown(proof))]"),
            "[]",
            "acks of a guest that answers no ping are judged by their receipts",
        ),
    ),
    *judge(
        f"{_P}/workload/wal/promises.py",
        (
            "shallow",
            At("WalPromises.of", "deep=True"),
            "deep=False",
            "only one word in eight is compared",
        ),
    ),
    *judge(
        f"{_P}/verdict/records.py",
        (
            "log-not-closed",
            At("RecordsClaimed.checkers", "timeline_complete=evidence.timeline.complete"),
            "timeline_complete=True",
            "a disk log that was not closed is forgiven",
        ),
        (
            "host-failed-disk-convicts",
            At("RecordsClaimed.weighed", "not self._host_failed"),
            "True",
            "what follows from a disk that its host failed is a loss",
        ),
        (
            "no-exposure",
            At(
                "RecordsClaimed.checkers",
                "checkers['exposure'] = lambda: check_exposure(report, timeline_complete=evidence.timeline.complete, recognised=self._recognised)",
            ),
            "checkers['unused'] = lambda: [] if check_exposure else check_exposure(report, timeline_complete=True, recognised=True)",
            "exposure is not checked",
        ),
        (
            "no-claims",
            At("_back_checkers", "{'wal': check_claims}"),
            "{}",
            "what came back is not checked",
        ),
        (
            "no-agreement",
            At("_back_checkers", "checkers['agreement'] = check_prediction"),
            "pass",
            "recovery and recording may contradict each other",
        ),
        (
            "no-environment",
            At("RecordsClaimed.checkers", "check_environment(facts, promised)"),
            "[]",
            "a preset that did not take effect is forgiven",
        ),
        (
            "attempts-of-the-history-only",
            At(
                "RecordsClaimed.__init__",
                "max(evidence.history.attempted, evidence.claims.attempted)",
            ),
            "evidence.history.attempted",
            "an attempt that the cut swallowed is a record that nobody wrote",
        ),
    ),
    *judge(
        f"{_P}/recording/sealed.py",
        (
            "cut-of-every-kind",
            At("SealedTrial.promises", "under_cut(self.disk_log, self.parameters.cut.kind)"),
            "self.disk_log",
            "a hypervisor that was killed convicts a cache below it",
        ),
    ),
    *judge(
        f"{_P}/verdict/records.py",
        (
            "all-bytes-recognised",
            At(
                "_recognised",
                "not any((lsn in back for span in unrecognised(evidence, required) for lsn in span))",
            ),
            "True or any((lsn in back for span in unrecognised(evidence, required) for lsn in span))",
            "bytes that the scan does not know count as never written",
        ),
        (
            "blind-without-recovery",
            At("_recognised", "bool(len(evidence.runs))"),
            "True",
            "no record was recognised, none recovered, and all are exposed",
        ),
        (
            "nothing-recognised",
            At("_recognised", "{lsn for span in reading.intact for lsn in span}"),
            "set(range(1 << 12))",
            "records that are gone count as not recognised",
        ),
        (
            "exposure-told-all-the-same",
            At("RecordsClaimed.told", "self._report if self._recognised else None"),
            "self._report",
            "exposures of bytes that were not judged are counted",
        ),
    ),
    *judge(
        f"{_P}/verdict/records.py",
        (
            "history-cut-short",
            At("RecordsClaimed.__init__", "not recorded.complete"),
            "not recorded",
            "a history that was cut short is forgiven",
        ),
        (
            "workload-error",
            At("RecordsClaimed.__init__", "recorded and recorded.history.error"),
            "recorded and (not recorded.history)",
            "a workload that failed is forgiven",
        ),
    ),
    *judge(
        f"{_P}/verdict/reading.py",
        (
            "trouble",
            At("Gaps.__init__", ("if record.trouble:\n    self.add(record.trouble)")),
            ("if False:\n    self.add(record.trouble)"),
            "trouble while recording is forgiven",
        ),
    ),
    *judge(
        f"{_P}/verdict/records.py",
        (
            "host-failed-disk",
            At("RecordsClaimed.__init__", "host_failures(timeline)"),
            "()",
            "a disk that its host failed is forgiven",
        ),
    ),
    *judge(
        f"{_P}/recording/sealed.py",
        (
            "payloads-unverified",
            At("SealedTrial.disk_log", "verify_payloads=self._verify_payloads"),
            "verify_payloads=False",
            "payloads that were damaged on the host count as written",
        ),
    ),
    *judge(
        f"{_P}/verdict/reading.py",
        (
            "recovery-log-not-closed",
            At("observation_of", "[] if during.complete else ['its log was not closed properly']"),
            "[] if True else ['its log was not closed properly']",
            "a log of recovery that was not closed is forgiven",
        ),
    ),
    *checkers(
        f"{_P}/checkers/judge.py",
        (
            "failed-checker-passes",
            At(
                "run_checkers",
                (
                    "try:\n"
                    "    findings += checker()\n"
                    "except Exception as error:\n"
                    "    findings.append(_failed(name, error))"
                ),
            ),
            ("try:\n    findings += checker()\nexcept Exception as error:\n    del name, error"),
            "a checker that fails has passed",
        ),
        ("nothing-is-safe", At("run_checkers", "not checkers"), "False", "nothing checked is SAFE"),
        (
            "best-finding-wins",
            At("judge", "max((finding.verdict for finding in findings), default=Verdict.SAFE)"),
            "min((finding.verdict for finding in findings), default=Verdict.SAFE)",
            "the best finding decides",
        ),
    ),
    *checkers(
        f"{_P}/verdict/records.py",
        (
            "exposed-forgiven",
            At("check_exposure", "exposed.any()"),
            "False",
            "exposure is no finding",
        ),
        (
            "unknown-forgiven",
            At(
                "check_exposure",
                (
                    "if report.unknown_lsns:\n"
                    "    findings.append(Finding.unknown('the recording of the disk ends before these records were acknowledged: ' + LsnRange.text_of(report.unknown_lsns), report.unknown_lsns))\n"
                    "elif not timeline_complete:\n"
                    "    findings.append(Finding.unknown('the disk log was not closed properly: its end is missing'))"
                ),
            ),
            (
                "if False:\n"
                "    findings.append(Finding.unknown('the recording of the disk ends before these records were acknowledged: ' + LsnRange.text_of(report.unknown_lsns), report.unknown_lsns))\n"
                "elif not timeline_complete:\n"
                "    findings.append(Finding.unknown('the disk log was not closed properly: its end is missing'))"
            ),
            "records beyond the end of the recording are forgiven",
        ),
        (
            "open-end-forgiven",
            At("check_exposure", "not timeline_complete"),
            "False",
            "a recording without its end is forgiven",
        ),
        (
            "undone-forgiven",
            At(
                "check_exposure",
                "report.exposed if recognised else report.exposed & (report.write >= 0)",
            ),
            "report.exposed & ~report.undone if recognised else report.exposed & (report.write >= 0)",
            "a record that was written over is not exposed",
        ),
        (
            "seen-bytes-not-judged",
            At("check_exposure", "report.write >= 0"),
            "report.write < 0",
            "where some bytes are not judged, those that are known are not either",
        ),
    ),
    *checkers(
        f"{_P}/checkers/wal.py",
        (
            "not-recovered-forgiven",
            At("check_log", "not observation.recovered"),
            "False",
            "a system that did not come back is not looked at",
        ),
        (
            "trouble-is-lossy",
            At("_not_recovered", "not observation.complete"),
            "False",
            "recovery in trouble is a loss",
        ),
        (
            "incomplete-forgiven",
            At("check_log", "not observation.complete"),
            "False",
            "a reader that did not finish is forgiven",
        ),
        (
            "unread-slots-forgiven",
            At(
                "check_log",
                (
                    "if not observation.complete:\n"
                    "    findings.append(_incomplete(reading, observation.failure, observation.cause))\n"
                    "elif reading.unread:\n"
                    "    numbers = ', '.join((os.strerror(number) for number in sorted(reading.unread)))\n"
                    "    findings.append(_incomplete(reading, numbers, Failure.SLOT_UNREAD))"
                ),
            ),
            (
                "if not observation.complete:\n"
                "    findings.append(_incomplete(reading, observation.failure, observation.cause))\n"
                "elif False:\n"
                "    numbers = ', '.join((os.strerror(number) for number in sorted(reading.unread)))\n"
                "    findings.append(_incomplete(reading, numbers, Failure.SLOT_UNREAD))"
            ),
            "slots that were not read for want of memory are forgiven",
        ),
        (
            "no-acks-forgiven",
            At("check_wal", "not history.acked"),
            "False",
            "a run without an ack is SAFE",
        ),
        (
            "bystanders-forgiven",
            At("check_log", "_losses(reading) + _bystanders(reading)"),
            "_losses(reading)",
            "records that nobody wrote are forgiven",
        ),
        (
            "phantom-is-inconclusive",
            At(
                "_bystanders",
                "(kinds.NEVER_ATTEMPTED, lossy, others.never_attempted, 'records came back that were never attempted', True)",
            ),
            "(kinds.NEVER_ATTEMPTED, unknown, others.never_attempted, 'records came back that were never attempted', True)",
            "a whole record that nobody had attempted is no loss",
        ),
        (
            "attempt-ignored",
            At("check_wal", "history.attempted if attempted is None else attempted"),
            "history.attempted",
            "what the disk knows of attempts is ignored by the checker",
        ),
        (
            "last-required-left-out",
            At("required_after", "LsnRange(first, last) if first <= last else None"),
            "LsnRange(first, last - 1) if first < last else None",
            "the last acknowledged record may be missing",
        ),
    ),
    *checkers(
        f"{_P}/checkers/reading.py",
        (
            "missing-is-unseen",
            At("reading_of", "Fate.ABSENT if observation.complete else Fate.UNSEEN"),
            "Fate.UNSEEN",
            "a record that the reader did not mention is not missing",
        ),
        (
            "unseen-is-missing",
            At("reading_of", "Fate.ABSENT if observation.complete else Fate.UNSEEN"),
            "Fate.ABSENT",
            "what a failed reader did not come to is lost",
        ),
        (
            "trouble-is-unreadable",
            At("_is_disks_fault", "return failure_of_slot(unreadable.detail).is_finding"),
            "return True",
            "a slot that was not read for want of memory is lost",
        ),
        (
            "unreadable-is-trouble",
            At("_is_disks_fault", "return failure_of_slot(unreadable.detail).is_finding"),
            "return False",
            "a slot that the file system cannot read is not lost",
        ),
        (
            "any-record-will-do",
            At("_place", "Fate.INTACT if part.lsn == expected else Fate.STALE"),
            "Fate.INTACT",
            "an older record in the slot counts as the required one",
        ),
        (
            "elsewhere-will-do",
            At("_place", "not records or layout.slot_of(records.first) != part.slot"),
            "not records",
            "a record in another one's slot counts",
        ),
        (
            "phantoms-unseen",
            At("_place", "records.last > attempted"),
            "records.last > attempted + 1",
            "one record more than was attempted is lawful",
        ),
        (
            "corrupt-forgiven",
            At(
                "",
                "{SlotState.ABSENT: Fate.ABSENT, SlotState.STALE: Fate.STALE, SlotState.TORN: Fate.TORN, SlotState.CORRUPT: Fate.CORRUPT, SlotState.UNREADABLE: Fate.UNREADABLE, SlotState.MISDIRECTED: Fate.ABSENT}",
            ),
            "{SlotState.ABSENT: Fate.ABSENT, SlotState.STALE: Fate.STALE, SlotState.TORN: Fate.TORN, SlotState.CORRUPT: Fate.INTACT, SlotState.UNREADABLE: Fate.UNREADABLE, SlotState.MISDIRECTED: Fate.ABSENT}",
            "bytes that nobody wrote count as the record",
        ),
        (
            "torn-forgiven",
            At(
                "",
                "{SlotState.ABSENT: Fate.ABSENT, SlotState.STALE: Fate.STALE, SlotState.TORN: Fate.TORN, SlotState.CORRUPT: Fate.CORRUPT, SlotState.UNREADABLE: Fate.UNREADABLE, SlotState.MISDIRECTED: Fate.ABSENT}",
            ),
            "{SlotState.ABSENT: Fate.ABSENT, SlotState.STALE: Fate.STALE, SlotState.TORN: Fate.INTACT, SlotState.CORRUPT: Fate.CORRUPT, SlotState.UNREADABLE: Fate.UNREADABLE, SlotState.MISDIRECTED: Fate.ABSENT}",
            "part of a record counts as the record",
        ),
        (
            "stale-forgiven",
            At(
                "",
                "{SlotState.ABSENT: Fate.ABSENT, SlotState.STALE: Fate.STALE, SlotState.TORN: Fate.TORN, SlotState.CORRUPT: Fate.CORRUPT, SlotState.UNREADABLE: Fate.UNREADABLE, SlotState.MISDIRECTED: Fate.ABSENT}",
            ),
            "{SlotState.ABSENT: Fate.ABSENT, SlotState.STALE: Fate.INTACT, SlotState.TORN: Fate.TORN, SlotState.CORRUPT: Fate.CORRUPT, SlotState.UNREADABLE: Fate.UNREADABLE, SlotState.MISDIRECTED: Fate.ABSENT}",
            "an older generation counts as the record",
        ),
    ),
    *checkers(
        f"{_P}/checkers/agreement.py",
        (
            "ghosts-forgiven",
            At("check_agreement", "gone & back"),
            "gone & back & set()",
            "records may come back from nowhere",
        ),
        (
            "raw-misses-forgiven",
            At(
                "check_agreement",
                (
                    "if layout.in_place:\n"
                    "    unreadable = _lsns(reading.ranges(Fate.UNREADABLE), common)\n"
                    "    missing = _lsns(reading.lost, common) - gone - uncertain - unreadable\n"
                    "    if missing:\n"
                    "        findings.append(_disagreement('did not come back although their bytes are on the medium', missing))"
                ),
            ),
            (
                "if False:\n"
                "    unreadable = _lsns(reading.ranges(Fate.UNREADABLE), common)\n"
                "    missing = _lsns(reading.lost, common) - gone - uncertain - unreadable\n"
                "    if missing:\n"
                "        findings.append(_disagreement('did not come back although their bytes are on the medium', missing))"
            ),
            "bytes in their place need not come back",
        ),
        (
            "blind-is-a-bug",
            At("check_agreement", "_lsns(unrecognised, common)"),
            "set()",
            "bytes that the scan does not know are called a bug",
        ),
        (
            "certain-about-the-uncertain",
            At("check_agreement", "_lsns(predicted.lost, common) - uncertain"),
            "_lsns(predicted.lost, common) | uncertain",
            "what hangs on a write in flight is called gone",
        ),
    ),
    *checkers(
        f"{_P}/verdict/records.py",
        (
            "silence-agrees",
            At("check_environment", "seen is not None and seen.strip() == expected"),
            "seen is None or seen.strip() == expected",
            "a fact that the guest did not report is as promised",
        ),
    ),
    *checkers(
        f"{_P}/verdict/controls.py",
        (
            "misbehaved-control",
            At("check_controls", "control.verdict is not control.expected"),
            "control.verdict is Verdict.INCONCLUSIVE",
            "a control that went otherwise is heard as good",
        ),
        (
            "safe-without-a-loss",
            At("check_controls", "verdict in (Verdict.SAFE, Verdict.SURVIVED) and (not lossy)"),
            "False",
            "SAFE needs no control that had to lose",
        ),
    ),
    *run(
        f"{_P}/rig/recovery.py",
        (
            "failed-reader-is-complete",
            At("_Guest._read", "Observation.failed(cause, words, done.extents)"),
            "Observation(done.extents, failure=words)",
            "a reader that failed in the guest is taken for complete",
        ),
        (
            "status-ignored",
            At("_failed", "result.status or result.error"),
            "result.error",
            "an exit status without words is no failure",
        ),
        (
            "errors-ignored",
            At("_failed", "result.status or result.error"),
            "result.status",
            "an error without a status is no failure",
        ),
        (
            "every-mount-error-counts",
            At("_Guest._refused", "e.fault is GuestFault.MOUNT"),
            "e.error",
            "what fails before mount(2) is held against the disk",
        ),
        (
            "mount-failure-forgiven",
            At("_Guest._mount", "_failed(done)"),
            "_failed(done) and done.errors",
            "a mount that failed without a word has mounted",
        ),
        (
            "mount-on-a-dead-disk",
            At("_Guest._refused", "cause.is_finding and (not self._disk_reads())"),
            "False",
            "a file system on a disk that fails is lost",
        ),
        (
            "slots-on-a-dead-disk",
            At("_Guest._read", "suspect and (not self._disk_reads())"),
            "False",
            "slots of a disk that fails are lost",
        ),
        (
            "signal-ignored",
            At("", "(GuestFault.START, GuestFault.SIGNAL)"),
            "(GuestFault.START,)",
            "what a killed reader said last is taken for why it ended",
        ),
        (
            "one-boot-is-enough",
            At("must_repeat", "observation.complete and (not observation.recovered or unreadable)"),
            "False",
            "a system that failed once is lost",
        ),
        (
            "unreadable-once-is-enough",
            At("must_repeat", "not observation.recovered or unreadable"),
            "not observation.recovered",
            "a slot that could not be read once is lost",
        ),
        (
            "second-boot-in-trouble",
            At("agreed", "return second"),
            "return first",
            "trouble of the second boot bears the first out",
        ),
        (
            "boots-that-differ",
            At(
                "agreed",
                "second.cause is first.cause and _unreadable(second) == _unreadable(first)",
            ),
            "second.complete",
            "two boots that differ agree",
        ),
        (
            "late-is-lost",
            At(
                "recover_in_guest", "Observation.failed(cause, f'recovery did not finish: {error}')"
            ),
            "Observation((), recovered=False, failure=str(error))",
            "a guest that hung or died has lost its disk",
        ),
        (
            "goes-on-from-the-wrong-record",
            At("_Guest._go_on", "last_intact(before.extents) + 1"),
            "last_intact(before.extents)",
            "life after recovery writes over the last record",
        ),
    ),
    *run(
        f"{_P}/rig/host_reader.py",
        (
            "exit-status-ignored",
            At(
                "run_reader",
                (
                    "if done.returncode:\n"
                    "    said = '; '.join(told.errors) or done.stderr.decode(errors='replace').strip()\n"
                    "    return _failed(f'the log reader failed with status {done.returncode}: {said}', whole)"
                ),
            ),
            (
                "if done.returncode and (not whole):\n"
                "    said = '; '.join(told.errors) or done.stderr.decode(errors='replace').strip()\n"
                "    return _failed(f'the log reader failed with status {done.returncode}: {said}', whole)"
            ),
            "the exit status of the reader on the host is ignored",
        ),
        (
            "host-eio-is-a-loss",
            At("_of_the_image", "len(whole) < len(told.extents)"),
            "False",
            "what this host cannot read of its own file is SAFE, or lost",
        ),
        (
            "missing-image-is-a-loss",
            At("_of_the_image", "told.facts.get('file') == 'missing'"),
            "False",
            "an image that is not there is a log without records",
        ),
        (
            "garbled-report",
            At("run_reader", '_failed(f"the log reader\'s report: {error}")'),
            "Observation(tuple(ledger.current.extents), failure=str(error))",
            "a report that does not decode is complete",
        ),
        (
            "timeout",
            At(
                "run_reader",
                "Observation.failed(Failure.DEADLINE, f'the log reader took over {timeout_s:g} s')",
            ),
            "Observation.failed(Failure.MOUNT_DAMAGED, f'the log reader took over {timeout_s:g} s')",
            "a reader that hangs is a loss",
        ),
    ),
    *run(
        f"{_P}/rig/image_open.py",
        (
            "opens-once",
            At(
                "open_after_cut",
                "not open_image(socket, image_format, timeout_s=timeout_s).problem",
            ),
            "False",
            "an image that did not open once is lost",
        ),
        (
            "base-never-asked",
            At("open_after_cut", "open_base(base, image_format, timeout_s=timeout_s)"),
            "''",
            "a host without memory has lost every image",
        ),
    ),
    *run(
        f"{_P}/model/failure.py",
        (
            "no-memory-is-a-loss",
            At(
                "",
                "{errno.ENOMEM: Failure.MOUNT_NO_MEMORY, errno.ENODEV: Failure.MOUNT_UNSUPPORTED, errno.ENOSYS: Failure.MOUNT_UNSUPPORTED, errno.EBUSY: Failure.MOUNT_BUSY, errno.EINTR: Failure.MOUNT_INTERRUPTED, errno.EAGAIN: Failure.MOUNT_INTERRUPTED, errno.EPERM: Failure.MOUNT_FORBIDDEN, errno.EACCES: Failure.MOUNT_FORBIDDEN, errno.EROFS: Failure.MOUNT_FORBIDDEN, errno.ENOTBLK: Failure.DEVICE_MISSING, errno.ENXIO: Failure.DEVICE_MISSING, errno.ETIMEDOUT: Failure.DISK_FAILED, errno.ENOLINK: Failure.DISK_FAILED, errno.EREMOTEIO: Failure.DISK_FAILED, errno.EBADE: Failure.DISK_FAILED, errno.ENODATA: Failure.DISK_FAILED, errno.EILSEQ: Failure.DISK_FAILED}",
            ),
            "{errno.ENOMEM: Failure.MOUNT_DAMAGED, errno.ENODEV: Failure.MOUNT_UNSUPPORTED, errno.ENOSYS: Failure.MOUNT_UNSUPPORTED, errno.EBUSY: Failure.MOUNT_BUSY, errno.EINTR: Failure.MOUNT_INTERRUPTED, errno.EAGAIN: Failure.MOUNT_INTERRUPTED, errno.EPERM: Failure.MOUNT_FORBIDDEN, errno.EACCES: Failure.MOUNT_FORBIDDEN, errno.EROFS: Failure.MOUNT_FORBIDDEN, errno.ENOTBLK: Failure.DEVICE_MISSING, errno.ENXIO: Failure.DEVICE_MISSING, errno.ETIMEDOUT: Failure.DISK_FAILED, errno.ENOLINK: Failure.DISK_FAILED, errno.EREMOTEIO: Failure.DISK_FAILED, errno.EBADE: Failure.DISK_FAILED, errno.ENODATA: Failure.DISK_FAILED, errno.EILSEQ: Failure.DISK_FAILED}",
            "a mount without memory is a loss",
        ),
        (
            "unknown-errno-is-a-loss",
            At("failure_of_mount", "_MOUNT.get(error, Failure.MOUNT_UNKNOWN)"),
            "_MOUNT.get(error, Failure.MOUNT_REFUSED)",
            "an errno that no rule knows is a loss",
        ),
        (
            "unproved-mount",
            At("failure_of_mount", "Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED"),
            "Failure.MOUNT_REFUSED",
            "an option that the kernel does not know is a loss",
        ),
        (
            "unproved-always",
            At("failure_of_mount", "Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED"),
            "Failure.MOUNT_UNPROVED",
            "a superblock that is gone is no loss",
        ),
        (
            "probe-ignored",
            At(
                "failure_of_mount",
                (
                    "if error not in AMBIGUOUS:\n"
                    "    return _MOUNT.get(error, Failure.MOUNT_UNKNOWN)\n"
                    "if not disk_reads:\n"
                    "    return Failure.DISK_FAILED\n"
                    "return Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED"
                ),
            ),
            (
                "if error not in AMBIGUOUS:\n"
                "    return _MOUNT.get(error, Failure.MOUNT_UNKNOWN)\n"
                "return Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED"
            ),
            "EIO of the host is a loss",
        ),
        (
            "killed-reader-is-a-loss",
            At(
                "failure_of_reader",
                (
                    "if fault is GuestFault.START:\n"
                    "    return Failure.READER_NOT_STARTED\n"
                    "if fault is GuestFault.SIGNAL:\n"
                    "    return Failure.READER_KILLED\n"
                    "if error in DAMAGED:\n"
                    "    return Failure.LOG_DAMAGED"
                ),
            ),
            (
                "if fault is GuestFault.START:\n"
                "    return Failure.READER_NOT_STARTED\n"
                "if error in DAMAGED:\n"
                "    return Failure.LOG_DAMAGED"
            ),
            "what a killed reader said last convicts",
        ),
        (
            "slot-errnos",
            At("", "{errno.EIO, errno.EISDIR, errno.ENOENT, errno.ELOOP, errno.ESTALE}"),
            "{errno.EIO, errno.ENOMEM, errno.EISDIR, errno.ENOENT, errno.ELOOP, errno.ESTALE}",
            "ENOMEM at a read is a loss",
        ),
    ),
    *run(
        f"{_P}/model/observation.py",
        (
            "trouble-is-complete",
            At(
                "Observation.failed",
                "Observation(extents, complete=False, failure=words, cause=cause)",
            ),
            "Observation(extents, failure=words, cause=cause)",
            "trouble leaves a complete observation",
        ),
    ),
    *controls(
        f"{_P}/trial/controls.py",
        (
            "errors-in-controls",
            At("twin", "changes['disk']['errors'] = ()"),
            "pass",
            "controls have the errors of their cell",
        ),
        (
            "errors-take-the-layers",
            At("twin", "parameters.disk.errors"),
            "()",
            "the honest twin of a cell with errors is without its layers, too",
        ),
        (
            "small-cache-of-the-liar",
            At(
                "_lying",
                "{'volatile_cache': True, 'cache_size': 0, **of_first, 'also': tuple((other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST) for other in parameters.disk.also))}",
            ),
            "{'volatile_cache': True, 'cache_size': 4096, **of_first, 'also': tuple((other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST) for other in parameters.disk.also))}",
            "the lying control has a small cache, which saves records by accident",
        ),
        (
            "cache-of-the-cell",
            At(
                "_lying",
                "{'volatile_cache': True, 'cache_size': 0, **of_first, 'also': tuple((other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST) for other in parameters.disk.also))}",
            ),
            "{'volatile_cache': True, **of_first, 'also': tuple((other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST) for other in parameters.disk.also))}",
            "the lying control has the cache of its cell",
        ),
        (
            "no-sync-cache",
            At(
                "twin",
                "{'volatile_cache': True, 'cache_size': 0, 'also': _alike(parameters), **_HONEST}",
            ),
            "{'volatile_cache': True, 'also': _alike(parameters), **_HONEST}",
            "the control without sync has the cache of its cell",
        ),
        (
            "liar-honours-fua",
            At("", "{'flush': Honour.IGNORED, 'fua': Honour.IGNORED}"),
            "{'flush': Honour.IGNORED, 'fua': Honour.HONOURED}",
            "the lying control keeps FUA",
        ),
        (
            "liar-without-a-cache",
            At(
                "_lying",
                "{'volatile_cache': True, 'cache_size': 0, **of_first, 'also': tuple((other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST) for other in parameters.disk.also))}",
            ),
            "{'volatile_cache': False, 'cache_size': 0, **of_first, 'also': tuple((other.model_copy(update=_LYING if disk in (None, other.name) else _HONEST) for other in parameters.disk.also))}",
            "the lying control has nothing to lose",
        ),
        (
            "control-keeps-the-cache",
            At("twin", "{'kind': CutKind.POWER_LOSS, 'policy': CutPolicy.DROP}"),
            "{'kind': CutKind.POWER_LOSS}",
            "a control is cut by the policy of its cell",
        ),
        (
            "control-is-killed-only",
            At("twin", "{'kind': CutKind.POWER_LOSS, 'policy': CutPolicy.DROP}"),
            "{'policy': CutPolicy.DROP}",
            "a control is cut as gently as its cell",
        ),
        (
            "control-with-a-plant",
            At("twin", "workload.control(kind)"),
            "parameters.workload",
            "a control carries the fault that is planted into its cell",
        ),
        (
            "honest-twin-lies",
            At(
                "twin",
                (
                    "changes['disk'] = {**_HONEST, 'layers': (), 'also': _unlayered(parameters)}\n"
                    "changes['machine'] = dict(_PASSING_ON)"
                ),
            ),
            "changes['machine'] = dict(_PASSING_ON)",
            "the honest control has the disk of its cell",
        ),
        (
            "first-disk-speaks-for-all",
            At("_each", "(disk.name, *(other.name for other in disk.also))"),
            "(disk.name,)",
            "of several disks only the first lies alone",
        ),
        (
            "all-disks-lie-at-once",
            At("_lying", "_LYING if disk in (None, other.name) else _HONEST"),
            "_LYING",
            "where the first of several disks lies the others do, too",
        ),
        (
            "one-loss-is-enough",
            At(
                "controls_for",
                (
                    "if isinstance(workload, HasUnsyncedTwin) and asked:\n"
                    "    wanted.add(ControlKind.NO_SYNC)"
                ),
            ),
            ("if isinstance(workload, HasUnsyncedTwin) and asked:\n    pass"),
            "SAFE needs one control only",
        ),
        (
            "lossy-without-a-twin",
            At("controls_for", "{ControlKind.HONEST}"),
            "set()",
            "LOSSY needs no control",
        ),
    ),
    *certify(
        f"{_P}/campaign/assemble.py",
        (
            "doubt-forgiven",
            At("as_control", "Verdict.INCONCLUSIVE if doubt_of(result) else result.verdict"),
            "result.verdict",
            "a control that lost nothing in its cut has shown a loss",
        ),
        (
            "contradiction-forgiven",
            At(
                "doubt_of",
                "any((finding.kind is FindingKind.DISAGREEMENT for finding in result.findings))",
            ),
            "False",
            "a control whose recording says otherwise has shown a loss",
        ),
        (
            "missing-control-behaves",
            At(
                "_control_result",
                "Outcome('a control without a recording', Verdict.INCONCLUSIVE, '')",
            ),
            "Outcome('a control without a recording', control.expected, '')",
            "a control that was never run behaved",
        ),
        (
            "best-trial-counts",
            At("outcomes_of_cells", "max(trials[cell.name], key=as_control)"),
            "min(trials[cell.name], key=as_control)",
            "the best trial of a cell stands for it as a control",
        ),
    ),
    *certify(
        f"{_P}/verdict/controls.py",
        (
            "controls-unheard",
            At("with_controls", "max(own, worst)"),
            "own",
            "SAFE stands although its controls misbehaved",
        ),
    ),
    *certify(
        "harness/powercut_extras/certify/follows.py",
        (
            "other-seed",
            At("_problems_of_run", "told.seed != plan.seed"),
            "False",
            "a run of another seed is certified",
        ),
        (
            "other-cells",
            At("_problems_of_run", "[cell.cell for cell in told.cells] != planned"),
            "False",
            "a run that leaves a cell out is certified",
        ),
        (
            "fewer-controls",
            At("_problems_of_cell", "listed != wanted"),
            "False",
            "a cell without its controls is certified",
        ),
        (
            "sums-unchecked",
            At("_problems_of_cell", "getattr(told, key) != getattr(again, key)"),
            "False",
            "a verdict that its trials do not add up to is certified",
        ),
        (
            "fewer-trials",
            At("_problems_of_trials", "len(listed) < len(by_number)"),
            "False",
            "fewer trials than were ordered are certified",
        ),
        (
            "other-recording",
            At(
                "_problems_of_trials",
                "(record.parameters, record.trial) != (planned.parameters, by_number[trial.trial])",
            ),
            "not (planned.parameters, by_number[trial.trial])",
            "a recording of other settings is certified",
        ),
        (
            "worse-trial-left-out",
            At(
                "_problems_of_trials",
                "place.sealed and place.read_verdict().verdict > told.verdict",
            ),
            "False",
            "a trial that lost may be left out",
        ),
        (
            "other-verdict-beside",
            At("_problems_beside", "place.read_verdict() != trial"),
            "False",
            "a verdict other than the one beside its recording is certified",
        ),
        (
            "other-control",
            At(
                "_problems_of_control",
                "same_run(place.read_record().parameters) != same_run(meant)",
            ),
            "not same_run(meant)",
            "a control of another combination vouches",
        ),
        (
            "control-verdict",
            At("_problems_of_control", "as_control(place.read_verdict()) is not told.verdict"),
            "False",
            "a control is said to have come out as it did not",
        ),
    ),
    *defined(
        "harness/powercut_extras/libvirt/meaning.py",
        (
            "unknown-is-nothing",
            At("left_out", "row.fate is Fate.LEFT_OUT and value not in row.usual"),
            "row.fate is Fate.LEFT_OUT and row is not UNKNOWN and value not in row.usual",
            "a word that no table has is passed over in silence",
        ),
        (
            "usual-without-asking",
            At("left_out", "value not in row.usual"),
            "not row.usual",
            "a word of which one value changes nothing is never said",
        ),
    ),
    *defined(
        "harness/powercut_extras/libvirt/definition.py",
        (
            "transient-is-kept",
            At("_cannot_be_made", "disk.find('transient') is not None"),
            "False",
            "a disk whose writes are thrown away is certified",
        ),
        (
            "read-only-is-tested",
            At("_holds_nothing", "disk.find('readonly') is not None"),
            "False",
            "a disk that the guest only reads is certified as one for data",
        ),
        (
            "others-are-qemu",
            At(
                "read_likeness",
                "(other := OTHER_HYPERVISORS.get(domain.get('type', ''))) is not None",
            ),
            "(other := None) is not None",
            "a domain of VirtualBox's is judged as one of QEMU's",
        ),
    ),
    *defined(
        "harness/powercut_extras/libvirt/qemu_line.py",
        (
            "write-cache-unheard",
            At("_cache", "device.get('write-cache', 'auto') != 'auto'"),
            "False",
            "what a device says of its write cache does not count",
        ),
        (
            "unmade-devices-unsaid",
            At(
                "_Machine._disks",
                "self.missing.append(LeftOut(f'disk {name}', f'powercut makes no {driver}'))",
            ),
            "None",
            "a drive on a device that powercut does not make is dropped",
        ),
    ),
    *defined(
        "harness/powercut_extras/certify/likeness.py",
        (
            "some-stand-for-all",
            At("why_apart", "return 'one of them is not tested'"),
            "return ''",
            "a cell of some disks stands for all",
        ),
    ),
    *defined(
        "harness/powercut_extras/certify/page_answer.py",
        (
            "untested-disk-is-safe",
            At("answer_of", "tone = max(tone, Verdict.INCONCLUSIVE)"),
            "pass",
            "a certificate that leaves a disk out says SAFE on its first page",
        ),
    ),
    *after(
        f"{_P}/workload/wal/promises.py",
        (
            "new-acks-forgiven",
            At("check_state", "[LsnRange(later.first_lsn, later.acked)]"),
            "[]",
            "what is acknowledged after recovery may be lost",
        ),
        (
            "old-acks-forgiven",
            At("check_state", "[*required, *new]"),
            "new",
            "what was acknowledged before may be lost after recovery",
        ),
        (
            "standstill-forgiven",
            At(
                "check_state",
                "later.failure and (not later.no_room) and later.observation.recovered",
            ),
            "False",
            "a file system that refuses to be written has recovered",
        ),
        (
            "full-log-is-a-finding",
            At(
                "check_state",
                "later.failure and (not later.no_room) and later.observation.recovered",
            ),
            "later.failure and later.observation.recovered",
            "a full log is held against recovery",
        ),
    ),
    *after(
        f"{_P}/recover/uml/answer.py",
        (
            "check-is-a-loss",
            At("observe", "answer.step in _TROUBLE"),
            "answer.step in _TROUBLE - {Step.CHECK}",
            "a view that overflowed is an observation",
        ),
        (
            "uml-enomem-is-a-loss",
            At(
                "_refused",
                (
                    "if not cause.is_finding:\n"
                    "    raise Trouble(answer.reason, cause)\n"
                    "return Observation.failed(cause, failure)"
                ),
            ),
            "return Observation((), recovered=False, failure=failure, cause=cause)",
            "a mount without memory in User-Mode Linux is a loss",
        ),
        (
            "uml-reader-is-complete",
            At("_unread", "Observation.failed(cause, failure, extents)"),
            "Observation(extents, failure=failure, cause=cause)",
            "a reader that failed in User-Mode Linux is complete",
        ),
        (
            "uml-signal-ignored",
            At("_unread", "answer.status > _SIGNALLED"),
            "False",
            "what a killed reader said last convicts in User-Mode Linux",
        ),
        (
            "uml-lost-later",
            At(
                "_later",
                (
                    "claims = (answer.first_lsn, answer.attempted, answer.acked)\n"
                    "if answer.after is After.MOUNT:\n"
                    "    return Continuation(*claims, _refused(answer, failure))\n"
                    "extents = share.extents(answer.after_answer, at=answer.answer)"
                ),
            ),
            (
                "claims = (answer.first_lsn, answer.attempted, answer.acked)\n"
                "extents = share.extents(answer.after_answer, at=answer.answer)"
            ),
            "a second mount that fails is forgiven",
        ),
        (
            "uml-liar-has-no-room",
            At("_later", "answer.error == errno.ENOSPC and (not said)"),
            "answer.error == errno.ENOSPC",
            "ENOSPC of a damaged file system is a full disk",
        ),
    ),
)
