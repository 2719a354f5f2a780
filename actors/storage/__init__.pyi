from .after_repair import glance_storage, repair_storage, verify_storage
from .backups import BackupWriting, backup_storage, restore_storage
from .durable_map import DurableMap, MemoryMap
from .node_shipping import ShippedRecord
from .options import DEFAULT_CACHE_BYTES, storage_options
from .pinned import PinnedJournal, pin_journal
from .snapshot import StoredQueue
from .storage import Storage
from .troubled_files import TroubledFiles

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "BackupWriting",
    "DurableMap",
    "MemoryMap",
    "PinnedJournal",
    "ShippedRecord",
    "Storage",
    "StoredQueue",
    "TroubledFiles",
    "backup_storage",
    "glance_storage",
    "pin_journal",
    "repair_storage",
    "restore_storage",
    "storage_options",
    "verify_storage",
]
