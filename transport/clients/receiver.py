"""`Receiver`, the source of a stream of deliveries from a queue; at work it is a publisher of them, and the link they come on."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count, repeat
from typing import Any, Generic, TypeVar

from streams import (
    Materialization,
    MaxInFlightRequestStrategy,
    Publisher,
    RequestStrategy,
    Source,
)
from streams.stages.one_subscriber import OneSubscriber
from transport.clients.authentication import Credentials
from transport.clients.backoff import Backoff
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.link import BrokerLink
from transport.clients.receiver_session import DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_IN_FLIGHT_BYTES, ReceiverSession
from transport.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from transport.security.access import Access
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS
from transport.wire.messages import VERSION, Cancel, Deliver, Error, Frame, Hello, Welcome
from transport.wire.names import check_name

T = TypeVar("T")

logger = logging.getLogger("penstock.receiver")

EMIT_BUDGET = 1024
"""Elements handed on in one turn of the loop, so that a fast receiver leaves turns for everybody else."""
CANCEL_TIMEOUT = 5.0
"""Seconds that the broker has to close after CANCEL; by then the acknowledgements have arrived, or never will."""
EXTENSIONS_PER_TIMEOUT = 3
"""How often within a visibility timeout what waits here, not yet handed on, is extended."""
MAX_IDLE_EXTENSIONS = 18
"""Extensions in a row without anything handed on (six visibility timeouts): a stream that stands still for longer gives others
their chance at what waits here."""


class Receiver(Source[Delivery, None]):
    """The messages of a queue, each until it is acknowledged.

    Every run is a connection of its own with its own demand: at most ``max_in_flight`` messages are delivered and not yet
    acknowledged. A message that is not acknowledged within the broker's visibility timeout after it was handed on is delivered again.
    When the run ends, whatever way, its acknowledgements are sent and everything unacknowledged goes back to the queue at once. What it
    had handed on has failed then, which counts towards the queue's ``max_receives``; what still waited here has not. Where the
    program cancels the run, nothing has failed.

    A delivery is to be acknowledged while its run goes on: in the stream, or in the body of an ``async for`` or ``for`` over it, which
    keeps the run until it is done with its last element. Deliveries that outlive their run, such as the result of `Sink.head` or
    `Sink.collect`, have gone back to the queue; to acknowledge them does nothing, and is told by a warning.

    Args:
        addresses: the broker's receiving address ``host:port``, or several to try in turn.
        queue: the queue's name.
        max_in_flight: messages delivered and not acknowledged, at most.
        max_in_flight_bytes: their bytes, at most, give or take one message.
        strategy: another way to request than max-in-flight, in place of ``max_in_flight``.
        limit: acknowledge this many messages, then complete; never is more requested than is left of it.
        client_id: a name for the statistics.
        reconnect: how to come back after a broken connection, and when to give up.
        on_waiting: called with True when the broker says that this receiver waits behind another, because the queue is exclusive, and
            with False when its first message shows that its turn has come. A warning is logged either way.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = DEFAULT_RECEIVE_ADDRESS,
        *,
        queue: str,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        max_in_flight_bytes: int = DEFAULT_MAX_IN_FLIGHT_BYTES,
        strategy: RequestStrategy | None = None,
        limit: int | None = None,
        client_id: str | None = None,
        reconnect: Backoff | None = None,
        on_waiting: Callable[[bool], None] | None = None,
        access: Access | None = None,
    ) -> None:
        if max_in_flight < 1 or max_in_flight_bytes < 1 or (limit is not None and limit < 1):
            raise LocalProtocolError(
                f"max_in_flight={max_in_flight}, max_in_flight_bytes={max_in_flight_bytes}, limit={limit}: each must be 1 or more"
            )
        self.addresses = addresses
        self.queue_name = check_name(queue, "queue")
        self.max_in_flight_bytes = max_in_flight_bytes
        self.strategy = strategy or MaxInFlightRequestStrategy(max_in_flight)
        self.limit = limit
        self.client_id = None if client_id is None else check_name(client_id, "client")
        self.reconnect = reconnect or Backoff()
        self.on_waiting = on_waiting
        self.credentials = Credentials(access)
        super().__init__(lambda materialization: _materialize(DeliveryStage(self, materialization), materialization))

    def batches(self) -> Source[DeliveredBatch, None]:
        """The same messages a delivered batch at a time, for handlers that work on many at once."""
        return Source(lambda materialization: _materialize(BatchStage(self, materialization), materialization))


