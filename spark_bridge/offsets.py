"""Offsets: ``{"s": subscription, "pos": position}``, and of several brokers ``{"s": subscription, "pos": {broker: position}}``.

Spark compares them as JSON strings and writes them into its log, so the keys have one order and the value is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_bridge.errors import CheckpointError

SUBSCRIPTION = "s"
POSITION = "pos"


@dataclass(frozen=True, slots=True)
class OffsetFormat:
    """The offsets of one query: a position a broker, all messages below which are done with.

    A query over one broker writes the short form, which does not name it: the broker may move to another address. Read with several in
    the list it is the position of the *first*, so a list grows at its end. Over several brokers each has a name in the offset, its
    address, and the order of the list does not matter; over one broker again that one is looked up by its address.

    Attributes:
        subscription: its name.
        brokers: addresses, as listed in the options.
    """

    subscription: str
    brokers: tuple[str, ...]

    def encode(self, positions: Mapping[str, int]) -> dict[str, Any]:
        """The offset with these positions; brokers that are not in the list are left out."""
        known = {broker: positions[broker] for broker in sorted(self.brokers) if broker in positions}
        return {SUBSCRIPTION: self.subscription, POSITION: known if len(self.brokers) > 1 else known[self.brokers[0]]}

    def decode(self, offset: Mapping[str, Any]) -> dict[str, int]:
        """Broker -> position, those among them that are no longer in the list.

        Raises:
            CheckpointError: it is another subscription's, or no offset of this source at all.
        """
        owner, position = offset.get(SUBSCRIPTION), offset.get(POSITION)
        positions = position if isinstance(position, dict) and position else {self.brokers[0]: position}
        if not isinstance(owner, str) or not all(
            isinstance(broker, str) and type(value) is int and value >= 0 for broker, value in positions.items()
        ):
            raise CheckpointError(
                f"{dict(offset)!r:.200} is no offset of a penstock source; the checkpoint is another source's"
            )
        if owner != self.subscription:
            raise CheckpointError(
                f"the checkpoint is that of subscription {owner!r}, the option says {self.subscription!r}; "
                "a query that changes its subscription needs a new checkpoint location"
            )
        return dict(positions)
