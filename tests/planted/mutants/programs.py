# SPDX-License-Identifier: Apache-2.0
"""Planted where programs are recorded, read and judged."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import (
    CAUSES,
    CLOCKS,
    ENVIRONMENT,
    LAYERS,
    LOOP,
    NATIVE,
    OUTSIDE,
    POSITIVE,
    PROGRAMS,
    READS,
)

_P = "harness/powercut"
program = planter("program", PROGRAMS)
positive = planter("positive", POSITIVE)
reads = planter("reads", READS)
outside = planter("outside", OUTSIDE)
causes = planter("causes", CAUSES)
clocks = planter("clocks", CLOCKS)
native = planter("native", NATIVE)
layers = planter("layers", LAYERS)
loop = planter("loop", LOOP)
environment = planter("environment", ENVIRONMENT)

MUTANTS: tuple[Mutant, ...] = (
    *program(
        f"{_P}/trial/contract.py",
        (
            "unfinished-after-its-ack",
            At("_states", "min([int(space.sets.durable_ns[number]), *ends])"),
            "max([int(space.sets.durable_ns[number]), *ends])",
            "a dry run looks at operations that are acknowledged, and calls them unfinished",
        ),
        (
            "unfinished-lacks-nothing",
            At("_states", "tuple((one for one in volatile if one != number))"),
            "tuple(volatile)",
            "a dry run looks at no state that lacks a write",
        ),
    ),
    *program(
        f"{_P}/trial/contract.py",
        (
            "torn-is-fine",
            At("_torn", "number in state.operations"),
            "False",
            "a check that calls an unfinished operation wrong keeps the contract",
        ),
    ),
    *outside(
        f"{_P}/model/outside.py",
        (
            "link-out-of-dir-is-none",
            At("led_out", "Path(file).is_relative_to(place)"),
            "file == place",
            "a link to a folder outside of DIR is no doubt",
        ),
        (
            "cut-list-is-whole",
            At("led_out", "left.cut"),
            "False",
            "a link that leads to what could not be listed is no doubt",
        ),
        (
            "nothing-in-dir-is-no-doubt",
            At("Outside.doubt", "self.files and self.alone"),
            "False",
            "a program of which DIR holds nothing is SAFE",
        ),
        (
            "a-pid-file-is-a-doubt",
            At("Outside.doubt", "self.files and self.alone"),
            "self.files",
            "an honest program with a file in /tmp is INCONCLUSIVE",
        ),
        (
            "scratch-by-its-beginning",
            At("_lies_in", "Path(path).is_relative_to(place)"),
            "path.startswith(place)",
            "what is declared hides places that are called alike",
        ),
    ),
    *outside(
        f"{_P}/verdict/judge.py",
        (
            "outside-unjudged",
            At("_blind", "record.outside is not None and record.outside.doubt"),
            "False",
            "values that lie outside of DIR acquit a program",
        ),
    ),
    *outside(
        f"{_P}/verdict/untested.py",
        (
            "outside-unknown-unsaid",
            At(
                "untested_of_program", "found and record.outside is None and record.control is None"
            ),
            "False",
            "that nothing tells what lies outside of DIR is not said",
        ),
    ),
    *outside(
        f"{_P}/verdict/folder.py",
        (
            "folder-outside-unjudged",
            At("_reasons", "if outside.doubt:\n    yield outside.doubt"),
            "yield from ()",
            "a captured folder that holds nothing is SAFE",
        ),
    ),
    *outside(
        f"{_P}/sandbox/check.py",
        (
            "list-has-no-end",
            At("left_in", "bool(errors) or len(found) > _LEFT_MAX"),
            "False",
            "a list that was cut off is taken for whole",
        ),
    ),
    *layers(
        f"{_P}/rig/commands.py",
        (
            "not-activated",
            At("recovery_plan", "layers=_layers_of(parameters)"),
            "layers=None",
            "recovery reads the lowest disk, past the layers",
        ),
    ),
    *layers(
        f"{_P}/scenario/layers.py",
        (
            "journal-dropped",
            At("IntegrityMode.word", "{'journal': 'J', 'bitmap': 'B', 'direct': 'D'}"),
            "{'journal': 'D', 'bitmap': 'B', 'direct': 'D'}",
            "a layer with a journal is activated without it",
        ),
        (
            "all-on-the-disk",
            At("stack_of", "made = layer.over(f'layer{number}.{place}', under)"),
            "made = layer.over(f'layer{number}.{place}', [Device('disk0', under[0].sectors)])",
            "each layer lies on the disk, past those below it",
        ),
    ),
    *layers(
        f"{_P}/scenario/layers.py",
        (
            "image-honest",
            At("File.over", "self.cache"),
            "'writeback'",
            "a hypervisor that drops flushes passes them on, and past the page cache is through it",
        ),
        (
            "image-unsafe-is-safe",
            At("File.drops_flushes", "self.cache == 'unsafe'"),
            "False",
            "an image whose flushes are dropped is said to be safe",
        ),
    ),
    *layers(
        f"{_P}/scenario/layers.py",
        (
            "missing-comes-back",
            At("Raid.over", "'' if self.missing is None else table(words, self._left(pairs))"),
            "''",
            "an array that is to miss a disk after the cut has all of them",
        ),
        (
            "missing-before-the-cut",
            At(
                "Raid.over",
                "Target(name, room, 'raid', table(words, pairs), made=made, after=after)",
            ),
            "Target(name, room, 'raid', after or table(words, pairs), made=made, after=after)",
            "the disk that does not come back was never written to",
        ),
    ),
    *layers(
        f"{_P}/recover/uml/answer.py",
        (
            "layer-refused-once",
            At("borne_out", "again.cause is not Failure.LAYER_REFUSED"),
            "False",
            "a layer that was refused once is held against the state",
        ),
        (
            "trouble-is-damage",
            At("_refused", "not cause.is_finding"),
            "False",
            "a kernel without memory for a layer is a loss",
        ),
    ),
    *layers(
        f"{_P}/trial/controls.py",
        (
            "honest-below-layers",
            At("twin", "{**_HONEST, 'layers': (), 'also': _unlayered(parameters)}"),
            "{**_HONEST, 'also': _unlayered(parameters)}",
            "the honest control has the layers that are under test",
        ),
        (
            "half-of-a-mirror-lies",
            At("_lying", "disk in (None, other.name)"),
            "other.name == disk",
            "below a mirror one disk of the lying control keeps its promises",
        ),
    ),
    *clocks(
        f"{_P}/crash/clock.py",
        (
            "small-step-unseen",
            At("_Envelope.at", "np.maximum(left, right)"),
            "np.minimum(left, right)",
            "a step smaller than the window moves bounds past the truth",
        ),
        (
            "drift-unseen",
            At("bound_clock", "_drift(above, sum(rates) / 2)"),
            "0.0",
            "a drift that contradicts nothing moves bounds past the truth",
        ),
    ),
    *causes(
        f"{_P}/witness/later_step.py",
        (
            "early-ack-blames-a-later-step",
            At("later_step", "operation in judge.judge(_issued(space, acked_ns + 1)).lsns"),
            "False",
            "a later step is blamed where the ack came before the write",
        ),
        (
            "no-write-blamed",
            At("_taken_by", "operation not in judge.judge(without).lsns"),
            "False",
            "the write that takes an operation away is not named",
        ),
        (
            "durable-taker-unsaid",
            At("_taken_by", "operation in judge.judge(older).lsns"),
            "False",
            "what takes an operation away is said to be several writes where it is durable",
        ),
    ),
    *native(
        f"{_P}/recover/native/engine.py",
        (
            "copy-believed-of-owners",
            At("NativeEngine._is_sample", "self._tree_peculiar not in self._peculiar"),
            "False",
            "what a copy cannot have is not looked at in the guest",
        ),
        (
            "owners-cost-a-safe",
            At("NativeEngine._sampled", "self._tree_peculiar in self._peculiar"),
            "True",
            "a check that looks at owners is INCONCLUSIVE, since the copy has others",
        ),
        (
            "cluster-asked-on-the-host",
            At("NativeEngine.__init__", "plan.host.nodes"),
            "False",
            "a cluster's check is asked on the host, where it has no nodes",
        ),
    ),
    *native(
        f"{_P}/recover/native/inside.py",
        (
            "shared-memory-stays",
            At("Checker._fresh", "forget_shared()"),
            "None",
            "a check finds the shared memory of the one before it",
        ),
        (
            "times-of-files-not-there",
            At("unpack", "os.utime(path, ns=times, follow_symlinks=False)"),
            "None",
            "a check finds the times at which the copy was made",
        ),
        (
            "times-of-folders-not-there",
            At("unpack", "os.utime(path, ns=times)"),
            "None",
            "a check finds the times at which the copy of a folder was made",
        ),
    ),
    *environment(
        f"{_P}/rig/environment.py",
        (
            "unread-counts-as-not-named",
            At("withheld", "_named(missing, own, _OWN_MAX) if own else None"),
            "_named(missing, own, _OWN_MAX) if own else set()",
            "the variables of a program whose files cannot be read are counted, not named",
        ),
        (
            "large-counts-as-not-named",
            At("_named", "None if whole else found"),
            "found",
            "a variable that the end of a large program names is counted, not named",
        ),
        (
            "beside-not-read",
            At("withheld", "files_beside(parameters)"),
            "[]",
            "a variable that only a script beside the program names is counted, not named",
        ),
        (
            "between-pieces",
            At("_named", "part[-overlap:]"),
            "b''",
            "a variable is not found where a file is cut in pieces for reading",
        ),
    ),
    *environment(
        f"{_P}/verdict/untested.py",
        (
            "withheld-untold",
            At("untested_of_program", "if record.withheld.words:\n    yield record.withheld.words"),
            "pass",
            "a verdict keeps quiet about variables that did not reach the program",
        ),
    ),
    *loop(
        f"{_P}/rig/loop_guest.py",
        (
            "program-outlives-its-disk",
            At("LoopGuest.kill", "self._stop_program()"),
            "None",
            "a program that ignores errors acknowledges while its disk dies",
        ),
        (
            "disk-dies-before-the-answer",
            At("LoopGuest._stop_program", "said != 'stopped'"),
            "False",
            "a program that may have seen its disk die is believed",
        ),
    ),
    *program(
        "guests/uml/stamp.c",
        (
            "guest-does-not-wait",
            At(
                "write",
                "while ((sent = writev(fd, parts, 2)) < 0 && (errno == EAGAIN || errno == EINTR)) {",
            ),
            "while ((sent = writev(fd, parts, 2)) < 0 && errno == EINTR) {",
            "lines that cannot be sent at once are late, or gone",
        ),
    ),
    *program(
        f"{_P}/channel/line_channel.py",
        (
            "receiver-fails-in-silence",
            At("LineChannel._receive", "self._failure = error"),
            "del error",
            "lines that could not be kept are not missed",
        ),
    ),
    *program(
        f"{_P}/channel/check_lines.py",
        (
            "check-cut-off",
            At("CheckLines.wait_end", "not self._said.endswith(END_OF_LINES)"),
            "False",
            "what a check said is taken for whole although its end never came",
        ),
    ),
    *program(
        f"{_P}/disk/pclog.py",
        (
            "host-failures-unread",
            At("failing_marks", "name.startswith(_FAILING)"),
            "name in _FAILING",
            "marks of a disk that its host failed are not read",
        ),
    ),
    *environment(
        f"{_P}/trial/job.py",
        (
            "pressed-by-word-alone",
            At("RecordingInProgress.press", "how()"),
            "None",
            "a kernel that is to write back early is not told to",
        ),
    ),
    *environment(
        f"{_P}/trial/system.py",
        (
            "kernel-left-alone",
            At(
                "KernelSystem.make_ready",
                "partial(channel.press, run.run.seed, timeout_s=run.deadline.remaining_s)",
            ),
            "lambda: None",
            "User-Mode Linux writes back nothing before a sync",
        ),
        (
            "pressed-unasked",
            At(
                "KernelSystem.pressed",
                "self._channel.pressed(timeout_s=self._run.deadline.at_least(GRACE_S))",
            ),
            "Pressed(1, 1)",
            "a recording says that its kernel was pressed, whatever came of it",
        ),
    ),
    *program(
        f"{_P}/rig/commands.py",
        (
            "page-cache-left-alone",
            At("is_pressed", "return parameters.workload.writeback is Writeback.PRESSED"),
            "return False",
            "the recorded kernel writes back nothing before a sync",
        ),
    ),
    *program(
        f"{_P}/verdict/untested.py",
        (
            "unpressed-unsaid",
            At("untested_of_program", "not record.pressed.writebacks"),
            "record.pressed.writebacks",
            "that the kernel was not made to write back early is not said",
        ),
        (
            "no-neighbour-unsaid",
            At("untested_of_program", "not record.pressed.commits"),
            "record.pressed.commits > 10**9",
            "that nobody else committed in a run is not said",
        ),
        (
            "usual-writeback-unsaid",
            At("untested_of", "record.parameters.workload.writeback is Writeback.USUAL"),
            "False",
            "that the kernel was not to write back early is not said",
        ),
    ),
    *program(
        f"{_P}/recording/sealed.py",
        (
            "damage-forgiven",
            At("doubts_of", "doubts = [*damage]"),
            "doubts: list[str] = []",
            "lines that were not kept are forgiven",
        ),
        (
            "host-failure-forgiven",
            At("doubts_of", "host_failures(timeline)"),
            "()",
            "a disk that its host failed is forgiven",
        ),
        (
            "log-not-closed",
            At("doubts_of", "not timeline.complete"),
            "False",
            "a disk log that was not closed is forgiven",
        ),
        (
            "clock-back",
            At("doubts_of", "any((later < one for one, later in pairwise(instants)))"),
            "False",
            "lines may go back in time",
        ),
        (
            "clock-of-another",
            At("doubts_of", "instants and instants[0] < timeline.start_ns"),
            "False",
            "lines may be older than the disk",
        ),
        (
            "another-recordings-log",
            At(
                "_check_header",
                (
                    "if header.binding.run_id != binding.run_id:\n"
                    "    raise DamagedRecording(f'{path}: it is the log of another run ({header.binding}), and trial.json beside it is of {binding}', hint=_HINT)\n"
                    "check_digest(path, header.binding.digest, binding, str(header.binding))"
                ),
            ),
            (
                "if header.binding.run_id != binding.run_id:\n"
                "    raise DamagedRecording(f'{path}: it is the log of another run ({header.binding}), and trial.json beside it is of {binding}', hint=_HINT)\n"
                "del path, binding"
            ),
            "the disk log of another recording is taken",
        ),
        (
            "another-contract",
            At("_check_contract", "not differing"),
            "differing or not differing",
            "the disk log of a disk with another contract is taken",
        ),
    ),
    *program(
        f"{_P}/channel/lines.py",
        (
            "another-recordings-lines",
            At("unpack", "not data.startswith(header(binding))"),
            "False",
            "the lines of another recording are taken",
        ),
    ),
    *program(
        f"{_P}/verdict/judge.py",
        (
            "errors-that-were-not-met",
            At("_not_met", "not injected_errors(timeline)"),
            "False",
            "a disk that was to make errors and made none is good enough",
        ),
        (
            "claims-forgiven",
            At("_gaps_of", "(yield from promises.gaps)"),
            "(yield from ())",
            "claims that cannot be are forgiven",
        ),
        (
            "few-operations",
            At("_gaps_of", "too_few_operations(promises.acked)"),
            "too_few_operations(promises.acked + 10)",
            "a run of two operations may be SAFE",
        ),
        (
            "cut-of-another",
            At(
                "OperationsClaimed.__init__",
                "timeline.cut is None or int(timeline.cut.at) != record.cut_ns",
            ),
            "timeline.cut is None",
            "the instant of the cut may be any",
        ),
        (
            "damaged-recording-judged",
            At(
                "OperationsClaimed.weighed",
                "if self._doubts:\n    return without_conviction(judgement, '; '.join(self._doubts))",
            ),
            "pass",
            "what a damaged recording loses is a loss",
        ),
    ),
    *program(
        f"{_P}/verdict/judge.py",
        (
            "gaps-forgiven",
            At("judge_recording", "lambda: gaps.findings"),
            "lambda: []",
            "a recording with gaps may be SAFE",
        ),
    ),
    *program(
        f"{_P}/verdict/judge.py",
        (
            "check-unbelievable",
            At(
                "OperationsClaimed.checkers",
                "not unbelievable and promises is not None and (seen is not None)",
            ),
            "promises is not None and seen is not None",
            "a check that finds operations after setup alone is believed",
        ),
        (
            "control-unnoticed",
            At(
                "OperationsClaimed.weighed",
                "_must_notice(self._sealed.record, judgement) and (not _noticed(judgement))",
            ),
            "False",
            "a control that only does not mount vouches for a check",
        ),
    ),
    *program(
        f"{_P}/workload/program/claims.py",
        (
            "acks-after-the-cut",
            At("_line_by_line", "line.at_ns >= cut_ns and line.kind is not LineKind.ATTEMPT"),
            "False",
            "what was said after the cut is required",
        ),
        (
            "attempts-before-the-cut",
            At("_line_by_line", "line.at_ns >= cut_ns and line.kind is not LineKind.ATTEMPT"),
            "line.at_ns >= cut_ns",
            "an attempt that is announced late was never made",
        ),
        (
            "impossible-claims",
            At("_line_by_line", ("if problem:\n    trouble.add(problem)\n    continue")),
            ("if False:\n    trouble.add(problem)\n    continue"),
            "claims that cannot be are taken",
        ),
        (
            "promise-of-the-past",
            At("_too_late", "line.kind in (LineKind.ATOMIC, LineKind.PROMISE)"),
            "False",
            "a promise counts that is made after the first attempt",
        ),
        (
            "prefix-in-any-order",
            At("_too_late", "line.first <= last"),
            "False",
            "a prefix may be of operations in any order",
        ),
        (
            "check-status",
            At("sighting_of", "not observation.complete"),
            "False",
            "a check that failed has looked at everything",
        ),
        (
            "check-trouble",
            At(
                "sighting_of",
                (
                    "match line.kind:\n"
                    "    case LineKind.PRESENT:\n"
                    "        present.append(LsnRange(line.first, line.last))\n"
                    "    case LineKind.WRONG:\n"
                    "        wrong.append((line.first, line.text))\n"
                    "    case LineKind.BAD:\n"
                    "        bad.append(line.text)\n"
                    "    case LineKind.TROUBLE:\n"
                    "        incomplete.append(line.text)\n"
                    "    case _:\n"
                    "        pass"
                ),
            ),
            (
                "match line.kind:\n"
                "    case LineKind.PRESENT:\n"
                "        present.append(LsnRange(line.first, line.last))\n"
                "    case LineKind.WRONG:\n"
                "        wrong.append((line.first, line.text))\n"
                "    case LineKind.BAD:\n"
                "        bad.append(line.text)\n"
                "    case LineKind.TROUBLE:\n"
                "        pass\n"
                "    case _:\n"
                "        pass"
            ),
            "trouble of a check is forgiven",
        ),
    ),
    *program(
        f"{_P}/workload/program/promises.py",
        (
            "unmountable-forgiven",
            At("ProgramPromises.check", "not observation.recovered and observation.complete"),
            "False",
            "a file system that does not mount is forgiven",
        ),
    ),
    *program(
        f"{_P}/workload/program/check.py",
        (
            "lost-forgiven",
            At(
                "check_operations",
                (
                    "if lost:\n"
                    "    findings.append(_of(FindingKind.LOST, lost, _NOT_THERE[history.keeps]))"
                ),
            ),
            (
                "if len(lost) > 1:\n"
                "    findings.append(_of(FindingKind.LOST, lost, _NOT_THERE[history.keeps]))"
            ),
            "one lost operation is forgiven",
        ),
        (
            "silence-is-a-loss",
            At("check_operations", "not sighting.incomplete"),
            "True",
            "what a check left out that did not look at everything is lost",
        ),
        (
            "wrong-is-there",
            At(
                "check_operations",
                (
                    "if corrupt:\n"
                    "    what = f'there and wrong ({_reasons(sighting, corrupt)})'\n"
                    "    findings.append(_of(FindingKind.CORRUPT, corrupt, what))"
                ),
            ),
            (
                "if len(corrupt) > 1:\n"
                "    what = f'there and wrong ({_reasons(sighting, corrupt)})'\n"
                "    findings.append(_of(FindingKind.CORRUPT, corrupt, what))"
            ),
            "an operation that is wrong is forgiven",
        ),
        (
            "half-is-corrupt",
            At("check_operations", "wrong if history.atomic else wrong & required"),
            "wrong",
            "half of an operation that was never acknowledged convicts",
        ),
        (
            "atomic-unheard",
            At("check_operations", "wrong if history.atomic else wrong & required"),
            "wrong & required",
            "a promise of whole operations is not held against what the check says",
        ),
        (
            "holes-forgiven",
            At("_broken", "one < last"),
            "False",
            "of a prefix nothing is lost",
        ),
        (
            "tails-convict",
            At("_broken", "one < last"),
            "True",
            "the end of what was acknowledged is lost, though only a prefix was promised",
        ),
        (
            "holes-of-another-life",
            At("_broken", "missing - promised"),
            "missing",
            "what was acknowledged in a later life is a hole of the first",
        ),
        (
            "lives-in-one-order",
            At("check_operations", "attempted - tried"),
            "attempted",
            "what is there of a later life makes a hole of the first one's end",
        ),
        (
            "opens-asked-for-acks",
            At("_broken", "frozenset()"),
            "missing",
            "a program that promises only to open is asked for its acks",
        ),
        (
            "phantoms-forgiven",
            At(
                "_never_tried",
                (
                    "if phantoms:\n"
                    "    count = sum((len(span) for span in phantoms))\n"
                    "    message = f'{count} operations are there and were never tried: {LsnRange.text_of(phantoms)}'\n"
                    "    silent = history.trouble or history.by_receipt\n"
                    "    verdict = Verdict.INCONCLUSIVE if silent else Verdict.LOSSY\n"
                    "    findings.append(Finding(FindingKind.NEVER_ATTEMPTED, verdict, message, tuple(phantoms)))"
                ),
            ),
            (
                "if False:\n"
                "    count = sum((len(span) for span in phantoms))\n"
                "    message = f'{count} operations are there and were never tried: {LsnRange.text_of(phantoms)}'\n"
                "    silent = history.trouble or history.by_receipt\n"
                "    verdict = Verdict.INCONCLUSIVE if silent else Verdict.LOSSY\n"
                "    findings.append(Finding(FindingKind.NEVER_ATTEMPTED, verdict, message, tuple(phantoms)))"
            ),
            "operations that were never tried may be there",
        ),
        (
            "late-attempts-convict",
            At("_never_tried", "history.names | attempted"),
            "attempted",
            "an attempt that is announced late is a loss",
        ),
        (
            "late-attempts-forgiven",
            At(
                "_never_tried",
                (
                    "if late:\n"
                    "    message = f'{len(late)} operations are there whose attempt was announced later: {LsnRange.text_of(lsn_ranges(late))}; `? N` comes before anything that N does'\n"
                    "    findings.append(Finding.unknown(message))"
                ),
            ),
            (
                "if False:\n"
                "    message = f'{len(late)} operations are there whose attempt was announced later: {LsnRange.text_of(lsn_ranges(late))}; `? N` comes before anything that N does'\n"
                "    findings.append(Finding.unknown(message))"
            ),
            "an attempt that is announced late is no trouble",
        ),
        (
            "untried-by-a-liar",
            At("_never_tried", "Verdict.INCONCLUSIVE if silent else Verdict.LOSSY"),
            "Verdict.LOSSY",
            "a program that breaks its word is convicted by what it did not say",
        ),
        (
            "bad-store",
            At(
                "check_operations",
                '[Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, f"the program\'s check says: {text}") for text in sighting.bad]',
            ),
            '[Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, f"the program\'s check says: {text}") for text in sighting.bad[1:]]',
            "a store that contradicts itself is forgiven",
        ),
    ),
    *program(
        f"{_P}/verdict/folder.py",
        (
            "few-operations-in-a-folder",
            At("_reasons", "too_few_operations(len(recording.history.acked))"),
            "too_few_operations(len(recording.history.acked) + 10)",
            "a folder in which two operations were done may be SAFE",
        ),
        (
            "few-states-of-a-folder",
            At("_reasons", "coverage.distinct < STATES_MIN"),
            "coverage.distinct < 0",
            "a folder of which few states were looked at may be SAFE",
        ),
        (
            "reasons-forgiven",
            At("verdict_of_capture", "[*map(Finding.unknown, reasons)]"),
            "[]",
            "what speaks against SAFE is listed, and SAFE all the same",
        ),
        (
            "unknown-forgiven",
            At(
                "verdict_of_capture",
                "[Finding(one.kind, one.verdict, '') for one in explored.findings]",
            ),
            "[Finding(x.kind, x.verdict, '') for x in explored.findings if x.verdict is Verdict.LOSSY]",
            "states of which nothing is known are SAFE",
        ),
        (
            "second-cuts-forgiven",
            At(
                "verdict_of_capture",
                "[Finding(one.kind, one.verdict, '') for one in explored.findings]",
            ),
            "[Finding(x.kind, x.verdict, '') for x in explored.findings if x.verdict is not Verdict.LOSSY"
            " or explored.coverage.lossy > explored.coverage.recovery_lossy]",
            "what only a cut during the check loses is no loss",
        ),
        (
            "control-of-a-folder-forgiven",
            At("_reasons", "control is not Verdict.LOSSY"),
            "False",
            "a folder's control that loses nothing is forgiven",
        ),
        (
            "control-of-a-folder-contradicts-itself",
            At("_control", "any((finding.kind in _NOTICED for finding in seen.control))"),
            "seen.control",
            "a folder's control that only contradicts itself counts",
        ),
    ),
    *positive(
        f"{_P}/model/positive.py",
        (
            "always-passes",
            At("PositiveControl.passed", "not self.missing and (not self.trouble)"),
            "not self.trouble",
            "a check that misses what is there is believed",
        ),
    ),
    *positive(
        f"{_P}/workload/program/positive.py",
        (
            "wrong-counts",
            At(
                "found_in",
                "seen.those_present(acknowledged) - {operation for operation, _ in seen.wrong}",
            ),
            "seen.those_present(acknowledged)",
            "what a check calls wrong where nothing was lost counts as found",
        ),
        (
            "bad-forgiven",
            At("found_in", "f'the check says: {seen.bad[0]}' if seen.bad else ''"),
            "''",
            "a check that calls every store bad is believed",
        ),
        (
            "short-run-suffices",
            At("_of_run", "len(acknowledged) >= wanted"),
            "len(acknowledged)",
            "a run that acknowledged less shows that the check sees all",
        ),
        (
            "late-ones-count",
            At("_of_run", "_acknowledged(later)[:wanted]"),
            "_acknowledged(later)",
            "operations that were under way when a run was killed count as missed by the check",
        ),
    ),
    *positive(
        f"{_P}/verdict/states.py",
        (
            "states-convict",
            At(
                "_believable",
                "result.commits_acked and (result.positive is None or not result.positive.passed)",
            ),
            "False",
            "crash states convict by a check that does not see what is there",
        ),
    ),
    *positive(
        f"{_P}/verdict/judge.py",
        (
            "cut-convicts",
            At("_unbelieved", "positive is not None and (not positive.passed)"),
            "False",
            "the cut convicts by a check that does not see what is there",
        ),
    ),
    *reads(
        f"{_P}/verdict/judge.py",
        (
            "blind-believed",
            At("_blind", "record.reads is not None and record.reads.blind"),
            "False",
            "a check that reads none of the files that were written is believed",
        ),
    ),
    *reads(
        f"{_P}/verdict/untested.py",
        (
            "unknown-untold",
            At(
                "untested_of_program", "found and record.reads is None and (record.control is None)"
            ),
            "False",
            "that nothing is known of what a check reads is not said",
        ),
    ),
    *reads(
        f"{_P}/verdict/judge.py",
        (
            "creation-believed",
            At("_blind", "record.creation is not None and record.creation.doubt"),
            "False",
            "a store that survives no power cut after its creation is believed",
        ),
    ),
    *reads(
        f"{_P}/trial/positive.py",
        (
            "memory-unlisted-is-empty",
            At("_note_reads", "LeftFiles(cut=True)"),
            "LeftFiles()",
            "in a virtual machine values outside of DIR by a link acquit a program",
        ),
        (
            "link-out-of-a-guest-dropped",
            At("_note_reads", "run.left is not None or outside.led_out"),
            "run.left is not None",
            "the same, since what a link says there counts for nothing",
        ),
        (
            "other-answer-read",
            At("_note_reads", "workload.same(seen, sealed.observation)"),
            "True",
            "what a check reads that says something else is that of the one that counts",
        ),
    ),
    *reads(
        f"{_P}/rig/recovery.py",
        (
            "guest-lists-no-contents",
            At("_Guest._check", "self._listed(contents=True)"),
            "self._listed(contents=False)",
            "in a virtual machine what `setup` overwrote without a sync is whole",
        ),
        (
            "guest-watches-too-late",
            At("_Guest._check", "not self._reads.by_check"),
            "self._reads.by_check",
            "in a virtual machine no check reads anything",
        ),
    ),
    *reads(
        f"{_P}/trial/system.py",
        (
            "first-ack-syncs",
            At("GuestSystem.start", "unsynced=unsynced"),
            "unsynced=unsynced and dated",
            "a cell without syncs looks at its creation with its syncs kept",
        ),
    ),
    *reads(
        f"{_P}/trial/record.py",
        (
            "second-look-fails-in-silence",
            At("Preparation._second_look", "unknown=str(error)"),
            "unknown=''",
            "that nothing is known of the first ack reads as a loss there",
        ),
        (
            "check-unasked-at-the-first-ack",
            At("Preparation._second_look", "'; '.join((one.message for one in missed))"),
            "''",
            "a store of two files whose name in one is never synced by `setup` is SAFE",
        ),
        (
            "first-ack-of-the-disk-s-end",
            At("durable_at_first_ack", "int(requirements.ack_ns[0]) + 1"),
            "int(requirements.ack_ns[-1]) + 1",
            "a store of `setup` that is synced after the first ack was durable by it",
        ),
        (
            "first-ack-keeps-what-is-volatile",
            At("durable_at_first_ack", "everything=False"),
            "everything=True",
            "the same of a store whose writes were completed, and not durable",
        ),
    ),
    *reads(
        f"{_P}/model/creation.py",
        (
            "missed-at-the-first-ack-believed",
            At("Creation.doubt", "self.missed"),
            "False",
            "the same, since what the check misses there counts for nothing",
        ),
        (
            "short-is-whole",
            At("creation_of", "there.get(one.path) != (one.size, one.crc)"),
            "one.path not in there",
            "a file of `setup` that a power cut leaves empty is whole",
        ),
        (
            "stale-is-whole",
            At("creation_of", "(one.size, one.crc)"),
            "(one.size, there.get(one.path, (0, 0))[1])",
            "a file that `setup` overwrote without a sync is whole",
        ),
        (
            "stale-at-the-first-ack",
            At("creation_at_ack", "(stale and size == files[path] == whole[path][0])"),
            "False",
            "what `setup` overwrote without a sync is durable by the first ack, since it has a size",
        ),
        (
            "overwritten-by-run-is-stale",
            At("creation_at_ack", "there.get(path) == first.get(path)"),
            "there.get(path) != whole[path]",
            "what `run` has written over it is a loss of what `setup` made",
        ),
        (
            "removed-is-kept",
            At("creation_at_ack", "sum(map(bool, files.values()))"),
            "len(files)",
            "a file of `setup` that `run` removes is one that the store still has",
        ),
        (
            "later-is-late",
            At("creation_at_ack", "size < files[path]"),
            "files[path]",
            "what `run` makes durable before its first ack is lost all the same",
        ),
    ),
    *reads(
        f"{_P}/model/reads.py",
        (
            "one-is-enough",
            At("CheckReads.blind", "len(self.unread) < self.written"),
            "len(self.unread) <= self.written",
            "a check is never blind, whatever it leaves unread",
        ),
        (
            "overwritten-not-written",
            At(
                "reads_of",
                "known.get(file.path) != (file.size, file.modified_ns, file.changed_ns)",
            ),
            "file.path not in known",
            "a file that is written in place does not count as written",
        ),
        (
            "by-modification-alone",
            At(
                "reads_of",
                "{file.path: (file.size, file.modified_ns, file.changed_ns) for file in before}",
            ),
            (
                "{f.path: (f.size, f.modified_ns, g.changed_ns) "
                "for f in before for g in after if f.path == g.path}"
            ),
            "a program that puts back a file's time has not written it",
        ),
    ),
)
