"""A receiver as a reader of Arrow record batches, for programs without an event loop."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from transport.clients._pyarrow import pa
from transport.clients.arrow_reading import Reading
from transport.clients.arrow_records import DEFAULT_COLUMNS, arrow_schema
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT, Backoff
from transport.clients.receiver import Receiver
from transport.errors import ImpossibleTimeError, LocalProtocolError
from transport.security.access import Access
from transport.wire.timing import check_answer_time

if TYPE_CHECKING:
    from transport.clients.tracing import Tracing

Acknowledge = Literal["as-read", "at-exit"]
"""When a reader acknowledges."""
AS_READ: Acknowledge = "as-read"
AT_EXIT: Acknowledge = "at-exit"

DEFAULT_MAX_IN_FLIGHT = 262_144
"""Messages delivered and not acknowledged: some dozens of batches of 10,000, so that the next ones come while one is worked on."""
DEFAULT_MAX_IN_FLIGHT_BYTES = 32 * 1024 * 1024
DEFAULT_HOLD = 3600.0
"""Seconds for which messages that are acknowledged at the exit stay with a reader that hangs. One that dies holds nothing."""
MOST_HELD_BYTES = 2**40
"""With a count that is held: the count is the bound."""
SCRIPT_BACKOFF = Backoff(give_up_after=DEFAULT_CONNECT_TIMEOUT)
"""A script is to say soon that there is no broker."""


class ArrowReader:
    """The messages of a queue as a stream of Arrow record batches; `receive_arrow` makes one.

    It is an iterator of ``pyarrow.RecordBatch``, and has ``__arrow_c_stream__``: pyarrow, Polars, DuckDB and pandas read from it as
    from any Arrow stream. Leave it by ``with``, or `close` it; one that is dropped is closed too.

    Acknowledged is, with ``as-read``, each record batch when the next one is asked for, and the last one at the end of the stream or
    of the ``with`` block; with ``at-exit`` everything that was read, when the ``with`` block ends well, or by `acknowledge`. What is not
    acknowledged when the reader is closed, or a ``with`` block ends by an exception, goes back to the queue. So does everything where the
    process dies. What comes again says so in ``possibly_replayed`` and ``delivery_count``.

    Attributes:
        schema: of the record batches.
    """

    def __init__(self, reading: Reading) -> None:
        self.schema = reading.schema
        self._reading = reading
        # Not __del__: at the end of the interpreter the thread would be gone by then.
        self._dropped = weakref.finalize(self, reading.end, False)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """The next record batch, of one row at least; waits for it.

        Raises:
            StopIteration: ``count`` messages were read, or nothing came for ``idle_exit`` seconds, or the reader is closed.
            TransportError: the broker cannot be reached, or refuses.
        """
        records = self._reading.read()
        if records is None:
            raise StopIteration
        return records

    def read_all(self) -> Any:
        """Everything that comes as a ``pyarrow.Table``; with ``count`` or ``idle_exit``, or it never ends."""
        return pa.Table.from_batches(list(self), self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the stream by the Arrow PyCapsule interface; it is read as the other side asks."""
        capsule: object = pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)
        return capsule

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Acknowledge what was read, unless the block has raised; what was not read goes back."""
        self._reading.end(acknowledge=kind is None)

    def acknowledge(self) -> None:
        """Everything that was read is done, now and not later."""
        self._reading.acknowledge()

    def close(self) -> None:
        """End without acknowledging more: what was read last, and everything that is held, goes back to the queue."""
        self._reading.end(acknowledge=False)


def receive_arrow(
    addresses: str | Sequence[str],
    queue: str,
    *,
    count: int | None = None,
    idle_exit: float | None = None,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    acknowledge: Acknowledge = AS_READ,
    hold: float = DEFAULT_HOLD,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    max_in_flight_bytes: int = DEFAULT_MAX_IN_FLIGHT_BYTES,
    access: Access | None = None,
    reconnect: Backoff = SCRIPT_BACKOFF,
    tracing: Tracing | None = None,
) -> ArrowReader:
    """The messages of a queue as an Arrow stream: ``receive_arrow(address, "orders", count=1000).read_all()``.

    Nothing happens before the first record batch is asked for. When messages are acknowledged: see `ArrowReader`.

    Args:
        addresses: the broker's receiving address ``host:port``, or several of a cluster, in a sequence or with commas.
        queue: the queue's name.
        count: end after so many messages; never is one more taken.
        idle_exit: end when nothing has come for so many seconds. With neither of the two it never ends.
        columns: which columns, in this order; see `arrow_records.TYPES`. ``packed_headers`` has headers as they came.
        acknowledge: ``as-read`` or ``at-exit``. With ``at-exit`` everything read is held, so no more than ``max_in_flight`` messages and
            ``max_in_flight_bytes`` come, or ``count`` of them whatever their bytes; then it ends by ``idle_exit``.
        hold: seconds for which what is held stays here, at most 12 hours.
        max_in_flight: messages delivered and not acknowledged, at most.
        max_in_flight_bytes: their bytes, at most, give or take one message.
        access: who this is, and whether TLS is spoken; None for what the environment says.
        reconnect: how to come back after a broken connection, and when to give up: after 10 s.
        tracing: a `Tracing`, which counts the messages that come; a record batch has no span of its own.

    Raises:
        LocalProtocolError: a value that cannot be.
        InvalidNameError: a queue that is no name.
    """
    if acknowledge not in (AS_READ, AT_EXIT):
        raise LocalProtocolError(f"acknowledge is {acknowledge!r:.40}, not {AS_READ!r} or {AT_EXIT!r}")
    if idle_exit is not None and not 0 < idle_exit < float("inf"):
        raise ImpossibleTimeError(f"idle_exit is {idle_exit!r:.40}, not a number of seconds above 0")
    check_answer_time("hold", hold)
    schema = arrow_schema(columns)
    if acknowledge == AT_EXIT and count is not None:
        max_in_flight, max_in_flight_bytes = max(1, count), MOST_HELD_BYTES
    receiver = Receiver(
        addresses,
        queue=queue,
        max_in_flight=max_in_flight,
        max_in_flight_bytes=max_in_flight_bytes,
        limit=count,
        access=access,
        reconnect=reconnect,
        tracing=tracing,
    )
    return ArrowReader(Reading(receiver, schema, count, idle_exit, hold if acknowledge == AT_EXIT else None))
