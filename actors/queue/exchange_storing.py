"""How what was offered to exchanges is stored: a group is one record, and what a queue rejects has no number remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.errors import QueueError
from actors.queue.state.capacity import Amount
from actors.queue.state.routed import Routed, grouping, joined_parts, stage_wholes
from actors.queue.state.senders import producers_of
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.stages import StageNumbers

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.distribution import Distributor
    from actors.queue.exchange_offers import Offered
    from actors.queue.exchange_port import Publisher
    from actors.queue.routed_stages import RoutedStages
    from actors.queue.state.routed import Group
    from actors.queue.state.senders import Producer
    from actors.queue.vocabulary.distributed import Distributed
    from actors.queue.vocabulary.stages import StageKey

NONE: Final[Mapping[str, str]] = MappingProxyType({})
NOTHING: Final = Amount(0, 0)
NO_WHOLES: Final[Mapping[int, int]] = MappingProxyType({})


class Storing:
    """Stores groups of what was offered. A part of ``ExchangePublishing``.

    Args:
        distributor: stores in several queues.
        stages: those that are written through exchanges.
    """

    def __init__(self, distributor: Distributor, stages: RoutedStages) -> None:
        self._distributor = distributor
        self._stages = stages

    def store_all(self, grouping: Iterator[None], groups: list[Group], came: Mapping[Producer, int]) -> Iterator[None]:
        """Store groups, one at each step, when ``grouping`` has found them all.

        None of their queues rejects. One that begins to between two steps takes the rest: with a part the numbers of a batch are remembered
        before it, and what is rejected may have other messages with these.
        """
        yield from grouping
        wholes = stage_wholes(groups, came) if came else NO_WHOLES
        several = len(groups) > 1
        for group in groups:
            first = group.parts[0]
            promised = several and first.stage is None and not self._distributor.delays(first.queues, first.delay)
            self._store(group.parts, wholes.get(group.number, 0), promised=promised)
            yield

    def store_alone(self, parts: list[Routed]) -> Iterator[None]:
        """Store parts that go together, at one step."""
        self._store(parts, 0)
        yield

    def store_judged(self, routed: list[Routed]) -> Iterator[None]:
        """Store batch by batch, as some queues reject: of a batch that one of them rejects nothing has its number remembered.

        Each step is one record. What a queue has said yes to it takes, be it filled by others between two steps.
        """
        for offered, found in groupby(routed, lambda part: part.offered):
            parts = list(found)
            if parts[0].stage is not None:
                # Of its stage nothing is stored yet that its sender has sent behind it.
                groups: list[Group] = []
                yield from self.store_all(grouping(parts, groups), groups, {parts[0].sender: offered.up_to})
                continue
            if not is_stored(offered):
                continue
            amounts: dict[str, Amount] = {}
            yield from _by_queue(parts, amounts)
            groups = []
            yield from grouping(parts, groups, self._distributor.keeps_apart)
            refused = self._judged(offered, amounts)
            if refused and offered.sender.in_parts and offered.offer.batch.count > 1:
                # It comes again in parts: what was stored of it now would be there twice.
                offered.refuse(next(iter(refused.values())))
                continue
            promised = len(groups) > 1 and not refused
            if promised:
                self._distributor.promise(amounts)
            try:
                for group in groups:
                    self._store(group.parts, 0, refused, promised=promised)
                    yield
            finally:
                if promised:
                    self._distributor.promise_is_kept()
            if refused and not offered.failed:
                offered.refuse(next(iter(refused.values())))

    def _judged(self, offered: Offered, amounts: Mapping[str, Amount]) -> Mapping[str, str]:
        """Of the queues of a batch those that reject what they would get of it, each with why."""
        try:
            offer = offered.offer
            return self._distributor.refused(amounts, offer.delay, offer.ttl, offer.batch)
        except QueueError as error:
            offered.sender.failed = error.with_traceback(None)
            offered.failed = True
            return {}

    def _store(
        self, group: list[Routed], whole: int, refused: Mapping[str, str] = NONE, *, promised: bool = False
    ) -> None:
        """Store parts as one batch in their queues, but for those that have ``refused``: then no queue remembers the numbers."""
        parts = [part for part in group if is_stored(part.offered)]
        if not parts:
            return
        batch, key = joined_parts(parts)
        first = parts[0]
        published = Published(first.exchange, key)
        queues, delay, ttl, priority = first.queues, first.delay, first.ttl, first.priority
        try:
            if first.stage is None:
                producers = ((), ()) if refused else producers_of(parts)
                taking = [queue for queue in queues if queue not in refused]
                found = self._distributor.store(
                    taking, batch, delay, ttl, *producers, published=published, promised=promised, priority=priority
                )
                if refused:
                    mine = {queue: refused[queue] for queue in queues if queue in refused}
                    self._distributor.refuse(mine, batch, published, priority)
            else:
                found = self._store_staged(first.stage, parts[-1], batch, whole, published)
        except QueueError as error:
            for part in parts:
                part.offered.failed = True
                # How it came about knows what was offered: without a cycle that is free at once.
                part.offered.sender.failed = error.with_traceback(None)
                if part.stage is not None:
                    # It may tell of a commit.
                    part.offered.event = max(part.offered.event, self._stages.committed_by)
            return
        rejected = next(iter(found.rejected.values()), None)
        last: Offered | None = None
        used: dict[Publisher, tuple[int, int]] = {}
        for part in parts:
            offered: Offered = part.offered
            if offered is not last:
                offered.records += 1
                last = offered
            offered.event = max(offered.event, found.event)
            messages, size = used.get(offered.sender, (0, 0))
            used[offered.sender] = messages + part.batch.count, size + part.batch.nbytes
            if rejected is not None and is_stored(offered):
                offered.refuse(rejected)
        # Once for each sender: for each part it would take the number of the queues as often.
        for sender, (messages, size) in used.items():
            sender.stored(found.queues, messages, size)
            self._distributor.used(found.queues, sender.actor_ref, messages, size)

    def _store_staged(
        self, key: StageKey, last: Routed, batch: MessageBatch, whole: int, published: Published
    ) -> Distributed:
        """Stage a batch that ends with ``last``, behind which all of the stage below ``whole`` is stored."""
        self._stages.check_room(key, last.queues)
        numbers = StageNumbers(last.up_to, whole)
        level, timing = last.priority, (last.delay, last.ttl)
        found = self._distributor.store(
            last.queues, batch, *timing, stage=key, numbers=numbers, published=published, priority=level
        )
        self._stages.stored(key, found.queues, whole, found.event)
        return found


def _by_queue(parts: list[Routed], amounts: dict[str, Amount]) -> Iterator[None]:
    """Find how much each queue gets of a batch: each step is one part."""
    for part in parts:
        messages, size = part.batch.count, part.batch.nbytes
        for queue in part.queues:
            before = amounts.get(queue, NOTHING)
            amounts[queue] = Amount(before.messages + messages, before.bytes + size)
        yield


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
