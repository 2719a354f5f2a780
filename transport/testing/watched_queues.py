"""Queues that tell what is stored in them and how they stand, and that take back what receivers hold when they are told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors import QueueActor, QueueDirectory, QueueState
from actors.queue.operations.browsing import describe
from actors.queue.vocabulary.commands import PauseSenders

if TYPE_CHECKING:
    from actors import LoopActorRef, Message, MessageBatch
    from actors.queue.vocabulary.statistics import QueueStatistics

MOST_SENT_MESSAGES = 100_000
MOST_SENT_BYTES = 64 * 1024 * 1024
"""What is kept of one queue to be looked at; a test that sends more looks at the queue's figures instead."""

FULL = "the test has it full"

Condition = Callable[["QueueStatistics"], bool]


class SentToQueue:
    """What senders have sent to one queue and it has stored, in order.

    Attributes:
        messages: how many messages there were.
        bytes: their bytes.
    """

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        self._batches: list[MessageBatch] = []

    def add(self, batch: MessageBatch) -> None:
        """Note a batch; beyond the limits only that there was one."""
        self.messages += len(batch)
        self.bytes += batch.nbytes
        if self.complete:
            self._batches.append(batch)

    @property
    def complete(self) -> bool:
        """Whether all of it is kept."""
        return self.messages <= MOST_SENT_MESSAGES and self.bytes <= MOST_SENT_BYTES

    def all(self) -> list[Message]:
        """Every message."""
        return [message for batch in self._batches for message in batch.messages()]


class Watching:
    """Who watches the queues of one broker, through all its lives.

    Attributes:
        sent: what was sent, by queue.
    """

    def __init__(self) -> None:
        self.sent: dict[str, SentToQueue] = {}
        self._waiting: dict[str, list[tuple[Condition, asyncio.Future[None]]]] = {}
        # How many blocks of the test have each queue full.
        self._full: dict[str, int] = {}
        self._counting = threading.Lock()

    def hold_full(self, queue: str, blocks: int) -> None:
        """So many more blocks of the test have ``queue`` full; from any thread. Who changes it tells the queue."""
        with self._counting:
            held = self._full.pop(queue, 0) + blocks
            if held:
                self._full[queue] = held

    def full(self, queue: str) -> str | None:
        """Why ``queue`` takes nothing for the test's sake; None where it may."""
        return FULL if queue in self._full else None

    def stored(self, queue: str, batch: MessageBatch) -> None:
        """Senders' messages are about to be stored."""
        self.sent.setdefault(queue, SentToQueue()).add(batch)

    def waits(self, queue: str) -> bool:
        """Whether somebody waits for ``queue`` to stand in some way."""
        return queue in self._waiting

    def changed(self, queue: str, statistics: QueueStatistics) -> None:
        """A queue stands so now."""
        for condition, future in self._waiting.get(queue, ()):
            if not future.done() and condition(statistics):
                future.set_result(None)

    async def until(self, queue: str, condition: Condition) -> None:
        """Return when ``queue`` stands as ``condition`` says; somebody has to look once behind this, for it may stand so already."""
        waiting = (condition, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(queue, []).append(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting[queue].remove(waiting)
            if not self._waiting[queue]:
                del self._waiting[queue]


class Redeliver:
    """To a watched queue: what receivers hold comes back, as if the visibility timeout had passed. Answer: how many messages."""


class WatchedQueue(QueueActor):
    """A queue that is watched."""

    def __init__(self, watching: Watching, state: QueueState, *arguments: Any) -> None:
        super().__init__(state, *arguments)
        self._seen_by = watching

    def on_start(self) -> None:
        """See `QueueActor`."""
        super().on_start()
        if (full := self._seen_by.full(self._state.name)) is not None:
            self.actor_ref.tell(PauseSenders(full))
        self._tell_how_it_stands()

    def on_receive(self, message: Any) -> Any:
        """See `QueueActor`."""
        if type(message) is PauseSenders and message.reason is None:
            # Of the broker's memory or disk: the test's own reason stays.
            message = PauseSenders(self._seen_by.full(self._state.name))
        answer = self._redeliver() if type(message) is Redeliver else super().on_receive(message)
        self._tell_how_it_stands()
        return answer

    def _tell_how_it_stands(self) -> None:
        watching, state = self._seen_by, self._state
        # What was accepted and not stored is in no figure yet; it is stored in a message to itself, and then is told.
        if watching.waits(state.name) and not state.incoming:
            watching.changed(state.name, describe(state, self.loop.time()))

    def _store(self, in_turn: bool) -> None:
        for item in self._state.incoming:
            if item.new and item.rejected is None:
                self._seen_by.stored(self._state.name, item.stored)
        super()._store(in_turn)

    def _redeliver(self) -> int:
        state, now = self._state, self.loop.time()
        if state.incoming:
            self._store(in_turn=False)
        leases = state.leases
        count = leases.in_flight
        for receiver in list(state.receivers.values()):
            for span in leases.take_all(receiver):
                leases.grant(receiver, span, now)
        while leases.deadlines.live and (first := leases.deadlines.earliest()) is not None and first <= now:
            state.tick(now)
        self._carry_out()
        return count


class WatchedQueues(QueueDirectory):
    """The directory of a broker whose queues are watched; arguments as of `QueueDirectory`."""

    def __init__(self, watching: Watching, *arguments: Any, **options: Any) -> None:
        # Before those that were recovered are started.
        self._seen_by = watching
        super().__init__(*arguments, **options)

    def start_actor(self, *arguments: Any) -> LoopActorRef[Any]:
        """See `QueueDirectory`."""
        return WatchedQueue.start(self._seen_by, *arguments)
