"""Offsets: ``{"s": subscription, "pos": position}``.

Spark compares them as JSON strings and writes them into its log, so the keys have one order and the value is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_bridge.errors import CheckpointError

SUBSCRIPTION = "s"
POSITION = "pos"


def make_offset(subscription: str, position: int) -> dict[str, Any]:
    """The offset after every message below ``position``."""
    return {SUBSCRIPTION: subscription, POSITION: position}


def position_of(offset: Mapping[str, Any], subscription: str) -> int:
    """The position in an offset of ``subscription``.

    Raises:
        CheckpointError: it is another subscription's, or no offset of this source at all.
    """
    owner, position = offset.get(SUBSCRIPTION), offset.get(POSITION)
    if not isinstance(owner, str) or type(position) is not int or position < 0:
        raise CheckpointError(
            f"{dict(offset)!r:.200} is no offset of a penstock source; the checkpoint is another source's"
        )
    if owner != subscription:
        raise CheckpointError(
            f"the checkpoint is that of subscription {owner!r}, the option says {subscription!r}; "
            "a query that changes its subscription needs a new checkpoint location"
        )
    return position
