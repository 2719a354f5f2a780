from .after_repair import glance_storage, repair_storage, verify_storage
from .durable_map import DurableMap, MemoryMap
from .options import DEFAULT_CACHE_BYTES, storage_options
from .snapshot import StoredQueue
from .storage import Storage

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "DurableMap",
    "MemoryMap",
    "Storage",
    "StoredQueue",
    "glance_storage",
    "repair_storage",
    "storage_options",
    "verify_storage",
]
