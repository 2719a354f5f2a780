"""How a sender's elements become batches: the open batch, when it is full, and what may not stand in one with another.

A batch has one timing, and ids for every message or for none; whatever differs begins a new one, so the order of the messages is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, TypeAlias

from actors.batch import ID_BYTES, Message, MessageBatch, pack_headers
from actors.limits import MAX_DEDUPLICATION_ID_BYTES, MAX_GROUP_BYTES
from transport.errors import LocalProtocolError, MessageTooLargeError
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.timing import Timed, Timing, check_priority

DEFAULT_BATCH_MESSAGES = 1000
DEFAULT_BATCH_BYTES = 1024 * 1024
"""Bytes of payload at which a batch is closed: larger gains no speed and makes the first of them wait longer."""
MESSAGE_OVERHEAD_BYTES = 64
"""Offsets and id of one message, rounded up."""
MAX_BATCH_BYTES = MAX_BODY_BYTES - MESSAGE_OVERHEAD_BYTES
"""The payload of one message that just fits: a batch is closed there at the latest."""
MOST_BESIDE = 8
"""Where a batch of each priority is open: as many full ones may be in those put aside, and be closed before those, until all are closed."""

Untimed: TypeAlias = bytes | bytearray | memoryview | Message | MessageBatch
Sendable: TypeAlias = Untimed | Timed[Untimed]
"""What a `Sender` takes."""


class BatchBuilder:
    """Gathers elements into batches within limits.

    A batch has one priority. Where the queue keeps messages apart by it a batch of each priority is open, and what comes with one goes on
    in that: whatever their order, those of one priority keep theirs, and a batch stays a batch. Elsewhere another priority begins the next.
    What is open is bounded all the same, and nothing waits long behind what others fill: see ``MOST_BESIDE``.

    Args:
        max_messages: messages in one batch at most.
        max_bytes: payload bytes in one batch at most, one message at least.
        timing: the timing of what carries none of its own.
        closed: told of each batch that is complete, in order.

    Raises:
        LocalProtocolError: limits that cannot be.
    """

    __slots__ = (
        "_closed",
        "_closed_beside",
        "_max_bytes",
        "_max_messages",
        "_open",
        "_own_timing",
        "_parked",
        "_parked_bytes",
        "_parked_messages",
        "_plain",
        "_timing",
        "max_priority",
        "open_bytes",
    )

    def __init__(
        self, max_messages: int, max_bytes: int, timing: Timing, closed: Callable[[MessageBatch, Timing], None]
    ) -> None:
        if max_messages < 1 or not 1 <= max_bytes <= MAX_BODY_BYTES:
            raise LocalProtocolError(
                f"batches of {max_messages} messages and {max_bytes} bytes: "
                f"at least 1 message and 1-{MAX_BODY_BYTES} bytes are possible"
            )
        self._max_messages = max_messages
        self._max_bytes = min(max_bytes, MAX_BATCH_BYTES)
        self._own_timing = self._timing = timing
        self._closed = closed
        self._open: list[Any] = []
        self._plain = True
        self.open_bytes = 0
        """Bytes in the open batch, nearly: payloads are counted bare."""
        self.max_priority = 0
        """A batch of each priority up to this is open, for the queue keeps them apart; 0 where it does not. A higher one is as this."""
        # The open batches of other priorities by their timing, each with its bytes and whether it is of payloads alone.
        self._parked: dict[Timing, tuple[list[Any], int, bool]] = {}
        self._parked_messages = self._parked_bytes = 0
        # Batches that were closed since the first of those was put aside.
        self._closed_beside = 0

    @property
    def all_bytes(self) -> int:
        """Of all open batches, as ``open_bytes``."""
        return self.open_bytes + self._parked_bytes

    def __len__(self) -> int:
        """Messages in the open batch, and in those of other priorities."""
        return len(self._open) + self._parked_messages

    def offer_payload(self, payload: bytes) -> None:
        """Take one bare payload with the sender's own timing; the hot path."""
        if self._timing is not self._own_timing:
            self._change_timing(self._own_timing)
        self._take(payload)

    def _take(self, payload: bytes) -> None:
        self._open.append(payload)
        self.open_bytes += len(payload)
        if len(self._open) >= self._max_messages or self.open_bytes >= self._max_bytes:
            self._close_full(payload)

    def offer(self, element: Sendable) -> None:
        """Take one element of any kind.

        Raises:
            MessageTooLargeError: a message that fits no frame.
            LocalProtocolError: an element that is no message.
        """
        timing, plain = self._own_timing, element
        if isinstance(element, Timed):
            timing, plain = element.timing.or_else(timing), element.element
        if isinstance(plain, Message) and plain.priority is not None:
            timing = timing.with_priority(plain.priority)
        if timing.priority != self._own_timing.priority and self.max_priority:
            timing = self._leveled(timing)
        if timing != self._timing:
            self._change_timing(timing)
        if isinstance(plain, Message):
            self._offer_message(plain)
        elif isinstance(plain, MessageBatch):
            self.seal()
            self._append(plain)
        elif isinstance(plain, bytes | bytearray | memoryview):
            self._take(bytes(plain))
        else:
            raise LocalProtocolError(
                "a sender takes bytes, Message or MessageBatch, or one of them Timed, "
                f"not {type(plain).__name__}; encode it in a map() before"
            )

    def seal(self) -> None:
        """Close the open batch, full or not, and those of other priorities; the highest first."""
        if self._parked:
            self._park(self._timing)
            parked, self._parked = self._parked, {}
            self._parked_messages = self._parked_bytes = self._closed_beside = 0
            last = self._timing
            for timing, kept in sorted(parked.items(), key=lambda item: -(item[0].priority or 0)):
                self._timing = timing
                self._open, self.open_bytes, self._plain = kept
                self._seal_open()
            self._timing = last
        else:
            self._seal_open()

    def _park(self, timing: Timing) -> None:
        """Put the open batch aside."""
        if self._open:
            self._parked[timing] = self._open, self.open_bytes, self._plain
            self._parked_messages += len(self._open)
            self._parked_bytes += self.open_bytes
            self._open, self.open_bytes, self._plain = [], 0, True

    def _seal_open(self) -> None:
        if not self._open:
            return
        taken, plain = self._open, self._plain
        self._open, self.open_bytes, self._plain = [], 0, True
        if plain:
            self._append(MessageBatch.from_payloads(taken))
            return
        messages = [Message(part) if isinstance(part, bytes) else part for part in taken]
        # Ids are a column: every message of a batch has one or none has.
        for _, run in groupby(messages, lambda message: message.id is None):
            self._append(MessageBatch.from_messages(list(run)))

    def _close_full(self, payload: bytes) -> None:
        """The open batch is full with ``payload``; a very large one goes alone, so that no frame overflows."""
        if len(payload) > self._max_bytes and len(self._open) > 1:
            self._open.pop()
            self._seal_open()
            self._open.append(payload)
        if len(payload) > MAX_BATCH_BYTES:
            raise MessageTooLargeError(len(payload), MAX_BATCH_BYTES)
        self._seal_full()

    def _seal_full(self) -> None:
        """Close the open batch, which is full; what others have put aside does not wait for ever."""
        self._seal_open()
        if self._parked:
            self._closed_beside += 1
            if self._closed_beside >= MOST_BESIDE:
                self.seal()

    def _offer_message(self, message: Message) -> None:
        size = _checked_size(message)
        if self._open and self.open_bytes + size > self._max_bytes:
            self._seal_full()
        self._open.append(message)
        self._plain = False
        self.open_bytes += size
        if len(self._open) >= self._max_messages or self.open_bytes >= self._max_bytes:
            self._seal_full()

    def _change_timing(self, timing: Timing) -> None:
        """What comes next has another timing than the open batch, so it begins a batch of its own, or goes on in one."""
        before = self._timing
        if self.max_priority and timing.apart_from_priority() == before.apart_from_priority():
            self._park(before)
            if self._parked_bytes >= MOST_BESIDE * self._max_bytes:
                self.seal()
            if (kept := self._parked.pop(timing, None)) is not None:
                self._open, self.open_bytes, self._plain = kept
                self._parked_messages -= len(self._open)
                self._parked_bytes -= self.open_bytes
        else:
            self.seal()
        # The very object, where it is the sender's own: the hot path compares by identity.
        self._timing = self._own_timing if timing == self._own_timing else timing

    def _leveled(self, timing: Timing) -> Timing:
        """The same with one priority for all that are of one level: what nobody has said is 0. They keep their order so."""
        own, most = self._own_timing.priority, self.max_priority
        level = min(timing.priority or 0, most)
        return timing.with_priority(own if level == min(own or 0, most) else level)

    def _append(self, batch: MessageBatch) -> None:
        for part in fit_frames(batch):
            self._closed(part, self._timing)


