"""What a receiver hands over: one message, or one batch of them, with the facts of its delivery and the way to answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Protocol as TypingProtocol

from actors.batch import ID_BYTES, OFFSET_BYTES, BinaryColumn, HeaderValue, MessageBatch, unpack_headers
from actors.errors import BatchError
from transport.errors import BadHeadersError, LocalProtocolError
from transport.wire.field_checks import MAX_REASON_BYTES
from transport.wire.messages import Deliver
from transport.wire.names import AMQP_HEADER
from transport.wire.timing import check_answer_time

if TYPE_CHECKING:
    from transport.clients.deaths import Death

NO_COLUMNS = MessageBatch(BinaryColumn(memoryview(bytes(OFFSET_BYTES)).cast("i"), memoryview(b"")))
"""What is left of a batch without ids, keys and headers when its payloads were handed over."""


SPARED = 2
RUNS = re.compile(b"\0+|\2+")
"""Messages in a row that are not answered, by the mark of each: none, or `SPARED`."""


class Settlement(TypingProtocol):
    """Where answers go: the session that delivered."""

    def acknowledge(self, batch: DeliveredBatch, first: int, count: int) -> None:
        """These are done."""

    def reject(
        self,
        batch: DeliveredBatch,
        first: int,
        count: int,
        delay: float,
        failed: bool = True,
        error: str | None = None,
    ) -> None:
        """These are to come again after ``delay`` seconds; ``failed``, on ``error``, unless nobody tried to handle them."""

    def dead_letter(self, batch: DeliveredBatch, first: int, count: int, reason: str) -> None:
        """These are to be dead letters."""

    def extend(self, batch: DeliveredBatch, first: int, count: int, seconds: float) -> None:
        """These need ``seconds`` from now."""

    @property
    def generation(self) -> int:
        """Which connection it has; another one's deliveries are void."""

    @property
    def dead_letters(self) -> bool:
        """Whether the queue keeps dead letters."""

    @property
    def handler_failed(self) -> Callable[[Delivery | DeliveredBatch, Exception], bool]:
        """Answers for what a handler has failed on; false where that is to stop the stream."""


