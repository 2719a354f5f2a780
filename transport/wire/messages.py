"""The frames of protocol version 1 as values. docs/protocol.md is the specification; names and field order are its.

`encode` turns a value into the buffers of one frame, `decode` a raw frame into a value, checking the type of every field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from actors.batch import MessageBatch
from actors.errors import BatchError
from transport.errors import RemoteProtocolError
from transport.wire.field_checks import (
    MAX_RANGES_PER_FRAME,
    check_of,
    is_boolean,
    is_uint,
    is_uint_or_nil,
)
from transport.wire.frames import Part, RawFrame, encode_frame
from transport.wire.range_pairs import decode_ranges

VERSION = 1
MAX_EXTENSION_MS = 12 * 3600 * 1000
"""The longest visibility deadline, and delay, that can be asked for."""

MAX_ERROR_TEXT = 1000
"""Characters of an ERROR's text, at most four bytes each: it rides in a header, and may quote what a peer has said."""

Name = str
"""A field that names something: checked where its frame is decoded, so that nobody behind has to."""
Options = dict[str, Any]
Ranges = list[tuple[int, int]]
"""(first sequence number, count) pairs."""
MAY_LACK = {"may lack": True}  # older peers do not know it: it stands last, and its default is not written


class Frame:
    """Base of all frames; a subclass is a frozen dataclass whose fields are the header's, in order."""

    __slots__ = ()
    TYPE: ClassVar[int]


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


@dataclass(frozen=True, slots=True)
class Send(Frame):
    """A batch for the queue; ``sequence`` is the client's number of its first message."""

    TYPE: ClassVar[int] = 17
    sequence: int
    properties: Options | None
    batch: MessageBatch


@dataclass(frozen=True, slots=True)
class Sent(Frame):
    """Everything below the client's number ``up_to`` is stored, but for a last batch that was ``rejected``, and why."""

    TYPE: ClassVar[int] = 18
    up_to: int
    first: int | None
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Request(Frame):
    """What may have been delivered in total since the connection opened."""

    TYPE: ClassVar[int] = 32
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Deliver(Frame):
    """Messages with consecutive sequence numbers from ``first`` on."""

    TYPE: ClassVar[int] = 33
    first: int
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    batch: MessageBatch


@dataclass(frozen=True, slots=True)
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


def encode(frame: Frame) -> list[Part]:
    """The buffers of ``frame``, a batch's uncopied.

    Raises:
        LocalProtocolError: a frame over its limits.
    """
    header: list[Any] = [frame.TYPE]
    body: list[Part] = []
    layout = _LAYOUT[frame.TYPE]
    for name in layout.names:
        value = getattr(frame, name)
        if name == "batch":
            header += value.descriptor()
            body += value.buffers()
        elif name == "json":
            body.append(value)
        elif name == "ranges":
            header.append([number for pair in value for number in pair])
        else:
            header.append(value)
    if layout.usual:
        while len(header) > layout.header_items and header[-1] == layout.usual[len(header) - layout.header_items - 1]:
            header.pop()
    return encode_frame(header, body)


def decode(raw: RawFrame) -> Frame:
    """The value of a raw frame.

    Raises:
        RemoteProtocolError: an unknown type, a missing field or one of the wrong type, or a body that is not as described.
        InvalidNameError: a name out of its limits.
    """
    header = raw.header
    layout = _LAYOUT.get(header[0]) if type(header[0]) is int else None
    if layout is None:
        raise RemoteProtocolError(f"a frame of unknown type {brief(header[0])}")
    cls = layout.frame
    if len(header) < layout.header_items:
        raise RemoteProtocolError(f"{cls.__name__.upper()} has {len(header)} header fields, not {layout.header_items}")
    values: list[Any] = []
    if len(header) <= len(layout.checks):
        header = [*header, *layout.usual[len(header) - layout.header_items :]]
    for index, (name, check) in enumerate(layout.checks, 1):
        value = header[index]
        if not check(value):
            raise RemoteProtocolError(f"{cls.__name__.upper()}: field {name} has the value {brief(value)}")
        values.append(value)
    if layout.has_batch:
        descriptor = header[layout.header_items - 5 : layout.header_items]
        # What a broker delivers it has checked when it came; only a sender's batch is looked at whole.
        values.append(_decode_batch(cls.__name__.upper(), descriptor, raw.body, checked=cls is not Send))
    elif layout.frame is Result:
        values.append(bytes(raw.body))
    elif raw.body:
        raise RemoteProtocolError(f"{cls.__name__.upper()} has a body of {len(raw.body)} bytes; it has none")
    if layout.has_ranges:
        values[0] = decode_ranges(values[0])
    frame: Frame = cls(*values)
    return frame


def brief(value: object) -> str:
    """``value`` for an error's text: short, and of a container only its kind, for a peer chooses how deep it nests."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r:.60}"


def split_ranges(ranges: Ranges) -> list[Ranges]:
    """``ranges`` in pieces that fit one frame each."""
    return [ranges[start : start + MAX_RANGES_PER_FRAME] for start in range(0, len(ranges), MAX_RANGES_PER_FRAME)]


def _decode_batch(what: str, descriptor: list[Any], body: memoryview, checked: bool) -> MessageBatch:
    count, data_bytes, has_ids, keys_bytes, headers_bytes = descriptor
    if not (
        is_uint(count)
        and is_uint(data_bytes)
        and is_boolean(has_ids)
        and is_uint_or_nil(keys_bytes)
        and is_uint_or_nil(headers_bytes)
    ):
        raise RemoteProtocolError(f"{what}: a batch described by {[brief(item) for item in descriptor]}")
    try:
        return MessageBatch.from_body(count, data_bytes, has_ids, keys_bytes, headers_bytes, body, checked)
    except BatchError as error:
        raise RemoteProtocolError(f"{what}: {error}") from error


class _Layout:
    """What encode and decode need of one frame class, read from its fields once."""

    __slots__ = ("checks", "frame", "has_batch", "has_ranges", "header_items", "names", "usual")

    def __init__(self, frame: type[Any]) -> None:
        self.frame = frame
        self.names = [each.name for each in fields(frame)]
        self.has_batch = "batch" in self.names
        self.has_ranges = "ranges" in self.names
        plain = [each for each in fields(frame) if each.name not in ("batch", "json")]
        # Annotations are strings here (from __future__ import annotations), which is what CHECKS is keyed by.
        self.checks = [(each.name, check_of(each.name, str(each.type))) for each in plain]
        self.usual = [each.default for each in plain if each.metadata]
        self.header_items = 1 + len(plain) - len(self.usual) + (5 if self.has_batch else 0)


FRAMES: tuple[type[Frame], ...] = (
    Hello,
    Welcome,
    Error,
    Ping,
    Pong,
    Demand,
    Send,
    Sent,
    Request,
    Deliver,
    Ack,
    Nack,
    Extend,
    Cancel,
    Reserve,
    Reserved,
    Commit,
    Committed,
    Fetch,
    Fetched,
    FetchEnd,
    Command,
    Result,
    Enlist,
    CommitTransaction,
    AbortTransaction,
    TransactionEnded,
)
"""Every frame of version 1."""

_LAYOUT: dict[int, _Layout] = {frame.TYPE: _Layout(frame) for frame in FRAMES}
