"""A message's headers for whoever only looks at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.batch import unpack_headers
from actors.errors import BatchError

if TYPE_CHECKING:
    from actors.batch import HeaderValue


def readable_headers(packed: bytes) -> dict[str, HeaderValue] | None:
    """As `unpack_headers`; none where nobody can read them, for no broker checks what they hold."""
    try:
        return unpack_headers(packed)
    except BatchError:
        return None