def fit_frames(batch: MessageBatch) -> list[MessageBatch]:
    """``batch`` in parts of which each fits a frame, sharing its buffers.

    Raises:
        MessageTooLargeError: a message that fits none.
    """
    parts: list[MessageBatch] = []
    while batch.nbytes > MAX_BODY_BYTES:
        # All but the last message that a byte demand would let through lie within it.
        count = batch.count_within(MAX_BODY_BYTES) - 1
        if count < 1:
            raise MessageTooLargeError(batch.prefix_bytes(1), MAX_BODY_BYTES)
        parts.append(batch.slice(0, count))
        batch = batch.slice(count, len(batch))
    return [*parts, batch]


def _checked_size(message: Message) -> int:
    """The bytes of ``message``'s columns, rounded up; an error where it is no message or fits no frame."""
    for part, what in ((message.payload, "payload"), (message.key, "key"), (message.id, "id")):
        if not isinstance(part, bytes) and (part is not None or what == "payload"):
            raise LocalProtocolError(f"a message's {what} must be bytes, not {type(part).__name__}")
    if message.id is not None and len(message.id) != ID_BYTES:
        raise LocalProtocolError(f"a message's id has {ID_BYTES} bytes, not {len(message.id)}")
    if message.routing_key is not None:
        _check_routing_key(message)
    if message.priority is not None:
        check_priority(message.priority)
    if message.deduplication_id is not None:
        check_deduplication_id(message.deduplication_id)
    if message.group is not None:
        check_group(message.group)
    size = len(message.payload) + len(message.key_column) + len(pack_headers(message.all_headers))
    if size > MAX_BATCH_BYTES:
        raise MessageTooLargeError(size, MAX_BATCH_BYTES)
    return size


