"""What a sender knows, without I/O: what waits for demand, what waits for confirmation, and how both are numbered.

What is unconfirmed when a connection breaks is sent again on the next, with the same numbers. A batch gets its number when it leaves, so
numbers follow one another over what the broker stores and nothing else: WELCOME's ``last_sequence`` then tells exactly what is stored.
docs/protocol.md, sections "Sending", "Rejection" and "Resending".
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

from actors.batch import Message, MessageBatch
from transport.clients.sender_batches import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_MESSAGES, BatchBuilder, Sendable
from transport.errors import ConfirmedLostError, RemoteProtocolError
from transport.wire.messages import Returned, Send, Sent
from transport.wire.timing import NO_TIMING, Timing

OPEN_WHILE_UNCONFIRMED = 2
"""Batches under way from which on a batch that is not full waits to fill: small batches when idle, large ones under load."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The broker has answered for ``count`` messages: they are stored, unless ``rejected`` says why not.

    Attributes:
        sequence: the producer's number of the first of them; what follows a rejection is numbered from there again.
        count: how many.
        first: the queue's number of the first, None where they had been stored before a reconnect, or are rejected.
        rejected: why the queue did not store them; None where it did.
        returned: of what is published with ``mandatory``, how many of them no queue took.
    """

    sequence: int
    count: int
    first: int | None
    rejected: str | None = None
    returned: int = 0


class ReturnedMessage(NamedTuple):
    """A message that was published with ``mandatory`` and that no queue took.

    Attributes:
        sequence: the producer's number of it.
        message: the message.
        reason: why, in the broker's words.
    """

    sequence: int
    message: Message
    reason: str


class _Ready(NamedTuple):
    """A closed batch that waits for demand."""

    batch: MessageBatch
    timing: Timing
    resent: bool = False


class _UnderWay(NamedTuple):
    """A batch that was sent and is not answered for."""

    sequence: int
    batch: MessageBatch
    timing: Timing
    resent: bool

    @property
    def end(self) -> int:
        """The number after its last message's."""
        return self.sequence + len(self.batch)