class DeliveredBatch:
    """A contiguous run of messages as the broker delivered them.

    Attributes:
        batch: the messages, in columns.
        queue: the queue's name.
        first: the queue sequence number of the first message.
        enqueued_us: when the broker took them, microseconds since the epoch.
        delivery_count: how often they have been delivered, this time included.
        possibly_replayed: whether they may have been delivered before.
        exchange: where they were published: a name, empty for the default exchange; None where they were sent to the queue itself.
        routing_key: of those that have no key of their own, where they were published to an exchange; else None.
        failures: how often they have come back because somebody failed to handle them, as far as the broker knows.
        priority: the level of the queue that they are of, where it has `max_priority`; else 0.
        generation: the connection they came on; answers on a later one are void.
        unsettled: how many of them are not answered yet.
        answered: a byte for each, 1 where it is answered by itself.
        spared: indexes of those that the stream has passed by: at its end that is no failure. None for none.
        extended: indexes of those that the program has asked more time for. None for none.
    """

    __slots__ = (
        "_count",
        "_id_prefix",
        "_settlement",
        "answered",
        "batch",
        "delivery_count",
        "enqueued_us",
        "exchange",
        "extended",
        "failures",
        "first",
        "generation",
        "nbytes",
        "possibly_replayed",
        "priority",
        "queue",
        "routing_key",
        "spared",
        "unsettled",
    )

    def __init__(
        self, frame: Deliver, queue: str, settlement: Settlement, generation: int = 0, id_prefix: bytes = b""
    ) -> None:
        self.batch: MessageBatch = frame.batch
        self.queue = queue
        self.first = frame.first
        self.enqueued_us = frame.enqueued_us
        self.delivery_count = frame.delivery_count
        self.possibly_replayed = frame.possibly_replayed
        self.exchange = frame.exchange
        self.routing_key = frame.routing_key
        self.failures = frame.failures
        self.priority = frame.priority
        self.generation = generation
        self.nbytes = frame.batch.nbytes
        self.unsettled = self._count = len(frame.batch)
        self.answered = bytearray(self._count)
        self.spared: set[int] | None = None
        self.extended: set[int] | None = None
        self._settlement = settlement
        self._id_prefix = id_prefix

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"DeliveredBatch({self.queue!r}, {self.first}-{self.first + len(self) - 1})"

    def payloads(self) -> list[bytes]:
        """The payloads as bytes, in order."""
        return self.batch.payloads.tolist()

    def split(self) -> list[bytes]:
        """The payloads as bytes of their own, in order, and let go of the frame: a message that is kept keeps no neighbours."""
        batch = self.batch
        payloads = batch.payloads.tolist()
        bare = batch.ids is None and batch.keys is None and batch.headers is None
        self.batch = NO_COLUMNS if bare else batch.without_payloads()
        return payloads

    def acknowledge(self) -> None:
        """Every message of it is done; without effect the second time."""
        if self.unsettled:
            self.unsettled = 0
            self._settlement.acknowledge(self, self.first, self._count)

    def reject(self, delay: float = 0.0, error: str | None = None) -> None:
        """Every message of it is to come again, after ``delay`` seconds; see `Delivery.reject`."""
        check_answer_time("delay", delay)
        _check_text("reject: the error", error)
        if self.unsettled:
            self.unsettled = 0
            self._settlement.reject(self, self.first, self._count, delay, True, error)

    def dead_letter(self, reason: str) -> None:
        """Every message of it is a dead letter at once, with ``reason``; errors as of `Delivery.dead_letter`."""
        _check_dead_letter(self, reason)
        if self.unsettled:
            self.unsettled = 0
            self._settlement.dead_letter(self, self.first, self._count, reason)

    def give_back(self, start: int = 0) -> None:
        """The messages from index ``start`` on, none of which is answered, are to come again: nobody has tried to handle them."""
        count = self._count - start
        self.unsettled -= count
        self.answered[start:] = b"\1" * count
        self._settlement.reject(self, self.first + start, count, 0.0, False)

    def __untaken__(self) -> None:
        """It was handed on, and nobody has taken it."""
        if self.unsettled:
            self.give_back()

    def __failed_on__(self, error: Exception) -> bool:
        """A function that was given it has raised ``error``; true if the stream goes on without it."""
        return self._settlement.handler_failed(self, error)

    def __passed_by__(self) -> None:
        """The stream ends before it, and has not worked on it."""
        self.spared = set(range(self._count))

    def unanswered(self) -> list[tuple[int, int, bool]]:
        """First number and count of each run of messages that are not answered, and whether the stream has passed by them."""
        if not self.unsettled:
            return []
        marks = bytearray(self.answered)
        for index in self.spared or ():
            marks[index] = marks[index] or SPARED
        return [(self.first + run.start(), len(run[0]), marks[run.start()] == SPARED) for run in RUNS.finditer(marks)]

    def extend(self, seconds: float) -> None:
        """Handling needs ``seconds`` from now: do not redeliver before.

        Raises:
            ImpossibleTimeError: ``seconds`` is no number of seconds from 0 to 12 hours. It is a ValueError.
        """
        check_answer_time("the extension", seconds)
        if self.unsettled:
            self._settlement.extend(self, self.first, self._count, seconds)

    def message_id(self, index: int) -> bytes:
        """The 16-byte id of message ``index``: the sender's, or epoch, queue number and sequence number."""
        if self.batch.ids is not None:
            return bytes(self.batch.ids[index * ID_BYTES : (index + 1) * ID_BYTES])
        return self._id_prefix + (self.first + index).to_bytes(8, "big")

    def routing_key_of(self, index: int) -> str | None:
        """The routing key of message ``index``: its own key where it has one; None where it was sent to the queue itself."""
        if self.exchange is None:
            return None
        own = b"" if self.batch.keys is None else self.batch.keys[index]
        return own.decode("utf-8", "replace") if own else self.routing_key or ""


