"""The frames of protocol version 1 as values. docs/protocol.md is the specification; names and field order are its.

transport/wire/codec.py turns them into bytes and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

from actors.batch import MessageBatch
from actors.limits import MAX_VISIBILITY_SECONDS
from transport.wire.field_checks import MAX_RANGES_PER_FRAME

VERSION = 1
MAX_EXTENSION_MS = round(MAX_VISIBILITY_SECONDS * 1000)
"""The longest visibility deadline, and delay, that can be asked for."""

MAX_ERROR_TEXT = 1000
"""Characters of an ERROR's text, at most four bytes each: it rides in a header, and may quote what a peer has said."""

EXPLAINS = "explains"
"""WELCOME's option of a broker that answers WHY."""
REMEMBERS = "remembers"
"""WELCOME's option of a sender of whom the broker knows nothing, and would know: nothing was stored of it, or that is lost."""
RETRIES = "retries"
"""WELCOME's option of a receiver whose queue has what has failed wait before it is tried again."""

NOT_LEADER = "not-leader"
"""ERROR's code of a broker that does not lead its cluster."""
SILENT = "silent_ms"
"""WELCOME's option of a broker that says something at least every half of so many milliseconds, and is to be taken for gone without."""
SIGN = "sign_ms"
"""HELLO's option of a client that wants PING in each so many milliseconds, once it has shown who it is, until it is answered."""
ANY_NODE = "any_node"
"""HELLO's option of an administrator whom any broker of a cluster is to let in, whether it leads or not."""

Name = str
"""A field that names something: checked where its frame is decoded, so that nobody behind has to."""
Options = dict[str, Any]
Ranges = list[tuple[int, int]]
"""(first sequence number, count) pairs."""
MAY_LACK = {"may lack": True}
"""Of a field that older peers do not know: it stands last, and its default is not written, unless something behind it is."""


FRAMES: dict[int, type[Frame]] = {}
"""Every frame of version 1, by its type."""


class Frame:
    """Base of all frames: dataclasses whose fields are the header's, in order, and which nobody changes, as mypy sees to."""

    __slots__ = ()
    TYPE: ClassVar[int]
    NAMES: ClassVar[tuple[str, ...]]
    VALUES: ClassVar[attrgetter[Any]]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.VALUES(self) == self.VALUES(other)

    def __hash__(self) -> int:
        return hash((self.TYPE, self.VALUES(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.NAMES)})"


F = TypeVar("F", bound=Frame)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frame(kind: int) -> Callable[[type[F]], type[F]]:
    """Makes a class the frame of type ``kind``.

    Only what is its own is generated, and nothing is frozen: every client makes all these classes when it starts, and some of the
    objects for each message. Both took three times as long.
    """

    def made(cls: type[F]) -> type[F]:
        cls = dataclass(slots=True, eq=False, repr=False)(cls)
        cls.TYPE = kind
        cls.NAMES = tuple(each.name for each in fields(cls))  # type: ignore[arg-type] # it is one
        cls.VALUES = attrgetter(*cls.NAMES)
        FRAMES[kind] = cls
        return cls

    return made


@frame(1)
class Hello(Frame):
    """Client to broker, first."""

    version: int
    role: str
    queue: Name | None
    client_id: Name | None
    options: Options

    def __repr__(self) -> str:
        """Without the options' values: a token is among them."""
        return f"Hello({self.version!r}, {self.role!r}, {self.queue!r}, {self.client_id!r}, options={sorted(self.options)})"


@frame(2)
class Welcome(Frame):
    """The broker's answer to HELLO."""

    version: int
    epoch: int
    options: Options


@frame(3)
class Error(Frame):
    """A refusal; with ``close`` the last frame. Its text is cut to ``MAX_ERROR_TEXT``.

    With the code `NOT_LEADER` the ``leader`` is where it is, as contact points, as far as that is known.
    """

    code: str
    text: str
    close: bool
    leader: str = field(default="", metadata=MAY_LACK)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text[:MAX_ERROR_TEXT])


@frame(4)
class Ping(Frame):
    """Are you there? Answered at once by PONG with the same token."""

    token: int


@frame(5)
class Pong(Frame):
    """The answer to PING."""

    token: int


@frame(6)
class Auth(Frame):
    """A step of the exchange in which client and broker prove themselves, as HELLO's ``mechanism`` has it; both ways."""

    data: bytes


@frame(7)
class Why(Frame):
    """A sender or receiver asks what it waits for. Answered by BECAUSE with the same ``request``."""

    request: int


@frame(8)
class Because(Frame):
    """What keeps a client waiting: a word for programs and a text for people; None where it is nothing of the queue's."""

    request: int
    reason: str | None
    text: str


@frame(16)
class Demand(Frame):
    """What may have been sent in total since the connection opened."""

    messages: int
    bytes: int


