"""`Receiver`, the source of a stream of deliveries from a queue."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from streams import Materialization, MaxInFlightRequestStrategy, Publisher, RequestStrategy, Source
from streams.operators.via import awaiting_functions, functions
from transport.clients.authentication import Credentials
from transport.clients.backoff import Backoff
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.delivery_stage import DeliveryStage
from transport.clients.handler_failures import (
    DEFAULT_RETRY_DELAY,
    STOP,
    HandlerFailures,
    OnFailure,
    ReceiverStatistics,
)
from transport.clients.receiver_session import DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_IN_FLIGHT_BYTES
from transport.clients.receiver_stage import BatchStage, ReceiverStage
from transport.errors import LocalProtocolError
from transport.security.access import Access
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS
from transport.wire.names import check_name

if TYPE_CHECKING:
    from transport.clients.arrow_records import ArrowDelivery
    from transport.clients.at_work import AtWork
    from transport.clients.tracing import Tracing
    from transport.clients.waiting import OnWait
    from transport.wire.messages import Options
    from transport.wire.receiver_bindings import Binding

OWN = "(own)"
"""In texts, a queue of the receiver's own, whose name is the broker's to choose."""
MOST_IN_FLIGHT = 2**62
"""Of messages and of bytes: their totals over a connection go in 64 bits."""


class Receiver(Source[Delivery, None]):
    """The messages of a queue, each until it is acknowledged.

    Every run is a connection of its own with its own demand: at most ``max_in_flight`` messages are delivered and not yet
    acknowledged. A message that is not acknowledged within the broker's visibility timeout after it was handed on is delivered again.
    When the run ends, whatever way, its acknowledgements are sent and everything unacknowledged goes back to the queue at once. What it
    had handed on has failed then, which counts towards the queue's ``max_receives``; what still waited here has not. Where the
    program cancels the run, nothing has failed.

    A delivery is to be acknowledged while its run goes on: in the stream, or in the body of an ``async for`` or ``for`` over it. Such a
    loop keeps the run until it is done with its last element. Deliveries that outlive their run, such as the result of `Sink.head` or
    `Sink.collect`, have gone back to the queue; to acknowledge them does nothing, and is told by a warning.

    Args:
        addresses: the broker's receiving address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue's name. None for a queue of the receiver's own, which takes ``bind``: each connection gets a new one, and it is
            gone with what it holds when the connection ends.
        max_in_flight: messages delivered and not acknowledged, at most.
        max_in_flight_bytes: their bytes, at most, give or take one message.
        strategy: another way to request than max-in-flight, in place of ``max_in_flight``.
        limit: acknowledge this many messages, then complete; never is more requested than is left of it.
        client_id: a name for the statistics.
        reconnect: how to come back after a broken connection, and when to give up.
        on_waiting: called with True when the broker says that this receiver waits behind another, because the queue is exclusive, or has
            a single active consumer: at once, or later, when one of a higher priority takes its place. Then it gets nothing more, and the
            other begins when it holds nothing. Called with False when its turn has come. A warning is logged either way.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.
        on_failure: what is done when a function that is given a delivery raises an exception (docs/failures.md). ``stop``: the stream
            fails. ``return``: the message goes back to the queue and has failed, so ``max_receives`` bounds how often; the stream goes
            on without it. ``reject``: the message is a dead letter at once, with the exception in its headers; the stream goes on. The
            queue must keep dead letters (``max_receives``), else the stream fails at once. Failures are logged with their traceback, ten
            in ten seconds at most, and counted: see `statistics`.
        retry_delay: with ``return``, seconds until the message can be received again; a `Backoff` has them grow with each delivery.
        create: whether the queue is made where there is none, as of `Sender`.
        on_wait: told why, when nothing came for two seconds though nothing is held, as of `Sender`. An empty queue is a reason too.
        bind: what the queue is bound to before anything is delivered, each time it connects: a `Binding` of an exchange and a key, or
            several. So each queue gets a copy of what is published (docs/exchanges.md). Bindings stay when the receiver ends.
        deadline: whether a message that is not acknowledged within the visibility timeout is delivered again. Without one it is this
            receiver's for as long as it is connected, unless it is rejected.
        priority: a message goes to the receivers of the highest priority that have demand, any whole number. Others get some while none of
            a higher one asks for any.
        tracing: a `Tracing`, for a span ``process <queue>`` around each call of the handlers of `handle` and `handle_blocking`.

    Raises:
        LocalProtocolError: a value that cannot be.
        ImpossibleTimeError: ``retry_delay`` is more than 12 hours, or no time.
        InvalidNameError: a queue or client id that is no name.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = DEFAULT_RECEIVE_ADDRESS,
        *,
        queue: str | None = None,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        max_in_flight_bytes: int = DEFAULT_MAX_IN_FLIGHT_BYTES,
        strategy: RequestStrategy | None = None,
        limit: int | None = None,
        client_id: str | None = None,
        reconnect: Backoff | None = None,
        on_waiting: Callable[[bool], None] | None = None,
        access: Access | None = None,
        on_failure: OnFailure = STOP,
        retry_delay: float | Backoff = DEFAULT_RETRY_DELAY,
        create: bool = True,
        on_wait: OnWait | None = None,
        tracing: Tracing | None = None,
        bind: Binding | Sequence[Binding] | None = None,
        deadline: bool = True,
        priority: int = 0,
    ) -> None:
        if max_in_flight < 1 or max_in_flight_bytes < 1 or (limit is not None and limit < 1):
            raise LocalProtocolError(
                f"max_in_flight={max_in_flight}, max_in_flight_bytes={max_in_flight_bytes}, limit={limit}: each must be 1 or more"
            )
        if max(max_in_flight, max_in_flight_bytes) > MOST_IN_FLIGHT:
            raise LocalProtocolError(
                f"max_in_flight={max_in_flight}, max_in_flight_bytes={max_in_flight_bytes}: "
                f"{MOST_IN_FLIGHT} are the most that can be asked for"
            )
        self.addresses = addresses
        self.bindings: tuple[Binding, ...] = ()
        if bind is not None:
            from transport.wire.receiver_bindings import checked_bindings  # noqa: PLC0415 - most receive from queues as they are

            self.bindings = checked_bindings(bind)
        if queue is None and not self.bindings:
            raise LocalProtocolError(
                "give a queue, or bind, for a queue of the receiver's own: nothing else would come into that"
            )
        self.owns_queue = queue is None
        self.queue_name = OWN if queue is None else check_name(queue, "queue")
        self.max_in_flight_bytes = max_in_flight_bytes
        self.strategy = strategy or MaxInFlightRequestStrategy(max_in_flight)
        self.limit = limit
        self.client_id = None if client_id is None else check_name(client_id, "client")
        self.reconnect = reconnect or Backoff()
        self.on_waiting = on_waiting
        self.credentials = Credentials(access)
        self.handler_failures = HandlerFailures(on_failure, retry_delay)
        self.creates_queue = create
        self.has_deadline = deadline
        self.priority = priority
        self.hello_options: Options = {}
        """What HELLO has of it that a few say only."""
        if not deadline:
            from transport.wire.receiver_deadlines import WITHOUT_DEADLINE  # noqa: PLC0415 - few want that

            self.hello_options[WITHOUT_DEADLINE] = True
        if on_waiting is not None:
            from transport.wire.receiver_turns import TURNS  # noqa: PLC0415 - few listen

            self.hello_options[TURNS] = True
        if priority != 0 or type(priority) is not int:
            from transport.wire.receiver_priorities import PRIORITY, checked_priority  # noqa: PLC0415 - few have one

            self.hello_options[PRIORITY] = checked_priority(priority)
        self.on_wait = on_wait
        self.tracing = tracing
        self.at_work: AtWork | None = None
        """What a consumer's handlers are at work on, and is to be extended while they are."""
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._stages: weakref.WeakSet[ReceiverStage[Any]] = weakref.WeakSet()
        super().__init__(lambda materialization: self._begin(self._stage(materialization), materialization))

    @property
    def connected(self) -> bool:
        """Whether a run of it has a connection to the broker now; for a probe of the program's health."""
        return any(stage.link.is_open for stage in self._stages)

    async def ready(self) -> None:
        """Return when a run of it has a connection to the broker, and its queue is bound; at once where one has.

        Whoever publishes next knows that the queue gets it. It has no deadline of its own: `asyncio.timeout` gives it one. It raises what
        the run fails with.
        """
        if not self.connected:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                self._waiters.pop(waiter, None)

    def run_failed(self, error: Exception) -> None:
        """A run of it has failed; whoever waits for it to be ready is told."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def opened(self) -> None:
        """A run of it has a connection; its stage says so."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _stage(self, materialization: Materialization) -> DeliveryStage:
        if self.tracing is None:
            return DeliveryStage(self, materialization)
        from transport.clients.traced_receiver import TracedDeliveryStage  # noqa: PLC0415 - most do without opentelemetry

        return TracedDeliveryStage(self, materialization)

    def handle(self, parallelism: int, handler: Callable[[Delivery], Awaitable[object]]) -> Source[Delivery, None]:
        """Awaits ``handler`` of each message, ``parallelism`` at a time; goes on with each delivery that is handled, as it is.

        What the handler returns is of no interest, so it may be None: ``receiver.handle(8, work).to(Sink.acknowledge())``.
        """
        awaiting_functions("handle", handler=handler)
        if self.tracing is not None:
            handler = self.tracing.handled(handler)

        @functools.wraps(handler)  # for its name, in failures
        async def handled(delivery: Delivery) -> Delivery:
            await handler(delivery)
            return delivery

        return self.map_async_unordered(parallelism, handled)

    def handle_blocking(self, parallelism: int, handler: Callable[[Delivery], object]) -> Source[Delivery, None]:
        """As `handle`, for a function that blocks: it is called in threads, ``parallelism`` at a time."""
        functions("handle_blocking", handler=handler)
        if self.tracing is not None:
            handler = self.tracing.handled_blocking(handler)

        @functools.wraps(handler)
        def handled(delivery: Delivery) -> Delivery:
            handler(delivery)
            return delivery

        return self.map_blocking_unordered(parallelism, handled)

    def statistics(self) -> ReceiverStatistics:
        """What handlers have failed on, over all runs, where ``on_failure`` is not ``stop``."""
        return self.handler_failures.statistics()

    def batches(self) -> Source[DeliveredBatch, None]:
        """The same messages a delivered batch at a time, for handlers that work on many at once."""
        return Source(lambda materialization: self._begin(self._batch_stage(materialization), materialization))

    def _batch_stage(self, materialization: Materialization) -> BatchStage:
        if self.tracing is None:
            return BatchStage(self, materialization)
        from transport.clients.traced_receiver import TracedBatchStage  # noqa: PLC0415 - as above

        return TracedBatchStage(self, materialization)

    def arrow(self, columns: Sequence[str] | None = None) -> Source[ArrowDelivery, None]:
        """The same messages an Arrow record batch at a time, each with the way to answer for all of it; needs ``penstock-mq[arrow]``.

        Args:
            columns: which, in this order; None for all of `transport.clients.arrow_records.TYPES`.
        """
        from transport.clients.arrow_records import DEFAULT_COLUMNS, ArrowDelivery, arrow_schema  # noqa: PLC0415 - most do without pyarrow

        schema = arrow_schema(DEFAULT_COLUMNS if columns is None else columns)
        return self.batches().map(lambda delivered: ArrowDelivery(delivered, schema))

    def _begin(self, stage: ReceiverStage[Any], materialization: Materialization) -> tuple[Publisher[Any], None]:
        self._stages.add(stage)
        materialization.on_end(stage.finish)
        materialization.on_drain(stage)
        return stage, None
