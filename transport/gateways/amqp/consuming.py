"""A consumer of a channel: the port of a receiver. Its prefetch is demand.

``basic.qos`` says how many messages a consumer may hold. That many it demands of its queue; what is settled, it demands
again. Without a limit it demands without end. In bytes it has a window: what is written it demands again, and its
receiver passes that on only while the socket takes what is written. So nothing piles up here, and how much a client
holds is its own business.
"""

from __future__ import annotations

import logging
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.queue.vocabulary.commands import (
    Acknowledged,
    DemandSignalled,
    Left,
    Rejected,
    Writable,
)
from actors.queue.vocabulary.prefetch import (
    AcknowledgedForMore,
    DemandLimited,
    DemandWithdrawn,
    LimitDemand,
    ReturnedForMore,
)
from actors.queue.vocabulary.replies import MessagesTaken, ReceivedMessages
from transport.gateways.amqp.delivered import split
from transport.gateways.amqp.pace import FEW_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import LoopActorRef
    from actors.queue.vocabulary.replies import Reply
    from actors.queue.vocabulary.takes import TakeMessages
    from transport.broker.operations import Operations
    from transport.gateways.amqp.pace import Pace

    Ref = LoopActorRef[Any]

logger = logging.getLogger("penstock.amqp")

WITHOUT_END: Final = 1 << 60
"""Messages of who has no limit."""

REASON: Final = "rejected"
"""Why a message is dead that a consumer does not want again."""

DELETED: Final = "queue-deleted"
"""Why nothing more comes of a queue that is gone."""

Ranges = tuple[tuple[int, int], ...]


class Outcome(Enum):
    """What becomes of a delivery that is settled."""

    ACKNOWLEDGED = auto()
    REFUSED = auto()
    RETURNED = auto()


class Host(Protocol):
    """The channel, as its consumers see it."""

    def delivered(self, consumer: Consumer, messages: ReceivedMessages) -> None:
        """Messages have come for a consumer."""

    def taken(self, consumer: Consumer, answer: MessagesTaken) -> None:
        """The answer to what was asked for by ``basic.get``."""

    def consumer_refused(self, consumer: Consumer, code: str, text: str) -> None:
        """The queue is gone, or refuses the consumer."""

    def lingers(self, consumer: Consumer) -> bool:
        """Whether it was cancelled, and its client holds something of it yet."""