@frame(17)
class Send(Frame):
    """A batch for the queue; ``sequence`` is the client's number of its first message."""

    sequence: int
    properties: Options | None
    batch: MessageBatch


@frame(18)
class Sent(Frame):
    """Everything below the client's number ``up_to`` is stored, but for a last batch that was ``rejected``, and why."""

    up_to: int
    first: int | None
    rejected: str | None = None


@frame(19)
class Returned(Frame):
    """No queue took these messages, and why; ``ranges`` are of the client's numbers. It is said before the SENT that answers for them."""

    ranges: Ranges
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", self.reason[:MAX_ERROR_TEXT])


@frame(20)
class Tally(Frame):
    """A sender that stages through an exchange asks how many messages of its stage each queue holds."""

    request: int


@frame(21)
class Tallied(Frame):
    """A queue holds so many; one for each, and behind them one without a queue."""

    request: int
    queue: Name | None
    messages: int


@frame(32)
class Request(Frame):
    """What may have been delivered in total since the connection opened."""

    messages: int
    bytes: int


@frame(33)
class Deliver(Frame):
    """Messages with consecutive sequence numbers from ``first`` on.

    ``exchange`` is where they were published, None where they were sent to the queue. ``routing_key`` is of those without a key of their
    own. Both are there or neither is. ``failures`` is how often they have come back as failed. ``priority`` is the level of the queue that
    they are of.
    """

    first: int
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    batch: MessageBatch
    exchange: str | None = field(default=None, metadata=MAY_LACK)
    routing_key: str | None = field(default=None, metadata=MAY_LACK)
    failures: int = field(default=0, metadata=MAY_LACK)
    priority: int = field(default=0, metadata=MAY_LACK)


@frame(34)
class Ack(Frame):
    """These messages are done."""

    ranges: Ranges


@frame(35)
class Nack(Frame):
    """These messages are to be receivable again after ``delay_ms``; ``failed`` unless nobody tried to handle them.

    With a ``reason`` they are to be dead letters at once; that is so where WELCOME's ``dead_letters`` is true. ``error`` says what has
    failed: of the last failure that there may be, the dead letter has it.
    """

    ranges: Ranges
    delay_ms: int
    failed: bool = field(default=True, metadata=MAY_LACK)
    reason: str | None = field(default=None, metadata=MAY_LACK)
    error: str | None = field(default=None, metadata=MAY_LACK)


@frame(36)
class Extend(Frame):
    """These messages' visibility deadline moves to ``ms`` from now."""

    ranges: Ranges
    ms: int


@frame(37)
class Cancel(Frame):
    """The receiver wants no more; the broker takes everything back, as NACK would with ``failed``, and closes."""

    failed: bool = field(default=True, metadata=MAY_LACK)


@frame(38)
class Turn(Frame):
    """Of a queue for one receiver at a time: another takes this one's place, and it waits; or its turn has come."""

    waiting: bool


@frame(48)
class Reserve(Frame):
    """Request messages into a subscription's ledger."""

    request: int
    start: int
    messages: int
    bytes: int
    wait_ms: int
    below: int | None


@frame(49)
class Reserved(Frame):
    """Positions up to ``end`` are reserved."""

    request: int
    end: int
    facts: Options


@frame(50)
class Commit(Frame):
    """Every position below ``position`` is done: cumulative, idempotent."""

    request: int
    position: int


@frame(51)
class Committed(Frame):
    """The ledger's base is now ``base``."""

    request: int
    base: int


@frame(52)
class Fetch(Frame):
    """Deliver the reserved positions start <= p < stop, under this connection's demand."""

    request: int
    start: int
    stop: int


@frame(53)
class Fetched(Frame):
    """Reserved messages from ``position`` on; ``exchange`` and ``routing_key`` are as in DELIVER."""

    request: int
    position: int
    first: int
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool
    batch: MessageBatch
    exchange: str | None = field(default=None, metadata=MAY_LACK)
    routing_key: str | None = field(default=None, metadata=MAY_LACK)


@frame(54)
class FetchEnd(Frame):
    """A FETCH is complete: ``messages`` were delivered for it."""

    request: int
    messages: int


@frame(64)
class Command(Frame):
    """An administrative request."""

    request: int
    name: str
    arguments: Options


@frame(65)
class Result(Frame):
    """A command's answer: UTF-8 JSON in the body."""

    request: int
    json: bytes


@frame(80)
class Enlist(Frame):
    """This stage of ``messages`` messages is among the winners of the transaction that the next COMMIT_TRANSACTION commits."""

    queue: Name
    stage: Name
    messages: int


@frame(81)
class CommitTransaction(Frame):
    """Publish every stage enlisted, discard the writer's others: at once, in all queues, once."""

    request: int


@frame(82)
class AbortTransaction(Frame):
    """Discard every stage of the transaction."""

    request: int


@frame(83)
class TransactionEnded(Frame):
    """The transaction is over for good: ``messages`` were published, or discarded."""

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
