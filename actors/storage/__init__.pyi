from .after_repair import glance_storage, repair_storage, verify_storage
from .options import DEFAULT_CACHE_BYTES, storage_options
from .snapshot import StoredQueue
from .storage import Storage

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "Storage",
    "StoredQueue",
    "glance_storage",
    "repair_storage",
    "storage_options",
    "verify_storage",
]