class Consumer:
    """One that receives from one queue.

    Args:
        host: its channel.
        tag: its name there.
        queue: the queue's name.
        no_ack: whether what is written to the client is settled with that.
        prefetch: messages that it may hold; 0 for any number.
        window: bytes that may be on their way to its client.
        pace: of what is delivered, by all connections.

    Attributes:
        tag: as given.
        queue: likewise.
        number: the queue's; 0 as long as it is not looked for.
        no_ack: likewise.
        prefetch: messages that it may hold now; 0 for any number.
        actor: what receives, once it is attached; ``number`` is its queue's.
        ended: whether nothing more comes for it.
        priority: it has messages before consumers of a lower one.
    """

    def __init__(
        self, host: Host, tag: str, queue: str, *, no_ack: bool, prefetch: int, window: int, pace: Pace
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.number = 0
        self.no_ack = no_ack
        self.actor: Ref | None = None
        self.ended = False
        self.priority = 0
        self._host, self._pace = host, pace
        # Has come, and waits until a turn has room for it; None for nothing.
        self._later: deque[ReceivedMessages] | None = None
        # What is written to a client that settles nothing is no more than the socket takes.
        self.prefetch = 0 if no_ack else prefetch
        # Settled, and not demanded again yet: until the queue has said what another limit leaves.
        self._settled = 0
        self._asks_limit = False
        self._asked_for = prefetch
        # What it holds above a limit that has become lower: so much is not demanded again.
        self._excess = 0
        self._window = window
        # Written, and not demanded again yet.
        self._written = 0

    def attach(self, operations: Operations, queue: str) -> Ref:
        """Have it receive from a queue, as the broker calls it; what receives. Errors as of `Operations.receiver`."""
        receiving = operations.receiver(queue, self, make=False, deadline=False, priority=self.priority)
        self.actor, self.number = receiving.actor, receiving.number
        return receiving.actor

    def begin_demand(self) -> None:
        """Demand the first messages."""
        self._demand(self.prefetch or WITHOUT_END, self._window)

    def written(self, size: int) -> None:
        """So many bytes of its messages are on their way to the client: its receiver asks for as many once the socket takes more."""
        self._written += size
        if self._written * 2 >= self._window and not self.ended:
            size, self._written = self._written, 0
            self._demand(0, size)

    def demand_no_more(self) -> None:
        """Have the queue deliver nothing more; what is held stays held."""
        self.ended = True
        self._tell(DemandWithdrawn(ends=True))

    def take(self, request: TakeMessages) -> None:
        """Ask for what is there now."""
        self._tell(request)

    def limit(self, prefetch: int) -> None:
        """From now on it may hold so many messages; 0 for any number."""
        if self.no_ack or self.ended or prefetch == self.prefetch:
            return
        self.prefetch = prefetch
        if not prefetch:
            self._excess = 0
            # What an answer to a limit of before may say does not hold any more.
            self._asked_for = 0
            self._demand(WITHOUT_END, 0)
            return
        if self.actor is not None and not self._asks_limit:
            self._ask_limit()

    def settled(self, messages: int) -> None:
        """The client holds so many less."""
        if not self.prefetch or self.ended:
            return
        if self._asks_limit:
            self._settled += messages
            return
        passed = min(self._excess, messages)
        self._excess -= passed
        if messages > passed:
            self._demand(messages - passed, 0)

    def acknowledge(self, ranges: Ranges) -> None:
        """Messages are done with."""
        self._tell(Acknowledged(ranges, self.actor))

    def acknowledge_for_more(self, ranges: Ranges, messages: int) -> int:
        """So many messages are done with; how many it has asked for anew with that."""
        again = self._again(messages)
        if again:
            self._tell(AcknowledgedForMore(ranges, again, self.actor))
        else:
            self.acknowledge(ranges)
        return again

    def give_back(self, ranges: Ranges, *, failed: bool | None) -> None:
        """Messages are to be delivered again, to whomever; they have failed, or None: they have where the queue counts that."""
        self._tell(Rejected(ranges, 0.0, failed, self.actor))

    def give_back_for_more(self, ranges: Ranges, messages: int) -> int:
        """So many messages are to be delivered again, and have failed where the queue counts that.

        How many of them it has asked for anew with that: who goes before others gets them again before those do.
        """
        again = self._again(messages)
        if again:
            self._tell(ReturnedForMore(ranges, again, self.actor))
        else:
            self.give_back(ranges, failed=None)
        return again

    def refuse(self, ranges: Ranges, reason: str) -> None:
        """Messages are not wanted again: dead letters, where the queue has a place for these; it knows that, and nobody here."""
        self._tell(Rejected(ranges, 0.0, True, self.actor, reason, drops=True))

    def writable(self, writable: bool) -> None:
        """The socket takes more, or not."""
        self._tell(Writable(writable))

    def leave(self, *, failed: bool | None = False, unseen: Ranges = (), together: bool = False) -> None:
        """It receives no more; what it holds goes back to its queue, and has failed as of `give_back`.

        Args:
            failed: as of `give_back`.
            unseen: of what it holds, that which its client never had: nothing of it has failed.
            together: others of its queue leave at the same time; what all hold is delivered again once they have left.
        """
        self.ended = True
        if self.actor is not None and self.actor.is_alive():
            inbox = self.actor.actor_inbox
            if not inbox.handled(left := Left(failed, unseen=unseen, together=together)):
                inbox.offer_beyond_bound(left)
            # At once where it can: what the queue is asked from now on is behind that.
            self.actor.stop_now()

    # Told by the actor

    def tell(self, reply: Reply) -> None:
        """Messages, and what the queue says of its demand."""
        kind = type(reply)
        if kind is ReceivedMessages:
            count = reply.batch.count  # type: ignore[union-attr]  # its type was looked at
            if self._later is not None or (count > FEW_MESSAGES and not self._pace.takes(count)):
                self._wait(reply)  # type: ignore[arg-type]
                return
            self._host.delivered(self, reply)  # type: ignore[arg-type]
        elif isinstance(reply, DemandLimited):
            self._limited(reply)
        elif isinstance(reply, MessagesTaken):
            self._host.taken(self, reply)

    def go_on(self) -> bool:
        """As of `pace.Waiting`."""
        pace = self._pace
        while self._later and (room := pace.room):
            now, rest = split(self._later[0], room)
            if rest is None:
                self._later.popleft()
            else:
                self._later[0] = rest
            pace.takes(now.batch.count)
            try:
                self._host.delivered(self, now)
            except Exception:  # a defect of ours ends this consumer only
                logger.exception("the consumer %r of queue %s has failed", self.tag, self.queue)
                self._later = None
                self._host.consumer_refused(self, "internal-error", "the consumer failed; consume again")
        if self._later:
            return True
        self._later = None
        return False

    def taken_back(self) -> list[ReceivedMessages]:
        """What waits for its turn, and waits no more."""
        later, self._later = self._later, None
        return list(later or ())

    def caught_up(self) -> None:
        """Nobody has asked."""

    def refused(self, code: str, text: str, close: bool) -> None:  # noqa: ARG002 - a queue that refuses lets go
        """The queue is gone, or this one broke a rule of it."""
        if not self.ended or (code == DELETED and self._host.lingers(self)):
            self._host.consumer_refused(self, code, text)

    # Inside

    def _wait(self, messages: ReceivedMessages) -> None:
        if self._later is None:
            self._later = deque((messages,))
            self._pace.join(self)
        else:
            self._later.append(messages)

    def _again(self, messages: int) -> int:
        """Of so many messages that it holds no more, how many it may ask for anew with what says so."""
        if self.prefetch and not self.ended and not self._asks_limit:
            return messages - min(self._excess, messages) if self._excess else messages
        return 0

    def _ask_limit(self) -> None:
        self._asks_limit = True
        self._settled = 0
        self._asked_for = self.prefetch
        self._tell(LimitDemand(self.prefetch))

    def _limited(self, reply: DemandLimited) -> None:
        """The queue has said what a limit leaves."""
        self._asks_limit = False
        if not self.prefetch:
            return
        if self.prefetch != self._asked_for:
            # It has changed again meanwhile. What was settled since is what the queue knows of, when it hears of this.
            self._ask_limit()
            return
        self._excess = reply.excess
        settled, self._settled = self._settled, 0
        if settled:
            self.settled(settled)

    def _demand(self, messages: int, size: int) -> None:
        self._tell(DemandSignalled(messages, size))

    def _tell(self, command: Any) -> None:
        if self.actor is not None and self.actor.is_alive():
            self.actor.deliver(command)


def ranges_of(pairs: Sequence[tuple[int, int]]) -> Ranges:
    """Pairs of first and count as an answer to the queue has them; those that touch are one."""
    found: list[tuple[int, int]] = []
    for first, count in pairs:
        if found and sum(found[-1]) == first:
            found[-1] = found[-1][0], found[-1][1] + count
        else:
            found.append((first, count))
    return tuple(found)


def _acknowledge(consumer: Consumer, ranges: Ranges, messages: int) -> int:
    return consumer.acknowledge_for_more(ranges, messages)


def _refuse(consumer: Consumer, ranges: Ranges, _messages: int) -> int:
    consumer.refuse(ranges, REASON)
    return 0


def _give_back(consumer: Consumer, ranges: Ranges, messages: int) -> int:
    # A queue of AMQP has no limit unless told, and then nobody counts how often.
    return consumer.give_back_for_more(ranges, messages)


TOLD: Final[dict[Outcome, Callable[[Consumer, Ranges, int], int]]] = {
    Outcome.ACKNOWLEDGED: _acknowledge,
    Outcome.REFUSED: _refuse,
    Outcome.RETURNED: _give_back,
}
"""How a consumer tells its queue what has become of so many deliveries; for how many it has asked anew with that."""
