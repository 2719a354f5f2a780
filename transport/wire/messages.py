"""The frames of protocol version 1 as values. docs/protocol.md is the specification; names and field order are its.

transport/wire/codec.py turns them into bytes and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from actors.batch import MessageBatch
from actors.limits import MAX_VISIBILITY_SECONDS
from transport.wire.field_checks import MAX_RANGES_PER_FRAME

VERSION = 1
MAX_EXTENSION_MS = round(MAX_VISIBILITY_SECONDS * 1000)
"""The longest visibility deadline, and delay, that can be asked for."""

MAX_ERROR_TEXT = 1000
"""Characters of an ERROR's text, at most four bytes each: it rides in a header, and may quote what a peer has said."""

Name = str
"""A field that names something: checked where its frame is decoded, so that nobody behind has to."""
Options = dict[str, Any]
Ranges = list[tuple[int, int]]
"""(first sequence number, count) pairs."""
MAY_LACK = {"may lack": True}  # older peers do not know it: it stands last, and its default is not written


FRAMES: dict[int, type[Frame]] = {}
"""Every frame of version 1, by its type."""


class Frame:
    """Base of all frames; a subclass is a dataclass whose fields are the header's, in order, and which nobody changes.

    Those that are made for each message are not frozen: a frozen one takes three times as long to make.
    """

    __slots__ = ()
    TYPE: ClassVar[int]

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is made anew of the class as it is written: the last one of a type is the one that is used.
        FRAMES[cls.TYPE] = cls


@dataclass(frozen=True, slots=True)
class Hello(Frame):
    """Client to broker, first."""

    TYPE: ClassVar[int] = 1
    version: int
    role: str
    queue: Name | None
    client_id: Name | None
    options: Options


@dataclass(frozen=True, slots=True)
class Welcome(Frame):
    """The broker's answer to HELLO."""

    TYPE: ClassVar[int] = 2
    version: int
    epoch: int
    options: Options


@dataclass(frozen=True, slots=True)
class Error(Frame):
    """A refusal; with ``close`` the last frame. Its text is cut to ``MAX_ERROR_TEXT``."""

    TYPE: ClassVar[int] = 3
    code: str
    text: str
    close: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text[:MAX_ERROR_TEXT])


@dataclass(frozen=True, slots=True)
class Ping(Frame):
    """Are you there? Answered at once by PONG with the same token."""

    TYPE: ClassVar[int] = 4
    token: int


@dataclass(frozen=True, slots=True)
class Pong(Frame):
    """The answer to PING."""

    TYPE: ClassVar[int] = 5
    token: int


@dataclass(frozen=True, slots=True)
class Demand(Frame):
    """What may have been sent in total since the connection opened."""

    TYPE: ClassVar[int] = 16
    messages: int
    bytes: int


@dataclass(slots=True, unsafe_hash=True)
class Send(Frame):
    """A batch for the queue; ``sequence`` is the client's number of its first message."""

    TYPE: ClassVar[int] = 17
    sequence: int
    properties: Options | None
    batch: MessageBatch


@dataclass(slots=True, unsafe_hash=True)
class Sent(Frame):
    """Everything below the client's number ``up_to`` is stored, but for a last batch that was ``rejected``, and why."""

    TYPE: ClassVar[int] = 18
    up_to: int
    first: int | None
    rejected: str | None = None


@dataclass(slots=True, unsafe_hash=True)
class Request(Frame):
    """What may have been delivered in total since the connection opened."""

    TYPE: ClassVar[int] = 32
    messages: int
    bytes: int


@dataclass(slots=True, unsafe_hash=True)
class Deliver(Frame):
    """Messages with consecutive sequence numbers from ``first`` on."""

    TYPE: ClassVar[int] = 33
    first: int
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    batch: MessageBatch


