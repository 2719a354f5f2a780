"""Consumers whose channels are over, and that leave their queues. A turn of the loop has some milliseconds of it, however many they are.

Of a channel that ends, or a connection, thousands may leave at one time. Had all of them their end in one turn, everybody else would wait.
Few leave at once, as they are told to. Those beyond what a turn has stand in line, and are told of nothing meanwhile: what comes for them
goes back as they leave.
It is the same with those that are to get nothing more, since their connection is about to end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from actors.errors import StorageError
from actors.queue.directory_errors import QueueNotFoundError
from transport.errors import ForbiddenError
from transport.gateways.amqp.consuming import ranges_of
from transport.gateways.amqp.equivalence import DeclaredWith

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from actors.queue.vocabulary.replies import ReceivedMessages
    from transport.broker.operations import Operations
    from transport.gateways.amqp.claims import Claims
    from transport.gateways.amqp.consuming import Consumer
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.receivers import Receivers

TURN_SECONDS: Final = 0.005
"""For which consumers leave in one turn of the loop; one always does, with those of its channel and queue."""
TOGETHER: Final = 64
"""Of one channel and queue, that leave at once at most: what these hold is delivered again in the queue's order, as with RabbitMQ."""

_GONE: Final = object()


class Connected(Protocol):
    """A connection, as those that leave it see it.

    Attributes:
        operations: the door, for whoever it is.
        claims: who consumes from which queue.
        receivers: the actors that receive for it.
        departures: those that leave, of all connections.
        broker_ends: whether the broker itself ends its clients' connections: then nothing that they hold has failed.
    """

    operations: Operations
    claims: Claims
    receivers: Receivers
    departures: Departures
    broker_ends: bool


class Steps(Protocol):
    """Something to be done to many consumers, one by one.

    Attributes:
        is_over: whether it is done to all.
    """

    is_over: bool

    def step(self) -> None:
        """Do it to the next one, if there is any."""


class Withdrawing:
    """Those of one channel that are to get nothing more, and stay as long as their client holds something.

    Args:
        consumers: these.
    """

    def __init__(self, consumers: Sequence[Consumer]) -> None:
        for each in consumers:
            each.ended = True
        self.is_over = False
        self._left = iter(_in_order(consumers))

    def step(self) -> None:
        """As of `Steps`."""
        following = next(self._left, None)
        if following is None:
            self.is_over = True
        else:
            following.demand_no_more()


