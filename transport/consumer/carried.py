"""What goes between a consumer and the processes of a handler: messages there, and what they have failed with back.

Both ends are of one program, so the pipe of `multiprocessing` carries it. An exception comes back as itself where it can be pickled;
what is needed for its message's answer, and for the log, comes as text beside it in any case.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.handler_failures import text_of
from transport.errors import DeadLetterError, HandlerProcessError, LocalProtocolError
from transport.wire.messages import Deliver
from transport.wire.values import BinaryColumn, MessageBatch

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MAX_TEXT = 16_384
"""Characters of an exception's text, and of its traceback, that are carried."""


@dataclass(frozen=True, slots=True)
class CarriedMessage:
    """A message without the way to answer for it.

    Attributes:
        payload: its bytes.
        queue: the queue's name.
        sequence: its number there.
        id: its 16-byte id.
        key: its key, if any.
        headers: as they were sent, packed.
        enqueued_us: when the broker took it.
        delivery_count: how often it has been delivered.
        possibly_replayed: whether it may have been delivered before.
        exchange: where it was published, if it was.
        routing_key: with which key.
        failures: how often it has come back because somebody failed to handle it.
        priority: its level in the queue.
    """

    payload: bytes
    queue: str
    sequence: int
    id: bytes
    key: bytes | None
    headers: bytes
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    exchange: str | None
    routing_key: str | None
    failures: int = 0
    priority: int = 0

    @classmethod
    def of(cls, delivery: Delivery) -> CarriedMessage:
        """What is known of ``delivery``."""
        return cls(
            delivery.payload,
            delivery.queue,
            delivery.sequence,
            delivery.id,
            delivery.key,
            bytes(delivery.headers_raw),
            delivery.enqueued_us,
            delivery.delivery_count,
            delivery.possibly_replayed,
            delivery.exchange,
            delivery.routing_key,
            delivery.failures,
            delivery.priority,
        )

    def delivery(self) -> Delivery:
        """The same as a delivery that refuses to be answered."""
        batch = MessageBatch(
            BinaryColumn.from_values([b""]),
            memoryview(self.id),
            None if self.key is None else BinaryColumn.from_values([self.key]),
            BinaryColumn.from_values([self.headers]) if self.headers else None,
        )
        facts = self.sequence, self.enqueued_us, self.delivery_count, self.possibly_replayed
        frame = Deliver(*facts, batch, self.exchange, self.routing_key, self.failures, self.priority)
        return Delivery(DeliveredBatch(frame, self.queue, _Elsewhere()), 0, self.payload)


class _Elsewhere:
    """The session of a message that has come without one."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise LocalProtocolError(
            "a handler in a process cannot answer for its message there: it returns, and the message is acknowledged; it raises, and "
            "the message has failed; it raises DeadLetterError, and the message is a dead letter"
        )

    acknowledge = reject = dead_letter = extend = _refuse

    @property
    def generation(self) -> int:
        """There is no other connection."""
        return 0

    @property
    def dead_letters(self) -> bool:
        self._refuse()

    @property
    def handler_failed(self) -> Callable[[Delivery | DeliveredBatch, Exception], bool]:
        self._refuse()


@dataclass(frozen=True, slots=True)
class CarriedFailure:
    """An exception as text.

    Attributes:
        text: its type and what it says.
        traceback: where it was raised.
        reason: of a `DeadLetterError`, its reason; else None.
    """

    text: str
    traceback: str
    reason: str | None

    @classmethod
    def of(cls, error: BaseException) -> CarriedFailure:
        """What is to be known of ``error``."""
        reason = error.reason if isinstance(error, DeadLetterError) else None
        lines = "".join(traceback.format_exception(error))
        return cls(text_of(error)[:MAX_TEXT], lines[-MAX_TEXT:], None if reason is None else reason[:MAX_TEXT])

    def error(self, itself: object) -> Exception:
        """The exception ``itself`` where it has come, else one in its place."""
        if self.reason is not None:
            error: Exception = DeadLetterError(self.reason)
        elif isinstance(itself, Exception):
            error = itself
        else:
            error = HandlerProcessError(self.text)
        error.add_note(f"In a process of the handler:\n{self.traceback.rstrip()}")
        return error


def send_errors(connection: Connection[Any, Any], errors: dict[int, Exception]) -> None:
    """Says what the messages at these places have failed with; one exception of many messages goes once."""
    different = {id(error): error for error in errors.values()}
    numbers = {key: number for number, key in enumerate(different)}
    connection.send(
        (
            {place: numbers[id(error)] for place, error in errors.items()},
            [CarriedFailure.of(error) for error in different.values()],
        )
    )
    for error in different.values():
        try:
            connection.send(error)
        except OSError:
            raise
        except Exception:  # noqa: BLE001 - it cannot be pickled, and nothing was sent; its text has gone already
            connection.send(None)


def received_errors(connection: Connection[Any, Any]) -> dict[int, Exception]:
    """What `send_errors` has said.

    Raises:
        EOFError: the other end is closed.
    """
    places, failures = connection.recv()
    errors = []
    for failure in failures:
        try:
            itself = connection.recv()
        except (EOFError, OSError):
            raise
        except Exception:  # noqa: BLE001 - it was pickled, but its class cannot be called with what it was made of
            itself = None
        errors.append(failure.error(itself))
    return {place: errors[number] for place, number in places.items()}
