"""The name of the queue that dead letters go to where none is declared."""

from __future__ import annotations

import hashlib

DEAD_LETTER_SUFFIX = ".dead"
MAX_NAME_BYTES = 255
"""The longest name of a queue, in UTF-8."""
DIGEST_DIGITS = 16
"""Of a digest of the name that is cut: so many that no two queues share their dead letters by chance."""


def dead_letter_name(queue: str) -> str:
    """The queue's own name with ``.dead`` after it; one too long for that is cut, and ``~`` with a digest of all of it is put between."""
    name = queue + DEAD_LETTER_SUFFIX
    encoded = queue.encode()
    if len(encoded) + len(DEAD_LETTER_SUFFIX) <= MAX_NAME_BYTES:
        return name
    ending = f"~{hashlib.sha256(encoded).hexdigest()[:DIGEST_DIGITS]}{DEAD_LETTER_SUFFIX}"
    return encoded[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore") + ending
