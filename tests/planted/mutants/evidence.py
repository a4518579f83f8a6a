# SPDX-License-Identifier: Apache-2.0
"""Planted in the channel, and in the reader of disk logs."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.suites import CHANNEL, DISK_LOG

_P = "harness/powercut"
channel = planter("channel", CHANNEL)
log = planter("disk-log", DISK_LOG)

MUTANTS: tuple[Mutant, ...] = (
    *channel(
        f"{_P}/channel/wire.py",
        (
            "checksum-unchecked",
            "        if checksum(header, payload) != crc:",
            "        if False:",
            "a message that was damaged on its way counts",
        ),
        (
            "checksum-without-payload",
            "int(google_crc32c.extend(crc, payload)) if payload else crc",
            "crc",
            "the checksum covers the header alone",
        ),
        (
            "unknown-type-skipped",
            '            raise self._damage(f"unknown message type {kind}")',
            "            kind = 11",
            "a message of an unknown type is text",
        ),
        (
            "half-extents",
            "    if len(payload) % EXTENT.size:",
            "    if False:",
            "part of an extent is dropped",
        ),
    ),
    *channel(
        f"{_P}/channel/ledger.py",
        (
            "acks-go-back",
            "self.acked = max(self.acked, message.lsn)",
            "self.acked = message.lsn",
            "a late ack of an older record takes newer ones back",
        ),
        (
            "attempts-are-acks",
            "            self._attempts.add(message, at_ns)\n            self._check",
            "            self._acks.add(message, at_ns)\n            self._check",
            "what was attempted counts as acknowledged",
        ),
        (
            "errors-dropped",
            "                current.errors.append(text)\n",
            "",
            "what the guest complained of is dropped",
        ),
        (
            "errors-of-the-workload",
            "        errors = self._errors + (self.current.errors if _workload(self.current) else [])",
            "        errors = self._errors",
            "a workload that failed and was still running is forgiven",
        ),
        (
            "ended-workload-forgiven",
            "            self._errors += ended.errors",
            "            pass",
            "a workload that failed and ended is forgiven",
        ),
        (
            "ends-twice",
            "        if message.lsn in self.results:",
            "        if False:",
            "a command may end twice",
        ),
        (
            "guest-commands",
            "            case MessageType.COMMAND | MessageType.PING | MessageType.LINES:\n                raise DamagedRecording(",
            "            case MessageType.COMMAND | MessageType.PING | MessageType.LINES:\n                str(",
            "the guest's commands are skipped",
        ),
        (
            "restarted-and-ready",
            "        self.current, self.hello, self._kept = Collection(), None, self.acked",
            "        self.hello, self._kept = None, self.acked",
            "a restarted guest's workload is ready because it was before",
        ),
        (
            "written-again-after-restart",
            "        if first <= self._kept:",
            "        if False:",
            "a workload that begins again hides what its restart has lost",
        ),
    ),
    *channel(
        f"{_P}/channel/history_file.py",
        (
            "chunk-unchecked",
            "        if _crc(raw[at : at + _CHECKED.size], data) != crc:",
            "        if False:",
            "a history that was damaged on the host counts",
        ),
        (
            "cut-off-is-complete",
            "    return RecordedHistory(ledger.history(), complete, decoder",
            "    return RecordedHistory(ledger.history(), True, decoder",
            "a history that was cut off is complete",
        ),
        (
            "goes-on-after-its-end",
            "    if complete and at != len(raw):",
            "    if False:",
            "what was added after the end of a history is dropped",
        ),
        (
            "no-receipts",
            "            ledger.apply(message, receipt_ns)",
            "            ledger.apply(message, 0)",
            "every ack was received at the beginning",
        ),
        (
            "restart-is-a-move",
            "_CHECKED.pack(stopped_ns, _RESTART if restarted else _HANDOVER)",
            "_CHECKED.pack(stopped_ns, _HANDOVER)",
            "the file says that a restarted guest has moved",
        ),
        (
            "half-message-after-restart",
            "            decoder = Decoder() if restarted else decoder\n",
            "",
            "a message that broke off at a restart goes on in the next boot, in the file",
        ),
    ),
    *channel(
        f"{_P}/channel/receiver.py",
        (
            "damage-swallowed",
            "        except PowercutError as error:\n            self.fault = error",
            "        except PowercutError as error:\n            del error",
            "damage of the stream is skipped",
        ),
        (
            "hang-up-is-the-end",
            "return not self.closing  # hanging",
            "return True  # hanging",
            "the controller's own hanging up is the guest's end",
        ),
        (
            "full-host",
            "        except OSError as error:\n            self._cannot_record(error)\n\n    def _cannot",
            "        except OSError as error:\n            del error\n\n    def _cannot",
            "a history that the host has no room for is not missed",
        ),
        (
            "half-message-heard-after-restart",
            "            if self._restarts:\n                self._decoder = Decoder()\n",
            "",
            "a message that broke off at a restart goes on in the next boot",
        ),
    ),
    *channel(
        f"{_P}/channel/guest_channel.py",
        (
            "failed-workload-waits",
            '        if errors:\n            return "; ".join(errors)\n        result',
            "        result",
            "a workload that failed is waited for",
        ),
        (
            "status-forgotten",
            "        if result and (result.status or result.error):",
            "        if result and result.error:",
            "a workload that ended with a status has ended well",
        ),
        (
            "drain-forgives",
            "            if self._receiver.fault:\n                raise self._receiver.fault\n            return self._ledger.history()",
            "            return self._ledger.history()",
            "damage that was seen while draining is forgiven",
        ),
    ),
    *log(
        f"{_P}/disk/event_log.py",
        (
            "always-closed",
            '        return bool(len(self._events)) and int(self._events["type"][-1]) == EventType.END',
            "        return bool(len(self._events))",
            "a log that breaks off was closed in order",
        ),
        (
            "holes-in-the-log",
            "            if bad >= 0 and valid[max(bad - start, 0) :].any():",
            "            if False:",
            "a log that is damaged in its midst ends there",
        ),
        (
            "checksums-unchecked",
            '        return np.asarray(valid & (crc32c_rows(columns) == block["crc"]))',
            "        return np.asarray(valid | (columns[:, 0] < 0))",
            "events that were damaged on the host count",
        ),
        (
            "payload-unchecked",
            'return bool(google_crc32c.value(payload.tobytes()) == int(row["data_crc"]))',
            "return bool(len(payload) >= 0 and row is not None)",
            "payloads that were damaged on the host count",
        ),
        (
            "time-may-fall",
            "        if not rising.all():",
            "        if False:",
            "events may go back in time",
        ),
        (
            "after-the-cut",
            "        if misplaced.any():",
            "        if False:",
            "requests may follow the cut",
        ),
    ),
    *log(
        f"{_P}/disk/pclog.py",
        (
            "requests-missing",
            '        if self._closed and int(events["request"][-1]) != count:',
            "        if False:",
            "a log that lacks requests is whole",
        ),
        (
            "completed-twice",
            '            check(again, "completes a request for the second time")',
            "            pass",
            "a request may complete twice",
        ),
        (
            "failure-is-completion",
            '        completed[request[~failure]] = completions["time_ns"][~failure]',
            '        completed[request] = completions["time_ns"]',
            "a request that failed has completed",
        ),
        (
            "survivors-of-others",
            "        if not inside.all():",
            "        if False:",
            "a cut may leave bytes that no write had",
        ),
        (
            "fua-forgotten",
            'fua=(submits["flags"] & EventFlag.FUA) != 0',
            'fua=(submits["flags"] & EventFlag.FUA) != submits["flags"]',
            "writes with FUA are plain",
        ),
    ),
)
