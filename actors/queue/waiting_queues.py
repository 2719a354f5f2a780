"""The queues in which messages wait at exchanges: each is there as long as its exchange is, and nobody can name it.

One is made before its exchange is recorded, and is deleted behind it. So a crash between the two leaves a queue without an exchange at
most, which the next start forgets, and with it what waited for an exchange that is deleted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from actors.exchanges.delayed import is_delayed, is_waiting_queue, waiting_queue
from actors.exchanges.vocabulary import ExchangeDeclared, ExchangeDeleted
from actors.queue.vocabulary.settings import MAX_DELAYED, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from actors.exchanges.exchanges import Exchanges
    from actors.exchanges.vocabulary import Event, Exchange
    from actors.queue.queue_state import QueueState
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage

logger = logging.getLogger("penstock.queue")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    settings: QueueSettings

    def __contains__(self, name: str) -> bool:
        """Whether there is a queue of this name."""

    def declare(self, name: str, settings: QueueSettings) -> LoopActorRef[Any]:
        """A queue is to be there."""

    def delete(self, name: str) -> None:
        """It is to be gone, with what it holds."""

    def state(self, name: str) -> QueueState | None:
        """A queue's state; None where there is no such queue."""


def settings_for(exchange: Exchange, usual: QueueSettings) -> QueueSettings:
    """Those of the queue that waits for an exchange: it holds its senders back where it is full, and has the broker's limits.

    Args:
        exchange: which.
        usual: what a queue gets that is not declared otherwise.
    """
    most = MAX_DELAYED if usual.max_messages is None else min(MAX_DELAYED, usual.max_messages)
    return QueueSettings(
        max_messages=most,
        max_bytes=usual.max_bytes,
        # What can be received expires at once, and goes to the exchange.
        ttl=0.0,
        dead_letter_exchange=exchange.name,
        durable=exchange.durable,
        max_staged_messages=usual.max_staged_messages,
        max_staged_bytes=usual.max_staged_bytes,
    )


class WaitingQueues:
    """Those of all exchanges. A part of ``ExchangeDirectory``.

    Args:
        queues: the broker's.
        exchanges: all of them.
    """

    def __init__(self, queues: Queues, exchanges: Exchanges) -> None:
        self._queues = queues
        self._exchanges = exchanges

    def before(self, events: Iterable[Event]) -> list[str]:
        """Exchanges are about to be made, or deleted; returns what `after` is to be told then.

        Raises:
            TooManyQueuesError: there is no room for another queue. Nothing has happened.
        """
        gone: list[str] = []
        for event in events:
            if isinstance(event, ExchangeDeclared) and is_delayed(event.exchange):
                name = waiting_queue(event.exchange.name)
                if name not in self._queues:
                    self._queues.declare(name, settings_for(event.exchange, self._queues.settings))
            elif isinstance(event, ExchangeDeleted) and is_delayed(self._exchanges.get(event.name)):
                gone.append(waiting_queue(event.name))
        return gone

    def after(self, gone: Iterable[str]) -> None:
        """It has happened: these wait for an exchange no more, and what they hold is lost."""
        for name in gone:
            if name in self._queues:
                self._queues.delete(name)

    def messages(self, exchange: Exchange) -> int:
        """How many messages wait at an exchange."""
        state = self._queues.state(waiting_queue(exchange.name)) if is_delayed(exchange) else None
        return 0 if state is None else state.log.stored_messages

    def at(self, name: str) -> int:
        """The same of an exchange by its name; 0 where there is none."""
        exchange = self._exchanges.get(name)
        return 0 if exchange is None else self.messages(exchange)

    def all_messages(self) -> int:
        """How many wait at all of them."""
        return sum(map(self.messages, self._exchanges))


def look_for_waiting(storage: Storage, exchanges: Exchanges, usual: QueueSettings) -> None:
    """At a start: delete queues that wait for an exchange that is not there, and make those that a repair of the journal has lost."""
    wanted = {waiting_queue(each.name): each for each in exchanges if is_delayed(each)}
    there = {stored.name: stored.number for stored in storage.queues if is_waiting_queue(stored.name)}
    for name, number in there.items():
        if name not in wanted:
            storage.delete(number)
    for name, exchange in wanted.items():
        if name not in there:
            logger.warning("what waited at exchange %s is not there any more: it waits anew", exchange.name)
            storage.declare(name, settings_for(exchange, usual))
