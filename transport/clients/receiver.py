"""`Receiver`: the source of a stream of deliveries from a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streams import Materialization, MaxInFlightRequestStrategy, Publisher, RequestStrategy, Source
from transport.clients.backoff import Backoff
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.receiver_session import DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_IN_FLIGHT_BYTES
from transport.clients.receiver_stage import BatchStage, DeliveryStage, ReceiverStage
from transport.errors import LocalProtocolError
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS
from transport.wire.names import check_name


class Receiver(Source[Delivery]):
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
        super().__init__(lambda materialization: _materialize(DeliveryStage(self, materialization), materialization))

    def batches(self) -> Source[DeliveredBatch]:
        """The same messages a delivered batch at a time, for handlers that work on many at once."""
        return Source(lambda materialization: _materialize(BatchStage(self, materialization), materialization))


def _materialize(stage: ReceiverStage[Any], materialization: Materialization) -> tuple[Publisher[Any], None]:
    materialization.on_end(stage.finish)
    return stage, None