def _materialize(stage: ReceiverStage[Any], materialization: Materialization) -> tuple[Publisher[Any], None]:
    materialization.on_end(stage.finish)
    return stage, None


class ReceiverStage(OneSubscriber[T], Generic[T]):
    """One run of a `Receiver`; subclasses say what an element is."""

    what = "a materialized receiver"

    def __init__(self, receiver: Receiver, materialization: Materialization) -> None:
        super().__init__()
        self._m = materialization
        self._loop = materialization.loop
        self._receiver = receiver
        self.session = ReceiverSession(
            receiver.queue_name,
            receiver.strategy,
            self._schedule_turn,
            receiver.max_in_flight_bytes,
            receiver.limit,
            self._note_late,
        )
        self.link = BrokerLink(
            receiver.addresses, self._hello, self, receiver.reconnect, credentials=receiver.credentials
        )
        self._started = False
        self._waiting: deque[DeliveredBatch] = deque()
        self._batch: DeliveredBatch | None = None
        self._current: list[T] = []
        self._position = 0
        self._turn_scheduled = False
        self._ended = False
        self._visibility = 0.0
        self._extension: asyncio.TimerHandle | None = None
        self._handed_on = False
        self._idle_extensions = 0
        self._waits = False
        self._late_noted = False

    # What an element is

    @abstractmethod
    def _elements(self, batch: DeliveredBatch) -> list[T]:
        """The elements of ``batch``, in order."""

    # Publisher and Subscription

    def _go_on(self) -> None:
        """The first request connects."""
        if not self._started:
            self._started = True
            self.link.start()
        self._schedule_turn()

    def _misused(self, error: Exception) -> None:
        self._fail(error)
        self._give_back()
        self._schedule_turn()

    def _cancelled(self) -> None:
        """What waits here goes back at once; what downstream has taken it may still acknowledge."""
        self._give_back()
        self._schedule_turn()

    async def finish(self) -> None:
        """Send the answers that wait, give back everything else and wait until the broker has taken note."""
        self._downstream = None
        self._give_back()
        self._stop_extending()
        # What was handed on and is not answered has failed, unless the program has just ended the stream. What is still on its
        # way here nobody has tried.
        self.session.end(failed=not self._m.cancelled)
        if not self._started or self.link.over.done():
            return
        self._ended = True
        if self.link.is_open:
            self._send_answers()
            self.link.send(Cancel(failed=False))
            self.link.finish()
        else:
            self.link.abort()
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await asyncio.shield(self.link.over)
        except TimeoutError:
            self.link.abort()

    # LinkUser

    def link_opened(self, welcome: Welcome) -> None:
        """Request anew: what an earlier connection held has gone back to the queue."""
        prefix = welcome.options.get("id_prefix", b"")
        visibility_ms = welcome.options.get("visibility_timeout_ms", 0)
        waiting = welcome.options.get("waiting", False)
        if not isinstance(prefix, bytes) or type(visibility_ms) is not int or type(waiting) is not bool:
            raise RemoteProtocolError(
                "WELCOME: id_prefix is not binary, visibility_timeout_ms no integer, or waiting neither true nor false"
            )
        self._drop_waiting()
        self.session.connected(prefix)
        self._visibility = visibility_ms / 1000
        self._extend_later()
        if waiting or self._waits:
            self._note_waiting(waiting)
        self._schedule_turn()

    def link_frame(self, frame: Frame) -> None:
        """Deliveries wait here until downstream wants them; demand has bounded them."""
        if isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        if not isinstance(frame, Deliver):
            return
        batch = self.session.delivered(frame)
        self.link.progressed()
        if self._waits:
            self._note_waiting(False)
        if self._downstream is None:
            batch.give_back()
        else:
            self._waiting.append(batch)
        self._schedule_turn()

    def link_writable(self) -> None:
        """The answers that were held back may leave; meanwhile they were gathered as ranges."""
        self._schedule_turn()

    def link_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the link finds another
        """What waits here is not ours any more."""
        self._drop_waiting()
        self._stop_extending()

    def link_failed(self, error: Exception) -> None:
        """No broker: downstream learns why."""
        self._ended = True
        self._stop_extending()
        self._fail(error)

    # Inside

    def _hello(self) -> Hello:
        return Hello(VERSION, "receiver", self._receiver.queue_name, self._receiver.client_id, {})

    def _note_waiting(self, waiting: bool) -> None:
        """Whoever gets nothing because another has an exclusive queue is to know it."""
        self._waits = waiting
        logger.warning(
            "queue %s is exclusive: this receiver %s",
            self._receiver.queue_name,
            "waits in line behind another" if waiting else "has it now",
        )
        if self._receiver.on_waiting is not None:
            try:
                self._receiver.on_waiting(waiting)
            except Exception as error:  # noqa: BLE001 - the program's own failure fails its stream, not the connection
                self._fail(error)

    def _note_late(self, number: int) -> None:
        """A program that keeps deliveries longer than their run would have to find out why they come again."""
        if not self._late_noted:
            self._late_noted = True
            logger.warning(
                "queue %s: message %d was acknowledged when the run of its receiver was over; it has gone back to the queue, and comes "
                "again. Acknowledge within the stream or its loop (docs/failures.md). Further ones of this run are not reported",
                self._receiver.queue_name,
                number,
            )

    def _schedule_turn(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Hand on what is wanted, then say what was answered and request what is free."""
        self._turn_scheduled = False
        if self._ended:
            return
        try:
            self._emit()
        except Exception as error:  # noqa: BLE001 - whatever a subscriber raises: it has cancelled (2.13), and fails its run
            self.cancel()
            self._m.fail(error)
        if not self.link.writable:
            return
        self._send_answers()
        if self._downstream is None or not self.link.is_open:
            return
        request = self.session.demand() if self._wanted or self.session.in_flight else None
        if request is not None:
            self.link.send(request)
        limit = self._receiver.limit
        if limit is not None and self.session.acknowledged >= limit:
            self._complete()

    def _emit(self) -> None:
        """Hand on as much as is wanted, within this turn's budget."""
        budget = EMIT_BUDGET
        while self._wanted > 0 and self._downstream is not None:
            position = self._position
            current = self._current
            if position == len(current):
                if not self._waiting:
                    return
                self._batch = self._waiting.popleft()
                current = self._current = self._elements(self._batch)
                position = self._position = 0
            end = min(len(current), position + self._wanted, position + budget)
            budget -= end - position
            self._hand_on(current, position, end)
            if budget <= 0:
                self._schedule_turn()
                return

    def _hand_on(self, current: list[T], position: int, end: int) -> None:
        downstream = self._downstream
        assert downstream is not None, "the caller has looked"
        self._handed_on = True
        on_next = downstream.on_next
        self._wanted -= end - position
        while position < end:
            element = current[position]
            position += 1
            self._position = position
            on_next(element)
            # on_next may have cancelled, or run the loop's callbacks that lost the connection.
            if self._downstream is None or self._current is not current:
                self._wanted += end - position
                return

    def _send_answers(self) -> None:
        if self.link.is_open:
            for frame in self.session.answers():
                self.link.send(frame)

    def _extend_later(self) -> None:
        self._stop_extending()
        if self._visibility > 0:
            self._extension = self._loop.call_later(self._visibility / EXTENSIONS_PER_TIMEOUT, self._extend)

    def _extend(self) -> None:
        """The clock of a message's handling starts when it is handed on, not while it waits here."""
        self._idle_extensions = 0 if self._handed_on else self._idle_extensions + 1
        self._handed_on = False
        if self._idle_extensions > MAX_IDLE_EXTENSIONS:
            self._extend_later()
            return
        for batch in self._waiting:
            self.session.extend(batch, batch.first, len(batch), self._visibility)
        if self._batch is not None and 0 < self._position < len(self._current):
            rest = len(self._current) - self._position
            self.session.extend(self._batch, self._batch.first + self._position, rest, self._visibility)
        self._schedule_turn()
        self._extend_later()

    def _stop_extending(self) -> None:
        if self._extension is not None:
            self._extension.cancel()
            self._extension = None

    def _give_back(self) -> None:
        self.session.withdraw()
        for batch in self._waiting:
            batch.give_back()
        if self._batch is not None and self._position < len(self._current):
            self._batch.give_back(self._position)
        self._drop_waiting()

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._batch = None
        self._current = []
        self._position = 0

    def _complete(self) -> None:
        downstream, self._downstream = self._downstream, None
        if downstream is not None:
            self._m.call(downstream.on_complete)

    def _fail(self, error: Exception) -> None:
        downstream, self._downstream = self._downstream, None
        if downstream is not None:
            self._m.call(downstream.on_error, error)


class DeliveryStage(ReceiverStage[Delivery]):
    """One element a message."""

    def _elements(self, batch: DeliveredBatch) -> list[Delivery]:
        return list(map(Delivery, repeat(batch), count(), batch.split()))


class BatchStage(ReceiverStage[DeliveredBatch]):
    """One element a delivered batch."""

    def _elements(self, batch: DeliveredBatch) -> list[DeliveredBatch]:
        return [batch]
