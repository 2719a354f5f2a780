"""Publishing to exchanges: what comes in one turn is routed, put together by its queues, stored, and confirmed.

All of a group is one record, which gives it to all of its queues. A batch whose messages go to different queues is confirmed
when the last of them is durable. What a queue rejects the others have all the same: its sender is told, and may send it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.batch import unpack_headers
from actors.errors import QueueError, StorageError
from actors.queue.state.routed import Group, Routed, grouped
from actors.queue.state.senders import PRODUCER_BYTES, joined_batches, producers_of

if TYPE_CHECKING:
    from actors.exchanges.exchanges import Exchanges
    from actors.queue.distribution import Distributor
    from actors.queue.exchange_sender import ExchangeSender
    from actors.queue.state.log import QueueLog
    from actors.queue.vocabulary.commands import OfferBatch
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a queue of this name."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def logs(self) -> dict[str, QueueLog]:
        """The durable part of each queue, by name."""


class _Offered:
    """A batch on its way, and what has become of it so far."""

    __slots__ = ("event", "failed", "offer", "rejected", "sender")

    def __init__(self, sender: ExchangeSender, offer: OfferBatch) -> None:
        self.sender = sender
        self.offer = offer
        # What it waits for until it is confirmed.
        self.event = 0
        self.rejected: str | None = None
        # Whether some of it could not be stored, or nothing of it, since its sender has failed.
        self.failed = False

    @property
    def up_to(self) -> int:
        """The sender's number behind it."""
        return self.offer.sequence + len(self.offer.batch)

    def refuse(self, reason: str) -> None:
        """A queue rejects some of it: none of the rest is stored, nor what its sender has sent behind it."""
        self.rejected = reason
        self.sender.rejected(self.offer.sequence)


class _Known(NamedTuple):
    """What the queues know of a producer that has come again.

    Attributes:
        by_queue: the number behind the last message that each has stored of it.
        below: the greatest of these.
        event: by which the last of that was stored.
    """

    by_queue: dict[str, int]
    below: int
    event: int


