"""Trace context in the headers of messages: written as a propagator writes it, read whatever stands there.

By default the propagator is the program's own (`opentelemetry.propagate`): W3C Trace Context in the headers ``traceparent`` and
``tracestate``, and W3C Baggage in ``baggage``. What is read was written by anybody, so nothing in it is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from actors.batch import MAX_HEADERS_PER_MESSAGE, HeaderValue, Message, MessageBatch, pack_headers, unpack_headers
from actors.errors import BatchError
from transport.clients._opentelemetry import TextMapPropagator, context, propagate, trace
from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.wire.amqp_headers import told_headers

MAX_LINKS = 128
"""Links of a batch's span at most: as many as the SDK keeps by default. A batch can have a thousand messages."""

logger = logging.getLogger("penstock.tracing")


class TraceContexts:
    """Reads and writes contexts.

    Args:
        propagator: how they look; None for the program's own, whatever it is when a message is sent.
    """

    def __init__(self, propagator: TextMapPropagator | None = None) -> None:
        self._propagator = propagator

    def written(self, message: Message, where: context.Context) -> Message:
        """``message`` with ``where`` in its headers; as it is where there is nothing to write, or no room for it."""
        carrier: dict[str, str] = {}
        try:
            (self._propagator or propagate.get_global_textmap()).inject(carrier, where)
        except Exception:  # a propagator of somebody's own: what is traced does not fail for its sake
            logger.warning("a message carries no trace context: the propagator failed", exc_info=True)
        if not carrier:
            return message
        try:
            headers = {**(message.headers or {}), **carrier}
            if len(headers) > MAX_HEADERS_PER_MESSAGE or _size(message, headers) > MAX_BATCH_BYTES:
                return message
        except (TypeError, ValueError, BatchError):
            return message  # no message that can be sent: the sender says what is wrong with it
        return replace(message, headers=headers)

    def read(self, headers: Mapping[str, HeaderValue] | None, otherwise: context.Context) -> context.Context:
        """The context that ``headers`` carry, on top of ``otherwise``; just ``otherwise`` where they carry none that is valid."""
        if not headers:
            return otherwise
        try:
            carrier = {name.lower(): value for name, value in headers.items() if isinstance(value, str)}
            return (self._propagator or propagate.get_global_textmap()).extract(carrier, otherwise)
        except Exception:  # whatever stands in a message is no failure of who receives it
            logger.debug("a message's trace context cannot be read", exc_info=True)
            return otherwise

    def origin(self, headers: Mapping[str, HeaderValue] | None) -> trace.SpanContext | None:
        """The span that ``headers`` name as theirs, if any."""
        found = trace.get_current_span(self.read(headers, context.Context())).get_span_context()
        return found if found.is_valid else None

    def origins(self, batch: MessageBatch) -> Iterable[trace.SpanContext]:
        """The different spans that the messages of ``batch`` come from, `MAX_LINKS` of them at most."""
        found: dict[tuple[int, int], trace.SpanContext] = {}
        for index in range(len(batch) if batch.headers is not None else 0):
            if len(found) >= MAX_LINKS:
                break
            origin = self.origin(headers_of(batch, index))
            if origin is not None:
                found.setdefault((origin.trace_id, origin.span_id), origin)
        return found.values()


def headers_of(batch: MessageBatch, index: int) -> Mapping[str, HeaderValue] | None:
    """The headers of a message; None where there are none, or none that can be read."""
    try:
        return None if batch.headers is None else told_headers(unpack_headers(bytes(batch.headers[index])) or {})
    except BatchError:
        return None


def _size(message: Message, headers: Mapping[str, HeaderValue]) -> int:
    return len(message.payload) + len(message.key or b"") + len(pack_headers(headers))
