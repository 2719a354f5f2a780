from .apart import ReadApart
from .backup import BackupFile, BackupWriter, Manifest, read_manifest
from .cache import ByteBoundedCache
from .checkpoint_format import EpochStart
from .committer import Committer, ManualCommitter, ThreadCommitter
from .encountered import write_encountered
from .errors import (
    BackupError,
    FormatError,
    JournalDamagedError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    JournalLockedError,
    JournalMissingError,
    JournalUsageError,
    LogGoneError,
    ReplicaError,
    TransferUnfinishedError,
    UnknownItemError,
)
from .files import Buffer, Files, OsFiles
from .format import RECORD_HEADER_BYTES
from .items import ITEMS_PREFIX_BYTES, Held, unpack_items_prefix, unpack_several
from .journal import Journal
from .judgement import Finding
from .log_reader import LogPiece
from .options import JournalOptions, JournalStatistics
from .pins import Pin, PinnedFile
from .reader import Located, RecordPlace, StoredItems, taken_in
from .recovery import Record
from .repair import repair
from .replicated import ReplicatedJournal
from .restore import back_up_directory, restore
from .setting_aside import Kept, kept, set_aside
from .shipped import Position, ShippedRecord
from .transfer_source import TransferHead, TransferSource
from .transfer_target import TransferTarget
from .truncation import Truncated, diverged_records
from .verify import glance, verify

__all__ = [
    "ITEMS_PREFIX_BYTES",
    "RECORD_HEADER_BYTES",
    "BackupError",
    "BackupFile",
    "BackupWriter",
    "Buffer",
    "ByteBoundedCache",
    "Committer",
    "EpochStart",
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
    "Kept",
    "Located",
    "LogGoneError",
    "LogPiece",
    "Manifest",
    "ManualCommitter",
    "OsFiles",
    "Pin",
    "PinnedFile",
    "Position",
    "ReadApart",
    "Record",
    "RecordPlace",
    "ReplicaError",
    "ReplicatedJournal",
    "ShippedRecord",
    "StoredItems",
    "ThreadCommitter",
    "TransferHead",
    "TransferSource",
    "TransferTarget",
    "TransferUnfinishedError",
    "Truncated",
    "UnknownItemError",
    "back_up_directory",
    "diverged_records",
    "glance",
    "kept",
    "read_manifest",
    "repair",
    "restore",
    "set_aside",
    "taken_in",
    "unpack_items_prefix",
    "unpack_several",
    "verify",
    "write_encountered",
]
