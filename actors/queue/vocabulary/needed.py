"""What a sender needs that publishes one request to an exchange, and no more."""

from __future__ import annotations

from typing import NamedTuple


class Needed(NamedTuple):
    """Room for so much, in the queues that these keys lead to.

    Attributes:
        messages: of the request.
        bytes: likewise.
        keys: the routing keys of its messages, each once; None where headers decide, or where they are not known.
    """

    messages: int
    bytes: int
    keys: tuple[str, ...] | None = None
