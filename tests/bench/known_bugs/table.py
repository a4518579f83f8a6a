# SPDX-License-Identifier: Apache-2.0
"""Every fault, with its source."""

from __future__ import annotations

from typing import Final

from bench.known_bugs import file_systems, pages, planted, servers, stores
from bench.known_bugs.case import Fault

_PLANTED: Final = "docs/measured/mutants.md"
_GITHUB: Final = "https://github.com"
_LINUX: Final = "https://git.kernel.org/linus"

FAULTS: Final = (
    Fault(
        "disk-ignores-flushes", "planted",
        "a disk that ignores flushes", _PLANTED, planted.of_disk(flush=False),
    ),
    Fault(
        "disk-ignores-fua", "planted",
        "a disk that ignores FUA, under a log that relies on it", _PLANTED,
        planted.of_disk(fua=False, by_fua=True),
    ),
    Fault(
        "log-not-synced", "planted",
        "a log that is never synced", _PLANTED, planted.of_log(skip=1),
    ),
    Fault(
        "log-skips-a-sync", "planted",
        "one commit in 32 is not synced", _PLANTED, planted.of_log(skip=32),
    ),
    Fault(
        "ack-ahead-of-sync", "planted",
        "one commit in 32 is acknowledged before its sync", _PLANTED, planted.of_log(ahead=32),
    ),
    Fault(
        "group-skips-a-sync", "planted",
        "one group commit of four records in 16 is not synced", _PLANTED,
        planted.of_log(group=4, skip=16),
    ),
    Fault(
        "leveldb-manifest-not-synced", "program",
        "CURRENT names a manifest that was not synced",
        f"{_GITHUB}/google/leveldb/issues/189", stores.store(sync_manifest=False),
    ),
    Fault(
        "leveldb-old-log-not-synced", "program",
        "a sync of the new log acknowledges what is in the old one",
        f"{_GITHUB}/google/leveldb/issues/193", stores.log_not_synced,
    ),
    Fault(
        "leveldb-unlink-before-rename", "program",
        "old files are removed before the rename of CURRENT is durable",
        f"{_GITHUB}/google/leveldb/issues/195", stores.store(folder_after_current=False),
    ),
    Fault(
        "leveldb-table-not-synced", "program",
        "a table is named before it was synced: an empty one is there after a crash",
        f"{_GITHUB}/apache/horaedb/issues/394", stores.store(sync_table=False),
    ),
    Fault(
        "mongo-rocks-log-not-in-folder", "program",
        "the folder is not synced after a new log was made",
        f"{_GITHUB}/mongodb-partners/mongo-rocks/issues/35",
        stores.store(folder_after_log=False, folder_before_current=False,
                     folder_after_current=False),
    ),
    Fault(
        "rocksdb-ingested-file", "program",
        "the folder is not synced after a table was ingested",
        f"{_GITHUB}/facebook/rocksdb/issues/5287", stores.ingested,
    ),
    Fault(
        "pebble-marker-before-manifest", "program",
        "one sync of the folder covers a manifest and the marker that names it",
        f"{_GITHUB}/cockroachdb/pebble/pull/5915", stores.marker,
    ),
    Fault(
        "redis-rewritten-log", "program",
        "the folder is not synced after the log was rewritten",
        f"{_GITHUB}/redis/redis/issues/3487", servers.rewritten_log,
    ),
    Fault(
        "redis-saved-snapshot", "program",
        "the folder is not synced after dump.rdb was renamed",
        f"{_GITHUB}/redis/redis/pull/10737", servers.saved_snapshot,
    ),
    Fault(
        "etcd-wal-segment", "program",
        "the folder is not synced after a segment got its name",
        f"{_GITHUB}/etcd-io/etcd/issues/6368", servers.wal_segments,
    ),
    Fault(
        "etcd-received-snapshot", "program",
        "the log refers to a snapshot whose name is not durable",
        f"{_GITHUB}/etcd-io/etcd/issues/22340", servers.received_snapshot,
    ),
    Fault(
        "etcd-consistent-index", "program",
        "the index of what was applied is stored before what was applied",
        f"{_GITHUB}/etcd-io/etcd/issues/13766", servers.consistent_index,
    ),
    Fault(
        "etcd-repair-not-synced", "program",
        "the log is cut off before its copy is durable",
        f"{_GITHUB}/etcd-io/etcd/pull/21372", servers.repaired_log,
    ),
    Fault(
        "postgresql-recycled-segment", "program",
        "the folder is not synced after a segment was recycled",
        f"{_GITHUB}/postgres/postgres/commit/1d4a0ab19a7e45aa8b94d7f720d1d9cefb81ec40",
        servers.recycled_segment,
    ),
    Fault(
        "postgresql-full-page-writes-off", "program",
        "pages are torn, and the log has no image of them",
        "https://www.postgresql.org/docs/current/wal-reliability.html", pages.full_page_writes,
    ),
    Fault(
        "innodb-doublewrite-off", "program",
        "pages are torn, and there is no copy of them",
        "https://dev.mysql.com/doc/refman/8.0/en/innodb-doublewrite-buffer.html",
        pages.doublewrite,
    ),
    Fault(
        "sqlite-journal-comes-back", "program",
        "the folder is not synced after the journal was removed (synchronous below EXTRA)",
        "https://www.sqlite.org/pragma.html#pragma_synchronous", pages.rollback_journal,
    ),
    Fault(
        "rename-without-sync", "program",
        "a file is replaced by one that was not synced",
        "https://bugs.launchpad.net/ubuntu/+source/linux/+bug/317781", pages.zero_length,
    ),
    Fault(
        "git-objects-not-synced", "program",
        "a ref names objects that were not synced (core.fsync before 2.36)",
        "https://git-scm.com/docs/git-config#Documentation/git-config.txt-corefsync",
        pages.loose_objects,
    ),
    Fault(
        "bolt-size-not-synced", "program",
        "the size of a file that grew is not durable by fdatasync of ext3 and early ext4",
        f"{_GITHUB}/boltdb/bolt/issues/284", pages.growing_file,
    ),
    Fault(
        "doltlite-collected-garbage", "program",
        "the folder is not synced after the store was compacted",
        f"{_GITHUB}/dolthub/doltlite/pull/509", pages.collected_garbage,
    ),
    Fault(
        "ext4-barrier-0", "file system",
        "the journal sends no flush",
        "https://docs.kernel.org/admin-guide/ext4.html", file_systems.no_barrier,
    ),
    Fault(
        "jbd2-commit-not-ordered", "file system",
        "the commit block is sent with its transaction, as before the barrier of async commit",
        f"{_LINUX}/0e3d2a6313d03413d93327202a60256d1d726fdc", file_systems.commit_not_ordered,
    ),
    Fault(
        "ext4-async-commit-ordered", "file system",
        "journal_async_commit with data=ordered shows stale data",
        f"{_LINUX}/d4f761074353b9aa42a3bdd039d78e1af5f5f29f", file_systems.async_commit,
    ),
    Fault(
        "jbd-tail-in-cache", "file system",
        "the tail of the log is advanced without FUA",
        f"{_LINUX}/fd2cbd4dfa3db477dd6226d387d3f1911d36a6a9", file_systems.tail_in_cache,
    ),
    Fault(
        "jbd2-checkpoint-not-flushed", "file system",
        "transactions are dropped before what they changed is durable",
        f"{_LINUX}/cc3e1bea5d87635c519da657303690f5538bb4eb",
        file_systems.checkpoint_not_flushed,
    ),
    Fault(
        "fsync-without-flush", "file system",
        "fsync of a committed transaction sends no flush",
        f"{_LINUX}/cc3e1bea5d87635c519da657303690f5538bb4eb", file_systems.fsync_without_flush,
    ),
    Fault(
        "superblock-torn", "file system",
        "a superblock under one checksum, on a disk that tears at 512 bytes",
        "docs/crash-model.md", file_systems.torn_superblock,
    ),
)  # fmt: skip
