"""How what was offered to exchanges is stored: a group is one record, and what a queue rejects has no number remembered."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.errors import QueueError
from actors.queue.state.routed import Routed, grouped, joined_parts, stage_wholes
from actors.queue.state.senders import producers_of
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.stages import StageNumbers

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.distribution import Distributor
    from actors.queue.exchange_sender import ExchangeSender
    from actors.queue.routed_stages import RoutedStages
    from actors.queue.state.senders import Producer
    from actors.queue.vocabulary.commands import OfferBatch
    from actors.queue.vocabulary.distributed import Distributed, Unroutable
    from actors.queue.vocabulary.stages import StageKey

NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Offered:
    """A batch on its way, and what has become of it so far."""

    __slots__ = ("event", "failed", "offer", "rejected", "sender", "unroutable")

    def __init__(self, sender: ExchangeSender, offer: OfferBatch) -> None:
        self.sender = sender
        self.offer = offer
        # What it waits for until it is confirmed.
        self.event = 0
        self.rejected: str | None = None
        # Whether some of it could not be stored, or nothing of it, since its sender has failed.
        self.failed = False
        # What no queue takes, for a sender that wants to know.
        self.unroutable: Unroutable | None = None

    @property
    def up_to(self) -> int:
        """The sender's number behind it."""
        return self.offer.sequence + len(self.offer.batch)

    def refuse(self, reason: str) -> None:
        """A queue rejects some of it: none of the rest is stored, nor what its sender has sent behind it."""
        self.rejected = reason
        self.sender.rejected(self.offer.sequence)


class Storing:
    """Stores groups of what was offered. A part of ``ExchangePublishing``.

    Args:
        distributor: stores in several queues.
        stages: those that are written through exchanges.
    """

    def __init__(self, distributor: Distributor, stages: RoutedStages) -> None:
        self._distributor = distributor
        self._stages = stages

    def store_judged(self, routed: list[Routed], came: dict[Producer, int]) -> None:
        """Store batch by batch, as some queues reject: of a batch that one of them rejects nothing has its number remembered."""
        for offered, found in groupby(routed, lambda part: part.offered):
            parts = list(found)
            refused: Mapping[str, str] = {}
            if parts[0].stage is None:
                if not is_stored(offered):
                    continue
                refused = self._judged(parts)
            groups = grouped(parts)
            wholes = stage_wholes(groups, came) if parts[0].stage is not None else {}
            for group in groups:
                self.store(group.parts, wholes.get(group.number, 0), refused)
            if refused and not offered.failed:
                offered.refuse(next(iter(refused.values())))

    def _judged(self, parts: list[Routed]) -> Mapping[str, str]:
        """Of the queues of a batch those that reject what they would get of it, each with why."""
        by_queue: dict[str, list[Routed]] = {}
        for part in parts:
            for queue in part.queues:
                by_queue.setdefault(queue, []).append(part)
        try:
            return self._distributor.refused(
                {queue: joined_parts(theirs)[0] for queue, theirs in by_queue.items()}, parts[0].delay, parts[0].ttl
            )
        except QueueError as error:
            parts[0].offered.sender.failed = error
            parts[0].offered.failed = True
            return {}

    def store(self, group: list[Routed], whole: int, refused: Mapping[str, str] = NONE) -> None:
        """Store parts as one batch in their queues, but for those that have ``refused``: then no queue remembers the numbers."""
        parts = [part for part in group if is_stored(part.offered)]
        if not parts:
            return
        batch, key = joined_parts(parts)
        published = Published(parts[0].exchange, key)
        queues, delay, ttl = parts[0].queues, parts[0].delay, parts[0].ttl
        try:
            if parts[0].stage is None:
                producers = ((), ()) if refused else producers_of(parts)
                taking = [queue for queue in queues if queue not in refused]
                found = self._distributor.store(taking, batch, delay, ttl, *producers, published=published)
            else:
                found = self._store_staged(parts[0].stage, parts[-1], batch, whole, published)
        except QueueError as error:
            for part in parts:
                part.offered.failed = True
                part.offered.sender.failed = error
                if part.stage is not None:
                    # It may tell of a commit.
                    part.offered.event = max(part.offered.event, self._stages.committed_by)
            return
        rejected = next(iter(found.rejected.values()), None)
        for part in parts:
            offered = part.offered
            offered.event = max(offered.event, found.event)
            offered.sender.stored(found.queues, part.batch)
            self._distributor.used(found.queues, offered.sender.actor_ref, part.batch)
            if rejected is not None and offered.rejected is None:
                offered.refuse(rejected)

    def _store_staged(
        self, key: StageKey, last: Routed, batch: MessageBatch, whole: int, published: Published
    ) -> Distributed:
        """Stage a batch that ends with ``last``, behind which all of the stage below ``whole`` is stored."""
        self._stages.check_room(key, last.queues)
        numbers = StageNumbers(last.up_to, whole)
        found = self._distributor.store(
            last.queues, batch, last.delay, last.ttl, stage=key, numbers=numbers, published=published
        )
        self._stages.stored(key, found.queues, whole, found.event)
        return found


def is_stored(offered: Offered) -> bool:
    """Whether a part of it is to be stored: nothing has kept it from that so far, nor anything that its sender has sent before.

    What a sender sent behind something that is not stored would have its number remembered, and that would never be stored any more.
    """
    if offered.sender.failed is not None:
        offered.failed = True
        return False
    if offered.rejected is None:
        offered.rejected = offered.sender.rejects(offered.offer.sequence)
    return offered.rejected is None
