"""`Tracing`: spans and metrics of senders, receivers and handlers, by OpenTelemetry's semantic conventions for messaging.

https://opentelemetry.io/docs/specs/semconv/messaging/ gives the names of spans, attributes and metrics. What they do not cover is
called ``penstock.*``. Without a `Tracing` nothing of this is imported, and no message has a byte more.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from actors.batch import Message
from transport.clients._opentelemetry import TextMapPropagator, context, metrics, trace
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.trace_context import TraceContexts, headers_of

if TYPE_CHECKING:
    from transport.clients.arrow_records import ArrowDelivery

R = TypeVar("R")
Attributes = Mapping[str, str | int | float]

INSTRUMENTATION = "penstock"
SYSTEM = "penstock"
SEND, RECEIVE, PROCESS = "send", "receive", "process"
DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Seconds: the bounds that the conventions ask for."""


class Tracing:
    """What a `Sender`, a `Receiver` and Spark's `QueueListener` are given to be traced: ``Sender(..., tracing=Tracing())``.

    One can be shared by all of a program, in whatever threads. It needs ``penstock-mq[otel]``; the spans and figures go where the
    program's OpenTelemetry SDK sends them, and nowhere where none is set up (docs/tracing.md).

    Args:
        tracer_provider: where spans go; None for the program's own.
        meter_provider: where metrics go; None for the program's own.
        propagator: how a context stands in a message's headers; None for the program's own, which is W3C Trace Context and Baggage
            unless it was told otherwise.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        self.tracer = trace.get_tracer(INSTRUMENTATION, tracer_provider=tracer_provider)
        self.contexts = TraceContexts(propagator)
        meter = metrics.get_meter(INSTRUMENTATION, meter_provider=meter_provider)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were confirmed, or that failed."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that were handed to the program."
        )
        self._sending = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "From a message's arrival in the sender to its confirmation.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._processing = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "How long a handler worked on a message, or on a batch of them.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )

    def message(self, element: bytes | Message) -> Message:
        """``element`` as a message that carries the current context, so that its ``send`` span belongs to the current span.

        For what reaches a sender by way of a stream that runs on its own: ``await queue.offer(tracing.message(payload))``. What is
        sent by a stream that is run here belongs to the current span without it.
        """
        message = element if isinstance(element, Message) else Message(bytes(element))
        return self.contexts.written(message, context.get_current())

    @contextmanager
    def process(self, delivered: Delivery | DeliveredBatch | ArrowDelivery) -> Iterator[trace.Span]:
        """A span ``process <queue>`` around the body of a ``with``, which is current there: what the body sends continues the trace.

        `Receiver.handle` and `Receiver.handle_blocking` have it around their handlers. A delivery's span has the span that sent the
        message as its parent; a batch's has links to those of its messages. The wait in the queue is a span ``receive <queue>`` beside
        it. An exception is recorded, and goes on.
        """
        if not isinstance(delivered, Delivery | DeliveredBatch):
            delivered = delivered._delivered
        queue = delivered.queue
        attributes = _of(queue, PROCESS) | _about(delivered)
        around, links = self._origin(delivered)
        self._record_wait(delivered, around, links)
        span = self.tracer.start_span(
            f"{PROCESS} {queue}", around, trace.SpanKind.CONSUMER, attributes, links, record_exception=False
        )
        token = context.attach(trace.set_span_in_context(span, around))
        begun, error_type = time.perf_counter(), None
        try:
            yield span
        except BaseException as error:
            error_type = type(error).__qualname__
            if isinstance(error, Exception):  # to be cancelled is not to fail
                span.set_status(trace.StatusCode.ERROR, recorded(span, error))
            span.set_attribute("error.type", error_type)
            raise
        finally:
            context.detach(token)
            span.end()
            self._processing.record(time.perf_counter() - begun, _of(queue, PROCESS, error_type))

    def handled(self, handler: Callable[[Delivery], Awaitable[R]]) -> Callable[[Delivery], Awaitable[R]]:
        """``handler`` with its span."""

        @functools.wraps(handler)
        async def traced(delivery: Delivery) -> R:
            with self.process(delivery):
                return await handler(delivery)

        return traced

    def handled_blocking(self, handler: Callable[[Delivery], R]) -> Callable[[Delivery], R]:
        """``handler`` with its span, in the thread that calls it."""

        @functools.wraps(handler)
        def traced(delivery: Delivery) -> R:
            with self.process(delivery):
                return handler(delivery)

        return traced

    # What senders, receivers and Spark's listener say

    def sent(self, queue: str, count: int, seconds: float, error_type: str | None) -> None:
        """So many messages are confirmed, or have failed, so long after the sender was given them."""
        attributes = _of(queue, SEND, error_type)
        if count:
            self._sent.add(count, attributes)
        self._sending.record(seconds, attributes)

    def consumed(self, queue: str, count: int) -> None:
        """So many messages were handed on."""
        self._consumed.add(count, _of(queue, RECEIVE))

    def batch_processed(self, queue: str, rows: int, start_ns: int, end_ns: int, attributes: Attributes) -> None:
        """Something else than a handler has processed a batch, and has said so when it was over; nanoseconds since the epoch."""
        given = _of(queue, PROCESS) | {"messaging.batch.message_count": rows} | dict(attributes)
        span = self.tracer.start_span(
            f"{PROCESS} {queue}", context.Context(), trace.SpanKind.CONSUMER, given, start_time=start_ns
        )
        span.end(end_ns)
        if rows:
            self.consumed(queue, rows)
        self._processing.record((end_ns - start_ns) / 1e9, _of(queue, PROCESS))

    def start_send(self, queue: str, around: context.Context, attributes: Attributes) -> trace.Span:
        """A span ``send <queue>``; whoever starts it ends it."""
        given = _of(queue, SEND) | dict(attributes)
        return self.tracer.start_span(f"{SEND} {queue}", around, trace.SpanKind.PRODUCER, given)

    # Inside

    def _origin(self, delivered: Delivery | DeliveredBatch) -> tuple[context.Context, list[trace.Link]]:
        """The context to process it in, and the links to where it comes from."""
        around = context.get_current()
        if isinstance(delivered, DeliveredBatch):
            return around, [trace.Link(origin) for origin in self.contexts.origins(delivered.batch)]
        headers = headers_of(delivered._batch.batch, delivered._index)
        carried = self.contexts.read(headers, around)
        sender = trace.get_current_span(carried)
        if sender is trace.get_current_span(around):  # the message names none
            return carried, []
        return carried, [trace.Link(sender.get_span_context())]

    def _record_wait(
        self, delivered: Delivery | DeliveredBatch, around: context.Context, links: list[trace.Link]
    ) -> None:
        """From when the broker took it until now. Clocks of two machines differ: a wait that would be negative is none."""
        now = time.time_ns()
        attributes = _of(delivered.queue, RECEIVE) | _about(delivered)
        start = min(delivered.enqueued_us * 1000, now) or now
        name = f"{RECEIVE} {delivered.queue}"
        self.tracer.start_span(name, around, trace.SpanKind.CLIENT, attributes, links, start).end(now)


def _of(queue: str, operation: str, error_type: str | None = None) -> dict[str, Any]:
    """The attributes that spans and metrics have in common."""
    common = {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    return common if error_type is None else common | {"error.type": error_type}


def recorded(span: trace.Span, error: Exception) -> str:
    """The text of ``error``, with which ``span`` ends, and which it records; where that fails, its type alone."""
    try:
        text = str(error)
        span.record_exception(error)
    except Exception:  # noqa: BLE001 - whatever a __str__ of the program's raises: what is traced does not fail of it
        return type(error).__qualname__
    return text


def _about(delivered: Delivery | DeliveredBatch) -> dict[str, str | int]:
    """What is known of a message, or of a batch."""
    known: dict[str, str | int] = {"penstock.delivery_count": delivered.delivery_count}
    if isinstance(delivered, DeliveredBatch):
        known["penstock.sequence"] = delivered.first
        known["messaging.batch.message_count"] = len(delivered)
    else:
        known["penstock.sequence"] = delivered.sequence
        known["messaging.message.id"] = delivered.id.hex()
        known["messaging.message.body.size"] = len(delivered.payload)
    return known
