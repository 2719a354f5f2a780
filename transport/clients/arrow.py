"""Arrow in and out of the clients, without a Python object a message; docs/arrow.md shows it with pyarrow, Polars, pandas and DuckDB.

`send_arrow` and `receive_arrow` are for scripts. In streams, `Sender.arrow` is a sink of Arrow data, `Receiver.arrow` a source of
`ArrowDelivery`, and `message_batches` is what stands between: ``source.map_concat(message_batches).via(Sender(...))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streams import Source
from transport.clients.arrow_batches import message_batches
from transport.clients.arrow_reader import SCRIPT_BACKOFF, ArrowReader, receive_arrow
from transport.clients.arrow_records import ArrowDelivery, arrow_schema, record_batch
from transport.clients.backoff import Backoff
from transport.clients.sender import Sender, SendSummary
from transport.security.access import Access

if TYPE_CHECKING:
    from transport.clients.tracing import Tracing

__all__ = [
    "ArrowDelivery",
    "ArrowReader",
    "arrow_schema",
    "message_batches",
    "receive_arrow",
    "record_batch",
    "send_arrow",
]


def send_arrow(
    addresses: str | Sequence[str],
    queue: str,
    data: Any,
    *,
    client_id: str | None = None,
    delay: float | None = None,
    ttl: float | None = None,
    access: Access | None = None,
    reconnect: Backoff = SCRIPT_BACKOFF,
    tracing: Tracing | None = None,
) -> SendSummary:
    """Send Arrow ``data`` and return when all of it is confirmed: ``send_arrow(address, "orders", table)``.

    The buffers are sent from where they are: do not change them meanwhile. Data that comes as a stream is read as the broker grants room.

    Args:
        addresses: the broker's sending address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue's name.
        data: a column of payloads, or rows with a column ``payload``; see `message_batches`.
        client_id: the producer's name; see `Sender`, as for the rest.
        delay: seconds until what is sent can be received; None for what the queue declares.
        ttl: seconds after which it is of no use; None likewise.
        access: who this is, and whether TLS is spoken; None for what the environment says.
        reconnect: how to come back after a broken connection, and when to give up: after 10 s.
        tracing: a `Tracing`, for a span ``send <queue>`` of each batch that leaves, under the current span; rows carry no context of it.

    Raises:
        ArrowInputError: data that cannot be sent. It names the row; what stands before its part of the data is sent and confirmed.
        TransportError: the broker cannot be reached, or refuses.
        RuntimeError: an event loop runs in this thread; send by `Sender.arrow` there.
    """
    sender = Sender(
        addresses,
        queue=queue,
        client_id=client_id,
        delay=delay,
        ttl=ttl,
        access=access,
        reconnect=reconnect,
        tracing=tracing,
    )
    return Source.from_iterable(lambda: message_batches(data)).to(sender).run_blocking()