class Delivery:
    """One message.

    Attributes:
        payload: the bytes that were sent.
    """

    __slots__ = ("_batch", "_index", "payload")

    def __init__(self, batch: DeliveredBatch, index: int, payload: bytes) -> None:
        self.payload = payload
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        return f"Delivery({self._batch.queue!r}, {self.sequence}, {self.payload!r:.60})"

    def acknowledge(self) -> None:
        """It is done and is never delivered again; without effect the second time, and when its run is over: see `Receiver`."""
        batch, index = self._batch, self._index
        if not batch.answered[index]:
            batch.answered[index] = 1
            batch.unsettled -= 1
            batch._settlement.acknowledge(batch, batch.first + index, 1)

    def reject(self, delay: float = 0.0, error: str | None = None) -> None:
        """It is to be delivered again, in its old place, after ``delay`` seconds; to anyone. That counts as a failure.

        Args:
            delay: seconds.
            error: what has failed, at most 300 bytes in UTF-8. Where this is its last failure, by the queue's ``max_receives``, it is in
                the dead letter's header ``penstock-dead-error``.

        Raises:
            ImpossibleTimeError: ``delay`` is no number of seconds from 0 to 12 hours. It is a ValueError.
            LocalProtocolError: the error is longer.
        """
        check_answer_time("delay", delay)
        _check_text("reject: the error", error)
        self._reject(delay, error=error)

    def dead_letter(self, reason: str) -> None:
        """It can never be handled: it goes to the dead-letter queue at once, however seldom it has failed.

        The dead letter's headers have ``penstock-dead-reason`` as ``rejected`` and ``penstock-dead-error`` as ``reason``.

        Args:
            reason: why, for those who look at dead letters; at most 300 bytes in UTF-8.

        Raises:
            LocalProtocolError: the reason is longer, or the queue keeps no dead letters: it was declared without ``max_receives``, or
                its broker is too old. Nothing was said of the message then.
        """
        _check_dead_letter(self._batch, reason)
        self._dead_letter(reason)

    def _dead_letter(self, reason: str) -> None:
        batch, index = self._batch, self._index
        if not batch.answered[index]:
            batch.answered[index] = 1
            batch.unsettled -= 1
            batch._settlement.dead_letter(batch, batch.first + index, 1, reason)

    def _reject(self, delay: float, failed: bool = True, error: str | None = None) -> None:
        batch, index = self._batch, self._index
        if not batch.answered[index]:
            batch.answered[index] = 1
            batch.unsettled -= 1
            batch._settlement.reject(batch, batch.first + index, 1, delay, failed, error)

    def __untaken__(self) -> None:
        """It was handed on, and nobody has taken it: it goes back, and that is no failure."""
        self._reject(0.0, failed=False)

    def __failed_on__(self, error: Exception) -> bool:
        """A function that was given it has raised ``error``; true if the stream goes on without it: see `Receiver`, ``on_failure``."""
        return self._batch._settlement.handler_failed(self, error)

    def __passed_by__(self) -> None:
        """The stream ends before it, and has not worked on it. Who has it by another way may still acknowledge it."""
        batch = self._batch
        batch.spared = batch.spared or set()
        batch.spared.add(self._index)

    def extend(self, seconds: float) -> None:
        """Handling needs ``seconds`` from now: do not redeliver before.

        Raises:
            ImpossibleTimeError: ``seconds`` is no number of seconds from 0 to 12 hours. It is a ValueError.
        """
        check_answer_time("the extension", seconds)
        batch = self._batch
        batch.extended = batch.extended or set()
        batch.extended.add(self._index)
        self._extend(seconds)

    @property
    def is_extended_by_hand(self) -> bool:
        """Whether `extend` was called."""
        extended = self._batch.extended
        return extended is not None and self._index in extended

    @property
    def is_answered(self) -> bool:
        """Whether it was acknowledged, given back, or made a dead letter."""
        return bool(self._batch.answered[self._index])

    @property
    def is_void(self) -> bool:
        """Whether it has gone back to the queue, as the connection has ended that it came on: somebody else may have it by now."""
        batch = self._batch
        return batch.generation != batch._settlement.generation

    def _extend(self, seconds: float) -> None:
        batch, index = self._batch, self._index
        if not batch.answered[index]:
            batch._settlement.extend(batch, batch.first + index, 1, seconds)

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._batch.queue

    @property
    def sequence(self) -> int:
        """Its number in the queue."""
        return self._batch.first + self._index

    @property
    def id(self) -> bytes:
        """Its 16-byte id."""
        return self._batch.message_id(self._index)

    @property
    def key(self) -> bytes | None:
        """The key the sender gave, if any."""
        keys = self._batch.batch.keys
        return (keys[self._index] or None) if keys is not None else None

    @property
    def exchange(self) -> str | None:
        """Where it was published: a name, empty for the default exchange; None where it was sent to the queue itself."""
        return self._batch.exchange

    @property
    def routing_key(self) -> str | None:
        """The key that it was published with; None where it was sent to the queue itself."""
        return self._batch.routing_key_of(self._index)

    @property
    def headers(self) -> dict[str, HeaderValue]:
        """The headers the sender gave; empty for none. What a client of AMQP has published has its properties as ``amqp.content_type`` etc.

        Raises:
            BadHeadersError: they are no map of strings. Clients check what they send, brokers do not; so another client wrote them.
        """
        try:
            headers = unpack_headers(self.headers_raw) or {}
        except BatchError as error:
            raise BadHeadersError(self.queue, self.sequence, str(error)) from None
        return _told(headers) if AMQP_HEADER in headers else headers

    @property
    def headers_raw(self) -> bytes:
        """The headers as they were sent, packed; empty for none."""
        headers = self._batch.batch.headers
        return b"" if headers is None else headers[self._index]

    @property
    def enqueued_us(self) -> int:
        """When the broker took it, microseconds since the epoch."""
        return self._batch.enqueued_us

    @property
    def delivery_count(self) -> int:
        """How often it has been delivered, this time included."""
        return self._batch.delivery_count

    @property
    def failures(self) -> int:
        """How often it has come back because somebody failed to handle it, as far as the broker knows."""
        return self._batch.failures

    @property
    def priority(self) -> int:
        """Its level in the queue: what its sender said, or the highest there is; 0 where the queue has no ``max_priority``."""
        return self._batch.priority

    @property
    def deaths(self) -> tuple[Death, ...]:
        """All that a dead letter has died of, the latest first; empty for what is none. See `deaths_in`."""
        from transport.clients.deaths import deaths_in  # noqa: PLC0415 - few programs receive dead letters

        return deaths_in(self.headers, self.enqueued_us, self.key or (self.routing_key or "").encode())

    @property
    def possibly_replayed(self) -> bool:
        """Whether it may have been delivered before."""
        return self._batch.possibly_replayed


