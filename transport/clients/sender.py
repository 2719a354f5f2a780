"""`Sender`: the end of a stream whose elements go to a queue, or the middle of one that goes on with confirmations."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from streams import Flow, Materialization, Publisher, Sink
from transport.clients.authentication import Credentials
from transport.clients.backoff import Backoff
from transport.clients.groups import in_group
from transport.clients.sender_batches import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_MESSAGES, Sendable, check_group
from transport.clients.sender_session import Confirmation
from transport.clients.sender_stage import SenderStage
from transport.errors import LocalProtocolError
from transport.security.access import Access
from transport.wire.address import DEFAULT_SEND_ADDRESS
from transport.wire.names import check_name
from transport.wire.timing import Timing

if TYPE_CHECKING:
    from datetime import datetime

    from transport.clients.sender_session import ReturnedMessage
    from transport.clients.tracing import Tracing
    from transport.clients.waiting import OnWait
    from transport.wire.exchange_named import PublishesTo

DEFAULT_MAX_IN_FLIGHT = 65_536
"""Messages sent and not confirmed: enough to keep a broker busy, little enough to send again after a reconnect."""
OnRejected = Literal["fail", "drop"]
"""What a sender does when its queue rejects a batch."""
FAIL: OnRejected = "fail"
DROP: OnRejected = "drop"


@dataclass(frozen=True, slots=True)
class SendSummary:
    """What a sender has done when its stream is complete.

    Attributes:
        messages: how many were sent and confirmed.
        resent: how many of them were sent again after a reconnect.
        reconnects: how often the connection was made again.
        rejected: how many were dropped because the queue rejected them; only with ``on_rejected="drop"``.
        returned: how many of ``messages`` no queue took; only with ``mandatory``.
    """

    messages: int
    resent: int
    reconnects: int
    rejected: int = 0
    returned: int = 0


class Sender:
    """Sends a stream's elements (bytes, `Message`, `MessageBatch`, or one of them `Timed`) to a queue, no faster than demand allows.

    With ``exchange`` in place of ``queue`` it publishes them to an exchange, and the broker has each go to all queues that are bound to it
    so. Then it sends what the fullest of these queues allows. docs/exchanges.md has the kinds of exchanges.

    Use it as a sink, ``source.to(Sender(...))``: awaiting the run gives a `SendSummary` when everything is confirmed.
    Use it as a flow, ``source.via(Sender(...))``: the stream goes on with a `Confirmation` for each batch that is stored.
    Elements are batched by themselves: at once when little is under way, up to the limits under load. When the connection breaks, what is
    unconfirmed is sent again on the next, and the broker drops what it has already.

    A queue declared with ``overflow=reject`` refuses what it has no room for, and everything that was sent after it until the sender has
    heard of that. By default the stream then fails with `QueueFullError`: what was confirmed is stored, and nothing behind it.

    Args:
        addresses: the broker's sending address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue's name.
        exchange: the exchange's name, in place of a queue's; empty for the default exchange, which has every queue by its name.
        routing_key: of the messages that have no key of their own (`Message.routing_key`); only with ``exchange``.
        mandatory: what no queue took comes back; only with ``exchange``. Otherwise it is dropped, and the exchange counts it.
        on_returned: with ``mandatory``, told of each message that came back, as a `ReturnedMessage`. Without it the stream then fails
            with `UnroutableError`.
        client_id: the producer's name, under which the broker recognizes what is sent again; random by default, and then
            remembered apart from those of producers that keep theirs.
            Two senders must not use the same at the same time.
        max_batch_messages: messages in one batch at most.
        max_batch_bytes: payload bytes in one batch at most, one message at least.
        max_in_flight: messages sent and not confirmed at most.
        reconnect: how to come back after a broken connection, and when to give up.
        delay: seconds until what is sent can be received, at most 366 days; None for what the queue declares. A `Timed` element
            has its own.
        deliver_at: in the place of a delay, from when what is sent can be received, by the broker's clock: seconds since the epoch, or a
            datetime with a zone. What is past is at once.
        ttl: seconds after which it is of no use, at most 3660 days, 0 for at once or never; None likewise.
        priority: of messages that say none (`Message.priority`, `Timed.priority`), 0 to 255. In a queue with ``max_priority`` what has a
            higher one is received first; elsewhere it makes no difference. None for 0.
        group: of messages that say none (`Message.group`): of a queue with ``groups`` one receiver at a time has what is of one group, in
            order; elsewhere it is a header like others. None for none.
        on_rejected: ``fail`` the stream when the queue rejects a batch, or ``drop`` what is rejected and go on: the summary counts
            it, and a flow's `Confirmation` says why.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.
        create: whether the queue is made where there is none. If not, the stream fails with a `BrokerError` ``not-found`` then, and
            with `OldBrokerError` at a broker that cannot be asked to make none.
        on_wait: told why, when nothing could be sent, or nothing was confirmed, for two seconds, and again when the reason changes; and
            None when it goes on. The logger ``penstock.sender`` says the same at INFO.
        tracing: a `Tracing`, for a span ``send <queue>`` of each element, whose context goes with it in its headers.

    Raises:
        LocalProtocolError: a value that cannot be.
        InvalidNameError: a queue or client id that is no name.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = DEFAULT_SEND_ADDRESS,
        *,
        queue: str | None = None,
        exchange: str | None = None,
        routing_key: str | None = None,
        mandatory: bool = False,
        on_returned: Callable[[ReturnedMessage], object] | None = None,
        client_id: str | None = None,
        max_batch_messages: int = DEFAULT_BATCH_MESSAGES,
        max_batch_bytes: int = DEFAULT_BATCH_BYTES,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        reconnect: Backoff | None = None,
        delay: float | None = None,
        ttl: float | None = None,
        on_rejected: OnRejected = FAIL,
        access: Access | None = None,
        create: bool = True,
        on_wait: OnWait | None = None,
        tracing: Tracing | None = None,
        priority: int | None = None,
        group: str | None = None,
        deliver_at: float | datetime | None = None,
    ) -> None:
        if on_rejected not in (FAIL, DROP):
            raise LocalProtocolError(f"on_rejected is {on_rejected!r:.40}, not {FAIL!r} or {DROP!r}")
        if max_in_flight < 1:
            raise LocalProtocolError(f"max_in_flight is {max_in_flight}; at least one message must be under way")
        self.addresses = addresses
        self.queue = None if queue is None else check_name(queue, "queue")
        self.publishes_to = _publishes_to(queue, exchange, routing_key, mandatory)
        if on_returned is not None and not mandatory:
            raise LocalProtocolError("on_returned is told of what comes back: give mandatory=True too")
        self.on_returned = on_returned
        self.name = queue or exchange or "amq.default"
        self.target = (
            f"queue {queue}" if exchange is None else f"exchange {exchange}" if exchange else "the default exchange"
        )
        self.temporary = not client_id
        self.client_id = check_name(client_id or f"sender-{uuid.uuid4()}", "client")
        self.max_batch_messages = max_batch_messages
        self.max_batch_bytes = max_batch_bytes
        self.max_in_flight = max_in_flight
        self.reconnect = reconnect or Backoff()
        self.timing = Timing(delay, ttl, priority, deliver_at)
        self.group = None if group is None else check_group(group)
        self.credentials = Credentials(access)
        self.creates_queue = create
        self.on_wait = on_wait
        self.tracing = tracing
        self.fails_when_rejected = on_rejected == FAIL

    def __repr__(self) -> str:
        to = self.publishes_to
        where = f"queue={self.queue!r}" if to is None else f"exchange={to.exchange!r}, routing_key={to.routing_key!r}"
        return f"Sender({self.addresses!r}, {where})"

    def attach_sink(
        self, publisher: Publisher[Sendable], materialization: Materialization
    ) -> asyncio.Future[SendSummary]:
        """Run as a sink; called when a stream is run."""
        done: asyncio.Future[SendSummary] = materialization.loop.create_future()

        def finished(error: Exception | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                session = stage.session
                done.set_result(
                    SendSummary(
                        session.confirmed_messages,
                        session.resent,
                        stage.link.reconnects,
                        session.rejected_messages,
                        session.returned_messages,
                    )
                )

        publisher = self._in_group(publisher, materialization)
        stage = self._stage()(self, _ignore, finished)
        materialization.on_cancel(stage.cancel)
        materialization.on_end(stage.finish)
        publisher.subscribe(stage)
        stage.start()
        return done

    def attach_flow(self, publisher: Publisher[Sendable], materialization: Materialization) -> Publisher[Confirmation]:
        """Run as a flow; called when a stream is run."""
        from transport.clients.confirmations import ConfirmationPublisher  # noqa: PLC0415 - most senders are sinks

        publisher = self._in_group(publisher, materialization)
        return ConfirmationPublisher(self, publisher, materialization, self._stage())

    def _in_group(self, publisher: Publisher[Sendable], materialization: Materialization) -> Publisher[Sendable]:
        """The same elements, each in a group where there is one for them."""
        group = self.group
        if group is None:
            return publisher
        elements: Flow[Any, Any, None] = Flow.identity()
        return elements.map(lambda each: in_group(each, group)).attach_flow(publisher, materialization)

    def _stage(self) -> type[SenderStage]:
        if self.tracing is None:
            return SenderStage
        from transport.clients.traced_sender import TracedSenderStage  # noqa: PLC0415 - most do without opentelemetry

        return TracedSenderStage

    def as_sink(self) -> Sink[Sendable, SendSummary]:
        """The same as a plain `Sink`, to compose with further stages."""
        return Sink(self.attach_sink)

    def as_flow(self) -> Flow[Sendable, Confirmation]:
        """The same as a plain `Flow`."""
        return Flow(self.attach_flow)

    def arrow(self) -> Sink[Any, SendSummary]:
        """A sink of Arrow data: arrays, record batches, tables, and all that has the PyCapsule interface; needs ``penstock-mq[arrow]``.

        `transport.clients.arrow.message_batches` says what data can be, and what is wrong with it.
        """
        from transport.clients.arrow_batches import message_batches  # noqa: PLC0415 - most do without pyarrow

        return Flow.identity().map_concat(message_batches).to(self)


def _publishes_to(
    queue: str | None, exchange: str | None, routing_key: str | None, mandatory: bool
) -> PublishesTo | None:
    """The exchange, where it is one and no queue."""
    if (queue is None) == (exchange is None):
        raise LocalProtocolError("a sender sends to one place: give either queue, or exchange")
    if exchange is None:
        if routing_key is not None or mandatory:
            raise LocalProtocolError("routing_key and mandatory belong to an exchange: give exchange in place of queue")
        return None
    from transport.wire.exchange_named import checked_target  # noqa: PLC0415 - most send to queues

    return checked_target(exchange, routing_key, mandatory)


def _ignore(confirmation: Confirmation) -> None:
    """A sink has no use for single confirmations."""