@dataclass(slots=True, unsafe_hash=True)
class Ack(Frame):
    """These messages are done."""

    TYPE: ClassVar[int] = 34
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Nack(Frame):
    """These messages are to be receivable again after ``delay_ms``; ``failed`` unless nobody tried to handle them."""

    TYPE: ClassVar[int] = 35
    ranges: Ranges
    delay_ms: int
    failed: bool = field(default=True, metadata=MAY_LACK)


@dataclass(frozen=True, slots=True)
class Extend(Frame):
    """These messages' visibility deadline moves to ``ms`` from now."""

    TYPE: ClassVar[int] = 36
    ranges: Ranges
    ms: int


@dataclass(frozen=True, slots=True)
class Cancel(Frame):
    """The receiver wants no more; the broker takes everything back, as NACK would with ``failed``, and closes."""

    TYPE: ClassVar[int] = 37
    failed: bool = field(default=True, metadata=MAY_LACK)


@dataclass(frozen=True, slots=True)
class Reserve(Frame):
    """Request messages into a subscription's ledger."""

    TYPE: ClassVar[int] = 48
    request: int
    start: int
    messages: int
    bytes: int
    wait_ms: int
    below: int | None


@dataclass(frozen=True, slots=True)
class Reserved(Frame):
    """Positions up to ``end`` are reserved."""

    TYPE: ClassVar[int] = 49
    request: int
    end: int
    facts: Options


@dataclass(frozen=True, slots=True)
class Commit(Frame):
    """Every position below ``position`` is done: cumulative, idempotent."""

    TYPE: ClassVar[int] = 50
    request: int
    position: int


@dataclass(frozen=True, slots=True)
class Committed(Frame):
    """The ledger's base is now ``base``."""

    TYPE: ClassVar[int] = 51
    request: int
    base: int


@dataclass(frozen=True, slots=True)
class Fetch(Frame):
    """Deliver the reserved positions start <= p < stop, under this connection's demand."""

    TYPE: ClassVar[int] = 52
    request: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Fetched(Frame):
    """Reserved messages from ``position`` on."""

    TYPE: ClassVar[int] = 53
    request: int
    position: int
    first: int
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    batch: MessageBatch


@dataclass(frozen=True, slots=True)
class FetchEnd(Frame):
    """A FETCH is complete: ``messages`` were delivered for it."""

    TYPE: ClassVar[int] = 54
    request: int
    messages: int


@dataclass(frozen=True, slots=True)
class Command(Frame):
    """An administrative request."""

    TYPE: ClassVar[int] = 64
    request: int
    name: str
    arguments: Options


@dataclass(frozen=True, slots=True)
class Result(Frame):
    """A command's answer: UTF-8 JSON in the body."""

    TYPE: ClassVar[int] = 65
    request: int
    json: bytes


@dataclass(frozen=True, slots=True)
class Enlist(Frame):
    """This stage of ``messages`` messages is among the winners of the transaction that the next COMMIT_TRANSACTION commits."""

    TYPE: ClassVar[int] = 80
    queue: Name
    stage: Name
    messages: int


@dataclass(frozen=True, slots=True)
class CommitTransaction(Frame):
    """Publish every stage enlisted, discard the writer's others: at once, in all queues, once."""

    TYPE: ClassVar[int] = 81
    request: int


@dataclass(frozen=True, slots=True)
class AbortTransaction(Frame):
    """Discard every stage of the transaction."""

    TYPE: ClassVar[int] = 82
    request: int


@dataclass(frozen=True, slots=True)
class TransactionEnded(Frame):
    """The transaction is over for good: ``messages`` were published, or discarded."""

    TYPE: ClassVar[int] = 83
    request: int
    messages: int


def brief(value: object) -> str:
    """``value`` for an error's text: short, and of a container only its kind, for a peer chooses how deep it nests."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r:.60}"


def split_ranges(ranges: Ranges) -> list[Ranges]:
    """``ranges`` in pieces that fit one frame each."""
    return [ranges[start : start + MAX_RANGES_PER_FRAME] for start in range(0, len(ranges), MAX_RANGES_PER_FRAME)]
