"""A `Receiver` at work: a publisher of deliveries, and the link they come on."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from streams import Materialization, RequestStrategy
from streams.stages.one_subscriber import OneSubscriber
from transport.clients.authentication import Credentials
from transport.clients.backoff import Backoff
from transport.clients.delivery import DeliveredBatch
from transport.clients.handler_failures import HandlerFailures
from transport.clients.link import UNHEARD, BrokerLink, somebody_listens
from transport.clients.receiver_session import ReceiverSession
from transport.errors import BrokerError, LocalProtocolError, OldBrokerError, RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.messages import RETRIES, VERSION, Because, Cancel, Deliver, Error, Frame, Hello, Options, Welcome

if TYPE_CHECKING:
    from transport.clients.at_work import AtWork
    from transport.clients.tracing import Tracing
    from transport.clients.waiting import OnWait
    from transport.wire.receiver_bindings import Binding

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
NO_PRIORITIES = "the broker at {} is older than this client and knows no priorities: receivers of queue {} take turns"


class Description(Protocol):
    """What a run has to know of its `Receiver`, whose attributes these are."""

    addresses: str | Sequence[str]
    queue_name: str
    max_in_flight_bytes: int
    strategy: RequestStrategy
    limit: int | None
    client_id: str | None
    reconnect: Backoff
    on_waiting: Callable[[bool], None] | None
    credentials: Credentials
    handler_failures: HandlerFailures
    creates_queue: bool
    has_deadline: bool
    priority: int
    hello_options: Options
    bindings: tuple[Binding, ...]
    owns_queue: bool
    on_wait: OnWait | None
    at_work: AtWork | None
    tracing: Tracing | None

    def run_failed(self, error: Exception) -> None:
        """A run of it has failed."""

    def opened(self) -> None:
        """A run of it has a connection."""


class ReceiverStage(OneSubscriber[T], Generic[T]):
    """One run of a `Receiver`; subclasses say what an element is."""

    what = "a materialized receiver"

    def __init__(self, receiver: Description, materialization: Materialization) -> None:
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
            receiver.handler_failures,
        )
        self.link = BrokerLink(
            receiver.addresses,
            self._hello,
            self,
            receiver.reconnect,
            credentials=receiver.credentials,
            warns=receiver.on_wait is None,
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
        self._waits, self._guesses = False, True
        self._late_noted = False
        self._waiting_for = UNHEARD
        if somebody_listens(receiver.on_wait, logger):
            from transport.clients.waiting import ReceiverWaiting  # noqa: PLC0415 - where somebody listens

            self._waiting_for = ReceiverWaiting(
                self.link, self.session, receiver.queue_name, receiver.on_wait, self._fail, logger
            )

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
            self._waiting_for.may_wait()
        self._schedule_turn()

    def _misused(self, error: Exception) -> None:
        self._fail(error)
        self._give_back()
        self._schedule_turn()

    def _cancelled(self) -> None:
        """What waits here goes back at once; what downstream has taken it may still acknowledge."""
        self._give_back()
        self._schedule_turn()

    def drained(self) -> None:
        """Nothing more comes: what waits here goes back, and what was handed on is still to be answered."""
        downstream = self._downstream
        if downstream is not None:
            self.cancel()
            downstream.on_complete()

    async def finish(self) -> None:
        """Send the answers that wait, give back everything else and wait until the broker has taken note."""
        self._downstream = None
        self._waiting_for.stop()
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
        if self._receiver.bindings and "bound" not in welcome.options:
            self.link.abort()
            self.link_failed(
                OldBrokerError(
                    f"the broker at {self.link.address} is older than this client and binds no queues to exchanges: update it"
                )
            )
            return
        if not self._receiver.has_deadline and visibility_ms:
            from transport.wire.receiver_deadlines import old_broker  # noqa: PLC0415 - few want that

            self.link.abort()
            self.link_failed(old_broker(self.link.address))
            return
        if self._receiver.priority and "priority" not in welcome.options:
            logger.warning("%s", NO_PRIORITIES.format(self.link.address, self._receiver.queue_name))
        if self._receiver.owns_queue and isinstance(name := welcome.options.get("queue"), str):
            self.session.queue = name
        self.session.dead_letters = welcome.options.get("dead_letters") is True
        self._receiver.handler_failures.queue_delays = welcome.options.get(RETRIES) is True
        lacking = self._receiver.handler_failures.refusal(self._receiver.queue_name, self.session.dead_letters)
        if lacking is not None:
            self.link.abort()
            self.link_failed(LocalProtocolError(lacking))
            return
        self._drop_waiting()
        self._guesses = "turns" not in welcome.options
        self.session.connected(prefix)
        self._waiting_for.moved()
        self._visibility = visibility_ms / 1000
        self._extend_later()
        if waiting or self._waits:
            self._note_waiting(waiting)
        self._receiver.opened()
        self._schedule_turn()

    def link_frame(self, frame: Frame) -> None:
        """Deliveries wait here until downstream wants them; demand has bounded them."""
        if isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        if isinstance(frame, Because):
            self._waiting_for.answered(frame)
        if not isinstance(frame, Deliver):
            if isinstance(frame, wire.Turn) and frame.waiting != self._waits:
                self._note_waiting(frame.waiting)
            return
        self._waiting_for.moved()
        batch = self.session.delivered(frame)
        self.link.progressed()
        if self._waits and self._guesses:
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
        self.session.lost()
        self._drop_waiting()
        self._stop_extending()
        self._waiting_for.another()

    def link_failed(self, error: Exception) -> None:
        """No broker: downstream learns why."""
        self._ended = True
        self._stop_extending()
        if self._receiver.owns_queue:
            from transport.wire.receiver_bindings import refusal as no_own_queues  # noqa: PLC0415 - few want that

            error = no_own_queues(error, self.link.address)
        elif not self._receiver.creates_queue:
            from transport.wire.queue_named import refusal  # noqa: PLC0415 - as above

            error = refusal(error, self.link.address, create=False)
        self._fail(error)

    # Inside

    def _hello(self) -> Hello:
        receiver = self._receiver
        options = receiver.hello_options.copy()
        if receiver.bindings:
            from transport.wire.receiver_bindings import BIND, OWN_QUEUE, said_bindings  # noqa: PLC0415 - few want that

            options[BIND] = said_bindings(receiver.bindings)
            if receiver.owns_queue:
                return Hello(VERSION, "receiver", None, receiver.client_id, options | {OWN_QUEUE: True})
        if receiver.creates_queue:
            return Hello(VERSION, "receiver", receiver.queue_name, receiver.client_id, options)
        from transport.wire.queue_named import hello_of  # noqa: PLC0415 - as above

        return hello_of("receiver", receiver.queue_name, receiver.client_id, options, create=False)

    def _note_waiting(self, waiting: bool) -> None:
        """Whoever gets nothing because another has a queue that is for one at a time is to know it."""
        self._waits = waiting
        logger.warning(
            "queue %s is for one receiver at a time: this one %s",
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
        if not self.session.in_flight:
            self._waiting_for.may_wait()
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
        """The clock of a message's handling starts when it is handed on, not while it waits here, or is known to be worked on."""
        at_work = [] if self._receiver.at_work is None else self._receiver.at_work.still()
        for delivery in at_work:
            delivery._extend(self._visibility)
        self._idle_extensions = 0 if self._handed_on or at_work else self._idle_extensions + 1
        self._handed_on = False
        if self._idle_extensions > MAX_IDLE_EXTENSIONS:
            self._extend_later()
            return
        for batch in self._waiting:
            self.session.extend(batch, batch.first, len(batch), self._visibility)
        self._extend_current()
        self._schedule_turn()
        self._extend_later()

    def _extend_current(self) -> None:
        if self._batch is not None and 0 < self._position < len(self._current):
            rest = len(self._current) - self._position
            self.session.extend(self._batch, self._batch.first + self._position, rest, self._visibility)

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
        self._receiver.run_failed(error)
        downstream, self._downstream = self._downstream, None
        if downstream is not None:
            self._m.call(downstream.on_error, error)


class BatchStage(ReceiverStage[DeliveredBatch]):
    """One element a delivered batch."""

    def _elements(self, batch: DeliveredBatch) -> list[DeliveredBatch]:
        return [batch]
