"""The actor of one sending connection: a subscriber to what the client sends, under a max-in-flight request strategy.

It asks the queue for room on the client's behalf and passes on what it gets as demand, so a queue at its limit stops
its senders by granting nothing. The window begins small and doubles each time the client has used it up. So thousands of idle senders hold
little of a queue's room, and a busy one soon has enough to keep its connection full.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from actors.queue.connection_actor import ConnectionActor, Port
from actors.queue.state.newest import OF_CLIENT, OF_STAGE, TakenOverError
from actors.queue.vocabulary.commands import AttachSender, CaughtUp, OfferBatch, RequestCapacity
from actors.queue.vocabulary.replies import CapacityGranted, SenderAttached, SentMessages, Superseded
from actors.queue.vocabulary.stages import StageKey
from actors.runtime.loop_ref import LoopActorRef
from streams import MaxInFlightRequestStrategy

INITIAL_MESSAGES = 1_024
INITIAL_BYTES = 256 * 1024
"""The first window: one good batch, so that a new sender is not slowed by a round trip for each message."""
MAX_MESSAGES = 65_536
MAX_BYTES = 16 * 1024 * 1024
"""The largest window: enough for the bandwidth-delay product of loopback and of a data centre's network."""


class Window:
    """Requests of one unit, messages or bytes: what is asked of the queue and not yet confirmed stays within the window.

    Attributes:
        size: the window.
        outstanding: requested of the queue and not confirmed by it, whether the client has used it or not.
        remaining: the part of it that the client has not used. Below zero where a last message led beyond what was granted.
        used: what the client has used since the window grew.
        low: at this much outstanding, or less, more is requested: half the window is free.
    """

    __slots__ = ("_maximum", "_strategy", "low", "outstanding", "remaining", "size", "used")

    def __init__(self, size: int, maximum: int) -> None:
        self._maximum = maximum
        self.remaining = self.outstanding = self.used = 0
        self._resize(size)

    def due(self) -> int:
        """How much more to request now; in steps of half the window."""
        if self.remaining >= 0 and self.outstanding > self.low:
            return 0
        if self.used >= self.size and self.size < self._maximum:
            self.used = 0
            self._resize(min(self._maximum, self.size * 2))
        more = self._strategy.request_demand(max(0, self.remaining), max(0, self.outstanding - self.remaining))
        if more and self.remaining < 0:
            # The last message led beyond what was granted; without making that good the client would have no demand.
            more -= self.remaining
        self.remaining += more
        self.outstanding += more
        return more

    def _resize(self, size: int) -> None:
        self.size = size
        self._strategy = MaxInFlightRequestStrategy(size)
        self.low = size - self._strategy.batch


class SendToQueueSubscriber(ConnectionActor):
    """Takes `OfferBatch` from its connection, and the queue's answers.

    Args:
        queue: the queue actor.
        producer: the name under which the client may send again what it sent, or None.
        port: the way back to the client.
        stage: what the client sends is held back under this until its transaction is committed; None for none.
        temporary: nobody comes under the name when the client has ended.
        arrival: the connection's number, in the order in which they were accepted.
    """

    what = "sending"

    def __init__(
        self,
        queue: LoopActorRef[Any],
        producer: str | None,
        port: Port,
        stage: StageKey | None = None,
        temporary: bool = False,
        arrival: int = 0,
    ) -> None:
        super().__init__(queue, port)
        self._attaching = AttachSender(producer, stage, temporary, self.actor_ref, arrival=arrival)
        self._messages = Window(INITIAL_MESSAGES, MAX_MESSAGES)
        self._bytes = Window(INITIAL_BYTES, MAX_BYTES)
        self._unconfirmed: deque[tuple[int, int]] = deque()

    def attaching(self) -> AttachSender:
        """What makes the sender known."""
        return self._attaching

    def handle(self, kind: type, message: Any) -> None:
        """Dispatch by type, the frequent ones first."""
        if kind is OfferBatch:
            self._offer(message)
        elif kind is SentMessages:
            self._sent(message)
        elif kind is CapacityGranted:
            self._port.tell(message)
        elif kind is SenderAttached:
            self._port.tell(message)
            self._request()
        elif kind is Superseded:
            self._end(TakenOverError.code, OF_CLIENT if self._attaching.stage is None else OF_STAGE)
        else:
            if kind is CaughtUp and message.answered:
                # Which has the queue store what it has taken in: what is not stored has no event that a mark could wait for.
                self._queue.tell(RequestCapacity(0, 0, self.actor_ref))
            super().handle(kind, message)

    def _offer(self, message: OfferBatch) -> None:
        if self._ended:
            return
        batch, messages, nbytes = message.batch, self._messages, self._bytes
        count, size = batch.count, batch.nbytes
        messages.remaining -= count
        messages.used += count
        nbytes.remaining -= size
        nbytes.used += size
        self._unconfirmed.append((count, size))
        if message.connection is None:
            self.pass_on(message)
        else:
            self._queue.tell(message)

    def _sent(self, message: SentMessages) -> None:
        count, size = self._unconfirmed.popleft()
        messages, nbytes = self._messages, self._bytes
        messages.outstanding -= count
        nbytes.outstanding -= size
        self._port.tell(message)
        if messages.outstanding <= messages.low or nbytes.outstanding <= nbytes.low or nbytes.remaining < 0:
            self._request()

    def _request(self) -> None:
        messages, size = self._messages.due(), self._bytes.due()
        if messages or size:
            self._queue.tell(RequestCapacity(messages, size, self.actor_ref))
