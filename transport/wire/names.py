"""Names of queues, clients and subscriptions; docs/protocol.md, section "Frames", has their limits."""

from __future__ import annotations

from typing import Final

from actors.limits import MAX_NAME_BYTES as MAX_NAME_BYTES  # noqa: PLC0414 - for those who import no actors
from transport.errors import InvalidNameError

AMQP_HEADER: Final = "amqp"
"""The header that has the properties of what a client of AMQP has published (``transport/wire/amqp_headers.py``)."""


def check_name(name: str, what: str = "queue") -> str:
    """``name`` if it is within the limits of a name; ``what`` it names appears in the error.

    Raises:
        InvalidNameError: empty, over ``MAX_NAME_BYTES``, not printable, or with white space.
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_NAME_BYTES:
        raise InvalidNameError(f"{article(what)} {what} name of {size} bytes is outside 1-{MAX_NAME_BYTES}")
    # Of all white space only the blank counts as printable.
    if " " in name or not name.isprintable():
        raise InvalidNameError(f"the {what} name {name!r:.60} has white space or unprintable characters")
    return name


def article(what: str) -> str:
    """``a`` or ``an``, for what comes behind it."""
    return "an" if what[:1] in "aeiou" else "a"
