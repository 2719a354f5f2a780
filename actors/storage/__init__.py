"""What makes queues durable: their events in a journal, recovery from it, and the way back to memory."""

from actors.storage.maintenance import repair_storage, verify_storage
from actors.storage.options import DEFAULT_CACHE_BYTES, storage_options
from actors.storage.snapshot import StoredQueue
from actors.storage.storage import Storage
from journal import JournalOptions, ManualCommitter

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "JournalOptions",
    "ManualCommitter",
    "Storage",
    "StoredQueue",
    "repair_storage",
    "storage_options",
    "verify_storage",
]
