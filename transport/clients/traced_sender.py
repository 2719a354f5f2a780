"""A sender that is traced: a span for each element, from its arrival until the broker has confirmed it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from actors.batch import Message, MessageBatch
from transport.clients._opentelemetry import context, trace
from transport.clients.sender_batches import Sendable, Untimed
from transport.clients.sender_session import Confirmation
from transport.clients.sender_stage import SenderStage
from transport.clients.tracing import Tracing, recorded
from transport.errors import QueueFullError
from transport.wire.address import Address
from transport.wire.timing import Timed

UNCONFIRMED = "unconfirmed"
"""``error.type`` of what was under way when the run was cancelled: it may be stored, or not."""


@dataclass(slots=True)
class _Open:
    """An element under way."""

    span: trace.Span
    messages: int
    left: int
    begun: float
    rejected: str | None = None


class SendSpans:
    """The spans of one run, which ends them in the order in which it began them; as many are open as messages are under way.

    An element's parent is the context that its headers carry, or else the one in which the stream was run. Which one happens to be
    current when the element arrives says nothing: anybody may have brought it on its way.
    """

    def __init__(self, tracing: Tracing, queue: str, client_id: str) -> None:
        self._tracing = tracing
        self._queue = queue
        self._client_id = client_id
        self._around = context.get_current()
        self._open: deque[_Open] = deque()

    def begin(self, element: Sendable) -> Sendable:
        """Begins the span of ``element``, and gives what is to be sent: with the span's context, where it can carry one."""
        if isinstance(element, Timed):
            inner: Untimed = self._begin(element.element)
            return element if inner is element.element else replace(element, element=inner)
        begun: Sendable = self._begin(element)
        return begun

    def _begin(self, element: Any) -> Any:
        attributes: dict[str, str | int] = {"messaging.client.id": self._client_id}
        if isinstance(element, MessageBatch):
            attributes["messaging.batch.message_count"] = len(element)
            self._start(self._around, attributes, len(element))
            return element
        if isinstance(element, Message):
            message = element
        elif isinstance(element, bytes | bytearray | memoryview):
            message = Message(bytes(element))
        else:
            return element  # none that can be sent, which the sender says
        around = self._around
        if isinstance(message.headers, dict):
            around = self._tracing.contexts.read(message.headers, around)
        if isinstance(message.payload, bytes):
            attributes["messaging.message.body.size"] = len(message.payload)
        if isinstance(message.id, bytes):
            attributes["messaging.message.id"] = message.id.hex()
        span = self._start(around, attributes, 1)
        carrying = self._tracing.contexts.written(message, trace.set_span_in_context(span, around))
        return element if carrying is message else carrying

    def _start(self, around: context.Context, attributes: dict[str, str | int], messages: int) -> trace.Span:
        span = self._tracing.start_send(self._queue, around, attributes)
        self._open.append(_Open(span, messages, messages, time.perf_counter()))
        return span

    def confirmed(self, confirmation: Confirmation, address: Address) -> None:
        """Ends the spans of what ``confirmation`` answers for: the oldest of those that are open."""
        count = done = confirmation.count
        while self._open:
            first = self._open[0]
            taken = min(first.left, count)
            if taken:
                first.rejected = first.rejected or confirmation.rejected
            if confirmation.first is not None and 0 < taken == first.messages:
                first.span.set_attribute("penstock.sequence", confirmation.first + done - count)
            first.left -= taken
            count -= taken
            if first.left:
                return
            self._open.popleft()
            self._end(first, address, None if first.rejected is None else QueueFullError.__qualname__, first.rejected)

    def ended(self, error: Exception | None, address: Address) -> None:
        """Nothing more is confirmed: what is open has failed, of ``error`` or because the run was cancelled."""
        while self._open:
            left = self._open.popleft()
            if not left.messages:
                self._end(left, address)
            elif error is None:
                self._end(left, address, UNCONFIRMED, "the run ended before the broker had confirmed it")
            else:
                self._end(left, address, type(error).__qualname__, recorded(left.span, error))

    def _end(self, ended: _Open, address: Address, error_type: str | None = None, reason: str | None = None) -> None:
        span = ended.span
        span.set_attributes({"server.address": address.host, "server.port": address.port})
        if error_type is not None:
            span.set_attribute("error.type", error_type)
            span.set_status(trace.StatusCode.ERROR, reason)
        span.end()
        self._tracing.sent(self._queue, ended.messages, time.perf_counter() - ended.begun, error_type)


class TracedSenderStage(SenderStage):
    """One run of a `Sender` that is traced."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        sender = self._sender
        assert sender.tracing is not None
        self._spans = SendSpans(sender.tracing, sender.name, sender.client_id)

    def on_next(self, element: Sendable) -> None:
        """As a sender's that is not traced, of an element that carries its span."""
        super().on_next(element if self._done or element is None else self._spans.begin(element))

    def cancel(self) -> None:
        """What is under way may be stored or not, and nobody will know."""
        super().cancel()
        self._spans.ended(None, self.link.address)

    def _confirm(self, confirmations: list[Confirmation]) -> None:
        for confirmation in confirmations:
            self._spans.confirmed(confirmation, self.link.address)
        super()._confirm(confirmations)

    def _finish(self, error: Exception | None) -> None:
        super()._finish(error)
        self._spans.ended(error, self.link.address)
