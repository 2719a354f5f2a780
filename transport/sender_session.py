"""What a sender knows, without I/O: the open batch, what waits for demand, what waits for confirmation.

Numbers and contents outlive connections: what is unconfirmed when one breaks is offered again on the next, with the same
numbers. docs/protocol.md, sections "Sending" and "Resending".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from actors.batch import ID_BYTES, Message, MessageBatch, pack_headers
from transport.errors import LocalProtocolError, MessageTooLargeError
from transport.frames import MAX_BODY_BYTES
from transport.wire import Send, Sent

DEFAULT_BATCH_MESSAGES = 1000
DEFAULT_BATCH_BYTES = 1024 * 1024
"""Bytes of payload at which a batch is closed: larger gains no speed and makes the first of them wait longer."""
MESSAGE_OVERHEAD_BYTES = 64
"""Offsets and id of one message, rounded up."""
MAX_BATCH_BYTES = MAX_BODY_BYTES - MESSAGE_OVERHEAD_BYTES
"""The payload of one message that just fits: a batch is closed there at the latest."""
OPEN_WHILE_UNCONFIRMED = 2
"""Batches under way from which on a batch that is not full waits to fill: small batches when idle, large ones under load."""

Sendable = bytes | bytearray | memoryview | Message | MessageBatch


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The broker has stored ``count`` messages.

    Attributes:
        sequence: the producer's number of the first of them.
        count: how many.
        first: the queue's number of the first, None where they had been stored before a reconnect.
    """

    sequence: int
    count: int
    first: int | None


