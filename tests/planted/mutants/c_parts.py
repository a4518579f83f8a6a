# SPDX-License-Identifier: Apache-2.0
"""Planted in C: the capture disk, the log reader, the view of User-Mode Linux."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import CAPTURE, READER, VIEW

capture = planter("capture", CAPTURE)
reader = planter("reader", READER)
view = planter("view", VIEW)

_CLASSIFY = "workloads/wal/classify.c"
_CHUNK = "workloads/wal/chunk.c"
_SCAN = "workloads/wal/reader.c"

MUTANTS: tuple[Mutant, ...] = (
    *capture(
        "harness/capture/slow.c",
        (
            "none-slow",
            At("slow_sync_ns", "number % ONE_IN != survive_draw(seed, draws) % ONE_IN"),
            "number % ONE_IN != ONE_IN",
            "no sync is slow: who acknowledges after 30 ms is SAFE",
        ),
        (
            "slow-in-step",
            At("slow_sync_ns", "survive_draw(seed, draws) % ONE_IN"),
            "draws % ONE_IN",
            "the same syncs are slow in every run",
        ),
        (
            "slow-for-150-ms",
            At("slow_sync_ns", "survive_draw(seed, draws + 1) % 4"),
            "draws + 1",
            "no sync takes longer than 150 ms",
        ),
    ),
    *capture(
        "harness/capture/requests.c",
        (
            "slow-flushes-alone",
            At("disk_write", "latency_ns(disk, disk->config.fua_latency_ns)"),
            "disk->config.fua_latency_ns",
            "no write with FUA is slow",
        ),
        (
            "slow-writes-alone",
            At("disk_flush", "latency_ns(disk, disk->config.flush_latency_ns)"),
            "disk->config.flush_latency_ns",
            "no flush is slow",
        ),
        (
            "slow-uncalled",
            At("latency_ns", "disk->config.slow ?"),
            "!disk->config.slow ?",
            "a disk whose latency was set has slow flushes, and no other has",
        ),
    ),
    *capture(
        "harness/capture/cache.c",
        (
            "flush-covers-later",
            At(
                "cache_flush",
                "for (uint64_t number = disk->cache.first; number < horizon; number++) {",
            ),
            (
                "horizon = disk->cache.last;\n"
                "    for (uint64_t number = disk->cache.first; number < horizon; number++) {"
            ),
            "a flush covers what completed while it ran",
        ),
        (
            "flush-covers-less",
            At("cache_flush", "number < horizon; number++"),
            "number + 1 < horizon; number++",
            "a flush forgets the last write before it",
        ),
        (
            "flush-covers-all-disks",
            At("cache_flush", "lies_on(part, extent)"),
            "extent->sector * SECTOR < part->offset + part->length",
            "of several disks, a flush of one covers those before it",
        ),
    ),
    *capture(
        "harness/capture/injected.c",
        (
            "errors-before-they-are-armed",
            At("injection_of", "if (!injections->armed)"),
            "if (!injections->armed && !injections->count)",
            "requests of `setup` fail, too",
        ),
        (
            "one-error-more",
            At("injection_of", "one->made < one->times"),
            "one->made <= one->times",
            "a request fails that was not to",
        ),
        (
            "an-error-late",
            At("is_due", "one->seen >= one->value"),
            "one->seen > one->value",
            "the request after the chosen one fails",
        ),
        (
            "errors-beside-their-place",
            At("is_for", "request->sector < one->sector + one->sectors"),
            "request->sector <= one->sector + one->sectors",
            "a request behind the chosen sectors fails",
        ),
        (
            "errors-of-another-disk",
            At("is_for", "kinds[one->on] && there"),
            "kinds[one->on] && (there || request->flush)",
            "a flush of another disk fails",
        ),
        (
            "rate-is-all-or-none",
            At("is_due", "one->seen - 1"),
            "0",
            "with a rate either all requests fail or none",
        ),
    ),
    *capture(
        "harness/capture/requests.c",
        (
            "failed-flush-is-durable",
            At("complete_flush", "if (!injection && connection->part.flush_honoured)"),
            "if (connection->part.flush_honoured)",
            "a flush that fails makes durable what came before it",
        ),
        (
            "flush-ignored",
            At("complete_flush", "if (!injection && connection->part.flush_honoured)"),
            "if (!injection && !connection->part.flush_honoured)",
            "an honest disk lies, and a lying one is honest",
        ),
        (
            "fua-is-plain",
            At("durable_at_once", "!(event->flags & PCLOG_IGNORED));"),
            "(event->flags & PCLOG_IGNORED));",
            "FUA is kept by disks that ignore it only",
        ),
        (
            "no-cache-is-a-cache",
            At("durable_at_once", "return !volatile_cache(disk) || (event"),
            "return (false && volatile_cache(disk)) || (event",
            "a disk without a cache loses completed writes",
        ),
        (
            "failed-flush-covers",
            At("complete_flush", "if (!injection && connection->part.flush_honoured)"),
            "if (connection->part.flush_honoured)",
            "a flush that was told to have failed makes writes durable all the same",
        ),
        (
            "failed-write-is-read",
            At("submit_write", "if (!*injection || (*injection)->kept)"),
            "if (true)",
            "a write that failed and is lost can be read",
        ),
        (
            "read-failure-unmarked",
            At("disk_read", "log_read_failure(&disk->log, error);"),
            "(void)error;",
            "reads that the host fails are not marked",
        ),
        (
            "read-after-the-cut",
            At("disk_read", "return powered(connection) && !is_dark(connection) ? error : EIO;"),
            "return error;",
            "a guest reads on after the power is gone",
        ),
        (
            "unaligned-write",
            At("disk_write", "if (!count || offset % SECTOR || count % SECTOR)"),
            "if (!count || offset % SECTOR)",
            "parts of sectors are written",
        ),
    ),
    *capture(
        "harness/capture/lose.c",
        (
            "one-loses-nothing",
            At("keep_old", "disk->current.entries[at] == disk->medium.entries[at]"),
            "true",
            "a node that loses its power keeps its disk's cache",
        ),
        (
            "one-loses-for-now",
            At("flush", "return error ? error : complete(disk, &event);"),
            "return error;",
            "what a node has lost may come back with the next cut, by the log",
        ),
        (
            "one-keeps-power",
            At("disk_lose", "disk->dark |= bit;"),
            "",
            "a node's disk takes writes after its power is gone",
        ),
        (
            "one-of-all",
            At("collect", "extent->sectors && lies_on(loss->part, extent)"),
            "extent->sectors",
            "a node that loses its power takes others' caches with it",
        ),
    ),
    *capture(
        "harness/capture/cut.c",
        (
            "drop-keeps",
            At("choose", "bool keep = policy == PCLOG_POLICY_KEEP ||"),
            "bool keep = policy != PCLOG_POLICY_PREFIX ||",
            "a cut that drops keeps everything",
        ),
        (
            "prefix-is-one-longer",
            At("choose", "policy == PCLOG_POLICY_PREFIX && i < prefix"),
            "policy == PCLOG_POLICY_PREFIX && i <= prefix",
            "a prefix is one write longer than drawn",
        ),
        (
            "in-flight-forgotten",
            At("collect", "cut->items[cut->count++].extent = at->extent;"),
            "(void)at;",
            "what is in flight never survives",
        ),
        (
            "survivors-unapplied",
            At("log_survivors", "error = survive(cut, item);"),
            "(void)survive;",
            "what survived by the log is not on the medium",
        ),
        (
            "completion-order",
            At("by_submission", "return a < b ? -1 : a > b;"),
            "return a < b ? 1 : a > b ? -1 : 0;",
            "of two survivors in one place the older shows",
        ),
        (
            "guests-see-the-cache",
            At("restart", "view_revert(&disk->current, &disk->medium, &cut->items[i].extent);"),
            "(void)i;",
            "after the cut the guest still sees what was dropped",
        ),
        (
            "old-connections-live",
            At("cut_power", "disk->generation++;"),
            "disk->generation += 0;",
            "requests from before the cut go on after it",
        ),
        (
            "tear-takes-all",
            At("patch", "memcpy(sector + (from - start), written + (from - start), to - from);"),
            "memcpy(sector, written, SECTOR + 0 * (to - from));",
            "a sector of which a part survived survives whole",
        ),
        (
            "newer-is-torn",
            At("patch", "if (shown > one.entry && shown < 2 * cut->patch_unit)"),
            "if (false && shown < 2 * cut->patch_unit)",
            "a newer durable write is torn by an older one",
        ),
    ),
    *capture(
        "harness/capture/survive.c",
        (
            "never-torn",
            At("survive_random", "if (fate == 1)"),
            "if (fate >= 1)",
            "random cuts never tear a write",
        ),
        (
            "never-lost",
            At("survive_random", ("if (fate == 0)\n        return nothing;")),
            ("if (fate == 0)\n        return write;"),
            "random cuts never lose a write as a whole",
        ),
        (
            "torn-anywhere",
            At("survive_random", "uint64_t to = from + kept * atomic_unit;"),
            "uint64_t to = from + kept * atomic_unit - 1;",
            "random cuts tear within the atomic unit",
        ),
    ),
    *capture(
        "harness/capture/log.c",
        (
            "end-unlogged",
            At(
                "log_end",
                (
                    "struct pclog_event event = {.type = PCLOG_END, .request = requests};\n"
                    "    return log_event(log, &event);"
                ),
            ),
            ("(void)requests;\n    return log->failure;"),
            "a log that was closed in order does not say so",
        ),
        (
            "full-host-unmarked",
            At(
                "log_admit",
                'mark_failure(log, "refusing requests", error); /* into the slack, else statistics tell */',
            ),
            "",
            "a disk that its host has no room for does not say so",
        ),
        (
            "checksum-of-the-event",
            At("log_event", "event->crc = crc32c(0, event, offsetof(struct pclog_event, crc));"),
            "event->crc = 0;",
            "events carry no checksum",
        ),
    ),
    *capture(
        "harness/capture/medium.c",
        (
            "older-wins",
            At("view_apply", "if (view->entries[extent->sector + i] < entry)"),
            "if (!view->entries[extent->sector + i] || view->entries[extent->sector + i] > entry)",
            "of two writes to one place the older shows",
        ),
        (
            "last-sector-lost",
            At(
                "view_apply",
                "for (uint64_t i = 0; i < extent->sectors; i++, entry += extent->step)",
            ),
            "for (uint64_t i = 0; i + 1 < extent->sectors || !i; i++, entry += extent->step)",
            "the last sector of a write is not applied",
        ),
        (
            "zeroes-are-the-base",
            At(
                "run_at",
                "bool joins = run.step || !run.entry ? next == expected : next && !(next & 1);",
            ),
            "bool joins = run.step || !run.entry ? next == expected : !(next & 1);",
            "what was never written reads as zeroes behind zeroes",
        ),
    ),
    *reader(
        _CLASSIFY,
        (
            "run-unchecked",
            At("is_intact", ("memcmp(h.run_id, run->id, 16) != 0 ||\n        !wal_fits")),
            ("\n        !wal_fits"),
            "a record of another run is intact",
        ),
        (
            "place-unchecked",
            At(
                "is_intact",
                "!wal_fits(layout, s->number, h.lsn) || h.position != wal_position(layout, s->number) ||",
            ),
            "h.position != wal_position(layout, s->number) ||",
            "a record that cannot stand in its slot is intact",
        ),
        (
            "position-unchecked",
            At(
                "is_intact",
                "!wal_fits(layout, s->number, h.lsn) || h.position != wal_position(layout, s->number) ||",
            ),
            "!wal_fits(layout, s->number, h.lsn) ||",
            "a record whose header names another place is intact",
        ),
        (
            "generation-unchecked",
            At(
                "is_intact",
                "h.generation != wal_generation(layout, h.lsn) || h.stream >= WAL_STREAMS_MAX ||",
            ),
            "h.stream >= WAL_STREAMS_MAX ||",
            "a record of another generation is intact",
        ),
        (
            "stream-unchecked",
            At(
                "is_intact",
                "h.generation != wal_generation(layout, h.lsn) || h.stream >= WAL_STREAMS_MAX ||",
            ),
            "h.generation != wal_generation(layout, h.lsn) ||",
            "a record of a stream that cannot be is intact",
        ),
        (
            "length-unchecked",
            At(
                "is_intact",
                (
                    "h.length != layout->record - WAL_CHUNK ||\n"
                    "        h.payload_crc != pc_crc32c(0, s->data + WAL_CHUNK, h.length))"
                ),
            ),
            "h.payload_crc != pc_crc32c(0, s->data + WAL_CHUNK, layout->record - WAL_CHUNK))",
            "a record whose header names another length is intact",
            "`attribute_header` looks at the length first (`reader-header-length`), and a header of "
            "another one is nobody's then",
        ),
        (
            "payload-crc-unchecked",
            At(
                "is_intact",
                (
                    "h.length != layout->record - WAL_CHUNK ||\n"
                    "        h.payload_crc != pc_crc32c(0, s->data + WAL_CHUNK, h.length))"
                ),
            ),
            "h.length != layout->record - WAL_CHUNK)",
            "a record whose checksum is wrong is intact",
        ),
        (
            "words-unchecked",
            At("is_intact", "if (word != wal_word(run->key, h.stream, h.lsn, i))"),
            "if (word != wal_word(run->key, h.stream, h.lsn, i) && !h.length)",
            "payload that another record would have is intact",
        ),
        (
            "last-word-unchecked",
            At("is_intact", "for (uint32_t i = 0; i < h.length / 8; i++) {"),
            "for (uint32_t i = 0; i + 1 < h.length / 8; i++) {",
            "the last word of a record is not compared",
            "the checksum of the payload, compared before, covers that word, and CRC-32C finds "
            "every change within 32 bits; only a payload made for it passes",
        ),
        (
            "corrupt-is-torn",
            At("summarize", "if (chunk->author == WAL_NOBODY && summary.corrupt == UINT32_MAX)"),
            "if (false && summary.corrupt == UINT32_MAX)",
            "bytes that nobody wrote are torn",
        ),
        (
            "misdirected-is-torn",
            At("summarize", "if (chunk->author == WAL_ELSEWHERE && !summary.elsewhere)"),
            "if (false && !summary.elsewhere)",
            "a record of another slot is no finding",
        ),
        (
            "older-is-absent",
            At("summarize", "if (chunk->author == WAL_OLDER && !summary.older)"),
            "if (false && !summary.older)",
            "an older generation is absent",
        ),
        (
            "whole-but-wrong",
            At(
                "conclude",
                "} else if (s->newest.author == WAL_HERE && summary->right == summary->sectors) {",
            ),
            "} else if (false && summary->right == summary->sectors) {",
            "a header whose account of the payload is wrong is torn",
        ),
    ),
    *reader(
        _CHUNK,
        (
            "header-generation",
            At(
                "attribute_header", "if (header->generation != wal_generation(layout, header->lsn))"
            ),
            "if (false)",
            "a header of another generation is at home",
        ),
        (
            "header-length",
            At("attribute_header", "else if (header->length != layout->record - WAL_CHUNK)"),
            "else if (false)",
            "a header of another length is at home",
            "the length is compared again where a whole record is (`reader-length-unchecked`); without "
            "both the forged headers of the tests are found intact",
        ),
        (
            "header-stream",
            At("attribute_header", "else if (header->stream >= WAL_STREAMS_MAX)"),
            "else if (false)",
            "a header of a stream that cannot be is at home",
        ),
        (
            "header-elsewhere",
            At(
                "attribute_header",
                (
                    "if (index != 0 || header->position != wal_position(layout, slot) ||\n"
                    "        !wal_fits(layout, slot, header->lsn)) {"
                ),
            ),
            "if (index != 0 || (slot && !slot)) {",
            "a header of another place is at home",
        ),
        (
            "seven-words",
            At("decode_words", "for (unsigned i = 1; i < WORDS; i++) {"),
            "for (unsigned i = 1; i + 1 < WORDS; i++) {",
            "seven words of eight make a chunk",
        ),
    ),
    *reader(
        _SCAN,
        (
            "zero-instead-of-error",
            At("read_at", ("if (n < 0)\n            return errno;")),
            ("if (n < 0)\n            break;"),
            "what cannot be read reads as zeroes",
        ),
        (
            "batch-error-forgotten",
            At("scan_file", "int slot_error = error ? read_at("),
            "int slot_error = error && false ? read_at(",
            "one bad sector makes a batch of garbage",
        ),
        (
            "tail-unread",
            At(
                "scan_file",
                "uint64_t there = size > start ? (size - start + stride - 1) / stride : 0;",
            ),
            "uint64_t there = size > start ? (size - start) / stride : 0;",
            "a record that the file ends in is absent",
        ),
        (
            "runs-unlearned",
            At("scan_slot", "if (extent.state == PC_SLOT_CORRUPT && !s->learned) {"),
            "if (false && !s->learned) {",
            "what an older run left is corrupt",
        ),
        (
            "malloc-in-learn",
            At(
                "learn",
                (
                    "if (!data)\n"
                    '        return wal_fail(s->failure, ENOMEM, "malloc");\n'
                    "    s->learned"
                ),
            ),
            ("if (!data)\n        return 0;\n    s->learned"),
            "without memory what an older run left is corrupt",
        ),
        (
            "folder-is-a-file",
            At("open_file", "if (fd >= 0 && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {"),
            "if (false && status.st_mode) {",
            "a folder is a log without end",
        ),
        (
            "readdir-error",
            At(
                "list_segments",
                (
                    "if (error)\n"
                    '        return wal_fail(s->failure, error, "readdir %s", s->config->path);'
                ),
            ),
            "(void)error;",
            "a folder that cannot be read to its end has no more segments",
        ),
        (
            "open-error",
            At("scan_single", 'return wal_fail(s->failure, error, "open %s", s->config->path);'),
            'return error ? sink_fact(s, "file=missing") : 0;',
            "a log that cannot be opened is not there",
        ),
        (
            "segment-skipped",
            At(
                "scan_segment",
                (
                    "failed = add_extent(s, (struct pc_extent){first, s->layout.per_file, 0,\n"
                    "                                                  PC_SLOT_UNREADABLE, (uint32_t)errno});"
                ),
            ),
            "failed = 0;",
            "a segment that cannot be opened is absent",
        ),
        (
            "status-zero",
            At(
                "wal_read_run",
                (
                    'fprintf(stderr, "wal: %s: %s\\n", failure.call, strerror(failure.error));\n'
                    "        return 1;"
                ),
            ),
            (
                'fprintf(stderr, "wal: %s: %s\\n", failure.call, strerror(failure.error));\n'
                "        return 0;"
            ),
            "a reader that failed ends with status 0",
        ),
    ),
    *view(
        "guests/uml/view.c",
        (
            "view-lives-on",
            At(
                "view_fresh",
                'if (dm_swap(VIEW, page->disk_size / 512, "snapshot", parameters) != 0)',
            ),
            'if (turn && dm_swap(VIEW, page->disk_size / 512, "snapshot", parameters) != 0)',
            "what every second recovery wrote is seen by the next",
        ),
        (
            "one-store",
            At("view_fresh", "turn ^= 1;"),
            "turn |= 1;",
            "two views share one store",
        ),
        (
            "patches-dropped",
            At("view_patch", "for (index = 0; index < page->count; index++)"),
            "for (index = 0; index + 1 < page->count; index++)",
            "the last patch of a state is not laid",
        ),
        (
            "overflow-forgiven",
            At("view_check", "if (strchr(line, '/') == NULL) {"),
            "if (strlen(line) > 9999) {",
            "a view that overflowed is believed",
        ),
        (
            "reads-not-cleared",
            At(
                "view_track",
                'return tracked == 0 || dm_message(VIEW, "@stats_clear 0", NULL, 0) == 0',
            ),
            "return tracked == 0 || tracked != 0",
            "reads of the last recovery are this one's",
        ),
        (
            "reads-missed",
            At("view_reads", ("if (count == 0)\n            continue;")),
            ("if (count <= 1)\n            continue;"),
            "a granule that was read once was not read",
        ),
    ),
    *view(
        "guests/uml/recover.c",
        (
            "no-second-mount",
            At(
                "go_on",
                ("if (fs_umount() != 0)\n        return -1;\n    named ="),
            ),
            "named =",
            "the log is read again from the page cache",
        ),
        (
            "writer-forgiven",
            At("go_on", "page->after = wrote ? PCU_AFTER_DONE : PCU_AFTER_WRITER;"),
            "page->after = wrote ? PCU_AFTER_DONE : PCU_AFTER_DONE;",
            "a writer that failed after recovery went on",
        ),
        (
            "second-reader-forgiven",
            At("go_on", "page->after = PCU_AFTER_READER;"),
            "page->after = PCU_AFTER_DONE;",
            "a second reading that failed came to its end",
        ),
    ),
)
