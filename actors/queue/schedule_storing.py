"""Where the message of a schedule goes, whether there is room for it, and how it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actors.batch import Message, MessageBatch
from actors.errors import QueueLimitError
from actors.exchanges.errors import ExchangeError
from actors.exchanges.message_tables import table_of
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.operations.dead_letters import has_room
from actors.queue.operations.sending import refusal_of, timing_of
from actors.queue.vocabulary.published import Published
from actors.scheduling.schedule import all_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.queue.distribution import Distributor
    from actors.queue.exchange_directory import ExchangeDirectory
    from actors.queue.queue_state import QueueState
    from actors.runtime.loop_ref import LoopActorRef
    from actors.scheduling.schedule import Schedule
    from actors.storage.durable_map import EntryPut


class NoWayError(ExchangeError):
    """An exchange has no queue for the message of a schedule."""

    code = "unroutable"


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def get_or_create(self, name: str) -> LoopActorRef[Any]:
        """A queue, made if need be."""

    def state(self, name: str) -> QueueState | None:
        """A queue's state; None where there is no such queue."""


class Storing:
    """Stores what is due. It keeps nothing.

    Args:
        queues: the broker's.
        exchanges: likewise.
        distributor: stores.
    """

    def __init__(self, queues: Queues, exchanges: ExchangeDirectory, distributor: Distributor) -> None:
        self._queues = queues
        self._exchanges = exchanges
        self._distributor = distributor

    def check(self, schedule: Schedule) -> None:
        """Have the place there where its messages go: a queue is made if need be, an exchange has to be there; raises QueueError."""
        if schedule.queue is not None:
            self._queues.get_or_create(schedule.queue)
        else:
            self._exchanges.exchanges.check(schedule.exchange or "")

    def targets(self, schedule: Schedule, batch: MessageBatch) -> tuple[str, ...]:
        """The queues that a message goes to; raises QueueError where there is none."""
        if schedule.queue is not None:
            if self._queues.state(schedule.queue) is None:
                raise QueueNotFoundError(schedule.queue)
            return (schedule.queue,)
        exchange, key = schedule.exchange or "", schedule.routing_key
        headers = table_of(b"" if batch.headers is None else batch.headers[0])
        found = self._exchanges.exchanges.route(exchange, (key,), headers)
        names = tuple([name for name in found if self._queues.state(name) is not None])
        if not names:
            count = self._exchanges.publishing.counts.of(exchange)
            count.published += 1
            count.unroutable += 1
            raise NoWayError(f"exchange {exchange!r:.255} has no queue for the routing key {key!r:.255}")
        return names

    def full(self, names: tuple[str, ...], batch: MessageBatch, ttl: float | None) -> tuple[str, str] | None:
        """A queue that has no room for a message, and why; None where all have some."""
        for name in names:
            # One that has failed begins anew by it.
            self._queues.get(name)
            state = self._queues.state(name)
            assert state is not None, f"queue {name} was there when it was routed"
            if state.paused is not None:
                return name, f"queue {name} takes nothing now: {state.paused}"
            delay_us, _ = timing_of(state.settings, None, ttl)
            try:
                refusal = refusal_of(state, batch.count, batch.nbytes, delayed=bool(delay_us))
            except QueueLimitError as error:
                # It has no room for another delay.
                refusal = str(error)
            if refusal is not None:
                return name, refusal
            if not state.rejects and not has_room(state):
                stored = f"{state.log.stored_messages:,} messages, {state.log.stored_bytes:,} bytes"
                return name, f"queue {name} is full ({stored}): waiting for receivers"
        return None

    def is_closed(self, name: str) -> bool:
        """Whether a queue is full, and says so when it is no more."""
        state = self._queues.state(name)
        return state is not None and state.paused is None and not has_room(state)

    def store(
        self, schedule: Schedule, names: tuple[str, ...], batch: MessageBatch, changes: Sequence[EntryPut]
    ) -> bool:
        """Store a message in these queues, and what changes with it, in one instant.

        Returns whether that has happened; errors as of ``Distributor.store_with_entries``.
        """
        published = None
        if schedule.exchange is not None:
            published = Published(schedule.exchange, schedule.routing_key)
        stored = self._distributor.store_with_entries(names, batch, schedule.ttl, published, changes, schedule.priority)
        if stored and schedule.exchange is not None:
            # Not before: where the disk is behind it is tried again.
            self._exchanges.publishing.counts.of(schedule.exchange).published += 1
        return stored


def message_of(schedule: Schedule, time: int) -> MessageBatch:
    """The message of a schedule for one of its times."""
    headers = all_headers(schedule, time)
    return MessageBatch.from_messages([Message(schedule.payload, key=schedule.key.encode(), headers=headers)])