class Departing:
    """Those of one channel.

    Args:
        link: its connection.
        names: of its virtual host.
        consumers: that it has.
        others: that are no consumers: they have asked for single messages, or hold what is not settled.
        kept: what has come for some beside what waits there, and their client never had.

    Attributes:
        is_over: whether all have left.
    """

    def __init__(
        self,
        link: Connected,
        names: Names,
        consumers: Sequence[Consumer],
        others: Sequence[Consumer],
        kept: Iterable[tuple[Consumer, ReceivedMessages]] = (),
    ) -> None:
        # Or what some held would come to those that leave in turns to come.
        many = len(consumers) > TOGETHER and not consumers[0].ended
        self._before = Withdrawing(consumers) if many else None
        for each in (*consumers, *others):
            each.ended = True
        self.is_over = not consumers and not others
        self._link, self._names = link, names
        # Of each that has not left. Nothing of it has failed: a queue that counts would have it die of their leaving.
        self._unseen: dict[Consumer, list[tuple[int, int]]] = {each: [] for each in (*consumers, *others)}
        for each, messages in kept:
            self.came(each, messages)
        for each in consumers:
            self._take_back(each)
        # What has not run yet knows this, and is known by this: where nobody leaves there is none.
        self._leaves = iter(()) if self.is_over else self._leaving(consumers, others)
        self._over: asyncio.Future[None] | None = None

    def came(self, consumer: Consumer, *messages: ReceivedMessages) -> None:
        """What others held that have left, or what is new, has come for one that is yet to leave: it goes back as that does."""
        unseen = self._unseen.get(consumer)
        if unseen is not None:
            unseen += [(each.first, len(each.batch)) for each in messages]

    def begin(self) -> None:
        """Have them leave."""
        before, self._before = self._before, None
        if before is not None:
            self._link.departures.put(before)
        if not self.is_over:
            self._link.departures.put(self)

    def step(self) -> None:
        """As of `Steps`: the next one leaves."""
        if next(self._leaves, _GONE) is _GONE:
            self.is_over = True
            if self._over is not None and not self._over.done():
                self._over.set_result(None)

    async def over(self) -> None:
        """Wait until all have left."""
        if not self.is_over:
            self._over = self._over or asyncio.get_running_loop().create_future()
            await self._over

    def _leaving(self, consumers: Sequence[Consumer], others: Sequence[Consumer]) -> Iterator[None]:
        link, those_others = self._link, frozenset(others)
        by_queue: dict[str, list[Consumer]] = {}
        # What the others hold would come to a consumer that is about to leave too, and fail a second time.
        for each in (*_in_order(consumers), *others):
            by_queue.setdefault(each.queue, []).append(each)
        for of_one in by_queue.values():
            for start in range(0, len(of_one), TOGETHER):
                for each in of_one[start : start + TOGETHER]:
                    self._take_back(each)
                    ranges, together = ranges_of(sorted(self._unseen.pop(each, ()))), len(of_one) > 1
                    each.leave(failed=False if link.broker_ends else None, unseen=ranges, together=together)
                    self._left(each, consumed=each not in those_others)
                yield

    def _take_back(self, consumer: Consumer) -> None:
        self.came(consumer, *consumer.taken_back())

    def _left(self, consumer: Consumer, *, consumed: bool) -> None:
        """One has left, that was a consumer or not."""
        link, queue = self._link, self._names.queue(consumer.queue)
        link.receivers.go(queue, consumer.actor)
        if not consumed:
            link.claims.getter_leaves(queue)
        elif link.claims.leave(queue, consumer):
            drop_unused(link, queue, consumer.number)


def _in_order(consumers: Sequence[Consumer]) -> list[Consumer]:
    """Who would be the next in a line goes before who has its queue, or what that held would come to one that is about to leave too."""
    return sorted(consumers, key=lambda each: each.priority, reverse=True)[::-1]


class Departures:
    """Those of one gateway: channels take turns, in the order in which they have come to an end."""

    def __init__(self) -> None:
        self._line: deque[Steps] = deque()
        self._planned = False
        self._until = 0.0

    def __len__(self) -> int:
        """Channels some of whose consumers have not left yet."""
        return len(self._line)

    def put(self, steps: Steps) -> None:
        """Have these leave: as many at once as this turn has time for, when those have left that came before."""
        self._line.append(steps)
        if not self._planned:
            self._begin_turn()
        self._work()

    def hurry(self) -> None:
        """Have all leave now: the broker ends, and there will be no turn for them."""
        while self._line:
            self._step()

    def _begin_turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._planned = True
        self._until = loop.time() + TURN_SECONDS
        loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._planned = False
        if self._line:
            self._begin_turn()
            self._step()
            self._work()

    def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._line and clock() < self._until:
            self._step()

    def _step(self) -> None:
        """One consumer leaves; a channel that has none any more is out of the line."""
        first = self._line[0]
        first.step()
        if first.is_over:
            self._line.popleft()


def drop_unused(link: Connected, queue: str, number: int) -> None:
    """The last consumer of a queue is gone: so is a queue that was declared to go with it, and not another of its name.

    Args:
        link: the connection that it consumed by.
        queue: the broker's name of the queue.
        number: the queue's.
    """
    try:
        found = link.operations.find_queue(queue)
    except (QueueNotFoundError, ForbiddenError):
        return
    declared = DeclaredWith.of(found.arguments)
    if declared is not None and declared.auto_delete and found.number == number:
        # A journal that has failed has told the broker, which is about to end.
        with suppress(StorageError):
            link.operations.delete_unused(queue)
