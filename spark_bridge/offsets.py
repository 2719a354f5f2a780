"""Offsets: ``{"s": subscription, "q": queue, "id": its creation, "pos": position}``.

Of several brokers ``id`` and ``pos`` are maps by broker. A position means something in one queue only, so the offset says which: by
name, and by the id that the broker gave it when it was made. That id survives the broker's restart, and is another after the queue was
deleted and made anew. Spark compares offsets as JSON strings and writes them into its log, so the keys have one order and the value is
small. Older offsets have neither ``q`` nor ``id``; they are read, and the next one has both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_bridge.errors import CheckpointError

SUBSCRIPTION = "s"
QUEUE = "q"
ID = "id"
POSITION = "pos"
_ID = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Origin:
    """Which queue positions are of, as far as is known.

    Attributes:
        queue: its name; None in an offset of before.
        made: the id that its broker gave it when it was made; None where that broker had not said yet.
    """

    queue: str | None = None
    made: bytes | None = None

    def is_other(self, queue: str, made: bytes) -> bool:
        """Whether it is certainly not the queue with this name and id."""
        return (self.queue is not None and self.queue != queue) or (self.made is not None and self.made != made)

    def differs(self, other: Origin) -> bool:
        """Whether positions of the two are certainly of two queues."""
        names, ids = {self.queue, other.queue} - {None}, {self.made, other.made} - {None}
        return len(names) > 1 or len(ids) > 1

    def __str__(self) -> str:
        return described(self.queue or "?", self.made)


def described(queue: str, made: bytes | None) -> str:
    """A queue in an error's text."""
    return f"queue {queue!r}" + ("" if made is None else f" (id {made.hex()})")


@dataclass(frozen=True, slots=True)
class Positions:
    """What an offset says.

    Attributes:
        at: broker -> position, all messages below which are done with.
        queue: the queue's name; None in an offset of before.
        made: broker -> the id of the queue there, as far as it was known.
    """

    at: dict[str, int]
    queue: str | None = None
    made: dict[str, bytes] = field(default_factory=dict)

    def origin(self, broker: str) -> Origin:
        """Which queue the position of ``broker`` is of."""
        return Origin(self.queue, self.made.get(broker))


@dataclass(frozen=True, slots=True)
class OffsetFormat:
    """The offsets of one query: a position a broker.

    A query over one broker writes the short form, which does not name it: the broker may move to another address. Read with several in
    the list it is the position of the *first*, so a list grows at its end. Over several brokers each has a name in the offset, its
    address or the name of its cluster, and the order of the list does not matter; over one broker again that one is looked up by it. One
    that has got a name since, for it has become a cluster, is looked up by its addresses too.

    Attributes:
        subscription: its name.
        queue: the queue's name.
        brokers: what they are known by, as listed in the options.
        names: address -> what its broker is known by, of those known by another text.
    """

    subscription: str
    queue: str
    brokers: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    def encode(self, positions: Mapping[str, int], made: Mapping[str, bytes]) -> dict[str, Any]:
        """The offset with these positions; brokers that are not in the list are left out.

        Args:
            positions: broker -> position.
            made: broker -> the id of the queue there, of those that have said so.
        """
        ids = {broker: made[broker].hex() for broker in sorted(self.brokers) if broker in made and broker in positions}
        known = {broker: positions[broker] for broker in sorted(self.brokers) if broker in positions}
        offset: dict[str, Any] = {SUBSCRIPTION: self.subscription, QUEUE: self.queue}
        if len(self.brokers) > 1:
            return offset | {ID: ids, POSITION: known}
        only = self.brokers[0]
        return offset | ({ID: ids[only]} if only in ids else {}) | {POSITION: known[only]}

    def decode(self, offset: Mapping[str, Any]) -> Positions:
        """What an offset says, of brokers that are no longer in the list too.

        Raises:
            CheckpointError: it is another subscription's, or no offset of this source at all.
        """
        owner, queue, position, made = (offset.get(key) for key in (SUBSCRIPTION, QUEUE, POSITION, ID))
        positions: dict[Any, Any] = position if isinstance(position, dict) and position else {self.brokers[0]: position}
        ids: dict[Any, Any] = {} if made is None else made if isinstance(made, dict) else {self.brokers[0]: made}
        if (
            not isinstance(owner, str)
            or not isinstance(queue, str | None)
            or not all(
                isinstance(broker, str) and type(value) is int and value >= 0 for broker, value in positions.items()
            )
            or not all(
                broker in positions and isinstance(value, str) and _ID.fullmatch(value) for broker, value in ids.items()
            )
        ):
            raise CheckpointError(
                f"{dict(offset)!r:.200} is no offset of a penstock source; the checkpoint is another source's"
            )
        if owner != self.subscription:
            raise CheckpointError(
                f"the checkpoint is that of subscription {owner!r}, the option says {self.subscription!r}; "
                "a query that changes its subscription needs a new checkpoint location"
            )
        named = {each: self._named(each, positions) for each in positions}
        at = {named[broker]: value for broker, value in positions.items()}
        return Positions(at, queue, {named[broker]: bytes.fromhex(value) for broker, value in ids.items()})

    def _named(self, broker: str, known: Collection[str]) -> str:
        """What a broker of an offset is known by now. One of whom the offset knows the name itself was another broker at that address."""
        name = self.names.get(broker, broker)
        others = [each for each in known if each != broker and self.names.get(each) == name]
        return broker if name in known or others else name
