# SPDX-License-Identifier: Apache-2.0
"""Planted in the channel, and in the reader of disk logs."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import CHANNEL, DISK_LOG, LISTENED

_P = "harness/powercut"
channel = planter("channel", CHANNEL)
log = planter("disk-log", DISK_LOG)
heard = planter("listened", LISTENED)

MUTANTS: tuple[Mutant, ...] = (
    *channel(
        f"{_P}/channel/line_channel.py",
        (
            "ended-before-heard",
            At(
                "LineChannel._wait",
                "self.catch_up(timeout_s=min(max(deadline - time.monotonic(), 0), _HEAR_OUT_S))",
            ),
            "None",
            "what a program says just before it ends is taken for never said",
        ),
    ),
    *channel(
        f"{_P}/channel/wire.py",
        (
            "checksum-unchecked",
            At("Decoder._next", "checksum(header, payload) != crc"),
            "False",
            "a message that was damaged on its way counts",
        ),
        (
            "checksum-without-payload",
            At("checksum", "int(google_crc32c.extend(crc, payload)) if payload else crc"),
            "crc",
            "the checksum covers the header alone",
        ),
        (
            "unknown-type-skipped",
            At("Decoder._next", "raise self._damage(f'unknown message type {kind}')"),
            "kind = 11",
            "a message of an unknown type is text",
        ),
        (
            "half-extents",
            At("decode_extents", "len(payload) % EXTENT.size"),
            "False",
            "part of an extent is dropped",
        ),
    ),
    *channel(
        f"{_P}/channel/ledger.py",
        (
            "acks-go-back",
            At("Ledger._claim", "max(self.acked, message.lsn)"),
            "message.lsn",
            "a late ack of an older record takes newer ones back",
        ),
        (
            "attempts-are-acks",
            At("Ledger._claim", "self._attempts.add(message, at_ns)"),
            "self._acks.add(message, at_ns)",
            "what was attempted counts as acknowledged",
        ),
        (
            "errors-dropped",
            At(
                "Ledger.apply",
                (
                    "text = describe_error(message)\n"
                    "current.errors.append(text)\n"
                    "current.failures.append(GuestError(_fault(message), message.value, text))"
                ),
            ),
            (
                "text = describe_error(message)\n"
                "current.failures.append(GuestError(_fault(message), message.value, text))"
            ),
            "what the guest complained of is dropped",
        ),
        (
            "errors-of-the-workload",
            At(
                "Ledger.history",
                "self._errors + (self.current.errors if _workload(self.current) else [])",
            ),
            "self._errors",
            "a workload that failed and was still running is forgiven",
        ),
        (
            "ended-workload-forgiven",
            At("Ledger._done", "self._errors += ended.errors"),
            "pass",
            "a workload that failed and ended is forgiven",
        ),
        (
            "ends-twice",
            At("Ledger._done", "message.lsn in self.results"),
            "False",
            "a command may end twice",
        ),
        (
            "guest-commands",
            At(
                "Ledger.apply",
                "raise DamagedRecording(f'the guest sent a {message.type.name}, which no guest sends on this port')",
            ),
            "str(f'the guest sent a {message.type.name}, which no guest sends on this port')",
            "the guest's commands are skipped",
        ),
        (
            "restarted-and-ready",
            At(
                "Ledger.hand_over",
                "self.current, self.hello, self._kept = (Collection(), None, self.acked)",
            ),
            "self.hello, self._kept = (None, self.acked)",
            "a restarted guest's workload is ready because it was before",
        ),
        (
            "written-again-after-restart",
            At("Ledger._check_continues", "first <= self._kept"),
            "False",
            "a workload that begins again hides what its restart has lost",
        ),
    ),
    *channel(
        f"{_P}/channel/history_file.py",
        (
            "chunk-unchecked",
            At("history_of", "_crc(raw[at:at + _CHECKED.size], data) != crc"),
            "False",
            "a history that was damaged on the host counts",
        ),
        (
            "cut-off-is-complete",
            At(
                "history_of",
                "RecordedHistory(ledger.history(), complete, decoder.unfinished, ledger.latency, digest)",
            ),
            "RecordedHistory(ledger.history(), True, decoder.unfinished, ledger.latency, digest)",
            "a history that was cut off is complete",
        ),
        (
            "goes-on-after-its-end",
            At("history_of", "complete and at != len(raw)"),
            "False",
            "what was added after the end of a history is dropped",
        ),
        (
            "no-receipts",
            At("history_of", "ledger.apply(message, receipt_ns)"),
            "ledger.apply(message, 0)",
            "every ack was received at the beginning",
        ),
        (
            "restart-is-a-move",
            At("HistoryWriter.hand_over", "_RESTART if restarted else _HANDOVER"),
            "_HANDOVER",
            "the file says that a restarted guest has moved",
        ),
        (
            "half-message-after-restart",
            At(
                "history_of",
                (
                    "ledger.hand_over(receipt_ns, restarted=restarted)\n"
                    "decoder = Decoder() if restarted else decoder\n"
                    "at = start"
                ),
            ),
            ("ledger.hand_over(receipt_ns, restarted=restarted)\nat = start"),
            "a message that broke off at a restart goes on in the next boot, in the file",
        ),
    ),
    *channel(
        f"{_P}/channel/guest_channel.py",
        (
            "damage-swallowed",
            At("Receiver._take", "self.fault = error"),
            "del error",
            "damage of the stream is skipped",
        ),
        (
            "hang-up-is-the-end",
            At("Receiver._receive_all", "not self.closing"),
            "True",
            "the controller's own hanging up is the guest's end",
        ),
        (
            "full-host",
            At(
                "Receiver._record",
                (
                    "try:\n"
                    "    self._writer.append(at_ns, data)\n"
                    "except OSError as error:\n"
                    "    self._cannot_record(error)"
                ),
            ),
            ("try:\n    self._writer.append(at_ns, data)\nexcept OSError as error:\n    del error"),
            "a history that the host has no room for is not missed",
        ),
        (
            "half-message-heard-after-restart",
            At(
                "Receiver._handed_over",
                (
                    "self.ledger.hand_over(stopped_ns, restarted=self._restarts)\n"
                    "if self._restarts:\n"
                    "    self._decoder = Decoder()\n"
                    "self.changed.notify_all()"
                ),
            ),
            (
                "self.ledger.hand_over(stopped_ns, restarted=self._restarts)\n"
                "self.changed.notify_all()"
            ),
            "a message that broke off at a restart goes on in the next boot",
        ),
    ),
    *channel(
        f"{_P}/channel/guest_channel.py",
        (
            "failed-workload-waits",
            At(
                "GuestChannel._failure",
                (
                    "errors = self._ledger.current.errors\n"
                    "if errors:\n"
                    "    return '; '.join(errors)\n"
                    "result = self._ledger.results.get(self._started) if self._started else None"
                ),
            ),
            (
                "errors = self._ledger.current.errors\n"
                "result = self._ledger.results.get(self._started) if self._started else None"
            ),
            "a workload that failed is waited for",
        ),
        (
            "status-forgotten",
            At("GuestChannel._failure", "result.status or result.error"),
            "result.error",
            "a workload that ended with a status has ended well",
        ),
        (
            "drain-forgives",
            At(
                "GuestChannel.drain",
                (
                    "if self._receiver.fault:\n"
                    "    raise self._receiver.fault\n"
                    "return self._ledger.history()"
                ),
            ),
            "return self._ledger.history()",
            "damage that was seen while draining is forgiven",
        ),
    ),
    *log(
        f"{_P}/disk/event_log.py",
        (
            "always-closed",
            At(
                "EventReader._closed",
                "bool(len(self._events)) and int(self._events['type'][-1]) == EventType.END",
            ),
            "bool(len(self._events))",
            "a log that breaks off was closed in order",
        ),
        (
            "holes-in-the-log",
            At("EventReader._count_valid", "bad >= 0 and valid[max(bad - start, 0):].any()"),
            "False",
            "a log that is damaged in its midst ends there",
        ),
        (
            "checksums-unchecked",
            At("EventReader._valid", "valid & (crc32c_rows(columns) == block['crc'])"),
            "valid | (columns[:, 0] < 0)",
            "events that were damaged on the host count",
        ),
        (
            "payload-unchecked",
            At(
                "EventReader._payload_is_right",
                "google_crc32c.value(payload.tobytes()) == int(row['data_crc'])",
            ),
            "len(payload) >= 0 and row is not None",
            "payloads that were damaged on the host count",
        ),
        (
            "time-may-fall",
            At("EventReader._check_order", "not rising.all()"),
            "False",
            "events may go back in time",
        ),
        (
            "after-the-cut",
            At("EventReader._check_order", "misplaced.any()"),
            "False",
            "requests may follow the cut",
        ),
    ),
    *log(
        f"{_P}/disk/pclog.py",
        (
            "requests-missing",
            At("_Reader._requests", "self._closed and int(events['request'][-1]) != count"),
            "False",
            "a log that lacks requests is whole",
        ),
        (
            "completed-twice",
            At(
                "_Reader._complete",
                ("again[first] = False\ncheck(again, 'completes a request for the second time')"),
            ),
            ("again[first] = False\npass"),
            "a request may complete twice",
        ),
        (
            "failure-is-completion",
            At(
                "_Reader._complete",
                "completed[request[~failure]] = completions['time_ns'][~failure]",
            ),
            "completed[request] = completions['time_ns']",
            "a request that failed has completed",
        ),
        (
            "survivors-of-others",
            At("_Reader._ranges", "not inside.all()"),
            "False",
            "a cut may leave bytes that no write had",
        ),
        (
            "fua-forgotten",
            At("_Reader._requests", "submits['flags'] & EventFlag.FUA != 0"),
            "submits['flags'] & EventFlag.FUA != submits['flags']",
            "writes with FUA are plain",
        ),
    ),
    *heard(
        "harness/powercut_extras/elsewhere/listened.py",
        (
            "format-missing-crashes",
            At("Listened.open", "(ValueError, KeyError, TypeError)"),
            "(ValueError, TypeError)",
            "a file without a format ends in a traceback",
        ),
        (
            "format-of-a-list-crashes",
            At("Listened.open", "(ValueError, KeyError, TypeError)"),
            "(ValueError, KeyError)",
            "a file that is a list ends in a traceback",
        ),
        (
            "format-unchecked",
            At("Listened.open", "not known"),
            "False",
            "a folder of any other format is read as what was heard",
        ),
        (
            "one-binding-for-all",
            At("_binding", "text.encode()"),
            "b''",
            "lines of one folder are taken for those of another",
        ),
    ),
)