def _told(headers: dict[str, HeaderValue]) -> dict[str, HeaderValue]:
    from transport.wire.amqp_headers import told_headers  # noqa: PLC0415 - few programs receive what AMQP has published

    return told_headers(headers)


def _check_text(what: str, text: str | None) -> None:
    if text is not None and (not isinstance(text, str) or len(text.encode(errors="replace")) > MAX_REASON_BYTES):
        raise LocalProtocolError(f"{what} is {text!r:.40}; it is a text of at most {MAX_REASON_BYTES} bytes")


def _check_dead_letter(batch: DeliveredBatch, reason: str) -> None:
    if reason is None:
        raise LocalProtocolError("dead_letter: the reason is None; say why, for those who look at dead letters")
    _check_text("dead_letter: the reason", reason)
    if not batch._settlement.dead_letters:
        raise LocalProtocolError(no_dead_letters(batch.queue, "dead_letter()"))


def no_dead_letters(queue: str, what: str) -> str:
    """The text of the error of a program that counts on dead letters where there are none."""
    return (
        f"queue {queue} keeps no dead letters, which {what} needs: declare it with max_receives, and without drop_failed (penstock "
        f"queue alter {queue} --max-receives 5 --no-drop-failed; --address takes the sending address of its broker), and see that the "
        "broker is not older than this client"
    )