class ExchangePublishing:
    """Lives on the broker's loop; it is no actor, like the ``ExchangeDirectory`` that has it.

    Args:
        exchanges: routes by them.
        queues: the broker's.
        distributor: stores.
        storage: where what is stored becomes durable; None for queues in memory.
    """

    def __init__(self, exchanges: Exchanges, queues: Queues, distributor: Distributor, storage: Storage | None) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._distributor = distributor
        self._storage = storage
        self._offered: list[_Offered] = []
        self._confirming: deque[_Offered] = deque()
        self._known: dict[ExchangeSender, _Known] = {}
        self._by_name: dict[tuple[str, str], ExchangeSender] = {}

    # Senders.

    @property
    def generation(self) -> int:
        """Another number when messages may go elsewhere."""
        return self._exchanges.generation

    def queue(self, name: str) -> LoopActorRef[Any] | None:
        """A queue; None where there is none of this name."""
        return self._queues.get(name) if name in self._queues else None

    def targets(self, exchange: str, routing_key: str | None) -> Iterable[str]:
        """The queues that a message may go to which is published there.

        Raises:
            ExchangeError: there is no such exchange, or none that takes messages from outside.
        """
        reached = self._exchanges.reached(exchange)
        if routing_key is not None and not reached.by_headers:
            return self._exchanges.route(exchange, (routing_key,))
        self._exchanges.check(exchange)
        return sorted(reached.queues)

    def begin(self, sender: ExchangeSender) -> None:
        """A sender with a name is there: an older one of the name ends, and what the queues know of it is looked up."""
        name = sender.producer
        if name is None:
            return
        older = self._by_name.get((sender.exchange, name))
        self._by_name[sender.exchange, name] = sender
        if older is not None:
            older.end("taken-over", "a newer connection carries this client id")
            # What it has offered is about to be stored, and has to be known then.
            self.flush()
        found = [(queue, log.last_number(name), log.added_by) for queue, log in self._queues.logs().items()]
        known = {queue: number for queue, number, _ in found if number is not None}
        if known:
            event = max(event for _, number, event in found if number is not None)
            self._known[sender] = _Known(known, max(known.values()), event)

    def leave(self, sender: ExchangeSender) -> None:
        """A sender is gone; what it has offered is stored all the same."""
        self._known.pop(sender, None)
        name = (sender.exchange, sender.producer or "")
        if self._by_name.get(name) is sender:
            del self._by_name[name]

    def offer(self, sender: ExchangeSender, offer: OfferBatch) -> None:
        """Have a batch stored with all that comes in the same turn of the loop."""
        if not self._offered:
            asyncio.get_running_loop().call_soon(self.flush)
        self._offered.append(_Offered(sender, offer))

    # A turn.

    def flush(self) -> None:
        """Store all that was offered, now."""
        offered, self._offered = self._offered, []
        if not offered:
            return
        routed: list[Routed] = []
        for each in offered:
            try:
                if each.sender.failed is None:
                    routed += self._parts(each)
            except QueueError as error:
                each.sender.failed = error
            each.failed = each.sender.failed is not None
        groups = grouped(routed)
        awaited = any(self._distributor.waits(group.queues) for group in groups)
        alone = self._storage is not None and awaited and self._storage.begin_alone(len(groups))
        try:
            for group in groups:
                self._store(group)
        except StorageError:
            # The broker has been told, and is about to end: nothing of all this is confirmed.
            return
        finally:
            if alone and self._storage is not None:
                self._storage.end_alone()
        for each in offered:
            each.sender.settled(each.offer.batch)
        self._confirming += offered
        self._confirm()

    def _parts(self, offered: _Offered) -> list[Routed]:
        """What of a batch goes to which queues, in order; nothing of what goes to none."""
        sender, offer = offered.sender, offered.offer
        batch, sequence = offer.batch, offer.sequence
        name_bytes = 0 if sender.producer is None else len(sender.producer.encode()) + PRODUCER_BYTES
        parts = []
        start = 0
        for queues, messages in groupby(self._routes(offered)):
            stop = start + len(list(messages))
            if queues:
                part = batch if stop - start == len(batch) else batch.slice(start, stop)
                parts.append(Routed(sender, queues, part, sequence + stop, offer.delay, offer.ttl, name_bytes, offered))
            start = stop
        return parts

    def _routes(self, offered: _Offered) -> Iterable[tuple[str, ...]]:
        """Where each message of a batch goes, one by one: to those of its queues that have not stored it before."""
        sender, batch = offered.sender, offered.offer.batch
        exchange, common = sender.exchange, sender.routing_key or ""
        by_headers = self._exchanges.reached(exchange).by_headers
        known = self._known.get(sender)
        if known is not None and offered.offer.sequence >= known.below:
            del self._known[sender]
            known = None
        if batch.keys is None and not by_headers and known is None:
            yield from repeat(self._exchanges.route(exchange, (common,)), len(batch))
            return
        if known is not None:
            offered.event = known.event
        for index in range(len(batch)):
            key = batch.keys[index] if batch.keys is not None else b""
            text = key.decode("utf-8", "replace") if key else common
            headers = unpack_headers(batch.headers[index]) if by_headers and batch.headers is not None else None
            queues = self._exchanges.route(exchange, (text,), headers)
            if known is not None:
                number = offered.offer.sequence + index
                queues = tuple([queue for queue in queues if known.by_queue.get(queue, 0) <= number])
            yield queues

    def _store(self, group: Group) -> None:
        parts = group.parts
        if len(parts) > 1 and self._distributor.rejects(group.queues):
            # It is asked for each: some may fit where all do not.
            for part in parts:
                self._store_together([part])
        else:
            self._store_together(parts)

    def _store_together(self, group: list[Routed]) -> None:
        parts = [part for part in group if _is_stored(part.offered)]
        if not parts:
            return
        batches = [part.batch for part in parts]
        batch = batches[0] if len(batches) == 1 else joined_batches(batches)
        queues, delay, ttl = parts[0].queues, parts[0].delay, parts[0].ttl
        try:
            found = self._distributor.store(queues, batch, delay, ttl, *producers_of(parts))
        except QueueError as error:
            for part in parts:
                part.offered.failed = True
                part.offered.sender.failed = error
            return
        rejected = next(iter(found.rejected.values()), None)
        for part in parts:
            offered = part.offered
            offered.event = max(offered.event, found.event)
            offered.sender.stored(found.queues, part.batch)
            self._distributor.used(found.queues, offered.sender.actor_ref, part.batch)
            if rejected is not None and offered.rejected is None:
                offered.refuse(rejected)

    # Confirmations.

    def _confirm(self) -> None:
        """Confirm what is durable, in order; what is not is waited for."""
        confirming, storage = self._confirming, self._storage
        while confirming:
            first = confirming[0]
            if storage is not None and first.event > storage.durable:
                storage.when_durable(self._confirm)
                return
            confirming.popleft()
            if first.failed:
                assert first.sender.failed is not None, "that is why"
                first.sender.end(first.sender.failed.code, str(first.sender.failed))
            else:
                first.sender.confirmed(first.up_to, first.rejected)


def _is_stored(offered: _Offered) -> bool:
    """Whether a part of it is to be stored: nothing has kept it from that so far, nor anything that its sender has sent before.

    What a sender sent behind something that is not stored would have its number remembered, and that would never be stored any more.
    """
    if offered.sender.failed is not None:
        offered.failed = True
        return False
    if offered.rejected is None:
        offered.rejected = offered.sender.rejects(offered.offer.sequence)
    return offered.rejected is None
