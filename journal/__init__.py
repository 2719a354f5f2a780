"""The append-only segment log that makes the broker durable. The format is specified in journal/format.py."""

from journal.cache import ByteBoundedCache
from journal.committer import Committer, ManualCommitter, ThreadCommitter
from journal.encountered import write_encountered
from journal.errors import (
    FormatError,
    JournalDamagedError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    JournalLockedError,
    JournalMissingError,
    JournalUsageError,
    UnknownItemError,
)
from journal.files import Buffer, Files, OsFiles
from journal.format import ITEMS_PREFIX_BYTES, RECORD_HEADER_BYTES, unpack_items_prefix
from journal.journal import Journal, Record
from journal.judgement import Finding
from journal.options import JournalOptions, JournalStatistics
from journal.reader import Located, StoredItems
from journal.repair import repair
from journal.verify import verify

__all__ = [
    "ITEMS_PREFIX_BYTES",
    "RECORD_HEADER_BYTES",
    "Buffer",
    "ByteBoundedCache",
    "Committer",
    "Files",
    "Finding",
    "FormatError",
    "Journal",
    "JournalDamagedError",
    "JournalError",
    "JournalFailedError",
    "JournalFullError",
    "JournalLockedError",
    "JournalMissingError",
    "JournalOptions",
    "JournalStatistics",
    "JournalUsageError",
    "Located",
    "ManualCommitter",
    "OsFiles",
    "Record",
    "StoredItems",
    "ThreadCommitter",
    "UnknownItemError",
    "repair",
    "unpack_items_prefix",
    "verify",
    "write_encountered",
]