class SenderSession:
    """The state of one producer.

    Attributes:
        credit_messages: messages that may still be sent on this connection.
        credit_bytes: bytes likewise; negative when the last message led beyond it.
        resent: messages sent again after a reconnect.
        unsent_bytes: bytes taken and not yet sent.
    """

    __slots__ = (
        "_max_bytes",
        "_max_messages",
        "_measured_bytes",
        "_measured_messages",
        "_next",
        "_open",
        "_open_bytes",
        "_open_plain",
        "_ready",
        "_ready_messages",
        "_taken_bytes",
        "_unconfirmed",
        "confirmed_messages",
        "credit_bytes",
        "credit_messages",
        "resent",
        "unconfirmed_messages",
        "unsent_bytes",
    )

    def __init__(
        self, max_batch_messages: int = DEFAULT_BATCH_MESSAGES, max_batch_bytes: int = DEFAULT_BATCH_BYTES
    ) -> None:
        if max_batch_messages < 1 or not 1 <= max_batch_bytes <= MAX_BODY_BYTES:
            raise LocalProtocolError(
                f"batches of {max_batch_messages} messages and {max_batch_bytes} bytes: "
                f"at least 1 message and 1-{MAX_BODY_BYTES} bytes are possible"
            )
        self._max_messages = max_batch_messages
        self._max_bytes = min(max_batch_bytes, MAX_BATCH_BYTES)
        self._open: list[Any] = []
        self._open_bytes = 0
        self._open_plain = True
        self._ready: deque[tuple[int, MessageBatch]] = deque()
        self._ready_messages = 0
        self._unconfirmed: deque[tuple[int, MessageBatch]] = deque()
        self._next = 0
        self._taken_bytes = 0
        self._measured_messages = 0
        self._measured_bytes = 0
        self.credit_messages = 0
        self.credit_bytes = 0
        self.unsent_bytes = 0
        self.unconfirmed_messages = 0
        self.confirmed_messages = 0
        self.resent = 0

    @property
    def unsent_messages(self) -> int:
        """Messages taken and not yet sent."""
        return len(self._open) + self._ready_messages

    @property
    def idle(self) -> bool:
        """Whether everything taken is confirmed."""
        return not (self._open or self._ready or self._unconfirmed)

    def offer_payload(self, payload: bytes) -> None:
        """Take one bare payload; the hot path."""
        self._open.append(payload)
        self._open_bytes += len(payload)
        if len(self._open) >= self._max_messages or self._open_bytes >= self._max_bytes:
            self._close_full(payload)

    def offer(self, element: Sendable) -> None:
        """Take one element of any kind.

        Raises:
            MessageTooLargeError: a message that fits no frame.
            LocalProtocolError: an element that is no message.
        """
        if isinstance(element, bytes):
            self.offer_payload(element)
        elif isinstance(element, Message):
            self._offer_message(element)
        elif isinstance(element, MessageBatch):
            self.seal()
            self._append(element)
        elif isinstance(element, bytearray | memoryview):
            self.offer_payload(bytes(element))
        else:
            raise LocalProtocolError(
                f"a sender takes bytes, Message or MessageBatch, not {type(element).__name__}; encode it in a map() before"
            )

    def seal(self) -> None:
        """Close the open batch, full or not."""
        if not self._open:
            return
        taken, plain = self._open, self._open_plain
        self._open, self._open_bytes, self._open_plain = [], 0, True
        if plain:
            self._append(MessageBatch.from_payloads(taken))
            return
        messages = [Message(part) if isinstance(part, bytes) else part for part in taken]
        # Ids are a column: every message of a batch has one or none has.
        for _, run in groupby(messages, lambda message: message.id is None):
            self._append(MessageBatch.from_messages(list(run)))

    def sends(self, complete: bool = False) -> list[Send]:
        """The batches that may leave now, under the demand there is.

        With ``complete`` nothing more will come, so the open batch leaves however small.
        """
        if self._open and (complete or len(self._unconfirmed) + len(self._ready) < OPEN_WHILE_UNCONFIRMED):
            self.seal()
        frames: list[Send] = []
        while self._ready and self.credit_messages > 0 and self.credit_bytes > 0:
            sequence, batch = self._ready.popleft()
            count = min(self.credit_messages, batch.count_within(self.credit_bytes))
            if count < len(batch):
                self._ready.appendleft((sequence + count, batch.slice(count, len(batch))))
                batch = batch.slice(0, count)
            size = batch.nbytes
            self.credit_messages -= count
            self.credit_bytes -= size
            self.unsent_bytes = max(0, self.unsent_bytes - size)
            self._ready_messages -= count
            self.unconfirmed_messages += count
            self._unconfirmed.append((sequence, batch))
            frames.append(Send(sequence, None, batch))
        return frames

    def take_measure(self) -> tuple[int, int]:
        """Messages and bytes taken since the last call."""
        messages = self._next + len(self._open) - self._measured_messages
        total = self._taken_bytes + self._open_bytes
        size = total - self._measured_bytes
        self._measured_messages += messages
        self._measured_bytes = total
        return messages, size

    def granted(self, messages: int, size: int) -> None:
        """More demand from the broker (increments)."""
        self.credit_messages += messages
        self.credit_bytes += size

    def sent(self, frame: Sent) -> list[Confirmation]:
        """What ``frame`` confirms, batch by batch."""
        confirmations: list[Confirmation] = []
        while self._unconfirmed:
            sequence, batch = self._unconfirmed[0]
            count = len(batch)
            if sequence + count > frame.up_to:
                break
            self._unconfirmed.popleft()
            self.unconfirmed_messages -= count
            self.confirmed_messages += count
            last = sequence + count == frame.up_to
            confirmations.append(Confirmation(sequence, count, frame.first if last else None))
        return confirmations

    def connected(self, last_sequence: int | None) -> list[Confirmation]:
        """A connection is open; the broker has stored what is numbered below ``last_sequence`` (None: it knows nothing).

        Returns the confirmations that this amounts to. Demand begins at zero again.
        """
        self.credit_messages = self.credit_bytes = 0
        if self._next == 0 and last_sequence is not None:
            # An earlier session of the same name sent before this one: number on from there.
            self._next = self._measured_messages = last_sequence
        confirmations = self.sent(Sent(last_sequence, None)) if last_sequence is not None else []
        self.resent += self.unconfirmed_messages
        self._ready_messages += self.unconfirmed_messages
        self.unconfirmed_messages = 0
        while self._unconfirmed:
            sequence, batch = self._unconfirmed.pop()
            self.unsent_bytes += batch.nbytes
            self._ready.appendleft((sequence, batch))
        return confirmations

    def _close_full(self, payload: bytes) -> None:
        """The open batch is full with ``payload``; a very large one goes alone, so that no frame overflows."""
        if len(payload) > self._max_bytes and len(self._open) > 1:
            self._open.pop()
            self.seal()
            self._open.append(payload)
        if len(payload) + MESSAGE_OVERHEAD_BYTES > MAX_BODY_BYTES:
            raise MessageTooLargeError(len(payload), MAX_BODY_BYTES - MESSAGE_OVERHEAD_BYTES)
        self.seal()

    def _offer_message(self, message: Message) -> None:
        size = _checked_size(message)
        if self._open_bytes + size > self._max_bytes:
            self.seal()
        self._open.append(message)
        self._open_plain = False
        self._open_bytes += size
        if len(self._open) >= self._max_messages or self._open_bytes >= self._max_bytes:
            self.seal()

    def _append(self, batch: MessageBatch) -> None:
        while batch.nbytes > MAX_BODY_BYTES:
            # All but the last message that a byte demand would let through lie within it.
            count = batch.count_within(MAX_BODY_BYTES) - 1
            if count < 1:
                raise MessageTooLargeError(batch.prefix_bytes(1), MAX_BODY_BYTES)
            self._append(batch.slice(0, count))
            batch = batch.slice(count, len(batch))
        self._ready.append((self._next, batch))
        self._ready_messages += len(batch)
        self._next += len(batch)
        size = batch.nbytes
        self.unsent_bytes += size
        self._taken_bytes += size


def _checked_size(message: Message) -> int:
    """The bytes of ``message``'s columns, rounded up; an error where it is no message or fits no frame."""
    for part, what in ((message.payload, "payload"), (message.key, "key"), (message.id, "id")):
        if not isinstance(part, bytes) and (part is not None or what == "payload"):
            raise LocalProtocolError(f"a message's {what} must be bytes, not {type(part).__name__}")
    if message.id is not None and len(message.id) != ID_BYTES:
        raise LocalProtocolError(f"a message's id has {ID_BYTES} bytes, not {len(message.id)}")
    size = len(message.payload) + len(message.key or b"") + len(pack_headers(message.headers))
    if size + MESSAGE_OVERHEAD_BYTES > MAX_BODY_BYTES:
        raise MessageTooLargeError(size, MAX_BODY_BYTES - MESSAGE_OVERHEAD_BYTES)
    return size