def check_deduplication_id(said: object) -> None:
    """Raise LocalProtocolError for what can be no deduplication id."""
    if not isinstance(said, str):
        raise LocalProtocolError(f"deduplication_id is {type(said).__name__}, and a text is possible")
    size = len(said.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_DEDUPLICATION_ID_BYTES:
        raise LocalProtocolError(
            f"a deduplication id of {size} bytes is not between 1 and {MAX_DEDUPLICATION_ID_BYTES}: send a digest of a longer one"
        )


def check_group(group: object) -> str:
    """The group; raises LocalProtocolError where nothing can be of it."""
    if not isinstance(group, str):
        raise LocalProtocolError(f"group is {group!r:.60}, not a text")
    try:
        size = len(group.encode())
    except UnicodeEncodeError:
        raise LocalProtocolError(f"group {group!r:.60} is not UTF-8") from None
    if not 1 <= size <= MAX_GROUP_BYTES:
        raise LocalProtocolError(f"a group of {size} bytes: 1 to {MAX_GROUP_BYTES} are possible")
    return group


def _check_routing_key(message: Message) -> None:
    from transport.wire.exchange_named import check_routing_key  # noqa: PLC0415 - of what is published to exchanges

    check_routing_key(message.routing_key)
    if message.key is not None:
        raise LocalProtocolError("a message has one key: give key, or routing_key, which is the same as text")
