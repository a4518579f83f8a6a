# SPDX-License-Identifier: Apache-2.0
"""Planted where programs are recorded, read and judged."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.suites import PROGRAMS

_P = "harness/powercut"
program = planter("program", PROGRAMS)

MUTANTS: tuple[Mutant, ...] = (
    *program(
        "guests/uml/stamp.c",
        (
            "guest-does-not-wait",
            "    while ((sent = writev(fd, parts, 2)) < 0 && (errno == EAGAIN || errno == EINTR)) {",
            "    while ((sent = writev(fd, parts, 2)) < 0 && errno == EINTR) {",
            "lines that cannot be sent at once are late, or gone",
        ),
    ),
    *program(
        f"{_P}/channel/line_channel.py",
        (
            "receiver-fails-in-silence",
            "            self._failure = error\n",
            "            del error\n",
            "lines that could not be kept are not missed",
        ),
    ),
    *program(
        f"{_P}/channel/check_lines.py",
        (
            "check-cut-off",
            "            if not self._said.endswith(END_OF_LINES):",
            "            if False:",
            "what a check said is taken for whole although its end never came",
        ),
    ),
    *program(
        f"{_P}/disk/pclog.py",
        (
            "host-failures-unread",
            "if name.startswith(_FAILING))",
            "if name in _FAILING)",
            "marks of a disk that its host failed are not read",
        ),
    ),
    *program(
        f"{_P}/recording/bound.py",
        (
            "damage-forgiven",
            "    doubts = [*damage]",
            "    doubts: list[str] = []",
            "lines that were not kept are forgiven",
        ),
        (
            "host-failure-forgiven",
            "for why in host_failures(timeline)",
            "for why in ()",
            "a disk that its host failed is forgiven",
        ),
        (
            "log-not-closed",
            "    if not timeline.complete:",
            "    if False:",
            "a disk log that was not closed is forgiven",
        ),
        (
            "clock-back",
            "    if any(later < one for one, later in pairwise(instants)):",
            "    if False:",
            "lines may go back in time",
        ),
        (
            "clock-of-another",
            "    if instants and instants[0] < timeline.start_ns:",
            "    if False:",
            "lines may be older than the disk",
        ),
        (
            "another-recordings-log",
            "    check_digest(path, header.binding.digest, binding, str(header.binding))",
            "    del path, binding",
            "the disk log of another recording is taken",
        ),
        (
            "another-contract",
            "    if not differing:\n        return\n    raise DamagedRecording(",
            "    if differing or not differing:\n        return\n    raise DamagedRecording(",
            "the disk log of a disk with another contract is taken",
        ),
    ),
    *program(
        f"{_P}/channel/lines.py",
        (
            "another-recordings-lines",
            "    if not data.startswith(header(binding)):",
            "    if False:",
            "the lines of another recording are taken",
        ),
    ),
    *program(
        f"{_P}/verdict/lines.py",
        (
            "claims-forgiven",
            "    yield from promises.gaps\n",
            "    yield from ()\n",
            "claims that cannot be are forgiven",
        ),
        (
            "few-operations",
            "    if few := too_few_operations(promises.acked):",
            "    if few := too_few_operations(promises.acked + 10):",
            "a run of two operations may be SAFE",
        ),
        (
            "cut-of-another",
            "        if timeline.cut is None or int(timeline.cut.at) != record.cut_ns:",
            "        if timeline.cut is None:",
            "the instant of the cut may be any",
        ),
        (
            "damaged-recording-judged",
            "    if doubts:\n",
            "    if False:\n",
            "what a damaged recording loses is a loss",
        ),
        (
            "gaps-forgiven",
            '{"recording": lambda: gaps.findings}',
            '{"recording": lambda: []}',
            "a recording with gaps may be SAFE",
        ),
        (
            "check-unbelievable",
            "        if not unbelievable and promises",
            "        if promises",
            "a check that finds operations after setup alone is believed",
        ),
        (
            "control-unnoticed",
            "    elif _must_notice(record, judgement) and not _noticed(judgement):",
            "    elif False:",
            "a control that only does not mount vouches for a check",
        ),
    ),
    *program(
        f"{_P}/workload/program/claims.py",
        (
            "acks-after-the-cut",
            "        if line.at_ns >= cut_ns and line.kind is not LineKind.ATTEMPT:",
            "        if False:",
            "what was said after the cut is required",
        ),
        (
            "attempts-before-the-cut",
            "        if line.at_ns >= cut_ns and line.kind is not LineKind.ATTEMPT:",
            "        if line.at_ns >= cut_ns:",
            "an attempt that is announced late was never made",
        ),
        (
            "impossible-claims",
            "        if problem:  # what cannot be is the program's mistake, and requires nothing",
            "        if False:",
            "claims that cannot be are taken",
        ),
        (
            "check-status",
            "    if not observation.complete:",
            "    if False:",
            "a check that failed has looked at everything",
        ),
        (
            "check-trouble",
            "                incomplete.append(line.text)",
            "                pass",
            "trouble of a check is forgiven",
        ),
    ),
    *program(
        f"{_P}/workload/program/promises.py",
        (
            "unmountable-forgiven",
            "        if not observation.recovered and observation.complete:",
            "        if False:",
            "a file system that does not mount is forgiven",
        ),
    ),
    *program(
        f"{_P}/workload/program/check.py",
        (
            "lost-forgiven",
            "        if lost:",
            "        if len(lost) > 1:",
            "one lost operation is forgiven",
        ),
        (
            "silence-is-a-loss",
            "    if not sighting.incomplete:",
            "    if True:",
            "what a check left out that did not look at everything is lost",
        ),
        (
            "wrong-is-there",
            "    if corrupt:\n",
            "    if len(corrupt) > 1:\n",
            "an operation that is wrong is forgiven",
        ),
        (
            "half-is-corrupt",
            "    corrupt = wrong if history.atomic else wrong & required",
            "    corrupt = wrong",
            "half of an operation that was never acknowledged convicts",
        ),
        (
            "atomic-unheard",
            "    corrupt = wrong if history.atomic else wrong & required",
            "    corrupt = wrong & required",
            "a promise of whole operations is not held against what the check says",
        ),
        (
            "phantoms-forgiven",
            "    if phantoms:",
            "    if False:",
            "operations that were never tried may be there",
        ),
        (
            "late-attempts-convict",
            "_phantoms(sighting.present, history.names | attempted)",
            "_phantoms(sighting.present, attempted)",
            "an attempt that is announced late is a loss",
        ),
        (
            "late-attempts-forgiven",
            "    if late:",
            "    if False:",
            "an attempt that is announced late is no trouble",
        ),
        (
            "untried-by-a-liar",
            "        verdict = Verdict.INCONCLUSIVE if silent else Verdict.LOSSY",
            "        verdict = Verdict.LOSSY",
            "a program that breaks its word is convicted by what it did not say",
        ),
        (
            "bad-store",
            "        for text in sighting.bad\n",
            "        for text in sighting.bad[1:]\n",
            "a store that contradicts itself is forgiven",
        ),
    ),
    *program(
        f"{_P}/explore/operation_tally.py",
        (
            "few-operations-in-a-folder",
            "        if few := too_few_operations(acknowledged):",
            "        if few := too_few_operations(acknowledged + 10):",
            "a folder in which two operations were done may be SAFE",
        ),
        (
            "reasons-forgiven",
            "        return Verdict.INCONCLUSIVE if self.reasons or unknown else Verdict.SAFE",
            "        return Verdict.INCONCLUSIVE if unknown else Verdict.SAFE",
            "what speaks against SAFE is listed, and SAFE all the same",
        ),
        (
            "unknown-forgiven",
            "        return Verdict.INCONCLUSIVE if self.reasons or unknown else Verdict.SAFE",
            "        return Verdict.INCONCLUSIVE if self.reasons else Verdict.SAFE",
            "states of which nothing is known are SAFE",
        ),
    ),
)
