"""`Sender`: the end of a stream whose elements go to a queue, or the middle of one that goes on with confirmations."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from streams import Flow, Materialization, Publisher, Sink
from transport.address import DEFAULT_SEND_ADDRESS
from transport.client import Backoff
from transport.errors import LocalProtocolError
from transport.names import check_name
from transport.sender_session import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_MESSAGES, Confirmation, Sendable
from transport.sender_stage import ConfirmationPublisher, SenderStage

DEFAULT_MAX_IN_FLIGHT = 65_536
"""Messages sent and not confirmed: enough to keep a broker busy, little enough to send again after a reconnect."""


@dataclass(frozen=True, slots=True)
class SendSummary:
    """What a sender has done when its stream is complete.

    Attributes:
        messages: how many were sent and confirmed.
        resent: how many of them were sent again after a reconnect.
        reconnects: how often the connection was made again.
    """

    messages: int
    resent: int
    reconnects: int


class Sender:
    """Sends a stream's elements (bytes, `Message` or `MessageBatch`) to a queue, no faster than the broker grants demand.

    Use it as a sink, ``source.to(Sender(...))``: awaiting the run gives a `SendSummary` when everything is confirmed.
    Use it as a flow, ``source.via(Sender(...))``: the stream goes on with a `Confirmation` for each batch that is stored.
    Elements are batched by themselves: at once when little is under way, up to the limits under load. When the connection breaks, what is
    unconfirmed is sent again on the next, and the broker drops what it has already.

    Args:
        addresses: the broker's sending address ``host:port``, or several to try in turn.
        queue: the queue's name.
        client_id: the producer's name, under which the broker recognizes what is sent again; random by default.
            Two senders must not use the same at the same time.
        max_batch_messages: messages in one batch at most.
        max_batch_bytes: payload bytes in one batch at most, one message at least.
        max_in_flight: messages sent and not confirmed at most.
        reconnect: how to come back after a broken connection, and when to give up.
    """

    def __init__(
        self,
        addresses: str | Sequence[str] = DEFAULT_SEND_ADDRESS,
        *,
        queue: str,
        client_id: str | None = None,
        max_batch_messages: int = DEFAULT_BATCH_MESSAGES,
        max_batch_bytes: int = DEFAULT_BATCH_BYTES,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        reconnect: Backoff | None = None,
    ) -> None:
        if max_in_flight < 1:
            raise LocalProtocolError(f"max_in_flight is {max_in_flight}; at least one message must be under way")
        self.addresses = addresses
        self.queue = check_name(queue, "queue")
        self.client_id = check_name(client_id or f"sender-{uuid.uuid4()}", "client")
        self.max_batch_messages = max_batch_messages
        self.max_batch_bytes = max_batch_bytes
        self.max_in_flight = max_in_flight
        self.reconnect = reconnect or Backoff()

    def __repr__(self) -> str:
        return f"Sender({self.addresses!r}, queue={self.queue!r})"

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
                done.set_result(SendSummary(session.confirmed_messages, session.resent, stage.link.reconnects))

        stage = SenderStage(self, _ignore, finished)
        materialization.on_cancel(stage.cancel)
        publisher.subscribe(stage)
        stage.start()
        return done

    def attach_flow(self, publisher: Publisher[Sendable], materialization: Materialization) -> Publisher[Confirmation]:  # noqa: ARG002 - the flow protocol's signature
        """Run as a flow; called when a stream is run."""
        return ConfirmationPublisher(self, publisher)

    def as_sink(self) -> Sink[Sendable, SendSummary]:
        """The same as a plain `Sink`, to compose with further stages."""
        return Sink(self.attach_sink)

    def as_flow(self) -> Flow[Sendable, Confirmation]:
        """The same as a plain `Flow`."""
        return Flow(self.attach_flow)


def _ignore(confirmation: Confirmation) -> None:
    """A sink has no use for single confirmations."""
