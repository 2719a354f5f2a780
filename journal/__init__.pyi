from .cache import ByteBoundedCache
from .committer import Committer, ManualCommitter, ThreadCommitter
from .encountered import write_encountered
from .errors import (
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
from .files import Buffer, Files, OsFiles
from .format import RECORD_HEADER_BYTES
from .items import ITEMS_PREFIX_BYTES, Held, unpack_items_prefix, unpack_several
from .journal import Journal
from .judgement import Finding
from .options import JournalOptions, JournalStatistics
from .reader import Located, StoredItems
from .recovery import Record
from .repair import repair
from .verify import glance, verify

__all__ = [
    "ITEMS_PREFIX_BYTES",
    "RECORD_HEADER_BYTES",
    "Buffer",
    "ByteBoundedCache",
    "Committer",
    "Files",
    "Finding",
    "FormatError",
    "Held",
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
    "glance",
    "repair",
    "unpack_items_prefix",
    "unpack_several",
    "verify",
    "write_encountered",
]
