# SPDX-License-Identifier: Apache-2.0
"""Planted in the judge, the checkers, recovery and the controls."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.suites import AFTER, CERTIFY, CONTROLS, JUDGE, RECOVERY

_P = "harness/powercut"
judge = planter("judge", JUDGE)
checkers = planter("checkers", JUDGE)
run = planter("run", RECOVERY)
controls = planter("controls", CONTROLS)
certify = planter("certify", CERTIFY)
after = planter("after", AFTER)

MUTANTS: tuple[Mutant, ...] = (
    *judge(
        f"{_P}/verdict/judge.py",
        ("shallow", "deep=True", "deep=False", "only one word in eight is compared"),
        (
            "log-not-closed",
            "report, timeline_complete=complete, recognised",
            "report, timeline_complete=True, recognised",
            "a disk log that was not closed is forgiven",
        ),
        (
            "host-failed-disk-convicts",
            "if loaded.timeline and (failed := host_failures(loaded.timeline)):",
            "if loaded.timeline and (failed := ()):",
            "what follows from a disk that its host failed is a loss",
        ),
        (
            "no-exposure",
            '        checkers["exposure"] = lambda: check_exposure(',
            '        checkers["unused"] = lambda: [] if check_exposure else check_exposure(',
            "exposure is not checked",
        ),
        (
            "no-claims",
            'checkers: dict[str, Checker] = {"wal": check_claims}',
            "checkers: dict[str, Checker] = {}",
            "what came back is not checked",
        ),
        (
            "no-agreement",
            '        checkers["agreement"] = check_prediction',
            "        pass",
            "recovery and recording may contradict each other",
        ),
        (
            "no-environment",
            "lambda: check_environment(facts, promised)",
            "lambda: []",
            "a preset that did not take effect is forgiven",
        ),
        (
            "attempts-of-the-history-only",
            "attempted = max(evidence.history.attempted, evidence.claims.attempted)",
            "attempted = evidence.history.attempted",
            "an attempt that the cut swallowed is a record that nobody wrote",
        ),
        (
            "cut-of-every-kind",
            "under_cut(loaded.timeline, loaded.record.parameters.cut.kind)",
            "loaded.timeline",
            "a hypervisor that was killed convicts a cache below it",
        ),
        (
            "all-bytes-recognised",
            "    return not any(lsn in back for",
            "    return True or any(lsn in back for",
            "bytes that the scan does not know count as never written",
        ),
        (
            "blind-without-recovery",
            "        return bool(len(evidence.runs))",
            "        return True",
            "no record was recognised, none recovered, and all are exposed",
        ),
        (
            "nothing-recognised",
            "    back = {lsn for span in reading.intact for lsn in span}",
            "    back = set(range(1 << 12))",
            "records that are gone count as not recognised",
        ),
        (
            "exposure-told-all-the-same",
            "if report is not None and recognised else None",
            "if report is not None else None",
            "exposures of bytes that were not judged are counted",
        ),
    ),
    *judge(
        f"{_P}/verdict/reading.py",
        (
            "history-cut-short",
            "    if recorded and not recorded.complete:",
            "    if recorded and not recorded:",
            "a history that was cut short is forgiven",
        ),
        (
            "workload-error",
            "    if recorded and recorded.history.error:",
            "    if recorded and not recorded.history:",
            "a workload that failed is forgiven",
        ),
        (
            "trouble",
            "    if record.trouble:",
            "    if False:",
            "trouble while recording is forgiven",
        ),
        (
            "host-failed-disk",
            "                for why in host_failures(timeline)",
            "                for why in ()",
            "a disk that its host failed is forgiven",
        ),
        (
            "payloads-unverified",
            "read_disk_log(directory, record, verify_payloads=True)",
            "read_disk_log(directory, record, verify_payloads=False)",
            "payloads that were damaged on the host count as written",
        ),
    ),
    *judge(
        f"{_P}/verdict/observation.py",
        (
            "recovery-log-not-closed",
            "    reasons += [] if during.complete else",
            "    reasons += [] if True else",
            "a log of recovery that was not closed is forgiven",
        ),
    ),
    *checkers(
        f"{_P}/checkers/judge.py",
        (
            "failed-checker-passes",
            "            findings.append(_failed(name, error))",
            "            del name, error",
            "a checker that fails has passed",
        ),
        ("nothing-is-safe", "    if not checkers:", "    if False:", "nothing checked is SAFE"),
        (
            "best-finding-wins",
            "    return max((finding.verdict for finding in findings), default=Verdict.SAFE)",
            "    return min((finding.verdict for finding in findings), default=Verdict.SAFE)",
            "the best finding decides",
        ),
    ),
    *checkers(
        f"{_P}/checkers/exposure.py",
        ("exposed-forgiven", "    if exposed.any():", "    if False:", "exposure is no finding"),
        (
            "unknown-forgiven",
            "    if report.unknown_lsns:",
            "    if False:",
            "records beyond the end of the recording are forgiven",
        ),
        (
            "open-end-forgiven",
            "    elif not timeline_complete:",
            "    elif False:",
            "a recording without its end is forgiven",
        ),
        (
            "undone-forgiven",
            "exposed = report.exposed if recognised",
            "exposed = (report.exposed & ~report.undone) if recognised",
            "a record that was written over is not exposed",
        ),
        (
            "seen-bytes-not-judged",
            "report.exposed & (report.write >= 0)",
            "report.exposed & (report.write < 0)",
            "where some bytes are not judged, those that are known are not either",
        ),
    ),
    *checkers(
        f"{_P}/checkers/wal.py",
        (
            "not-recovered-forgiven",
            "    if not observation.recovered:\n        return [_not",
            "    if False:\n        return [_not",
            "a system that did not come back is not looked at",
        ),
        (
            "trouble-is-lossy",
            "    if not observation.complete:\n        return _trouble(",
            "    if False:\n        return _trouble(",
            "recovery in trouble is a loss",
        ),
        (
            "incomplete-forgiven",
            "    if not observation.complete:\n        findings.append(",
            "    if False:\n        findings.append(",
            "a reader that did not finish is forgiven",
        ),
        (
            "unread-slots-forgiven",
            "    elif reading.unread:",
            "    elif False:",
            "slots that were not read for want of memory are forgiven",
        ),
        (
            "no-acks-forgiven",
            "    if not history.acked:",
            "    if False:",
            "a run without an ack is SAFE",
        ),
        (
            "bystanders-forgiven",
            "findings = _losses(reading) + _bystanders(reading)",
            "findings = _losses(reading)",
            "records that nobody wrote are forgiven",
        ),
        (
            "phantom-is-inconclusive",
            "(kinds.NEVER_ATTEMPTED, lossy, others",
            "(kinds.NEVER_ATTEMPTED, unknown, others",
            "a whole record that nobody had attempted is no loss",
        ),
        (
            "attempt-ignored",
            "attempted = history.attempted if attempted is None else attempted\n    required",
            "attempted = history.attempted\n    required",
            "what the disk knows of attempts is ignored by the checker",
        ),
        (
            "last-required-left-out",
            "return LsnRange(first, last) if first <= last else None",
            "return LsnRange(first, last - 1) if first < last else None",
            "the last acknowledged record may be missing",
        ),
    ),
    *checkers(
        f"{_P}/checkers/reading.py",
        (
            "missing-is-unseen",
            "unseen = Fate.ABSENT if observation.complete else Fate.UNSEEN",
            "unseen = Fate.UNSEEN",
            "a record that the reader did not mention is not missing",
        ),
        (
            "unseen-is-missing",
            "unseen = Fate.ABSENT if observation.complete else Fate.UNSEEN",
            "unseen = Fate.ABSENT",
            "what a failed reader did not come to is lost",
        ),
        (
            "trouble-is-unreadable",
            "return failure_of_slot(unreadable.detail).is_finding",
            "return True",
            "a slot that was not read for want of memory is lost",
        ),
        (
            "unreadable-is-trouble",
            "return failure_of_slot(unreadable.detail).is_finding",
            "return False",
            "a slot that the file system cannot read is not lost",
        ),
        (
            "any-record-will-do",
            "fate = Fate.INTACT if part.lsn == expected else Fate.STALE",
            "fate = Fate.INTACT",
            "an older record in the slot counts as the required one",
        ),
        (
            "elsewhere-will-do",
            "(not records or layout.slot_of(records.first) != part.slot)",
            "not records",
            "a record in another one's slot counts",
        ),
        (
            "phantoms-unseen",
            "    if records and records.last > attempted:",
            "    if records and records.last > attempted + 1:",
            "one record more than was attempted is lawful",
        ),
        (
            "corrupt-forgiven",
            "    SlotState.CORRUPT: Fate.CORRUPT,",
            "    SlotState.CORRUPT: Fate.INTACT,",
            "bytes that nobody wrote count as the record",
        ),
        (
            "torn-forgiven",
            "    SlotState.TORN: Fate.TORN,",
            "    SlotState.TORN: Fate.INTACT,",
            "part of a record counts as the record",
        ),
        (
            "stale-forgiven",
            "    SlotState.STALE: Fate.STALE,",
            "    SlotState.STALE: Fate.INTACT,",
            "an older generation counts as the record",
        ),
    ),
    *checkers(
        f"{_P}/checkers/agreement.py",
        (
            "ghosts-forgiven",
            "    ghosts = gone & back\n",
            "    ghosts = gone & back & set()\n",
            "records may come back from nowhere",
        ),
        (
            "raw-misses-forgiven",
            "    if layout.in_place:\n        unreadable",
            "    if False:\n        unreadable",
            "bytes in their place need not come back",
        ),
        (
            "blind-is-a-bug",
            "blind = ghosts & _lsns(unrecognised, common)",
            "blind = ghosts & set()",
            "bytes that the scan does not know are called a bug",
        ),
        (
            "certain-about-the-uncertain",
            "gone = _lsns(predicted.lost, common) - uncertain",
            "gone = _lsns(predicted.lost, common) | uncertain",
            "what hangs on a write in flight is called gone",
        ),
    ),
    *checkers(
        f"{_P}/checkers/environment.py",
        (
            "silence-agrees",
            "if seen is not None and seen.strip() == expected:",
            "if seen is None or seen.strip() == expected:",
            "a fact that the guest did not report is as promised",
        ),
    ),
    *checkers(
        f"{_P}/checkers/controls.py",
        (
            "misbehaved-control",
            "        if control.verdict is not control.expected",
            "        if control.verdict is Verdict.INCONCLUSIVE",
            "a control that went otherwise is heard as good",
        ),
        (
            "safe-without-a-loss",
            "    if verdict in (Verdict.SAFE, Verdict.SURVIVED) and not lossy:",
            "    if False:",
            "SAFE needs no control that had to lose",
        ),
    ),
    *run(
        f"{_P}/rig/recovery.py",
        (
            "failed-reader-is-complete",
            "        return Observation.failed(cause, words, done.extents)",
            "        return Observation(done.extents, failure=words)",
            "a reader that failed in the guest is taken for complete",
        ),
        (
            "status-ignored",
            "    return bool(result.status or result.error)",
            "    return bool(result.error)",
            "an exit status without words is no failure",
        ),
        (
            "errors-ignored",
            "    return bool(result.status or result.error)",
            "    return bool(result.status)",
            "an error without a status is no failure",
        ),
        (
            "every-mount-error-counts",
            "if e.fault is GuestFault.MOUNT]",
            "if e.error]",
            "what fails before mount(2) is held against the disk",
        ),
        (
            "mount-failure-forgiven",
            "            if _failed(done):\n                return self._refused(step, done)",
            "            if _failed(done) and done.errors:\n                return self._refused(step, done)",
            "a mount that failed without a word has mounted",
        ),
        (
            "mount-on-a-dead-disk",
            "        if cause.is_finding and not self._disk_reads():",
            "        if False:",
            "a file system on a disk that fails is lost",
        ),
        (
            "slots-on-a-dead-disk",
            "        if suspect and not self._disk_reads():",
            "        if False:",
            "slots of a disk that fails are lost",
        ),
        (
            "signal-ignored",
            "_PROGRAM_FAULTS: Final = (GuestFault.START, GuestFault.SIGNAL)",
            "_PROGRAM_FAULTS: Final = (GuestFault.START,)",
            "what a killed reader said last is taken for why it ended",
        ),
        (
            "one-boot-is-enough",
            "    return observation.complete and (not observation.recovered or unreadable)",
            "    return False",
            "a system that failed once is lost",
        ),
        (
            "unreadable-once-is-enough",
            "(not observation.recovered or unreadable)",
            "(not observation.recovered)",
            "a slot that could not be read once is lost",
        ),
        (
            "second-boot-in-trouble",
            "    if not second.complete:\n        return second",
            "    if not second.complete:\n        return first",
            "trouble of the second boot bears the first out",
        ),
        (
            "boots-that-differ",
            "if second.cause is first.cause and _unreadable(second) == _unreadable(first):",
            "if second.complete:",
            "two boots that differ agree",
        ),
        (
            "late-is-lost",
            '        return Observation.failed(cause, f"recovery did not finish: {error}"), {}',
            "        return Observation((), recovered=False, failure=str(error)), {}",
            "a guest that hung or died has lost its disk",
        ),
        (
            "goes-on-from-the-wrong-record",
            "    first = last_intact(before.extents) + 1",
            "    first = last_intact(before.extents)",
            "life after recovery writes over the last record",
        ),
    ),
    *run(
        f"{_P}/rig/host_reader.py",
        (
            "exit-status-ignored",
            "    if done.returncode:",
            "    if done.returncode and not whole:",
            "the exit status of the reader on the host is ignored",
        ),
        (
            "host-eio-is-a-loss",
            "    if len(whole) < len(told.extents):",
            "    if False:",
            "what this host cannot read of its own file is SAFE, or lost",
        ),
        (
            "missing-image-is-a-loss",
            '    if told.facts.get("file") == "missing":',
            "    if False:",
            "an image that is not there is a log without records",
        ),
        (
            "garbled-report",
            '        return _failed(f"the log reader\'s report: {error}")',
            "        return Observation(tuple(ledger.current.extents), failure=str(error))",
            "a report that does not decode is complete",
        ),
        (
            "timeout",
            "        return Observation.failed(Failure.DEADLINE,",
            "        return Observation.failed(Failure.MOUNT_DAMAGED,",
            "a reader that hangs is a loss",
        ),
    ),
    *run(
        f"{_P}/rig/image_open.py",
        (
            "opens-once",
            "    if not open_image(socket, image_format, timeout_s=timeout_s).problem:",
            "    if False:",
            "an image that did not open once is lost",
        ),
        (
            "base-never-asked",
            "    if said := open_base(base, image_format, timeout_s=timeout_s):",
            '    if said := "":',
            "a host without memory has lost every image",
        ),
    ),
    *run(
        f"{_P}/model/failure.py",
        (
            "no-memory-is-a-loss",
            "errno.ENOMEM: Failure.MOUNT_NO_MEMORY",
            "errno.ENOMEM: Failure.MOUNT_DAMAGED",
            "a mount without memory is a loss",
        ),
        (
            "unknown-errno-is-a-loss",
            "_MOUNT.get(error, Failure.MOUNT_UNKNOWN)",
            "_MOUNT.get(error, Failure.MOUNT_REFUSED)",
            "an errno that no rule knows is a loss",
        ),
        (
            "unproved-mount",
            "return Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED",
            "return Failure.MOUNT_REFUSED",
            "an option that the kernel does not know is a loss",
        ),
        (
            "unproved-always",
            "return Failure.MOUNT_REFUSED if proved else Failure.MOUNT_UNPROVED",
            "return Failure.MOUNT_UNPROVED",
            "a superblock that is gone is no loss",
        ),
        (
            "probe-ignored",
            "    if not disk_reads:\n        return Failure.DISK_FAILED\n",
            "",
            "EIO of the host is a loss",
        ),
        (
            "killed-reader-is-a-loss",
            "    if fault is GuestFault.SIGNAL:\n        return Failure.READER_KILLED\n",
            "",
            "what a killed reader said last convicts",
        ),
        (
            "slot-errnos",
            "_SLOT: Final = DAMAGED | {errno.EIO,",
            "_SLOT: Final = DAMAGED | {errno.EIO, errno.ENOMEM,",
            "ENOMEM at a read is a loss",
        ),
    ),
    *run(
        f"{_P}/model/observation.py",
        (
            "trouble-is-complete",
            "        return Observation(extents, complete=False, failure=words, cause=cause)",
            "        return Observation(extents, failure=words, cause=cause)",
            "trouble leaves a complete observation",
        ),
    ),
    *controls(
        f"{_P}/trial/controls.py",
        (
            "small-cache-of-the-liar",
            '        "cache_size": 0,  # a full cache',
            '        "cache_size": 4096,  # a full cache',
            "the lying control has a small cache, which saves records by accident",
        ),
        (
            "cache-of-the-cell",
            '        "cache_size": 0,  # a full cache would save some records by accident\n',
            "",
            "the lying control has the cache of its cell",
        ),
        (
            "no-sync-cache",
            '                "cache_size": 0,\n                "also": _alike(parameters),\n',
            '                "also": _alike(parameters),\n',
            "the control without sync has the cache of its cell",
        ),
        (
            "liar-honours-fua",
            '_LYING: Final = {"flush": Honour.IGNORED, "fua": Honour.IGNORED}',
            '_LYING: Final = {"flush": Honour.IGNORED, "fua": Honour.HONOURED}',
            "the lying control keeps FUA",
        ),
        (
            "liar-without-a-cache",
            '    return {\n        "volatile_cache": True,',
            '    return {\n        "volatile_cache": False,',
            "the lying control has nothing to lose",
        ),
        (
            "control-keeps-the-cache",
            '{"kind": CutKind.POWER_LOSS, "policy": CutPolicy.DROP}',
            '{"kind": CutKind.POWER_LOSS}',
            "a control is cut by the policy of its cell",
        ),
        (
            "control-is-killed-only",
            '{"kind": CutKind.POWER_LOSS, "policy": CutPolicy.DROP}',
            '{"policy": CutPolicy.DROP}',
            "a control is cut as gently as its cell",
        ),
        (
            "control-with-a-plant",
            "    settings = workload.control(kind)",
            "    settings = parameters.workload",
            "a control carries the fault that is planted into its cell",
        ),
        (
            "honest-twin-lies",
            '            changes["disk"] = {**_HONEST, "also": _alike(parameters, *OF_A_MACHINE)}\n',
            "",
            "the honest control has the disk of its cell",
        ),
        (
            "first-disk-speaks-for-all",
            "    return (disk.name, *(other.name for other in disk.also))",
            "    return (disk.name,)",
            "of several disks only the first lies alone",
        ),
        (
            "all-disks-lie-at-once",
            "            other.model_copy(update=_LYING if other.name == disk else _HONEST)",
            "            other.model_copy(update=_LYING)",
            "where the first of several disks lies the others do, too",
        ),
        (
            "one-loss-is-enough",
            "                wanted.add(ControlKind.NO_SYNC)",
            "                pass",
            "SAFE needs one control only",
        ),
        (
            "lossy-without-a-twin",
            "wanted = {ControlKind.HONEST}",
            "wanted = set()",
            "LOSSY needs no control",
        ),
    ),
    *certify(
        f"{_P}/campaign/assemble.py",
        (
            "doubt-forgiven",
            "    return Verdict.INCONCLUSIVE if doubt_of(result) else result.verdict",
            "    return result.verdict",
            "a control that lost nothing in its cut has shown a loss",
        ),
        (
            "contradiction-forgiven",
            "    if any(finding.kind is FindingKind.DISAGREEMENT for finding in result.findings):",
            "    if False:",
            "a control whose recording says otherwise has shown a loss",
        ),
        (
            "missing-control-behaves",
            '"a control without a recording", Verdict.INCONCLUSIVE, ""',
            '"a control without a recording", control.expected, ""',
            "a control that was never run behaved",
        ),
        (
            "controls-unheard",
            "    return max(own, worst), [finding.message",
            "    return own, [finding.message",
            "SAFE stands although its controls misbehaved",
        ),
        (
            "best-trial-counts",
            "            worst = max(trials[cell.name], key=as_control)\n".lstrip(),
            "worst = min(trials[cell.name], key=as_control)\n",
            "the best trial of a cell stands for it as a control",
        ),
    ),
    *certify(
        f"{_P}/certify/follows.py",
        (
            "other-seed",
            "    if told.seed != plan.seed:",
            "    if False:",
            "a run of another seed is certified",
        ),
        (
            "other-cells",
            "    if [cell.cell for cell in told.cells] != planned:",
            "    if False:",
            "a run that leaves a cell out is certified",
        ),
        (
            "fewer-controls",
            "    if listed != wanted and not (own is Verdict.INCONCLUSIVE and set(listed) <= set(wanted)):",
            "    if False:",
            "a cell without its controls is certified",
        ),
        (
            "sums-unchecked",
            "        if getattr(told, key) != getattr(again, key):",
            "        if False:",
            "a verdict that its trials do not add up to is certified",
        ),
        (
            "fewer-trials",
            "    if len(listed) < len(by_number) and worst_of(",
            "    if False and worst_of(",
            "fewer trials than were ordered are certified",
        ),
        (
            "other-recording",
            "        elif (record.parameters, record.trial) != (",
            "        elif not (",
            "a recording of other settings is certified",
        ),
        (
            "worse-trial-left-out",
            "        if place.sealed and place.read_verdict().verdict > told.verdict:",
            "        if False:",
            "a trial that lost may be left out",
        ),
        (
            "other-verdict-beside",
            "    if place.read_verdict() != trial:",
            "    if False:",
            "a verdict other than the one beside its recording is certified",
        ),
        (
            "other-control",
            "    if same_run(place.read_record().parameters) != same_run(meant):",
            "    if not same_run(meant):",
            "a control of another combination vouches",
        ),
        (
            "control-verdict",
            "    if as_control(place.read_verdict()) is not told.verdict:",
            "    if False:",
            "a control is said to have come out as it did not",
        ),
    ),
    *after(
        f"{_P}/workload/wal/check.py",
        (
            "new-acks-forgiven",
            "    new = [LsnRange(later.first_lsn, later.acked)] if",
            "    new = [] if",
            "what is acknowledged after recovery may be lost",
        ),
        (
            "old-acks-forgiven",
            "_check([*required, *new], attempted",
            "_check(new, attempted",
            "what was acknowledged before may be lost after recovery",
        ),
        (
            "standstill-forgiven",
            "    if later.failure and not later.no_room and later.observation.recovered:",
            "    if False:",
            "a file system that refuses to be written has recovered",
        ),
        (
            "full-log-is-a-finding",
            "    if later.failure and not later.no_room and later.observation.recovered:",
            "    if later.failure and later.observation.recovered:",
            "a full log is held against recovery",
        ),
    ),
    *after(
        f"{_P}/recover/uml/answer.py",
        (
            "check-is-a-loss",
            "    if answer.step in _TROUBLE:\n        raise Trouble(answer.reason)",
            "    if answer.step in _TROUBLE - {Step.CHECK}:\n        raise Trouble(answer.reason)",
            "a view that overflowed is an observation",
        ),
        (
            "uml-enomem-is-a-loss",
            "    if not cause.is_finding:\n        raise Trouble(answer.reason, cause)\n"
            "    return Observation.failed(cause, failure)",
            "    return Observation((), recovered=False, failure=failure, cause=cause)",
            "a mount without memory in User-Mode Linux is a loss",
        ),
        (
            "uml-reader-is-complete",
            "    return Observation.failed(cause, failure, extents)",
            "    return Observation(extents, failure=failure, cause=cause)",
            "a reader that failed in User-Mode Linux is complete",
        ),
        (
            "uml-signal-ignored",
            "    signalled = answer.status > _SIGNALLED",
            "    signalled = False",
            "what a killed reader said last convicts in User-Mode Linux",
        ),
        (
            "uml-lost-later",
            "    if answer.after is After.MOUNT:\n"
            "        return Continuation(*claims, _refused(answer, failure))\n",
            "",
            "a second mount that fails is forgiven",
        ),
        (
            "uml-liar-has-no-room",
            "full = answer.error == errno.ENOSPC and not said",
            "full = answer.error == errno.ENOSPC",
            "ENOSPC of a damaged file system is a full disk",
        ),
    ),
)
