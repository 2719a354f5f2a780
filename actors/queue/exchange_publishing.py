"""Publishing to exchanges: what comes in one turn is routed, put together by its queues, stored, and confirmed.

All of a group is one record, which gives it to all of its queues. A batch whose messages go to different queues is confirmed
when the last of them is durable. What a queue rejects the others have all the same: its sender is told, and may send it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, Protocol

from actors.batch import readable_headers
from actors.errors import InvalidRequestError, QueueError, StorageError
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE
from actors.queue.exchange_counts import ExchangeCounts
from actors.queue.exchange_storing import Offered, Storing
from actors.queue.state.known_numbers import Known
from actors.queue.state.routed import Routed, grouped, stage_wholes
from actors.queue.state.senders import PRODUCER_BYTES
from actors.queue.vocabulary.distributed import StageTallied, Unroutable

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.exchanges.exchanges import Exchanges
    from actors.queue.distribution import Distributor
    from actors.queue.exchange_sender import ExchangeSender
    from actors.queue.routed_stages import RoutedStages
    from actors.queue.state.log import QueueLog
    from actors.queue.state.senders import Producer
    from actors.queue.vocabulary.commands import OfferBatch
    from actors.queue.vocabulary.stages import StageKey
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage


logger = logging.getLogger("penstock.queue")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a queue of this name."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def logs(self) -> dict[str, QueueLog]:
        """The durable part of each queue, by name."""


class _Answer:
    """What a sender is told in its turn among the confirmations, when an event is durable."""

    __slots__ = ("event", "tell")

    def __init__(self, event: int, tell: Callable[[], None]) -> None:
        self.event = event
        self.tell = tell


class ExchangePublishing:
    """Lives on the broker's loop; it is no actor, like the ``ExchangeDirectory`` that has it.

    Args:
        exchanges: routes by them.
        queues: the broker's.
        distributor: stores.
        storage: where what is stored becomes durable; None for queues in memory.
        stages: those that are written through exchanges.

    Attributes:
        counts: what has come to each exchange.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        queues: Queues,
        distributor: Distributor,
        storage: Storage | None,
        stages: RoutedStages,
    ) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._distributor = distributor
        self._storage = storage
        self._stages = stages
        self._storing = Storing(distributor, stages)
        self._offered: list[Offered] = []
        self._confirming: deque[Offered | _Answer] = deque()
        self._known: dict[ExchangeSender, Known] = {}
        self._by_name: dict[tuple[str, str], ExchangeSender] = {}
        # In the order in which they came: what they are told does not depend on where they lie in memory.
        self._senders: dict[ExchangeSender, None] = {}
        self._looks = False
        self.counts = ExchangeCounts(lambda name: exchanges.get(name) is not None)

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

    def begin(self, sender: ExchangeSender) -> int | None:
        """A sender with a name is there: an older one of the name ends, and what the queues know of it is looked up.

        Returns:
            the number behind the last message that any queue has of it; None where none has one.
        """
        self._senders[sender] = None
        name = sender.producer
        if sender.stage is not None:
            self._begin_stage(sender, sender.stage)
            return None
        if name is None:
            return None
        older = self._by_name.get((sender.exchange, name))
        self._by_name[sender.exchange, name] = sender
        if older is not None:
            older.end("taken-over", "a newer connection carries this client id")
            # What it has offered is about to be stored, and has to be known then.
            self.flush()
        found = [(queue, log.last_number(name), log.added_by) for queue, log in self._queues.logs().items()]
        known = {queue: number for queue, number, _ in found if number is not None}
        if not known:
            return None
        event = max(event for _, number, event in found if number is not None)
        below = max(known.values())
        self._known[sender] = Known(known, below, event)
        return below

    def _begin_stage(self, sender: ExchangeSender, key: StageKey) -> None:
        if self._stages.supersede(key):
            self.flush()
        begun = self._stages.begin(key, sender)
        if begun.last_number or begun.by_queue:
            least = begun.last_number or 0
            self._known[sender] = Known(begun.by_queue, max(least, *begun.by_queue.values(), 0), begun.event, least)
        if self._storage is None or begun.event <= self._storage.durable:
            # It has nothing to wait its turn for.
            sender.attached(begun.last_number, begun.committed)
        else:
            self._answer(begun.event, partial(sender.attached, begun.last_number, begun.committed))

    def leave(self, sender: ExchangeSender) -> None:
        """A sender is gone; what it has offered is stored all the same."""
        self._senders.pop(sender, None)
        if sender.stage is not None:
            self.flush()
            self._stages.leave(sender.stage, sender)
        self._known.pop(sender, None)
        name = (sender.exchange, sender.producer or "")
        if self._by_name.get(name) is sender:
            del self._by_name[name]

    def changed(self) -> None:
        """Messages may go elsewhere: senders look again in the loop's next turn, those too that wait for a queue that is theirs no more."""
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self._looks = False
        for sender in list(self._senders):
            sender.look_again()

    def offer(self, sender: ExchangeSender, offer: OfferBatch) -> None:
        """Have a batch stored with all that comes in the same turn of the loop."""
        if not self._offered:
            asyncio.get_running_loop().call_soon(self.flush)
        self._offered.append(Offered(sender, offer))

    def tally(self, sender: ExchangeSender, request: int) -> None:
        """Tell the sender of a stage how many messages of it each queue holds, behind the confirmations of all that it has offered.

        Raises:
            InvalidRequestError: it stages nothing.
        """
        key = sender.stage
        if key is None:
            raise InvalidRequestError("nothing is staged on this connection: there is no stage to tally")
        self.flush()
        if sender.failed is not None:
            return
        try:
            found, event = self._stages.tally(key)
        except QueueError as error:
            sender.failed = error
            self._answer(self._stages.committed_by, partial(sender.end, error.code, str(error)))
        else:
            self._answer(event, partial(sender.tell, StageTallied(request, found)))

    def _answer(self, event: int, tell: Callable[[], None]) -> None:
        self._confirming.append(_Answer(event, tell))
        self._confirm()

    # A turn.

    def flush(self) -> None:
        """Store all that was offered, now."""
        offered, self._offered = self._offered, []
        if not offered:
            return
        routed, came = self._routed(offered)
        # Where a queue may reject, each batch is judged whole before anything of it is stored, and what comes behind it after that.
        strict = any(part.stage is None and self._distributor.rejects(part.queues) for part in routed)
        groups = [] if strict else grouped(routed)
        wholes = stage_wholes(groups, came) if came else {}
        awaited = any(self._distributor.waits(group.queues) for group in groups)
        alone = self._storage is not None and awaited and self._storage.begin_alone(len(groups))
        try:
            for group in groups:
                self._storing.store(group.parts, wholes.get(group.number, 0))
            if strict:
                self._storing.store_judged(routed, came)
        except StorageError:
            # The broker has been told, and is about to end: nothing of all this is confirmed.
            return
        finally:
            if alone and self._storage is not None:
                self._storage.end_alone()
        for each in offered:
            each.sender.settled(each.offer.batch)
            if each.sender.stage is not None and each.sender.failed is None:
                self._stages.came(each.sender.stage, each.up_to)
        self._confirming += offered
        self._confirm()

    def _routed(self, offered: list[Offered]) -> tuple[list[Routed], dict[Producer, int]]:
        """What of a turn goes where, and of each that stages the number behind what it has sent."""
        routed: list[Routed] = []
        came: dict[Producer, int] = {}
        for each in offered:
            try:
                if each.sender.failed is None:
                    routed += self._parts(each)
                    if each.sender.stage is not None:
                        came[each.sender] = max(came.get(each.sender, 0), each.up_to)
            except QueueError as error:
                each.sender.failed = error
            except Exception:
                # A defect of ours ends this sender, and takes nothing of what others have offered with it.
                logger.exception("a batch to exchange %s cannot be routed", each.sender.exchange)
                each.sender.failed = QueueError("what was sent could not be routed; the broker's log has the reason")
            each.failed = each.sender.failed is not None
        return routed, came

    def _parts(self, offered: Offered) -> list[Routed]:
        """What of a batch goes to which queues, in order; nothing of what goes to none."""
        sender, offer = offered.sender, offered.offer
        batch, sequence = offer.batch, offer.sequence
        name_bytes = 0 if sender.producer is None else len(sender.producer.encode()) + PRODUCER_BYTES
        known = self._known_of(offered)
        parts = []
        lost: list[tuple[int, int]] = []
        for queues, start, stop in self._runs(sender, batch):
            if not queues:
                lost.append((sequence + start, stop - start))
                continue
            for new, first, end in (
                ((queues, start, stop),) if known is None else known.new(queues, start, stop, sequence)
            ):
                part = batch if end - first == len(batch) else batch.slice(first, end)
                timing = offer.delay, offer.ttl
                source = sender.exchange, sender.routing_key or ""
                parts.append(
                    Routed(sender, new, part, sequence + end, *timing, name_bytes, offered, *source, sender.stage)
                )
        counts = self.counts.of(sender.exchange)
        counts.published += len(batch)
        if lost:
            counts.unroutable += sum(count for _, count in lost)
            if sender.mandatory:
                offered.unroutable = Unroutable(tuple(lost), self._why_lost(offered, lost[0][0] - sequence))
        return parts

    def _known_of(self, offered: Offered) -> Known | None:
        """What the queues know of its sender, as long as that can be about this batch."""
        known = self._known.get(offered.sender)
        if known is None:
            return None
        if offered.offer.sequence >= known.below:
            del self._known[offered.sender]
            return None
        offered.event = known.event
        return known

    def _why_lost(self, offered: Offered, index: int) -> str:
        """Why no queue takes a message of a batch; of the others it may be another key."""
        sender, keys = offered.sender, offered.offer.batch.keys
        key = keys[index].decode("utf-8", "replace") if keys is not None else ""
        key = key or sender.routing_key or ""
        if sender.exchange == DEFAULT_EXCHANGE:
            return f"there is no queue {key!r:.300}, which the default exchange would send it to"
        return f"no queue is bound to exchange {sender.exchange!r} that takes the routing key {key!r:.300}"

    def _runs(self, sender: ExchangeSender, batch: MessageBatch) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """The queues of a batch's messages, each with from which message to before which: neighbours that go to the same are together.

        Each key of a batch is routed once. There is no step of Python for a message, unless headers decide.
        """
        exchange, common = sender.exchange, sender.routing_key or ""
        route = self._exchanges.route
        by_headers = self._exchanges.reached(exchange).by_headers
        if batch.keys is None and not by_headers:
            yield route(exchange, (common,)), 0, len(batch)
            return
        keys = [b""] * len(batch) if batch.keys is None else batch.keys.tolist()
        texts = {key: key.decode("utf-8", "replace") if key else common for key in dict.fromkeys(keys)}
        longest = max(len(text.encode()) for text in texts.values())
        if longest > MAX_ROUTING_KEY_BYTES:
            # The same comes of it however often it is sent.
            raise InvalidRequestError(
                f"a routing key of {longest} bytes exceeds {MAX_ROUTING_KEY_BYTES}: use a shorter one, and put the rest into a header"
            )
        each: Iterable[tuple[str, ...]]
        if by_headers:
            headers = repeat(b"") if batch.headers is None else batch.headers.tolist()
            each = (
                route(exchange, (texts[key],), readable_headers(packed))
                for key, packed in zip(keys, headers, strict=False)
            )
        else:
            routes = {key: route(exchange, (text,)) for key, text in texts.items()}
            each = map(routes.__getitem__, keys)
        start = 0
        for queues, same in groupby(each):
            stop = start + sum(map(_one, same))
            yield queues, start, stop
            start = stop

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
            if isinstance(first, _Answer):
                first.tell()
            elif first.failed:
                assert first.sender.failed is not None, "that is why"
                first.sender.end(first.sender.failed.code, str(first.sender.failed))
            else:
                if first.unroutable is not None and first.rejected is None:
                    first.sender.returned(first.unroutable)
                first.sender.confirmed(first.up_to, first.rejected)


def _one(_: object) -> int:
    return 1