@dataclass(eq=False, repr=False, slots=True)
class SenderSession:
    """The state of one producer.

    Attributes:
        credit_messages: messages that may still be sent on this connection.
        credit_bytes: bytes likewise; negative when the last message led beyond it.
        offer: take one element of any kind; see `BatchBuilder.offer`.
        offer_payload: take one bare payload; the hot path.
        confirmed_messages: messages stored.
        rejected_messages: messages the queue rejected.
        resent: messages sent again after a reconnect.
        returned_messages: messages that no queue took, of what is published with ``mandatory``.
        priorities: whether priorities make a difference where they go; see `takes_priorities`.
        target: where they go, for errors.
        numbered: whether the broker tells the queue's numbers of what it has stored, as it does of what is sent to one queue.
        next_number: the number that the next message to be sent gets.
        unsent_bytes: bytes taken and not yet sent.
        unconfirmed_messages: messages sent on this connection and not answered for; ``unconfirmed_bytes`` likewise.
    """

    max_batch_messages: InitVar[int] = DEFAULT_BATCH_MESSAGES
    max_batch_bytes: InitVar[int] = DEFAULT_BATCH_BYTES
    timing: InitVar[Timing] = NO_TIMING
    client_id: str = ""
    offer: Callable[[Sendable], None] = field(init=False)
    offer_payload: Callable[[bytes], None] = field(init=False)
    credit_messages: int = 0
    credit_bytes: int = 0
    unsent_bytes: int = 0
    unconfirmed_messages: int = 0
    unconfirmed_bytes: int = 0
    confirmed_messages: int = 0
    rejected_messages: int = 0
    resent: int = 0
    returned_messages: int = 0
    numbered: bool = True
    target: str = ""
    priorities: bool = False
    next_number: int = 0
    _builder: BatchBuilder = field(init=False)
    _ready: deque[_Ready] = field(default_factory=deque)
    _ready_messages: int = 0
    _unconfirmed: deque[_UnderWay] = field(default_factory=deque)
    # The number after the last message's that was sent on any connection; None while nothing is known of any.
    _highest: int | None = None
    _rejected_at: int | None = None
    # Of the batch that is answered for next.
    _returned_now: int = 0
    _taken_messages: int = 0
    _taken_bytes: int = 0
    _measured_messages: int = 0
    _measured_bytes: int = 0

    def __post_init__(self, max_batch_messages: int, max_batch_bytes: int, timing: Timing) -> None:
        self._builder = BatchBuilder(max_batch_messages, max_batch_bytes, timing, self._closed)
        self.offer = self._builder.offer
        self.offer_payload = self._builder.offer_payload

    def takes_priorities(self, highest: int) -> None:
        """Up to which priority they make a difference where the messages go, 0 for none.

        In one queue with levels what has another need not be in order.
        """
        self.priorities = highest > 0
        self._builder.max_priority = highest if self.numbered else 0

    @property
    def unsent_messages(self) -> int:
        """Messages taken and not yet sent."""
        return len(self._builder) + self._ready_messages

    @property
    def idle(self) -> bool:
        """Whether everything taken is answered for."""
        return not (len(self._builder) or self._ready or self._unconfirmed)

    @property
    def highest_sent(self) -> int:
        """The number after the last message's that was sent on any connection, and may be stored."""
        return self._highest or 0

    def sends(self, complete: bool = False, most_unconfirmed: float = math.inf) -> list[Send]:
        """The batches that may leave now, under the demand there is, and while less than so many bytes are unconfirmed.

        With ``complete`` nothing more will come, so the open batch leaves however small.
        """
        if len(self._builder) and (complete or len(self._unconfirmed) + len(self._ready) < OPEN_WHILE_UNCONFIRMED):
            self._builder.seal()
        frames: list[Send] = []
        # After a rejection the queue takes nothing until it is numbered anew, which waits for the last answer.
        while self._ready and self.credit_messages > 0 and self.credit_bytes > 0 and self._rejected_at is None:
            if self.unconfirmed_bytes >= most_unconfirmed:
                break
            batch, timing, resent = self._ready.popleft()
            count = min(self.credit_messages, batch.count_within(self.credit_bytes))
            if count < len(batch):
                self._ready.appendleft(_Ready(batch.slice(count, len(batch)), timing, resent))
                batch = batch.slice(0, count)
            size = batch.nbytes
            self.credit_messages -= count
            self.credit_bytes -= size
            self.unsent_bytes = max(0, self.unsent_bytes - size)
            self._ready_messages -= count
            self.unconfirmed_messages += count
            self.unconfirmed_bytes += size
            self._unconfirmed.append(_UnderWay(self.next_number, batch, timing, resent))
            frames.append(Send(self.next_number, timing.to_properties(priorities=self.priorities), batch))
            self.next_number += count
            # Before anything is written: who is interrupted between two frames may have sent the first.
            self._highest = max(self._highest or 0, self.next_number)
        return frames

    def take_measure(self) -> tuple[int, int]:
        """Messages and bytes taken since the last call."""
        total_messages = self._taken_messages + len(self._builder)
        total_bytes = self._taken_bytes + self._builder.all_bytes
        messages, size = total_messages - self._measured_messages, total_bytes - self._measured_bytes
        self._measured_messages, self._measured_bytes = total_messages, total_bytes
        return messages, size

    def granted(self, messages: int, size: int) -> None:
        """More demand from the broker (increments)."""
        self.credit_messages += messages
        self.credit_bytes += size

    def sent(self, frame: Sent) -> list[Confirmation]:
        """What ``frame`` answers for, batch by batch.

        Raises:
            RemoteProtocolError: an answer that cannot be true.
        """
        if frame.up_to > self.next_number:
            raise RemoteProtocolError(
                f"SENT up to {frame.up_to}: only what is numbered below {self.next_number} was sent"
            )
        answers: list[Confirmation] = []
        while self._unconfirmed and self._unconfirmed[0].end <= frame.up_to:
            under_way = self._unconfirmed.popleft()
            if under_way.end < frame.up_to:
                answers.append(self._confirm(under_way, None))
            elif frame.rejected is None:
                if frame.first is None and self.numbered and not under_way.resent:
                    raise RemoteProtocolError(
                        f"SENT: message {under_way.sequence} is said to be stored already, but was sent for the first time; "
                        f"is another sender called {self.client_id!r}?"
                    )
                answers.append(self._confirm(under_way, frame.first))
            else:
                answers.append(self._reject(under_way, frame.rejected))
        if frame.rejected is not None and (not answers or answers[-1].rejected is None):
            raise RemoteProtocolError(f"SENT rejects a batch that ends at {frame.up_to}; there is none under way")
        if self._unconfirmed and self._unconfirmed[0].sequence < frame.up_to:
            raise RemoteProtocolError(f"SENT confirms what is below {frame.up_to}, where no batch ends")
        if self._rejected_at is not None and not self._unconfirmed:
            self.next_number, self._rejected_at = self._rejected_at, None
        return answers

    def returned(self, frame: Returned) -> list[ReturnedMessage]:
        """The messages that came back; their batch is answered for next.

        Raises:
            RemoteProtocolError: they are not of that batch.
        """
        batch = self._unconfirmed[0] if self._unconfirmed else None
        last, count = frame.ranges[-1]
        if batch is None or frame.ranges[0][0] < batch.sequence or last + count > batch.end:
            raise RemoteProtocolError(
                "RETURNED names messages that are not of the batch which is to be answered for next"
            )
        found = [
            ReturnedMessage(number, batch.batch.message(number - batch.sequence), frame.reason)
            for first, count in frame.ranges
            for number in range(first, first + count)
        ]
        self._returned_now += len(found)
        return found

    def connected(self, last_sequence: int | None, next_sequence: int | None = None) -> list[Confirmation]:
        """A connection is open; the broker has stored what is numbered below ``last_sequence`` (None: it knows nothing).

        Whoever begins anew numbers from ``next_sequence``, where a broker gives that instead.

        Returns the confirmations that this amounts to. Demand begins at zero again, and what is unconfirmed waits to be sent again.

        Raises:
            ConfirmedLostError: the broker has stored less than it had confirmed.
            RemoteProtocolError: it has stored more than was sent.
        """
        stored = self.confirmed_up_to
        if last_sequence is not None and self._highest is not None:
            self._check_stored(stored, last_sequence, self._highest)
        self.credit_messages = self.credit_bytes = 0
        self.resent += self.unconfirmed_messages
        self._ready_messages += self.unconfirmed_messages
        self.unconfirmed_messages = self.unconfirmed_bytes = 0
        while self._unconfirmed:
            _, batch, timing, _ = self._unconfirmed.pop()
            self.unsent_bytes += batch.nbytes
            self._ready.appendleft(_Ready(batch, timing, resent=True))
        self.next_number, self._rejected_at = stored, None
        self._returned_now = 0
        if last_sequence is None:
            if next_sequence is not None and self._highest is None:
                self.next_number = self._highest = next_sequence
            return []
        if self._highest is None:
            # Nothing was sent yet, but by an earlier sender of the same name: number on from there.
            self.next_number = self._highest = last_sequence
        return self._stored_up_to(last_sequence)

    @property
    def confirmed_up_to(self) -> int:
        """The number after the last message's that is known to be stored; what is unconfirmed begins there."""
        if self._rejected_at is not None:
            return self._rejected_at
        return self._unconfirmed[0].sequence if self._unconfirmed else self.next_number

    def _check_stored(self, stored: int, last_sequence: int, highest: int) -> None:
        if last_sequence < stored:
            raise ConfirmedLostError(self.client_id, last_sequence, stored, self.target)
        if last_sequence > highest:
            raise RemoteProtocolError(
                f"the broker has stored messages of {self.client_id!r} below {last_sequence}, of which this sender sent those "
                f"below {highest} at most; give each sender a client id of its own"
            )

    def _stored_up_to(self, last_sequence: int) -> list[Confirmation]:
        """Confirm what a reconnect shows to be stored, of what waits to be sent again."""
        confirmations: list[Confirmation] = []
        while self.next_number < last_sequence:
            batch, timing, _ = self._ready.popleft()
            count = min(len(batch), last_sequence - self.next_number)
            if count < len(batch):
                self._ready.appendleft(_Ready(batch.slice(count, len(batch)), timing, resent=True))
                batch = batch.slice(0, count)
            self._ready_messages -= count
            self.resent -= count
            self.unsent_bytes = max(0, self.unsent_bytes - batch.nbytes)
            self.confirmed_messages += count
            confirmations.append(Confirmation(self.next_number, count, None))
            self.next_number += count
        return confirmations

    def _confirm(self, under_way: _UnderWay, first: int | None) -> Confirmation:
        count = len(under_way.batch)
        if self._rejected_at is not None:
            raise RemoteProtocolError(
                f"SENT: message {under_way.sequence} is stored, though {self._rejected_at}, sent before it, was rejected"
            )
        self.unconfirmed_messages -= count
        self.unconfirmed_bytes -= under_way.batch.nbytes
        self.confirmed_messages += count
        if not self._returned_now:
            return Confirmation(under_way.sequence, count, first)
        returned, self._returned_now = self._returned_now, 0
        self.returned_messages += returned
        return Confirmation(under_way.sequence, count, first, None, returned)

    def _reject(self, under_way: _UnderWay, reason: str) -> Confirmation:
        count = len(under_way.batch)
        if self._rejected_at is None:
            # What follows is rejected as well, and numbered from here again.
            self._rejected_at = self._highest = under_way.sequence
        self.unconfirmed_messages -= count
        self.unconfirmed_bytes -= under_way.batch.nbytes
        self.rejected_messages += count
        return Confirmation(under_way.sequence, count, None, reason)

    def _closed(self, batch: MessageBatch, timing: Timing) -> None:
        """The builder has closed a batch."""
        size = batch.nbytes
        self._ready.append(_Ready(batch, timing))
        self._ready_messages += len(batch)
        self._taken_messages += len(batch)
        self.unsent_bytes += size
        self._taken_bytes += size
